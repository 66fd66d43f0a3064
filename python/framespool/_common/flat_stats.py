"""Counters for loggers that take numbers only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def flattened(stats: Mapping[str, Any], prefix: str = "") -> dict[str, int | float]:
    """The numbers of nested dicts, with names like `"errors/invalid_data"`.

    Args:
        stats: The counters; values that are no numbers are omitted.
        prefix: What the names begin with.

    Returns:
        A flat dict.
    """
    flat: dict[str, int | float] = {}
    for name, value in stats.items():
        if isinstance(value, Mapping):
            flat |= flattened(value, f"{prefix}{name}/")
        elif isinstance(value, (int, float)):
            flat[prefix + name] = value
    return flat
