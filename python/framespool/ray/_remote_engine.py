"""An engine whose workers run on a cluster: it sends batch requests and delivers the batches in order."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from framespool import _framespool
from framespool._common.counters import merged
from framespool.datasets import Dataset
from framespool.errors import ArgumentError, HdrWarning, InternalError
from framespool.options._order import shuffle_name
from framespool.ray._errors import NoWorkersError, WorkerError, first_lines
from framespool.ray._tensor import BufferPool, Tensor
from framespool.ray._worker import DROPPED, FAILED, MADE, Key, WorkerConfig
from framespool.ray._worker_pool import WorkerHandle, WorkerPool, keep_in_children

_log = logging.getLogger("framespool.ray")

#: Interval in seconds of the warning that a batch is still pending.
_WARN_INTERVAL_SECONDS = 60.0
#: Interval in seconds of checks of the workers while a batch is pending.
_POLL_INTERVAL_SECONDS = 0.2
#: Number of times that a batch may lose its worker before it fails.
_MAX_LOSSES = 3
#: Timeout in seconds of a worker's counters.
_STATS_TIMEOUT_SECONDS = 10.0

#: Whether a worker's warning about HDR video was issued: one per process, as locally.
_hdr_warned = False


@dataclass(eq=False)
class _BatchRequest:
    batch: int
    turn: int
    lost: int = 0
    # The worker, and its pending answer; `None` until the worker has started.
    worker: WorkerHandle = field(init=False)
    call: Any = None

    def key(self, number: int) -> Key:
        """Returns the shard engine that makes it. After a loss, no batch is made ahead of it."""
        return number, self.turn, self.lost > 0


class RemoteEngine:
    """An `Engine` whose batches are made by engines of workers.

    Args:
        pool: The workers.
        dataset: The dataset.
        sampler_spec: The clip sampler.
        steps: The transforms.
        settings: Settings of the engine.
        in_flight: Batches that each worker may make or keep ahead.
        copy: Whether batches are copied from the object store.

    Raises:
        InternalError: If the first worker's engine has another number of batches.
    """

    def __init__(
        self,
        pool: WorkerPool,
        dataset: Dataset,
        sampler_spec: Any,
        steps: list[Any],
        settings: dict[str, Any],
        in_flight: int,
        copy: bool,
    ) -> None:
        keep_in_children(self)
        self._pool = pool
        self._ray = pool._ray
        self._turns = len(pool.workers)
        self._max_requests = self._turns * in_flight
        self._buffers = BufferPool() if copy else None
        self._lock = threading.Lock()
        self._pass = 0
        self._epoch = 0
        # The next batch to deliver, and the first one without a request.
        self._next = self._unsent = 0
        self._requests: dict[int, _BatchRequest] = {}
        # Last reported counters and failures, by worker and shard engine.
        self._snapshots: dict[tuple[int, Key], tuple[dict[str, Any], list[Any]]] = {}
        self._counts: Counter[str] = Counter()
        self._warnings: list[str] = []
        self._waited = self._received = 0.0
        # Columns are used by the consumer only and are not sent.
        sent = Dataset(dataset.samples)
        self._number = pool.put(WorkerConfig(os.getcwd(), sent, sampler_spec, steps, settings, self._turns))
        properties: tuple[int, int, tuple[int, int, int] | None, Any] = self._ask("properties", 0)
        self._num_clips, first, self._grouped, self._mixing = properties
        drawn = settings["order"]["weights"] or settings["mixture"]
        epoch_clips = None if drawn is None else drawn["epoch_clips"]
        # Clips of a group are one unit of the order.
        units = len(dataset.samples) if settings["options"]["group_clips"] else self._num_clips
        clips = units if epoch_clips is None else epoch_clips
        order = {**settings["order"], "num_clips": clips, "mix": None, "weights": None}
        if shuffle_name(order) == "grouped":
            order["shuffle"] = "full"  # has as many batches, and needs no clips of each video
        self._len = len(_framespool.BatchSampler(order))
        if first != -(-self._len // self._turns):
            raise InternalError(
                f"{self._len} batches over {self._turns} workers give {first} for the first; report this"
            )

    def __len__(self) -> int:
        return self._len

    @property
    def num_clips(self) -> int:
        """Clips of the complete dataset."""
        return self._num_clips

    @property
    def grouped(self) -> tuple[int, int, int] | None:
        """`num_streams`, `shuffle_block_size` and `max_chunk`; `None` if the clips are not grouped."""
        return self._grouped

    def shuffle_mixing(self) -> tuple[float, bool, int | None] | None:
        """Returns how well a grouped shuffle mixes videos.

        Returns:
            The mixing, whether it is poor, and the memory budget that gives 0.9 then; `None` if the clips are not
            grouped.
        """
        mixing: tuple[float, bool, int | None] | None = self._mixing
        return mixing

    def set_grouped(self, num_streams: int, block_size: int, max_chunk: int) -> None:
        """Uses these parameters for the grouped shuffle. Ends the pass in progress.

        Args:
            num_streams: Number of streams.
            block_size: Positions over which the clips of a video are spread.
            max_chunk: Clips of a chunk at most.
        """
        self.cancel()
        self._grouped = (num_streams, block_size, max_chunk)

    def start_epoch(self, epoch: int, first_batch: int) -> int:
        """Starts a pass; a pass in progress ends.

        Args:
            epoch: Epoch, from 0.
            first_batch: First batch to deliver.

        Returns:
            The number of the pass.
        """
        self._pool.check()
        self._forget()
        self._epoch, self._next, self._unsent = epoch, first_batch, first_batch
        return self._pass

    def cancel(self) -> None:
        """Ends the pass in progress, and all work on it."""
        self._pool.check()
        self._forget()
        self._pool.notify_all("cancel", self._number)

    def _forget(self) -> None:
        self._pass += 1
        self._next = self._unsent = self._len
        if self._requests:
            self._requests = {}
            self._pool.notify_all("drop", self._number, self._pass)

    def next_batch_index(self, pass_: int, /) -> int | None:
        """Returns the index of the next batch of a pass.

        Args:
            pass_: Number of the pass.

        Returns:
            The index, or `None` if another pass has started since.
        """
        return self._next if pass_ == self._pass else None

    def next_batch(self, pass_: int, /) -> dict[str, Any] | None:
        """Returns the next batch of a pass.

        Args:
            pass_: Number of the pass.

        Returns:
            The batch, or `None` at the end of the pass and if another pass has started since.

        Raises:
            RuntimeError: If another thread uses the loader.
            WorkerError: If no worker is available, or the batch was lost repeatedly.
        """
        if not self._lock.acquire(blocking=False):
            raise RuntimeError("the loader is in use by another thread; create one loader per thread")
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
            self._warn()
            # Converted before its request is removed: an interruption loses nothing.
            batch = None if kind == FAILED else self._received_batch(what)
            self._done()
            with contextlib.suppress(WorkerError):  # this batch is complete; the next call reports the error
                self._send()
            if kind == FAILED:
                raise what[0] from what[1]
            return batch
        finally:
            self._lock.release()

    def _warn(self) -> None:
        """Issues the first warning about HDR video in this process; each worker process may have one."""
        pending, self._warnings = self._warnings, []
        global _hdr_warned
        if pending and not _hdr_warned:
            _hdr_warned = True
            warnings.warn(pending[0], HdrWarning, stacklevel=3)

    def _done(self) -> None:
        self._requests.pop(self._next, None)
        self._next += 1
        self._unsent = max(self._unsent, self._next)

    def _send(self) -> None:
        """Sends requests up to the limit."""
        self._pool.reconcile()
        until = min(self._next + self._max_requests, self._len)
        for batch in range(self._unsent, until):
            self._requests[batch] = _BatchRequest(batch, batch % self._turns)
        self._unsent = max(self._unsent, until)
        for request in self._requests.values():
            if request.call is None:
                self._submit(request)

    def _submit(self, request: _BatchRequest) -> None:
        """Assigns a request to a worker that has started. A worker that has not started may never do so."""
        request.worker, request.call = self._pool.worker_for(self._number, request.turn), None
        if not request.worker.is_ready:
            return
        place = request.batch // self._turns
        request.call = request.worker.actor.make.remote(
            request.key(self._number), self._epoch, place, self._pass, self._grouped
        )

    def _wait(self, began: float) -> tuple[str, Any]:
        """Returns the answer to the next request, from any worker."""
        warn_at = began + _WARN_INTERVAL_SECONDS
        while True:
            request = self._requests[self._next]
            if time.monotonic() > warn_at:
                warn_at += _WARN_INTERVAL_SECONDS
                where = f"on Ray node {request.worker.node}" if request.worker.is_ready else "that has not started"
                waited = time.monotonic() - began
                _log.warning("batch %d has been pending for %.0f s, from a worker %s", request.batch, waited, where)
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
                kind, what, snapshot, hdr_warnings = self._ray.get(request.call)
            except self._ray.exceptions.RayTaskError as error:
                raise WorkerError(f"a worker on Ray node {request.worker.node} failed: {error}") from error
            except self._ray.exceptions.RayError as error:
                self._lost(request, error)
                continue
            self._received += time.monotonic() - start
            self._warnings += hdr_warnings
            if snapshot is not None:
                self._store_snapshot(request.worker.number, request.key(self._number), snapshot)
                if snapshot[2] != self._num_clips:
                    raise WorkerError(
                        f"the dataset has {snapshot[2]} clips on Ray node {request.worker.node} and {self._num_clips} "
                        "elsewhere, so the orders differ: a file whose length determines its clips cannot be read "
                        "there (failures() names it). Make all files visible on all nodes, or exclude it everywhere"
                    )
            if kind == DROPPED:
                raise InternalError(f"batch {request.batch} was dropped by its worker; report this")
            return kind, what

    def _fetch_ahead(self, first: _BatchRequest) -> None:
        """Starts the transfer of batches from other nodes as soon as they are made."""
        sent = [other for other in self._requests.values() if other is not first and other.call is not None]
        far = [other.call for other in sent if other.worker.node_id != self._pool.node_id]
        if far:
            self._ray.wait(far, num_returns=len(far), timeout=0, fetch_local=True)

    def _lost(self, request: _BatchRequest, error: Any) -> None:
        """Handles the loss of the next answer, with its worker or in transit."""
        request.lost += 1
        only_it = isinstance(error, self._ray.exceptions.ObjectLostError)
        if not only_it:
            self._pool.lost(request.worker, error)
        if request.lost >= _MAX_LOSSES:
            raise WorkerError(
                f"batch {request.batch} of epoch {self._epoch} failed: its worker was lost {request.lost} "
                f"times, the last time on Ray node {request.worker.node}: {first_lines(error)}. If memory ran out, "
                "reduce num_threads, batch_size, prefetch_batches or in_flight"
            ) from error
        if only_it:
            # The worker is alive, and so are its other batches.
            self._submit(request)
            return
        lost = [other for other in self._requests.values() if other.worker is request.worker and other.call is not None]
        still_out = set(self._ray.wait([t.call for t in lost], num_returns=len(lost), timeout=0)[1])
        for other in lost:
            # Completed batches are fetched when they are next.
            if other is request or other.call in still_out:
                self._submit(other)

    def _received_batch(self, arrays: dict[str, Any]) -> dict[str, Any]:
        batch = {name: self._tensor(value) for name, value in arrays.items()}
        self._counts.update(batches=1, clips=arrays["clip_ids"].size, frames=int((arrays["indices"] >= 0).sum()))
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
        """Returns an answer of the worker of a turn, or of its substitute."""
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
                    raise WorkerError(f"workers were lost {losses} times in a row: {self._pool.reasons()}") from error
                asked = None
                continue
            if kind != MADE:
                raise what[0] from what[1]
            return what

    def page_lock(self, gpu: int, required: bool) -> None:
        """Refuses to page-lock batches: their memory is of Ray's object store, or a copy of it.

        Args:
            gpu: The GPU whose driver would page-lock them.
            required: Whether the loader must not go on without it.

        Raises:
            ArgumentError: If it is required.
        """
        if required:
            raise ArgumentError('workers on Ray cannot page-lock batches, got pin_memory=True; use "auto" or False')

    def describe_clip(self, epoch: int, clip: int, t: int, repeat: int, occurrence: int) -> dict[str, Any]:
        """Describes a delivery of a clip.

        Args:
            epoch: Epoch, from 0.
            clip: Clip id.
            t: Frame of the clip.
            repeat: As for `ClipLoader.describe_clip()`.
            occurrence: Likewise.

        Returns:
            The clip's parameters by name.
        """
        explained: dict[str, Any] = self._ask("describe_clip", 0, epoch, clip, t, repeat, occurrence)
        return explained

    def estimate_cost(self) -> Any:
        """Estimates the decoding cost, as the first worker's engine plans it.

        Returns:
            The estimate of `framespool._framespool.Loader`.
        """
        return self._ask("estimate_cost", 0)

    def _store_snapshot(self, worker: int, key: Key, snapshot: tuple[dict[str, Any], list[Any] | None, int]) -> None:
        stats, failures, _ = snapshot
        _, before = self._snapshots.get((worker, key), ({}, []))
        self._snapshots[worker, key] = stats, before if failures is None else failures

    def _refresh_stats(self) -> None:
        if not self._pool.is_open:
            return  # the last reported counters remain
        self._pool.reconcile()
        for worker, answers in self._pool.call_all("snapshots", _STATS_TIMEOUT_SECONDS):
            for key, snapshot in answers.items():
                if key[0] == self._number:
                    self._store_snapshot(worker.number, key, snapshot)

    def failures(self) -> list[tuple[int, str | None, str, str, int]]:
        """Returns the videos that failed on any worker.

        Returns:
            Tuples (video, path, kind, message, clips), in the order of the videos.
        """
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
        """Returns the counters of all workers together, and those of this process.

        Returns:
            Counters by name.
        """
        self._refresh_stats()
        workers = merged([stats for stats, _ in list(self._snapshots.values())])
        nodes = Counter(worker.node for worker in self._pool.workers if worker is not None and worker.node is not None)
        # What is delivered is counted here: workers also make batches that this process does not take.
        return {
            **workers,
            **{name: self._counts[name] for name in ("batches", "clips", "frames", "bytes_received")},
            "consumer_wait_seconds": self._waited,
            "receiving_seconds": self._received,
            "workers_by_node": dict(nodes),
            "workers_lost": self._pool.num_lost,
        }
