"""A model of the documented clip samplers in plain Python, over videos as plain numbers."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

SLACK = 1e-6
PADDING_POLICIES = ("repeat", "loop", "wrap", "edge", "blank", "drop", "error")


@dataclass
class VideoTiming:
    """A video as plain numbers, and as the arguments of ``ClipSampler.frames``."""

    times: list[float]
    end: float
    known: dict
    slack: float = SLACK

    @property
    def n(self):
        return len(self.times)


def steady(n, fps):
    return VideoTiming([i / fps for i in range(n)], n / fps, {"num_frames": n, "fps": fps})


def timed(times):
    last = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else 0.0
    return VideoTiming(times, times[-1] + last, {"num_frames": times})


def random_timing(rng, most=60):
    n = rng.randint(1, most)
    if rng.random() < 0.4:
        return steady(n, rng.choice([24.0, 25.0, 30000 / 1001, 60.0, 7.5]))
    begin = rng.choice([0.0, 10.0, 1 / 3, 86400.0])
    gaps = {
        0: lambda: rng.random() * 0.2,
        1: lambda: rng.choice([1 / 60, 1 / 30, 1 / 15]),
        2: lambda: rng.choice([0.0, 0.04, 0.04, 0.08, 1.5]),
        3: lambda: 0.125 * rng.randint(1, 4),
    }[rng.randrange(4)]
    return timed(list(accumulate((gaps() for _ in range(n - 1)), initial=begin)))


def on_screen(timing, t):
    """The frame on screen at a time, or None."""
    at = bisect_right(timing.times, t + timing.slack) - 1
    if at < 0 or (at == timing.n - 1 and t > timing.times[at] + timing.slack and t + timing.slack >= timing.end):
        return None
    return at


def real(timing, position):
    kind, at = position
    if kind == "second":
        return on_screen(timing, at)
    return at if 0 <= at < timing.n else None


def looped(timing, position):
    kind, at = position
    if kind == "frame":
        return at % timing.n
    span = timing.end - timing.times[0]
    into = (at - timing.times[0]) % span if span > 0 else 0.0
    return on_screen(timing, timing.times[0] + (into if into + timing.slack < span else 0.0))


def nearest(timing, position):
    kind, at = position
    return 0 if (at < 0 if kind == "frame" else at < timing.times[0]) else timing.n - 1


def padded_indices(timing, positions, short):
    """(indices, mask), or "error"."""
    found = [real(timing, position) for position in positions]
    there = [at for at in found if at is not None]
    if short == "error" and len(there) < len(found):
        return "error"
    indices, last = [], None
    for i, (position, at) in enumerate(zip(positions, found, strict=True)):
        if at is None:
            edge = nearest(timing, position)
            at = {
                "repeat": last if last is not None else edge,
                "blank": last if last is not None else edge,
                "loop": looped(timing, position),
                "drop": looped(timing, position),
                "wrap": there[i % len(there)] if there else edge,
                "edge": edge,
            }[short]
        else:
            last = at
        indices.append(at)
    return indices, [at is not None for at in found]


@dataclass
class Spacing:
    length: int
    stride: int | None = None
    fps: float | None = None
    words: dict | None = None

    def positions(self, timing, start, moved=None):
        moved = moved or [0] * self.length
        if self.stride:
            return [("frame", start + i * self.stride + m) for i, m in enumerate(moved)]
        return [("second", timing.times[start] + (i + m) / self.fps) for i, m in enumerate(moved)]

    def starts(self, timing, jitter=False):
        """The number of start frames from which a complete clip fits."""
        gaps = self.length - (not jitter)
        if self.stride:
            return sum(s + gaps * self.stride + (not jitter) <= timing.n for s in range(timing.n))
        if jitter:
            return sum(t + gaps / self.fps <= timing.end + timing.slack for t in timing.times)
        return sum(on_screen(timing, t + gaps / self.fps) is not None for t in timing.times)

    def at_speed(self, factor):
        if self.stride:
            return Spacing(self.length, stride=max(1, math.floor(self.stride * factor + 0.5)))
        return Spacing(self.length, fps=self.fps / factor)


def random_spacing(rng):
    length = rng.randint(1, 12)
    kind = rng.randrange(3)
    if kind == 0:
        stride = rng.choice([1, 1, 2, 3, 7])
        return Spacing(length, stride=stride, words={"sequence_length": length, "stride": stride})
    if kind == 1:
        fps = rng.choice([5.0, 8.0, 10.0, 12.5, 25.0, 30.0, 50.0, 8 * rng.random() + 1])
        return Spacing(length, fps=fps, words={"sequence_length": length, "fps": fps})
    duration = rng.choice([0.5, 1.0, 2.0, rng.random() * 3 + 0.1])
    return Spacing(length, fps=length / duration, words={"sequence_length": length, "duration_seconds": duration})
