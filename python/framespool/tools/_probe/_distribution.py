"""Distributions of numbers, with the intervals of a histogram."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

#: Intervals of a histogram at most, and the ratio of the largest to the smallest number above which they grow.
_MAX_BINS, _WIDE = 12, 20.0


@dataclass(frozen=True)
class Distribution:
    """Numbers of a dataset, such as the durations of its videos.

    Attributes:
        count: How many there are.
        min: The smallest.
        median: The median, the lower one of two.
        mean: The mean.
        max: The largest.
        bins: (low, high, count) of each interval of a histogram, in ascending order. A number is in the interval where
            `low <= number < high`. Intervals of numbers that differ widely grow by factors of 2 to 2.5.

    Example:
        >>> import framespool as fsp
        >>> durations = fsp.tools.probe(fsp.datasets.folder("videos/")).durations
        >>> durations.count, durations.min <= durations.median <= durations.max
        (3, True)
        >>> sum(count for low, high, count in durations.bins)
        3
    """

    count: int
    min: float
    median: float
    mean: float
    max: float
    bins: tuple[tuple[float, float, int], ...]


def distribution(counts: Mapping[float, int]) -> Distribution | None:
    """The distribution of numbers.

    Args:
        counts: How many times each number occurs; none is negative.

    Returns:
        The distribution, or `None` if there are no numbers.
    """
    numbers = sorted(counts)
    total = sum(counts.values())
    if not total:
        return None
    edges = _edges(numbers[0], numbers[-1], all(isinstance(number, int) for number in numbers))
    bins = [0] * (len(edges) - 1)
    median, before = numbers[0], 0
    for number in numbers:
        bins[bisect_right(edges, number) - 1] += counts[number]
        if before < (total + 1) // 2:
            median = number
        before += counts[number]
    return Distribution(
        count=total,
        min=numbers[0],
        median=median,
        mean=math.fsum(number * count for number, count in counts.items()) / total,
        max=numbers[-1],
        bins=tuple(zip(edges[:-1], edges[1:], bins, strict=True)),
    )


def _edges(least: float, most: float, are_ints: bool) -> list[float]:
    """Round limits of intervals; the last one is above `most`."""
    if most > _WIDE * max(least, 1 if are_ints else 0.1):
        steps = [factor * 10**power for power in range(15) for factor in (1, 2, 5)]
        series: list[float] = [step for step in steps if are_ints] or [0.1, 0.2, 0.5, *steps]
        first = max(0, bisect_right(series, least) - 1)
        last = bisect_right(series, most)
        return [*([0] if least < series[0] else []), *series[first : last + 1]]
    step = _step((most - least) / _MAX_BINS, are_ints)
    # One more at both ends, since a quotient may be rounded to the next integer.
    first, last = math.floor(least / step) - 1, math.floor(most / step) + 2
    edges: list[float] = [round(number * step, 9) for number in range(max(first, 0), last + 1)]
    return edges[bisect_right(edges, least) - 1 : bisect_right(edges, most) + 1]


def _step(width: float, are_ints: bool) -> float:
    """The smallest of 1, 2, 5, 10, … (or of their fractions) that is at least `width`."""
    width = max(width, 1e-6)
    power = math.floor(math.log10(width))
    steps: list[float] = [factor * 10.0**exponent for exponent in (power, power + 1) for factor in (1, 2, 5)]
    step = next(step for step in steps if step >= width * (1 - 1e-9))
    return max(1, round(step)) if are_ints else step
