"""The worker process on the cluster, which makes batches on request."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import warnings
from dataclasses import dataclass
from typing import Any

from framespool import __version__, _framespool
from framespool.datasets import Dataset
from framespool.errors import ArgumentError, HdrWarning, InternalError
from framespool.ray._errors import import_ray

#: Kinds of answers: a batch, an error with its cause, or a request that was dropped.
MADE, FAILED, DROPPED = "made", "failed", "dropped"


#: Key of a shard engine: task, turn, and whether it makes batches alone.
Key = tuple[int, int, bool]


@dataclass
class WorkerConfig:
    """What a worker needs to create an engine, apart from its turn."""

    #: Folder that relative paths start from.
    folder: str
    dataset: Dataset
    sampler_spec: Any
    steps: list[Any]
    settings: dict[str, Any]
    turns: int

    def native(self, turn: int, alone: bool) -> _framespool.Loader:
        """Creates the engine that makes the batches `turn`, `turn + turns`, … of the rank.

        Args:
            turn: Turn, from 0.
            alone: Whether nothing of a batch is made before it is requested.

        Returns:
            The engine.
        """
        settings = {**self.settings, "order": {**self.settings["order"], "worker_id": turn, "num_workers": self.turns}}
        if alone:
            options = {"prefetch_batches": 0, "lookahead_clips": 0, "memory_budget": 0}
            settings |= {"options": {**settings["options"], **options}}
        return _framespool.Loader(self.dataset._for_engine(), self.sampler_spec, self.steps, settings)


class _ShardEngine:
    """An engine and its position."""

    def __init__(self, native: _framespool.Loader) -> None:
        self.native = native
        # Number of the pass over the loader; its epoch and next batch.
        self.pass_ = -1
        self.at = (-1, -1)
        self.reported: Any = None

    def make(self, epoch: int, batch: int) -> dict[str, Any]:
        if self.at != (epoch, batch):
            self.pass_ = self.native.start_epoch(epoch, batch)
        self.at = (-1, -1)
        try:
            made = self.native.next_batch(self.pass_)
        finally:
            after = self.native.next_batch_index(self.pass_)
            if after is not None:
                self.at = (epoch, after)
        if made is None:
            raise InternalError(f"batch {batch} of epoch {epoch} was requested, but the pass has ended; report this")
        return made


class Worker:
    """One process of the cluster, which makes batches for requests (task, turn, epoch, batch).

    Any worker can make any batch. Consecutive requests continue the pass, so that clips decoded ahead are used; any
    other request starts a pass at its batch.
    """

    def __init__(self) -> None:
        ray = import_ray()
        self._node_id = ray.get_runtime_context().get_node_id()
        self._node = f"{ray.util.get_node_ip_address()} ({self._node_id[:8]})"
        #: Pickled until first use.
        self._tasks: list[WorkerConfig | bytes] = []
        self._engines: dict[Key, _ShardEngine] = {}
        #: By task: requests of passes before this one are dropped.
        self._dropped: dict[int, int] = {}

    def identify(self) -> dict[str, Any]:
        """Returns the identity of this process.

        Returns:
            Node, node id, host, process id and version of framespool.
        """
        host, pid = socket.gethostname(), os.getpid()
        return {"node": self._node, "node_id": self._node_id, "host": host, "pid": pid, "version": __version__}

    def add(self, number: int, task: bytes) -> None:
        """Stores a pickled task.

        Args:
            number: Number of the task.
            task: The pickled `WorkerConfig`.
        """
        if number == len(self._tasks):
            self._tasks.append(task)

    def drop(self, number: int, before: int) -> None:
        """Drops batch requests of a task's earlier passes.

        Args:
            number: Number of the task.
            before: First pass whose requests are still needed.
        """
        self._dropped[number] = before

    def properties(self, number: int, turn: int) -> tuple[str, Any, Any]:
        """Returns what the workers have in common, as a turn's engine has it.

        Args:
            number: Number of the task.
            turn: Turn, from 0.

        Returns:
            `MADE` or `FAILED`; the number of clips, the number of batches of the turn, the parameters of the
            grouped shuffle and its mixing, or the error; and `None`.
        """
        try:
            native = self._engine((number, turn, False)).native
            return MADE, (native.num_clips, len(native), native.grouped, native.shuffle_mixing()), None
        except Exception as error:
            return self._failure(error)

    def make(
        self, key: Key, epoch: int, batch: int, pass_: int, grouped: tuple[int, int, int] | None
    ) -> tuple[str, Any, Any, list[str]]:
        """Makes a batch.

        Args:
            key: The shard engine.
            epoch: Epoch, from 0.
            batch: Index of the batch among those of the turn.
            pass_: Number of the pass.
            grouped: Parameters of the grouped shuffle; an engine derives others if its memory budget differs, as it
                does in one that makes batches alone.

        Returns:
            `MADE`, `FAILED` or `DROPPED`; the arrays by name or the error; a snapshot of the engine's counters; and
            warnings about HDR video for the program.
        """
        if pass_ < self._dropped.get(key[0], 0):
            return DROPPED, None, None, []
        # Recorded for the program: its filters apply to them, and the output of this process may not be visible.
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", HdrWarning)
            answer = self._make(key, epoch, batch, grouped)
        for warning in caught:
            if not issubclass(warning.category, HdrWarning):
                warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        return *answer, [str(warning.message) for warning in caught if issubclass(warning.category, HdrWarning)]

    def _make(self, key: Key, epoch: int, batch: int, grouped: tuple[int, int, int] | None) -> tuple[str, Any, Any]:
        try:
            engine = self._engine(key)
            if grouped is not None and engine.native.grouped != grouped:
                engine.native.set_grouped(*grouped)
                engine.at = (-1, -1)
            made = engine.make(epoch, batch)
            return MADE, {name: as_arrays(value) for name, value in made.items()}, self._snapshot(engine)
        except Exception as error:
            kind, what, _ = self._failure(error)
            kept = self._engines.get(key)
            return kind, what, None if kept is None else self._snapshot(kept)

    def describe_clip(self, number: int, turn: int, *delivery: int) -> tuple[str, Any, Any]:
        """Describes a delivery of a clip.

        Args:
            number: Number of the task.
            turn: Turn, from 0.
            delivery: Epoch, clip, frame, repeat and occurrence.

        Returns:
            `MADE` or `FAILED`, the clip's parameters or the error, and `None`.
        """
        try:
            return MADE, self._engine((number, turn, False)).native.describe_clip(*delivery), None
        except Exception as error:
            return self._failure(error)

    def estimate_cost(self, number: int, turn: int) -> tuple[str, Any, Any]:
        """Estimates the decoding cost of shuffles with the clip cache of a turn's engine.

        Args:
            number: Number of the task.
            turn: Turn, from 0.

        Returns:
            `MADE` or `FAILED`, the estimate or the error, and `None`.
        """
        try:
            return MADE, self._engine((number, turn, False)).native.estimate_cost(), None
        except Exception as error:
            return self._failure(error)

    def cancel(self, number: int) -> None:
        """Ends the work in progress on a task.

        Args:
            number: Number of the task.
        """
        for key, engine in self._engines.items():
            if key[0] == number:
                engine.native.cancel()
                engine.at = (-1, -1)

    def release_shard(self, number: int, turn: int) -> None:
        """Deletes the engines of a turn that another worker makes again.

        Args:
            number: Number of the task.
            turn: Turn, from 0.
        """
        for alone in (False, True):
            self._engines.pop((number, turn, alone), None)

    def snapshots(self) -> dict[Key, tuple[Any, Any, int]]:
        """Returns the counters and failures of each engine, and its number of clips.

        Returns:
            Tuples (counters, failures, clips) by engine.
        """
        return {
            key: (engine.native.stats(), self._failures(engine), engine.native.num_clips)
            for key, engine in list(self._engines.items())
        }

    def _engine(self, key: Key) -> _ShardEngine:
        number, turn, alone = key
        if key not in self._engines:
            self._engines[key] = _ShardEngine(self._task(number).native(turn, alone))
        return self._engines[key]

    def _task(self, number: int) -> WorkerConfig:
        task = self._tasks[number]
        if isinstance(task, bytes):
            try:
                task = pickle.loads(task)
            except Exception as error:
                raise ArgumentError(
                    f"a worker cannot unpickle its task: {type(error).__name__}: {error}; modules of the clip "
                    "sampler must be importable there too"
                ) from error
            assert isinstance(task, WorkerConfig)
            with contextlib.suppress(OSError):  # without this folder, relative paths are missing files
                os.chdir(task.folder)
            self._tasks[number] = task
        return task

    def _snapshot(self, engine: _ShardEngine) -> tuple[Any, Any, int]:
        stats = engine.native.stats()
        counts = (stats["errors"], stats["videos_failed"], stats["clips_skipped"], stats["clips_replaced"])
        # Failures are sent again only if there are new ones: the list may be long.
        failures = None if counts == engine.reported else self._failures(engine)
        engine.reported = counts
        return stats, failures, engine.native.num_clips

    def _failures(self, engine: _ShardEngine) -> list[Any]:
        return [
            (video, path, kind, self._with_node(message), clips)
            for video, path, kind, message, clips in engine.native.failures()
        ]

    def _with_node(self, message: str) -> str:
        return f"{message} (on Ray node {self._node})"

    def _failure(self, error: Exception) -> tuple[str, Any, Any]:
        """Converts an error for the transfer. It names the node, since a file may be missing on this node alone."""
        if len(error.args) == 1 and isinstance(error.args[0], str):
            error.args = (self._with_node(error.args[0]),)
        cause = error.__cause__
        return FAILED, (_portable(error), None if cause is None else _portable(cause)), None


def _portable(error: BaseException) -> BaseException:
    """Returns `error`, or an error with its message if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return InternalError(f"{type(error).__name__}: {error}")
    return error.with_traceback(None)


def as_arrays(value: Any) -> Any:
    """Converts tensors to contiguous arrays, without a copy except for bfloat16.

    Args:
        value: A tensor, or a list of them.

    Returns:
        An array, or a list of them; bfloat16, which NumPy does not have, as its bits in int16, which no batch has.
    """
    if isinstance(value, list):
        return [as_arrays(entry) for entry in value]
    if value.dtype != "bfloat16":
        return value.numpy()
    import numpy as np

    return np.frombuffer(value.tobytes(), np.int16).reshape(value.shape)
