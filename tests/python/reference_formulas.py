"""Tools for published formulas: torch's arithmetic in NumPy, videos, and the comparison of many cases.

Nothing here comes from framespool: fused multiply-adds are computed with fractions, everything else with NumPy or plain
Python. test_installed_peers.py compares the torch functions with torch itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import count
from typing import Any

import framespool as fsp
import numpy as np


def float32(exact: Fraction) -> np.float32:
    """The float32 nearest to a fraction, half to even."""
    double = float(exact)
    near = np.float32(double)
    if Fraction(double) == exact:
        return near  # one rounding
    around = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    even = lambda value: int(value.view(np.uint32)) & 1  # noqa: E731
    return min(around, key=lambda value: (abs(Fraction(float(value)) - exact), even(value)))


def fma(a: float, b: float, c: float) -> float:
    """``a * b + c`` in float64, rounded once."""
    return float(Fraction(a) * Fraction(b) + Fraction(c))


@lru_cache(maxsize=4096)
def torch_linspace(start: int, stop: int, n: int) -> np.ndarray:
    """``torch.linspace(start, stop, n)``: float32, the lower half from ``start``, the upper half from ``stop``."""
    first, last = np.float32(start), np.float32(stop)
    if n == 1:
        return np.array([first])
    step = Fraction(float((last - first) / np.float32(n - 1)))
    low = [float32(Fraction(float(first)) + step * i) for i in range(n // 2)]
    high = [float32(Fraction(float(last)) - step * (n - 1 - i)) for i in range(n // 2, n)]
    return np.array(low + high, dtype=np.float32)


def torch_linspace_int(start: int, stop: int, n: int) -> list[int]:
    """``torch.linspace(start, stop, n, dtype=torch.int)``: steps in float64."""
    if n == 1:
        return [start]
    step = (stop - start) / (n - 1)
    return [int(start + step * i) if i < n // 2 else int(stop - step * (n - 1 - i)) for i in range(n)]


def torch_arange(start: float, stop: float, step: float, dtype: type) -> np.ndarray:
    """``torch.arange(start, stop, step, dtype=dtype)``: two registers at a time, counted from each one's first value,
    and the rest one by one."""
    workers = {np.float64: 4, np.float32: 8}[dtype]
    n = math.ceil((stop - start) / step)
    values = []
    for i in range(n):
        if i < n // (2 * workers) * (2 * workers):
            base = float(dtype(fma(step, i - i % workers, start)))
            values.append(fma(step, i % workers, base))
        else:
            values.append(fma(step, i, start))
    return np.array(values).astype(dtype)


@dataclass(frozen=True)
class VideoTiming:
    """A video: times of its frames, end of the last one, and framespool's arguments for it."""

    begins: tuple[float, ...]
    end: float
    average_fps: float
    arguments: tuple[Any, ...]
    #: Frames per second if constant: then times are exact multiples of its inverse.
    fps: float | None = None

    def __len__(self) -> int:
        return len(self.begins)

    def exact(self) -> tuple[list[Fraction], Fraction]:
        """Times of the frames and end of the last one, as exact as in framespool."""
        if self.fps is None:
            return [Fraction(t) for t in self.begins], Fraction(self.end)
        frame = 1 / Fraction(self.fps)
        return [i * frame for i in range(len(self))], len(self) * frame


def steady(frames: int, fps: float) -> VideoTiming:
    """A number of frames at a constant rate, from 0."""
    return VideoTiming(tuple(i / fps for i in range(frames)), frames / fps, fps, (frames, fps), fps)


def timed(begins: Sequence[float]) -> VideoTiming:
    """Frames at these times; the last one has the average duration."""
    end = begins[-1] + (begins[-1] - begins[0]) / (len(begins) - 1)
    return VideoTiming(tuple(begins), end, len(begins) / (end - begins[0]), (list(begins), None))


def irregular_timing(random: Any, frames: int, fps: float, begin: float = 0.0) -> VideoTiming:
    """Frames at uneven times: some late, some missing."""
    times, now = [], begin
    for _ in range(frames):
        times.append(now)
        now += random.choice([1, 1, 1, 2, 5]) * random.uniform(0.5, 1.5) / fps
    return timed(times)


def random_timing(random: Any, least: int = 1, most: int = 400) -> VideoTiming:
    """A video of any kind."""
    frames, fps = random.randint(least, most), random.choice([10.0, 24.0, 25.0, 30.0, 29.97, 30000 / 1001, 59.94, 60.0])
    if frames > 1 and random.random() < 0.4:
        return irregular_timing(random, frames, fps, random.choice([0.0, 0.0, 0.08, -0.04, 12.5]))
    return steady(frames, fps)


#: Result of a formula: frames and mask of each clip, or nothing if the original fails or finds no clip.
Clips = list[tuple[list[int], list[bool]] | None]


def real(indices: Iterable[Any]) -> tuple[list[int], list[bool]]:
    """Frames without padding."""
    frames = [int(i) for i in indices]
    return frames, [True] * len(frames)


class Comparison:
    """Compares clips, and counts the cases."""

    def __init__(self) -> None:
        self.cases = self.failures = 0

    def check(self, name: str, options: dict[str, Any], video: VideoTiming, expected: Clips, draws: Any = None) -> None:
        """Each clip of ``expected`` against framespool's, and their number."""
        rule = fsp.samplers.preset(name, **options)
        frames, fps = video.arguments
        keywords = {} if fps is None else {"fps": fps}
        place = (name, options, video.arguments, draws)
        assert rule.clips_in(frames, **keywords) == len(expected), place
        for clip, wanted in enumerate(expected):
            own = draws(clip) if callable(draws) else draws
            self.cases += 1
            try:
                sample = rule.frames(frames, clip=clip, draws=own, **keywords)
            except fsp.errors.ArgumentError as error:
                assert wanted is None, (place, clip, str(error))
                self.failures += 1
                continue
            assert wanted is not None, (place, clip, sample)
            assert (sample.indices, sample.mask) == wanted, (place, clip)


def run(cases: int, one: Callable[[Any, Comparison], None], *, failing: float = 0.5) -> None:
    """Runs ``one(random, comparison)`` for a number of cases, of which only a share may fail in the original."""
    import random as randomness

    comparison = Comparison()
    for seed in count():
        one(randomness.Random(seed), comparison)
        if comparison.cases >= cases:
            break
    assert comparison.failures <= failing * comparison.cases, (comparison.failures, comparison.cases)
