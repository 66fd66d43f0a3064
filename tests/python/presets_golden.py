"""Shared by the tests of presets: recorded draws, PyTorch's linspace in NumPy, and the comparison.

A reference computes all clips of a video from the published formula, in NumPy and plain Python, and asks a
:class:`Draws` for its random numbers. The preset then gets the recorded numbers, and must select the same
frames, clip by clip.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import framespool as fsp
import numpy as np

# Frames and mask of each clip.
Clips = list[tuple[list[int], list[bool]]]


class Draws:
    """Random numbers, recorded in the order of the draws: "low" ones, "high" ones or those of a seed."""

    def __init__(self, kind: str | int) -> None:
        self.kind = kind
        self.noted: list[int | float] = []
        self._rng = np.random.default_rng(kind if isinstance(kind, int) else 0)

    def below(self, n: int) -> int:
        """An integer from 0 to ``n - 1``: ``randint(n)``."""
        n = int(n)
        assert n > 0
        drawn = {"low": 0, "high": n - 1}[self.kind] if isinstance(self.kind, str) else int(self._rng.integers(n))
        self.noted.append(drawn)
        return drawn

    def several(self, n: int, count: int) -> np.ndarray:
        """``randint(n, size=count)``."""
        return np.array([self.below(n) for _ in range(count)], dtype=np.int64)

    def unit(self) -> float:
        """A float from 0 up to 1: ``random()``."""
        top = float(np.nextafter(1.0, 0.0))
        drawn = {"low": 0.0, "high": top}[self.kind] if isinstance(self.kind, str) else float(self._rng.random())
        self.noted.append(drawn)
        return drawn


def grid(**values: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """All combinations."""
    for combination in itertools.product(*values.values()):
        yield dict(zip(values, combination, strict=True))


def every(
    name: str,
    reference: Callable[..., Clips],
    options: dict[str, Any],
    lengths: Sequence[int],
    *,
    rates: Sequence[float] = (30.0,),
    kinds: Sequence[str | int] = ("low", "high", 1),
) -> int:
    """Compares a preset with its reference for videos of these lengths, with rates in turn, and for each kind of draws.
    Returns the number of cases: one is all clips of a video with one set of draws."""
    rule = fsp.samplers.preset(name, **options)
    cases = 0
    for i, num_frames in enumerate(lengths):
        fps = rates[i % len(rates)]
        for kind in kinds:
            draws = Draws(kind)
            expected = reference(num_frames, fps, draws, **options)
            place = f"{name} {options} of {num_frames} frames at {fps}, draws {draws.noted}"
            assert rule.clips_in(num_frames, fps=fps) == len(expected), place
            for clip, (frames, mask) in enumerate(expected):
                got = rule.frames(num_frames, fps=fps, clip=clip, draws=draws.noted)
                assert got.indices == [int(at) for at in frames], f"{place}, clip {clip}"
                assert got.mask == [bool(real) for real in mask], f"{place}, clip {clip}"
            cases += 1
            if not draws.noted:
                break  # the others are equal
    return cases


def _fused(a: np.float32, b: np.float32, c: np.float32) -> np.float32:
    """``a * b + c``, rounded once."""
    product, addend = np.float64(a) * np.float64(b), np.float64(c)  # exact: 24 bits each
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)
    # To avoid double rounding, round the sum to odd, then to float32.
    if error != 0 and int(total.view(np.int64)) % 2 == 0:
        total = np.nextafter(total, np.copysign(np.inf, error))
    return np.float32(total)


def torch_linspace(start: float, end: float, count: int) -> np.ndarray:
    """``torch.linspace(start, end, count)``, as float32, as on CPUs with fused multiply-add."""
    first, last = np.float32(start), np.float32(end)
    if count == 1:
        return np.array([first])
    step = (last - first) / np.float32(count - 1)
    lower = [_fused(step, np.float32(i), first) for i in range(count // 2)]
    upper = [_fused(-step, np.float32(count - 1 - i), last) for i in range(count // 2, count)]
    return np.array(lower + upper, dtype=np.float32)
