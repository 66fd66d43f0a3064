"""The workers of a loader: started, replaced when they are lost, and sent home."""

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

#: Workers of a place that may be lost one after another before they said a word; then it stays empty.
_MAX_LOSSES = 3
#: Seconds that a worker may take to come before others make its batches meanwhile.
_START_GRACE_SECONDS = 10.0
#: Calls that are answered while a batch is being made.
_CONTROL_GROUP = "talk"
_CONTROL_METHODS = ("identify", "snapshots", "drop")


@dataclass(frozen=True)
class PoolOptions:
    """What is asked of the cluster."""

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
    #: The answer by which it is known to be there.
    ready_ref: Any
    started: float
    node: str | None = None
    node_id: str | None = None
    #: Turns of others that it has taken over, by task.
    substituting_for: set[tuple[int, int]] = field(default_factory=set)

    @property
    def is_ready(self) -> bool:
        """Whether it has answered."""
        return self.node is not None


class WorkerPool:
    """``num_workers`` places, each with a worker, or with none after too many were lost there."""

    def __init__(self, pool_options: PoolOptions) -> None:
        self._ray = import_ray()
        if not self._ray.is_initialized():
            self._ray.init(**({} if pool_options.address is None else {"address": pool_options.address}))
        self._pool_options = pool_options
        self._made_in = os.getpid()
        self._tasks: list[Any] = []
        #: Workers lost before they came, by place, since the last one that came; and what became of the lost ones.
        self._losses = [0] * pool_options.num_workers
        self.loss_messages: list[str] = []
        self.num_lost = self._num_started = 0
        #: ``None`` where a place stays empty.
        self.workers: list[WorkerHandle | None] = []
        options: dict[str, Any] = {
            "num_cpus": pool_options.num_cpus,
            "max_restarts": 0,
            "concurrency_groups": {_CONTROL_GROUP: 1},
            # Said in so many words, so that workers of a trainer inside a placement group are not put into that
            # group, whose CPUs are the trainers'.
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
        """Raises where the workers are gone."""
        if os.getpid() != self._made_in:
            raise ForkedError(
                f"a loader of framespool.ray was made in process {self._made_in} and is used in {os.getpid()}; "
                "make it in the process that uses it"
            )
        if not self._end.alive or not self._ray.is_initialized():
            raise NoWorkersError(
                "the loader's workers are gone: it was closed, or Ray was shut down; make another loader"
            )

    @property
    def is_open(self) -> bool:
        """Whether there are workers that could be asked."""
        return self._end.alive and self._ray.is_initialized() and os.getpid() == self._made_in

    def close(self) -> None:
        """Ends all workers."""
        self._end()

    def put(self, task: WorkerConfig) -> int:
        """Gives all workers a task, and returns its number."""
        try:
            sent = self._ray.put(self._ray.cloudpickle.dumps(task))
        except Exception as error:
            raise ArgumentError(
                f"what a worker needs cannot be sent to it: {first_lines(error)}; functions for sampling must be ones "
                "that cloudpickle can send"
            ) from error
        number = len(self._tasks)
        self._tasks.append(sent)
        for worker in self.workers:
            if worker is not None:
                worker.actor.add.remote(number, sent)
        return number

    def reconcile(self, timeout: float = 0.0) -> None:
        """Looks who has come, and who was lost on the way; waits for someone for so long."""
        waiting = {worker.ready_ref: worker for worker in self.workers if worker is not None and not worker.is_ready}
        if not waiting:
            return
        most = 1 if timeout else len(waiting)
        come, _ = self._ray.wait(list(waiting), num_returns=most, timeout=timeout)
        for ready_ref in come:
            worker = waiting[ready_ref]
            try:
                facts = self._ray.get(ready_ref)
            except self._ray.exceptions.RayError as error:
                self.lost(worker, error)
                continue
            if facts["version"] != __version__:
                raise NoWorkersError(
                    f"Ray node {facts['node']} has framespool {facts['version']}, here it is {__version__}; "
                    "install the same release everywhere"
                )
            worker.node, worker.node_id = facts["node"], facts["node_id"]
            self._losses[worker.place] = 0
            self._release_substitutes(worker)

    def _release_substitutes(self, started_worker: WorkerHandle) -> None:
        """Whoever made the started_worker's batches meanwhile makes them no more."""
        for worker in self.workers:
            if worker is None or worker is started_worker:
                continue
            for number, turn in [key for key in worker.substituting_for if key[1] == started_worker.place]:
                worker.substituting_for.discard((number, turn))
                worker.actor.release_shard.remote(number, turn)

    def worker_for(self, number: int, turn: int) -> WorkerHandle:
        """The worker for the batches of a turn: that of the place, or another one where that one keeps us waiting."""
        own = self.workers[turn]
        if own is not None and (own.is_ready or time.monotonic() - own.started < _START_GRACE_SECONDS):
            return own
        there = [worker for worker in self.workers if worker is not None and worker.is_ready]
        if there:
            already = [worker for worker in there if (number, turn) in worker.substituting_for]
            substitute = min(
                already or there,
                key=lambda worker: (len(worker.substituting_for), (worker.place - turn) % len(self.workers)),
            )
            substitute.substituting_for.add((number, turn))
            return substitute
        to_come = [worker for worker in [own, *self.workers] if worker is not None]
        if to_come:
            return to_come[0]
        raise NoWorkersError(f"all workers were lost: {self.reasons()}")

    def lost(self, worker: WorkerHandle, error: BaseException) -> None:
        """Replaces a worker that does not answer any more; asked twice, it does so once."""
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
        """What became of the workers that were lost last."""
        return "; ".join(self.loss_messages) or "none was lost"

    def check_start_timeout(self, began: float) -> None:
        """Raises where nobody has come in time to do any work that has been waited for since ``began``."""
        if any(worker is not None and worker.is_ready for worker in self.workers):
            return
        if time.monotonic() - began < self._pool_options.start_timeout:
            return
        asked = {"CPU": self._pool_options.num_cpus, **(self._pool_options.resources or {})}
        free = {name: amount for name, amount in self._ray.available_resources().items() if name in asked}
        raise NoWorkersError(
            f"no worker came within start_timeout={self._pool_options.start_timeout:g} seconds: each asks for {asked}, of "
            f"which the cluster has {free} free. Ask for less (num_cpus_per_worker), leave the trainers fewer CPUs, "
            "or, inside a placement group, pass a scheduling_strategy that names it"
        )

    def call_all(self, method: str, timeout: float) -> list[tuple[WorkerHandle, Any]]:
        """What each worker answers in time to a question that does not wait for a batch."""
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
                continue  # the next clip request finds out
        return answers

    def notify_all(self, method: str, *arguments: Any) -> None:
        """Says something to all, and waits for no answer."""
        for worker in self.workers:
            if worker is not None:
                getattr(worker.actor, method).remote(*arguments)


def _kill(ray: Any, worker: WorkerHandle) -> None:
    try:
        ray.kill(worker.actor, no_restart=True)
    except Exception as error:
        # It may be dead already, or the whole cluster.
        _log.debug("a worker could not be ended: %s", error)


def _terminate(workers: list[WorkerHandle | None], made_in: int) -> None:
    ray = import_ray()
    if os.getpid() != made_in or not ray.is_initialized():
        return
    for worker in workers:
        if worker is not None:
            _kill(ray, worker)
    workers[:] = [None] * len(workers)
