"""What runs on the cluster: batches made for clip requests, one after another."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
from dataclasses import dataclass
from typing import Any

from framespool import __version__, _framespool
from framespool.datasets import Dataset
from framespool.errors import ArgumentError, InternalError
from framespool.ray._errors import import_ray

#: A batch, an error with what it was raised from, or the news that nobody wants the batch any more.
MADE, FAILED, DROPPED = "made", "failed", "dropped"


#: What a worker keeps a native for: task, turn, and whether it makes batches alone.
Key = tuple[int, int, bool]


@dataclass
class WorkerConfig:
    """What a native must be given to be made on a worker, apart from its turn among the others."""

    #: From where relative paths are meant.
    folder: str
    dataset: Dataset
    rule: Any
    steps: list[Any]
    settings: dict[str, Any]
    turns: int

    def native(self, turn: int, alone: bool) -> _framespool.Loader:
        """The native that makes the batches ``turn``, ``turn + turns``, … of the rank; ``alone``: nothing of a batch
        before it is asked for."""
        settings = {**self.settings, "order": {**self.settings["order"], "worker_id": turn, "num_workers": self.turns}}
        if alone:
            settings |= {"prefetch_batches": 0, "lookahead_clips": 0, "memory_budget": 0}
        return _framespool.Loader(self.dataset._for_engine(), self.rule, self.steps, settings)


class _ShardEngine:
    """A native, and where it is."""

    def __init__(self, native: _framespool.Loader) -> None:
        self.native = native
        # Pass, epoch, and the batch that the pass makes next.
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
            raise InternalError(f"batch {batch} of epoch {epoch} was asked for, but the pass has ended; report this")
        return made


class Worker:
    """One process of the cluster, which makes batches for clip requests: (task, turn, epoch, batch).

    Any worker can make any batch, whatever it made before. For requests that follow each other it goes on where it
    was, and what was decoded ahead is used; any other request begins a pass at that batch.
    """

    def __init__(self) -> None:
        ray = import_ray()
        self._node_id = ray.get_runtime_context().get_node_id()
        self._node = f"{ray.util.get_node_ip_address()} ({self._node_id[:8]})"
        #: As they were sent, until one is begun.
        self._tasks: list[WorkerConfig | bytes] = []
        self._engines: dict[Key, _ShardEngine] = {}
        #: By task: clip requests of passes before this one are wanted no more.
        self._dropped: dict[int, int] = {}

    def identify(self) -> dict[str, Any]:
        """Who this is."""
        host, pid = socket.gethostname(), os.getpid()
        return {"node": self._node, "node_id": self._node_id, "host": host, "pid": pid, "version": __version__}

    def add(self, number: int, task: bytes) -> None:
        """Takes a pickled task, to be called by its number from now on."""
        if number == len(self._tasks):
            self._tasks.append(task)

    def drop(self, number: int, before: int) -> None:
        """Tickets of a task's passes before this one are wanted no more."""
        self._dropped[number] = before

    def facts(self, number: int, turn: int) -> tuple[str, Any, Any]:
        """Clips of the dataset, and batches of this turn."""
        try:
            native = self._engine((number, turn, False)).native
            return MADE, (native.num_clips, len(native)), None
        except Exception as error:
            return self._failure(error)

    def make(self, key: Key, epoch: int, batch: int, pass_: int) -> tuple[str, Any, Any]:
        """Batch ``batch`` among those of a turn: the arrays by name; or the error that takes its place. With what is
        told of the native so far."""
        if pass_ < self._dropped.get(key[0], 0):
            return DROPPED, None, None
        try:
            engine = self._engine(key)
            made = engine.make(epoch, batch)
            return MADE, {name: as_arrays(value) for name, value in made.items()}, self._snapshot(engine)
        except Exception as error:
            kind, what, _ = self._failure(error)
            kept = self._engines.get(key)
            return kind, what, None if kept is None else self._snapshot(kept)

    def describe_clip(self, number: int, turn: int, epoch: int, clip: int, frame: int) -> tuple[str, Any, Any]:
        """What is decided about a clip."""
        try:
            return MADE, self._engine((number, turn, False)).native.describe_clip(epoch, clip, frame), None
        except Exception as error:
            return self._failure(error)

    def cancel(self, number: int) -> None:
        """Ends what is under way on a task."""
        for key, engine in self._engines.items():
            if key[0] == number:
                engine.native.cancel()
                engine.at = (-1, -1)

    def release_shard(self, number: int, turn: int) -> None:
        """Another worker has this turn again."""
        for alone in (False, True):
            self._engines.pop((number, turn, alone), None)

    def snapshots(self) -> dict[Key, tuple[Any, Any, int]]:
        """Counts and failures of each native, and the clips that it knows of."""
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
                    f"a worker cannot read what it was sent: {type(error).__name__}: {error}; what is used for "
                    "sampling must be importable there too"
                ) from error
            assert isinstance(task, WorkerConfig)
            with contextlib.suppress(OSError):  # where it does not exist, relative paths are files that are not there
                os.chdir(task.folder)
            self._tasks[number] = task
        return task

    def _snapshot(self, engine: _ShardEngine) -> tuple[Any, Any, int]:
        stats = engine.native.stats()
        news = (stats["errors"], stats["videos_failed"], stats["clips_skipped"], stats["clips_replaced"])
        # Failures are told again only when there are new ones: the list may be long.
        failures = None if news == engine.reported else self._failures(engine)
        engine.reported = news
        return stats, failures, engine.native.num_clips

    def _failures(self, engine: _ShardEngine) -> list[Any]:
        return [
            (video, path, kind, self._with_node(message), clips)
            for video, path, kind, message, clips in engine.native.failures()
        ]

    def _with_node(self, message: str) -> str:
        return f"{message} (on Ray node {self._node})"

    def _failure(self, error: Exception) -> tuple[str, Any, Any]:
        """The error as it travels: a file may be missing on this node alone, so it says which one it is."""
        if len(error.args) == 1 and isinstance(error.args[0], str):
            error.args = (self._with_node(error.args[0]),)
        cause = error.__cause__
        return FAILED, (_portable(error), None if cause is None else _portable(cause)), None


def _portable(error: BaseException) -> BaseException:
    """``error``, or what it says where it cannot be sent."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return InternalError(f"{type(error).__name__}: {error}")
    return error.with_traceback(None)


def as_arrays(value: Any) -> Any:
    """Tensors as contiguous arrays, without a copy; bfloat16, which NumPy does not have, as its bits."""
    if isinstance(value, list):
        return [as_arrays(entry) for entry in value]
    if value.dtype != "bfloat16":
        return value.numpy()
    import numpy as np

    return np.frombuffer(value.tobytes(), np.uint16).reshape(value.shape)
