"""Compares the results of two backends: the same bytes, or the same kind of error at the same position."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import framespool as fsp


@dataclass
class Comparison:
    """Summary of the comparisons so far."""

    frames: int = 0
    cases: int = 0
    errors: int = 0
    differing: int = 0
    worst: int = 0
    first: str = ""

    def note(self, place: str, difference: str, worst: int = 0) -> None:
        self.differing += 1
        self.worst = max(self.worst, worst)
        self.first = self.first or f"{place}: {difference}"

    @property
    def same(self) -> bool:
        return self.differing == 0


@dataclass
class Outcome:
    """The result of one call: tensors, or an error."""

    tensors: list[Any] = field(default_factory=list)
    error: fsp.Error | None = None

    @classmethod
    def of(cls, call: Any) -> Outcome:
        try:
            answer = call()
        except fsp.Error as error:
            return cls(error=error)
        return cls(tensors=answer if isinstance(answer, list) else [answer])


def differ(place: str, ours: Outcome, theirs: Outcome, into: Comparison) -> None:
    """Compares two outcomes; `theirs` is the CPU's, which is the reference."""
    into.cases += 1
    if theirs.error is not None or ours.error is not None:
        into.errors += 1
        if error_location(ours.error) != error_location(theirs.error):
            into.note(place, f"GPU {say(ours.error)}, CPU {say(theirs.error)}")
        return
    into.frames += sum(t.shape[0] if len(t.shape) > 3 else 1 for t in theirs.tensors)
    if [(t.shape, t.dtype) for t in ours.tensors] != [(t.shape, t.dtype) for t in theirs.tensors]:
        into.note(place, f"GPU {ours.tensors!r}, CPU {theirs.tensors!r}")
        return
    for a, b in zip(ours.tensors, theirs.tensors, strict=True):
        ours_bytes, theirs_bytes = a.tobytes(), b.tobytes()
        if ours_bytes != theirs_bytes:
            wrong, first, worst = byte_difference(ours_bytes, theirs_bytes)
            share = wrong / max(len(theirs_bytes), 1)
            into.note(
                place, f"{wrong} bytes ({share:.2%}) differ, by {worst} at most, the first is byte {first}", worst
            )


def byte_difference(a: bytes, b: bytes) -> tuple[int, int, int]:
    """Number of different bytes, position of the first one, and the largest difference."""
    try:
        import numpy as np
    except ImportError:
        pairs = [(i, abs(x - y)) for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
        return len(pairs), pairs[0][0], max(difference for _, difference in pairs)
    left, right = np.frombuffer(a, np.uint8), np.frombuffer(b, np.uint8)
    (wrong,) = np.nonzero(left != right)
    return len(wrong), int(wrong[0]), int(np.abs(left[wrong].astype(np.int16) - right[wrong]).max())


def error_location(error: fsp.Error | None) -> Any:
    """The parts on which two backends must agree: the kind of error and its position."""
    return None if error is None else (type(error), getattr(error, "packet", None), getattr(error, "frame", None))


def say(error: fsp.Error | None) -> str:
    return "gave frames" if error is None else f"raised {type(error).__name__}: {error}"


def batches(loader: fsp.ClipLoader) -> Iterable[tuple[Outcome, Any]]:
    """Each batch of an epoch, or the error in its position; batches after an error are included."""
    running = iter(loader)
    for _ in range(len(loader)):
        held: list[Any] = []

        def take(running: Any = running, held: list[Any] = held) -> Any:
            held.append(next(running))
            return held[0].frames

        try:
            outcome = Outcome.of(take)
        except StopIteration:
            return
        yield outcome, held[0] if held else None
