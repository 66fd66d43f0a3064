"""Counters of loaders: how those of several engines merge, and what follows from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from framespool import _framespool

#: Counters of an engine on Ray beyond those of a local one: name, and how those of several engines merge.
_REMOTE = {"bytes_received": "sum", "receiving_seconds": "sum", "workers_by_node": "first", "workers_lost": "first"}

#: How a counter of several engines merges: "sum", "max" or "first".
_MERGE = {name: merge for _, name, _, merge in _framespool.counters()} | _REMOTE


def _decoded_per_delivered(stats: Mapping[str, Any]) -> float:
    # Ray's engine has no counters of its workers until one has answered.
    return float(stats.get("frames_decoded", 0) / stats["frames"]) if stats["frames"] else 0.0


#: Values that follow from the counters: name, meaning, function of the counters.
DERIVED: tuple[tuple[str, str, Callable[[Mapping[str, Any]], float]], ...] = (
    (
        "frames_decoded_per_frame_delivered",
        "`frames_decoded / frames`, the cost of a delivered frame; 0 before the first batch.",
        _decoded_per_delivered,
    ),
)


def merged(engines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The counters of several engines together.

    Args:
        engines: The counters of each, by name.

    Returns:
        The counters by name.
    """
    total: dict[str, Any] = {}
    for stats in engines:
        for name, value in stats.items():
            rule, before = _MERGE[name], total.get(name)
            if before is None:
                total[name] = value
            elif rule == "max":
                total[name] = max(before, value)
            elif rule == "sum":
                total[name] = dict(Counter(before) + Counter(value)) if isinstance(value, Mapping) else before + value
    return total


def with_derived(stats: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the values that follow from the counters.

    Args:
        stats: The counters by name, merged.

    Returns:
        The counters, and the values of `DERIVED`.
    """
    return {**stats, **{name: function(stats) for name, _, function in DERIVED}}


def difference(after: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """What was counted between two calls of `stats()`.

    Args:
        after: The counters of the later call.
        before: The counters of the earlier call.

    Returns:
        The later counters, of which numbers are differences, except for limits and peaks; derived values are of the
        differences.
    """
    counted = {
        name: value - before[name] if isinstance(value, (int, float)) and _MERGE.get(name, "max") != "max" else value
        for name, value in after.items()
    }
    return with_derived(counted)
