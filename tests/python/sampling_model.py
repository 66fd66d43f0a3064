"""Videos as plain numbers, and what the documentation of sampling says of them, in plain Python."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

SLACK = 1e-6
SHORTS = ("repeat", "loop", "wrap", "clamp", "blank", "drop", "error")


@dataclass
class Film:
    """A video as plain numbers, and as the arguments of ``Sampling.frames``."""

    times: list[float]
    end: float
    known: dict
    slack: float = SLACK

    @property
    def n(self):
        return len(self.times)


def steady(n, fps):
    return Film([i / fps for i in range(n)], n / fps, {"num_frames": n, "fps": fps})


def timed(times):
    last = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else 0.0
    return Film(times, times[-1] + last, {"num_frames": times})


def any_film(dice, most=60):
    n = dice.randint(1, most)
    if dice.random() < 0.4:
        return steady(n, dice.choice([24.0, 25.0, 30000 / 1001, 60.0, 7.5]))
    begin = dice.choice([0.0, 10.0, 1 / 3, 86400.0])
    gaps = {
        0: lambda: dice.random() * 0.2,
        1: lambda: dice.choice([1 / 60, 1 / 30, 1 / 15]),
        2: lambda: dice.choice([0.0, 0.04, 0.04, 0.08, 1.5]),
        3: lambda: 0.125 * dice.randint(1, 4),
    }[dice.randrange(4)]
    return timed(list(accumulate((gaps() for _ in range(n - 1)), initial=begin)))


def on_screen(film, t):
    """The frame on screen at a time, or None."""
    at = bisect_right(film.times, t + film.slack) - 1
    if at < 0 or (at == film.n - 1 and t > film.times[at] + film.slack and t + film.slack >= film.end):
        return None
    return at


def real(film, spot):
    kind, at = spot
    if kind == "second":
        return on_screen(film, at)
    return at if 0 <= at < film.n else None


def looped(film, spot):
    kind, at = spot
    if kind == "frame":
        return at % film.n
    span = film.end - film.times[0]
    into = (at - film.times[0]) % span if span > 0 else 0.0
    return on_screen(film, film.times[0] + (into if into + film.slack < span else 0.0))


def nearest(film, spot):
    kind, at = spot
    return 0 if (at < 0 if kind == "frame" else at < film.times[0]) else film.n - 1


def filled(film, spots, short):
    """(indices, mask), or "error"."""
    found = [real(film, spot) for spot in spots]
    there = [at for at in found if at is not None]
    if short == "error" and len(there) < len(found):
        return "error"
    indices, last = [], None
    for i, (spot, at) in enumerate(zip(spots, found, strict=True)):
        if at is None:
            edge = nearest(film, spot)
            at = {
                "repeat": last if last is not None else edge,
                "blank": last if last is not None else edge,
                "loop": looped(film, spot),
                "drop": looped(film, spot),
                "wrap": there[i % len(there)] if there else edge,
                "clamp": edge,
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

    def spots(self, film, start, moved=None):
        moved = moved or [0] * self.length
        if self.stride:
            return [("frame", start + i * self.stride + m) for i, m in enumerate(moved)]
        return [("second", film.times[start] + (i + m) / self.fps) for i, m in enumerate(moved)]

    def starts(self, film, jitter=False):
        """How many frames a clip can start with so that all of it fits."""
        gaps = self.length - (not jitter)
        if self.stride:
            return sum(s + gaps * self.stride + (not jitter) <= film.n for s in range(film.n))
        if jitter:
            return sum(t + gaps / self.fps <= film.end + film.slack for t in film.times)
        return sum(on_screen(film, t + gaps / self.fps) is not None for t in film.times)


def any_spacing(dice):
    length = dice.randint(1, 12)
    kind = dice.randrange(3)
    if kind == 0:
        stride = dice.choice([1, 1, 2, 3, 7])
        return Spacing(length, stride=stride, words={"sequence_length": length, "stride": stride})
    if kind == 1:
        fps = dice.choice([5.0, 8.0, 10.0, 12.5, 25.0, 30.0, 50.0, 8 * dice.random() + 1])
        return Spacing(length, fps=fps, words={"sequence_length": length, "fps": fps})
    duration = dice.choice([0.5, 1.0, 2.0, dice.random() * 3 + 0.1])
    return Spacing(length, fps=length / duration, words={"sequence_length": length, "duration_seconds": duration})
