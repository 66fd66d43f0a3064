"""The workers of a loader: starts them, replaces lost ones and stops them."""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from framespool._framespool import __version__
from framespool.errors import ArgumentError, ForkedError
from framespool.ray._errors import NoWorkersError, first_lines, import_ray
from framespool.ray._worker import Worker, WorkerConfig

_log = logging.getLogger("framespool.ray")

#: Workers of a slot that may be lost in a row before they answer; the slot then stays empty.
_MAX_LOSSES = 3
#: Seconds that a worker may take to start before others make its batches.
_START_GRACE_SECONDS = 10.0
#: Concurrency group of calls that are answered while a batch is made.
_CONTROL_GROUP = "talk"
_CONTROL_METHODS = ("identify", "snapshots", "drop")


@dataclass(frozen=True)
class PoolOptions:
    """What the pool requests from the cluster."""

    address: str | None
    num_workers: int
    num_cpus: float
    resources: Mapping[str, float] | None
    scheduling_strategy: Any
    runtime_env: Mapping[str, Any] | None
    start_timeout: float


@dataclass(eq=False)
class WorkerHandle:
    """One worker."""

    place: int
    actor: Any
    number: int
    #: The pending answer that shows that the worker has started.
    ready_ref: Any
    started: float
    node: str | None = None
    node_id: str | None = None
    #: (task, turn) of other workers that it substitutes for.
    substituting_for: set[tuple[int, int]] = field(default_factory=set)

    @property
    def is_ready(self) -> bool:
        """Whether the worker has answered."""
        return self.node is not None


class WorkerPool:
    """`num_workers` slots, each with a worker, or empty after too many losses.

    Args:
        pool_options: What to request from the cluster.
    """

    def __init__(self, pool_options: PoolOptions) -> None:
        self._ray = import_ray()
        if not self._ray.is_initialized():
            self._ray.init(**({} if pool_options.address is None else {"address": pool_options.address}))
        self._pool_options = pool_options
        self._made_in = os.getpid()
        self._tasks: list[Any] = []
        #: Workers lost before they answered, by slot, since the last one that did; and reasons of the last losses.
        self._losses = [0] * pool_options.num_workers
        self.loss_messages: list[str] = []
        self.num_lost = self._num_started = 0
        #: `None` for a slot that stays empty.
        self.workers: list[WorkerHandle | None] = []
        options: dict[str, Any] = {
            "num_cpus": pool_options.num_cpus,
            "max_restarts": 0,
            "concurrency_groups": {_CONTROL_GROUP: 1},
            # Set explicitly: the workers of a trainer inside a placement group must not run in that group, whose
            # CPUs belong to the trainers.
            "scheduling_strategy": pool_options.scheduling_strategy or "DEFAULT",
        }
        if pool_options.resources:
            options["resources"] = dict(pool_options.resources)
        if pool_options.runtime_env:
            options["runtime_env"] = dict(pool_options.runtime_env)
        for name in _CONTROL_METHODS:
            self._ray.method(concurrency_group=_CONTROL_GROUP)(getattr(Worker, name))
        self._actor = self._ray.remote(**options)(Worker)
        self.node_id: str = self._ray.get_runtime_context().get_node_id()
        keep_in_children(self)
        self._end = weakref.finalize(self, _terminate, self.workers, self._made_in)
        for place in range(pool_options.num_workers):
            self.workers.append(self._start_worker(place))

    def _start_worker(self, place: int) -> WorkerHandle:
        actor = self._actor.remote()
        for number, task in enumerate(self._tasks):
            actor.add.remote(number, task)
        ready_ref = actor.identify.remote()
        self._num_started += 1
        return WorkerHandle(place, actor, self._num_started, ready_ref, time.monotonic())

    def check(self) -> None:
        """Raises if the workers are gone.

        Raises:
            ForkedError: If this is another process.
            NoWorkersError: If the loader was closed, or Ray was shut down.
        """
        if os.getpid() != self._made_in:
            raise ForkedError(
                f"a loader of framespool.ray was made in process {self._made_in} and is used in {os.getpid()}; "
                "create it in the process that uses it"
            )
        if not self._end.alive or not self._ray.is_initialized():
            raise NoWorkersError(
                "the loader's workers are gone: it was closed, or Ray was shut down; make another loader"
            )

    @property
    def is_open(self) -> bool:
        """Whether workers can be called."""
        return self._end.alive and self._ray.is_initialized() and os.getpid() == self._made_in

    def close(self) -> None:
        """Stops all workers."""
        self._end()

    def put(self, task: WorkerConfig) -> int:
        """Sends a task to all workers.

        Args:
            task: The task.

        Returns:
            The number of the task.

        Raises:
            ArgumentError: If the task cannot be pickled.
        """
        try:
            sent = self._ray.put(self._ray.cloudpickle.dumps(task))
        except Exception as error:
            raise ArgumentError(
                f"the loader's arguments cannot be sent to a worker: {first_lines(error)}; sampling functions must "
                "be picklable by cloudpickle"
            ) from error
        number = len(self._tasks)
        self._tasks.append(sent)
        for worker in self.workers:
            if worker is not None:
                worker.actor.add.remote(number, sent)
        return number

    def reconcile(self, timeout: float = 0.0) -> None:
        """Registers workers that have started or were lost.

        Args:
            timeout: Seconds to wait for one worker; 0 to return at once.

        Raises:
            NoWorkersError: If a worker has another release of framespool.
        """
        waiting = {worker.ready_ref: worker for worker in self.workers if worker is not None and not worker.is_ready}
        if not waiting:
            return
        num_returns = 1 if timeout else len(waiting)
        started, _ = self._ray.wait(list(waiting), num_returns=num_returns, timeout=timeout)
        for ready_ref in started:
            worker = waiting[ready_ref]
            try:
                metadata = self._ray.get(ready_ref)
            except self._ray.exceptions.RayError as error:
                self.lost(worker, error)
                continue
            if metadata["version"] != __version__:
                raise NoWorkersError(
                    f"Ray node {metadata['node']} has framespool {metadata['version']}, this process has "
                    f"{__version__}; install the same release everywhere"
                )
            worker.node, worker.node_id = metadata["node"], metadata["node_id"]
            self._losses[worker.place] = 0
            self._release_substitutes(worker)

    def _release_substitutes(self, started_worker: WorkerHandle) -> None:
        """Releases the shards that other workers made until this one started."""
        for worker in self.workers:
            if worker is None or worker is started_worker:
                continue
            for number, turn in [key for key in worker.substituting_for if key[1] == started_worker.place]:
                worker.substituting_for.discard((number, turn))
                worker.actor.release_shard.remote(number, turn)

    def worker_for(self, number: int, turn: int) -> WorkerHandle:
        """Returns the worker for the batches of a turn.

        Args:
            number: Number of the task.
            turn: Turn, from 0.

        Returns:
            The worker of the slot, or a substitute if that one takes too long to start.

        Raises:
            NoWorkersError: If all workers were lost.
        """
        own = self.workers[turn]
        if own is not None and (own.is_ready or time.monotonic() - own.started < _START_GRACE_SECONDS):
            return own
        ready = [worker for worker in self.workers if worker is not None and worker.is_ready]
        if ready:
            already = [worker for worker in ready if (number, turn) in worker.substituting_for]
            substitute = min(
                already or ready,
                key=lambda worker: (len(worker.substituting_for), (worker.place - turn) % len(self.workers)),
            )
            substitute.substituting_for.add((number, turn))
            return substitute
        starting = [worker for worker in [own, *self.workers] if worker is not None]
        if starting:
            return starting[0]
        raise NoWorkersError(f"all workers were lost: {self.reasons()}")

    def lost(self, worker: WorkerHandle, error: BaseException) -> None:
        """Replaces a worker that does not answer; a second call has no effect.

        Args:
            worker: The worker.
            error: Ray's error.
        """
        if self.workers[worker.place] is not worker:
            return
        why = f"on Ray node {worker.node or 'not yet known'}: {first_lines(error)}"
        _log.warning("a worker was lost %s", why)
        self.num_lost += 1
        self.loss_messages = [*self.loss_messages, why][-_MAX_LOSSES:]
        self._losses[worker.place] += not worker.is_ready
        _kill(self._ray, worker)
        gone = self._losses[worker.place] >= _MAX_LOSSES
        self.workers[worker.place] = None if gone else self._start_worker(worker.place)

    def reasons(self) -> str:
        """Returns the reasons of the last losses.

        Returns:
            One line.
        """
        return "; ".join(self.loss_messages) or "none was lost"

    def check_start_timeout(self, began: float) -> None:
        """Raises if no worker has started in time.

        Args:
            began: Monotonic time in seconds since which work is pending.

        Raises:
            NoWorkersError: If no worker is ready after `start_timeout` seconds.
        """
        if any(worker is not None and worker.is_ready for worker in self.workers):
            return
        if time.monotonic() - began < self._pool_options.start_timeout:
            return
        asked = {"CPU": self._pool_options.num_cpus, **(self._pool_options.resources or {})}
        free = {name: amount for name, amount in self._ray.available_resources().items() if name in asked}
        raise NoWorkersError(
            f"no worker started within start_timeout={self._pool_options.start_timeout:g} seconds: each requests "
            f"{asked}, of which the cluster has {free} free. Request less (num_cpus_per_worker), give the trainers "
            "fewer CPUs, or, inside a placement group, pass a scheduling_strategy that names it"
        )

    def call_all(self, method: str, timeout: float) -> list[tuple[WorkerHandle, Any]]:
        """Calls a control method of all workers that are ready.

        Args:
            method: Name of the method.
            timeout: Seconds to wait for the answers.

        Returns:
            The workers that answered in time, with their answers.
        """
        there = [worker for worker in self.workers if worker is not None and worker.is_ready]
        calls = {getattr(worker.actor, method).remote(): worker for worker in there}
        if not calls:
            return []
        done, _ = self._ray.wait(list(calls), num_returns=len(calls), timeout=timeout)
        answers = []
        for call in done:
            try:
                answers.append((calls[call], self._ray.get(call)))
            except self._ray.exceptions.RayError:
                continue  # the next batch request detects the loss
        return answers

    def notify_all(self, method: str, *arguments: Any) -> None:
        """Calls a method of all workers without waiting for an answer.

        Args:
            method: Name of the method.
            arguments: Its arguments.
        """
        for worker in self.workers:
            if worker is not None:
                getattr(worker.actor, method).remote(*arguments)


#: Objects that refer to Ray's actors and results.
_holders: weakref.WeakSet[Any] = weakref.WeakSet()
#: Their attributes, in a forked child.
_kept: list[Any] = []


def keep_in_children(holder: Any) -> None:
    """Keeps the attributes of an object alive in forked children.

    Ray's destructors take locks that another thread may have held at the time of the fork.

    Args:
        holder: The object.
    """
    _holders.add(holder)


os.register_at_fork(after_in_child=lambda: _kept.extend([*vars(holder).values()] for holder in _holders))


def _kill(ray: Any, worker: WorkerHandle) -> None:
    try:
        ray.kill(worker.actor, no_restart=True)
    except Exception as error:
        # It may be dead already, or the whole cluster.
        _log.debug("a worker could not be stopped: %s", error)


def _terminate(workers: list[WorkerHandle | None], made_in: int) -> None:
    ray = import_ray()
    if os.getpid() != made_in or not ray.is_initialized():
        return
    for worker in workers:
        if worker is not None:
            _kill(ray, worker)
    workers[:] = [None] * len(workers)
