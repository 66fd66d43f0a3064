"""The workers of a loader: hired, replaced when they are lost, and sent home."""

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
from framespool.ray._errors import NoWorkersError, first_lines, the_ray
from framespool.ray._worker import Task, Worker

_log = logging.getLogger("framespool.ray")

#: Workers of a place that may be lost one after another before they said a word; then it stays empty.
_MAX_LOSSES = 3
#: Seconds that a worker may take to come before others make its batches meanwhile.
_PATIENCE = 10.0
#: Calls that are answered while a batch is being made.
_TALK = "talk"
_TALKS = ("where", "tell", "drop")


@dataclass(frozen=True)
class Terms:
    """What is asked of the cluster."""

    address: str | None
    num_workers: int
    num_cpus: float
    resources: Mapping[str, float] | None
    scheduling_strategy: Any
    runtime_env: Mapping[str, Any] | None
    start_timeout: float


@dataclass(eq=False)
class Hand:
    """One worker."""

    place: int
    actor: Any
    number: int
    #: The answer by which it is known to be there.
    hello: Any
    hired: float
    node: str | None = None
    node_id: str | None = None
    #: Turns of others that it has taken over, by task.
    helps: set[tuple[int, int]] = field(default_factory=set)

    @property
    def is_there(self) -> bool:
        """Whether it has answered."""
        return self.node is not None


class Crew:
    """``num_workers`` places, each with a worker, or with none after too many were lost there."""

    def __init__(self, terms: Terms) -> None:
        self._ray = the_ray()
        if not self._ray.is_initialized():
            self._ray.init(**({} if terms.address is None else {"address": terms.address}))
        self._terms = terms
        self._made_in = os.getpid()
        self._tasks: list[Any] = []
        #: Workers lost before they came, by place, since the last one that came; and what became of the lost ones.
        self._losses = [0] * terms.num_workers
        self.told_of_losses: list[str] = []
        self.num_lost = self._hired = 0
        #: ``None`` where a place stays empty.
        self.hands: list[Hand | None] = []
        options: dict[str, Any] = {
            "num_cpus": terms.num_cpus,
            "max_restarts": 0,
            "concurrency_groups": {_TALK: 1},
            # Said in so many words, so that workers of a trainer inside a placement group are not put into that
            # group, whose CPUs are the trainers'.
            "scheduling_strategy": terms.scheduling_strategy or "DEFAULT",
        }
        if terms.resources:
            options["resources"] = dict(terms.resources)
        if terms.runtime_env:
            options["runtime_env"] = dict(terms.runtime_env)
        for name in _TALKS:
            self._ray.method(concurrency_group=_TALK)(getattr(Worker, name))
        self._actor = self._ray.remote(**options)(Worker)
        self.node_id: str = self._ray.get_runtime_context().get_node_id()
        self._end = weakref.finalize(self, _send_home, self.hands, self._made_in)
        for place in range(terms.num_workers):
            self.hands.append(self._hire(place))

    def _hire(self, place: int) -> Hand:
        actor = self._actor.remote()
        for number, task in enumerate(self._tasks):
            actor.add.remote(number, task)
        hello = actor.where.remote()
        self._hired += 1
        return Hand(place, actor, self._hired, hello, time.monotonic())

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

    def put(self, task: Task) -> int:
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
        for hand in self.hands:
            if hand is not None:
                hand.actor.add.remote(number, sent)
        return number

    def tend(self, timeout: float = 0.0) -> None:
        """Looks who has come, and who was lost on the way; waits for someone for so long."""
        waiting = {hand.hello: hand for hand in self.hands if hand is not None and not hand.is_there}
        if not waiting:
            return
        most = 1 if timeout else len(waiting)
        come, _ = self._ray.wait(list(waiting), num_returns=most, timeout=timeout)
        for hello in come:
            hand = waiting[hello]
            try:
                facts = self._ray.get(hello)
            except self._ray.exceptions.RayError as error:
                self.lost(hand, error)
                continue
            if facts["version"] != __version__:
                raise NoWorkersError(
                    f"Ray node {facts['node']} has framespool {facts['version']}, here it is {__version__}; "
                    "install the same release everywhere"
                )
            hand.node, hand.node_id = facts["node"], facts["node_id"]
            self._losses[hand.place] = 0
            self._relieve(hand)

    def _relieve(self, newcomer: Hand) -> None:
        """Whoever made the newcomer's batches meanwhile makes them no more."""
        for hand in self.hands:
            if hand is None or hand is newcomer:
                continue
            for number, turn in [key for key in hand.helps if key[1] == newcomer.place]:
                hand.helps.discard((number, turn))
                hand.actor.leave.remote(number, turn)

    def who(self, number: int, turn: int) -> Hand:
        """The worker for the batches of a turn: that of the place, or another one where that one keeps us waiting."""
        own = self.hands[turn]
        if own is not None and (own.is_there or time.monotonic() - own.hired < _PATIENCE):
            return own
        there = [hand for hand in self.hands if hand is not None and hand.is_there]
        if there:
            already = [hand for hand in there if (number, turn) in hand.helps]
            stand_in = min(already or there, key=lambda hand: (len(hand.helps), (hand.place - turn) % len(self.hands)))
            stand_in.helps.add((number, turn))
            return stand_in
        to_come = [hand for hand in [own, *self.hands] if hand is not None]
        if to_come:
            return to_come[0]
        raise NoWorkersError(f"all workers were lost: {self.reasons()}")

    def lost(self, hand: Hand, error: BaseException) -> None:
        """Replaces a worker that does not answer any more; asked twice, it does so once."""
        if self.hands[hand.place] is not hand:
            return
        why = f"on Ray node {hand.node or 'not yet known'}: {first_lines(error)}"
        _log.warning("a worker was lost %s", why)
        self.num_lost += 1
        self.told_of_losses = [*self.told_of_losses, why][-_MAX_LOSSES:]
        self._losses[hand.place] += not hand.is_there
        _kill(self._ray, hand)
        gone = self._losses[hand.place] >= _MAX_LOSSES
        self.hands[hand.place] = None if gone else self._hire(hand.place)

    def reasons(self) -> str:
        """What became of the workers that were lost last."""
        return "; ".join(self.told_of_losses) or "none was lost"

    def too_late(self, began: float) -> None:
        """Raises where nobody has come in time to do any work that has been waited for since ``began``."""
        if any(hand is not None and hand.is_there for hand in self.hands):
            return
        if time.monotonic() - began < self._terms.start_timeout:
            return
        asked = {"CPU": self._terms.num_cpus, **(self._terms.resources or {})}
        free = {name: amount for name, amount in self._ray.available_resources().items() if name in asked}
        raise NoWorkersError(
            f"no worker came within start_timeout={self._terms.start_timeout:g} seconds: each asks for {asked}, of "
            f"which the cluster has {free} free. Ask for less (num_cpus_per_worker), leave the trainers fewer CPUs, "
            "or, inside a placement group, pass a scheduling_strategy that names it"
        )

    def ask_all(self, method: str, timeout: float) -> list[tuple[Hand, Any]]:
        """What each worker answers in time to a question that does not wait for a batch."""
        there = [hand for hand in self.hands if hand is not None and hand.is_there]
        calls = {getattr(hand.actor, method).remote(): hand for hand in there}
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

    def tell_all(self, method: str, *arguments: Any) -> None:
        """Says something to all, and waits for no answer."""
        for hand in self.hands:
            if hand is not None:
                getattr(hand.actor, method).remote(*arguments)


def _kill(ray: Any, hand: Hand) -> None:
    try:
        ray.kill(hand.actor, no_restart=True)
    except Exception as error:
        # It may be dead already, or the whole cluster.
        _log.debug("a worker could not be ended: %s", error)


def _send_home(hands: list[Hand | None], made_in: int) -> None:
    ray = the_ray()
    if os.getpid() != made_in or not ray.is_initialized():
        return
    for hand in hands:
        if hand is not None:
            _kill(ray, hand)
    hands[:] = [None] * len(hands)
