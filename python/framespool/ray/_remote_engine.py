"""A native whose workers are on a cluster: requests go out, batches come back, and leave in order."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from framespool import _framespool
from framespool.datasets import Dataset
from framespool.errors import InternalError
from framespool.ray._errors import NoWorkersError, WorkerError, first_lines
from framespool.ray._tensor import BufferPool, Tensor
from framespool.ray._worker import DROPPED, FAILED, MADE, Key, WorkerConfig
from framespool.ray._worker_pool import WorkerHandle, WorkerPool

_log = logging.getLogger("framespool.ray")

#: Seconds after which it is said, each time, that a batch is still waited for.
_WARN_INTERVAL_SECONDS = 60.0
#: Seconds between looks at the workers while a batch is waited for.
_POLL_INTERVAL_SECONDS = 0.2
#: Times that the worker may be lost which makes a batch, before the batch is given up.
_MAX_LOSSES = 3
#: Seconds that a worker may take to say how it is.
_STATS_TIMEOUT_SECONDS = 10.0

#: Counts that mean nothing on workers: what is delivered, and who waits for it, is known here.
_LOCAL_STATS = ("batches", "clips", "frames", "consumer_wait_seconds", "frames_decoded_per_frame_delivered")
#: Of these the largest counts, not the sum.
_MAX_STATS = ("clip_cache_peak_bytes", "memory_budget")


@dataclass(eq=False)
class _BatchRequest:
    batch: int
    turn: int
    lost: int = 0
    # Who makes it, and the answer to come; none where the worker has still to come.
    worker: WorkerHandle = field(init=False)
    call: Any = None

    def key(self, number: int) -> Key:
        """What makes it. What was lost with its worker is made alone, so that it is not lost again because of another
        batch that was being made ahead."""
        return number, self.turn, self.lost > 0


class RemoteEngine:
    """The names of ``_framespool.Loader``, which :class:`framespool.ClipLoader` calls."""

    def __init__(
        self,
        pool: WorkerPool,
        dataset: Dataset,
        rule: Any,
        steps: list[Any],
        settings: dict[str, Any],
        in_flight: int,
        copy: bool,
    ) -> None:
        self._pool = pool
        self._ray = pool._ray
        self._turns = len(pool.workers)
        self._max_requests = self._turns * in_flight
        self._buffers = BufferPool() if copy else None
        self._lock = threading.Lock()
        self._pass = 0
        self._epoch = 0
        # The batch to be delivered next, and the first one that no request was sent for.
        self._next = self._unsent = 0
        self._requests: dict[int, _BatchRequest] = {}
        # Counts and failures by worker and what it makes, as they were told last.
        self._snapshots: dict[tuple[int, Key], tuple[dict[str, Any], list[Any]]] = {}
        self._counts: Counter[str] = Counter()
        self._waited = self._received = 0.0
        # Its columns are for those who take the batches.
        sent = Dataset(dataset.samples)
        mixture = settings["mixture"]
        if mixture is not None:
            names = ("lengths", "weights", "replacement", "epoch_clips")
            mixture = SimpleNamespace(**{name: getattr(mixture, name) for name in names})
        settings = {**settings, "mixture": mixture}
        self._number = pool.put(WorkerConfig(os.getcwd(), sent, rule, steps, settings, self._turns))
        facts: tuple[int, int] = self._ask("facts", 0)
        self._num_clips, first = facts
        clips = self._num_clips if mixture is None or mixture.epoch_clips is None else mixture.epoch_clips
        self._len = len(_framespool.BatchSampler({**settings["order"], "num_clips": clips, "mix": None}))
        if first != -(-self._len // self._turns):
            raise InternalError(f"{self._len} batches among {self._turns} workers make {first} for one; report this")

    def __len__(self) -> int:
        return self._len

    @property
    def num_clips(self) -> int:
        """Clips of the whole dataset."""
        return self._num_clips

    def start_epoch(self, epoch: int, first_batch: int) -> int:
        """Begins a pass, whose number it returns; one that is under way ends."""
        self._pool.check()
        self._forget()
        self._epoch, self._next, self._unsent = epoch, first_batch, first_batch
        return self._pass

    def cancel(self) -> None:
        """Ends the pass under way, and all work on it."""
        self._pool.check()
        self._forget()
        self._pool.notify_all("cancel", self._number)

    def _forget(self) -> None:
        self._pass += 1
        self._next = self._unsent = self._len
        if self._requests:
            self._requests = {}
            self._pool.notify_all("drop", self._number, self._pass)

    def next_batch_index(self, pass_: int) -> int | None:
        """The batch that a pass delivers next; ``None`` where another pass has begun since."""
        return self._next if pass_ == self._pass else None

    def next_batch(self, pass_: int) -> dict[str, Any] | None:
        """The next batch of a pass; ``None`` at its end, and when another pass has begun since."""
        if not self._lock.acquire(blocking=False):
            raise RuntimeError("the loader is in use by another thread; give each thread a loader of its own")
        try:
            self._pool.check()
            if pass_ != self._pass or self._next >= self._len:
                return None
            began = time.monotonic()
            try:
                self._send()
                kind, what = self._wait(began)
            except NoWorkersError:
                raise  # the batch may still be made
            except (WorkerError, InternalError):
                self._done()  # the error is in the batch's place
                raise
            finally:
                self._waited += time.monotonic() - began
            # Taken before its place is given up: whatever interrupts this loses nothing.
            batch = None if kind == FAILED else self._received_batch(what)
            self._done()
            with contextlib.suppress(WorkerError):  # this batch is here; what is wrong is said in place of the next one
                self._send()
            if kind == FAILED:
                raise what[0] from what[1]
            return batch
        finally:
            self._lock.release()

    def _done(self) -> None:
        self._requests.pop(self._next, None)
        self._next += 1
        self._unsent = max(self._unsent, self._next)

    def _send(self) -> None:
        """Keeps as many requests out as there may be."""
        self._pool.reconcile()
        until = min(self._next + self._max_requests, self._len)
        for batch in range(self._unsent, until):
            self._requests[batch] = _BatchRequest(batch, batch % self._turns)
        self._unsent = max(self._unsent, until)
        for request in self._requests.values():
            if request.call is None:
                self._submit(request)

    def _submit(self, request: _BatchRequest) -> None:
        """Gives it to a worker; none is given to one that has not come yet, since nobody knows whether it will."""
        request.worker, request.call = self._pool.worker_for(self._number, request.turn), None
        if not request.worker.is_ready:
            return
        place = request.batch // self._turns
        request.call = request.worker.actor.make.remote(request.key(self._number), self._epoch, place, self._pass)

    def _wait(self, began: float) -> tuple[str, Any]:
        """The answer to the request whose turn it is, whoever gives it."""
        say = began + _WARN_INTERVAL_SECONDS
        while True:
            request = self._requests[self._next]
            if time.monotonic() > say:
                say += _WARN_INTERVAL_SECONDS
                where = f"on Ray node {request.worker.node}" if request.worker.is_ready else "that has not come yet"
                waited = time.monotonic() - began
                _log.warning("batch %d has been waited for for %.0f s, from a worker %s", request.batch, waited, where)
            if request.call is None:
                self._pool.reconcile(_POLL_INTERVAL_SECONDS)
                self._pool.check_start_timeout(began)
                self._send()
                continue
            self._fetch_ahead(request)
            done, _ = self._ray.wait([request.call], timeout=_POLL_INTERVAL_SECONDS)
            if not done:
                self._send()
                continue
            start = time.monotonic()
            try:
                kind, what, told = self._ray.get(request.call)
            except self._ray.exceptions.RayTaskError as error:
                raise WorkerError(f"a worker on Ray node {request.worker.node} failed: {error}") from error
            except self._ray.exceptions.RayError as error:
                self._lost(request, error)
                continue
            self._received += time.monotonic() - start
            if told is not None:
                self._store_snapshot(request.worker.number, request.key(self._number), told)
                if told[2] != self._num_clips:
                    raise WorkerError(
                        f"the dataset has {told[2]} clips on Ray node {request.worker.node} and {self._num_clips} "
                        "elsewhere, so orders differ: a file that counts clips by its length cannot be read there "
                        "(failures() names it). Make all files visible on all nodes, or leave it out everywhere"
                    )
            if kind == DROPPED:
                raise InternalError(f"batch {request.batch} was dropped by its worker; report this")
            return kind, what

    def _fetch_ahead(self, first: _BatchRequest) -> None:
        """Batches on other nodes set out as soon as they are made, not when they are due."""
        sent = [other for other in self._requests.values() if other is not first and other.call is not None]
        far = [other.call for other in sent if other.worker.node_id != self._pool.node_id]
        if far:
            self._ray.wait(far, num_returns=len(far), timeout=0, fetch_local=True)

    def _lost(self, request: _BatchRequest, error: Any) -> None:
        """The answer to the request that is due is lost: with its worker, or on its way."""
        request.lost += 1
        only_it = isinstance(error, self._ray.exceptions.ObjectLostError)
        if not only_it:
            self._pool.lost(request.worker, error)
        if request.lost >= _MAX_LOSSES:
            raise WorkerError(
                f"batch {request.batch} of epoch {self._epoch} was given up: what made it was lost {request.lost} "
                f"times, the last time on Ray node {request.worker.node}: {first_lines(error)}. Where memory ran out, "
                "ask for fewer num_threads, a smaller batch_size, prefetch_batches or in_flight"
            ) from error
        if only_it:
            # The worker is there, and so are its other batches.
            self._submit(request)
            return
        lost = [other for other in self._requests.values() if other.worker is request.worker and other.call is not None]
        still_out = set(self._ray.wait([t.call for t in lost], num_returns=len(lost), timeout=0)[1])
        for other in lost:
            # What others have made already is taken when its turn comes.
            if other is request or other.call in still_out:
                self._submit(other)

    def _received_batch(self, arrays: dict[str, Any]) -> dict[str, Any]:
        batch = {name: self._tensor(value) for name, value in arrays.items()}
        clips = len(arrays["labels"])
        self._counts.update(batches=1, clips=clips, frames=int((arrays["indices"] >= 0).sum()))
        return batch

    def _tensor(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._tensor(entry) for entry in value]
        self._counts["bytes_received"] += value.nbytes
        start = time.monotonic()
        own = value if self._buffers is None else self._buffers.copy(value)
        self._received += time.monotonic() - start
        return Tensor(own)

    def _ask(self, method: str, turn: int, *arguments: Any) -> Any:
        """An answer of the worker of a turn, or of whoever stands in for it."""
        began = time.monotonic()
        asked: tuple[WorkerHandle, Any] | None = None
        losses = 0
        while True:
            self._pool.check()
            worker = self._pool.worker_for(self._number, turn)
            if not worker.is_ready:
                self._pool.reconcile(_POLL_INTERVAL_SECONDS)
                self._pool.check_start_timeout(began)
                continue
            if asked is None or asked[0] is not worker:
                asked = worker, getattr(worker.actor, method).remote(self._number, turn, *arguments)
            done, _ = self._ray.wait([asked[1]], timeout=_POLL_INTERVAL_SECONDS)
            if not done:
                self._pool.reconcile()
                continue
            try:
                kind, what, _ = self._ray.get(asked[1])
            except self._ray.exceptions.RayTaskError as error:
                raise WorkerError(f"a worker on Ray node {worker.node} failed: {error}") from error
            except self._ray.exceptions.RayError as error:
                losses += 1
                self._pool.lost(worker, error)
                if losses >= _MAX_LOSSES:
                    raise WorkerError(f"workers were lost one after another: {self._pool.reasons()}") from error
                asked = None
                continue
            if kind != MADE:
                raise what[0] from what[1]
            return what

    def describe_clip(self, epoch: int, clip: int, frame: int) -> dict[str, Any]:
        """What is decided about a clip."""
        explained: dict[str, Any] = self._ask("describe_clip", 0, epoch, clip, frame)
        return explained

    def _store_snapshot(self, worker: int, key: Key, told: tuple[dict[str, Any], list[Any] | None, int]) -> None:
        stats, failures, _ = told
        _, before = self._snapshots.get((worker, key), ({}, []))
        self._snapshots[worker, key] = stats, before if failures is None else failures

    def _refresh_stats(self) -> None:
        if not self._pool.is_open:
            return  # what was told last
        self._pool.reconcile()
        for worker, answers in self._pool.call_all("snapshots", _STATS_TIMEOUT_SECONDS):
            for key, told in answers.items():
                if key[0] == self._number:
                    self._store_snapshot(worker.number, key, told)

    def failures(self) -> list[tuple[int, str | None, str, str, int]]:
        """(video, path, kind, message, clips) for each video that failed somewhere."""
        self._refresh_stats()
        found: dict[int, tuple[int, str | None, str, str, int]] = {}
        for _, failures in list(self._snapshots.values()):
            for video, path, kind, message, clips in failures:
                if video in found:
                    clips += found[video][4]
                    _, path, kind, message, _ = found[video]
                found[video] = (video, path, kind, message, clips)
        return [found[video] for video in sorted(found)]

    def stats(self) -> dict[str, Any]:
        """Counts of all workers together, and those of the side that takes the batches."""
        self._refresh_stats()
        sums: dict[str, Any] = {}
        for stats, _ in list(self._snapshots.values()):
            for name, value in stats.items():
                before = sums.get(name)
                if name in _LOCAL_STATS:
                    continue
                if isinstance(value, dict):
                    sums[name] = dict(Counter(before or {}) + Counter(value))
                elif name in _MAX_STATS:
                    sums[name] = max(before or 0, value)
                elif isinstance(value, (int, float)):
                    sums[name] = (before or 0) + value
                else:
                    sums[name] = before or value
        delivered = {name: self._counts[name] for name in ("batches", "clips", "frames", "bytes_received")}
        each = sums.get("frames_decoded", 0) / max(delivered["frames"], 1)
        nodes = Counter(worker.node for worker in self._pool.workers if worker is not None and worker.node is not None)
        return {
            **delivered,
            **sums,
            "frames_decoded_per_frame_delivered": each,
            "consumer_wait_seconds": self._waited,
            "receiving_seconds": self._received,
            "workers_by_node": dict(nodes),
            "workers_lost": self._pool.num_lost,
        }
