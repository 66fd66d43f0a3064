"""Checks of numbers that users give."""

from __future__ import annotations

import operator
from typing import Any

from framespool.errors import ArgumentError


def whole(name: str, value: Any, *, least: int = 0, most: int = 2**32 - 1) -> int:
    """``value`` as an int (NumPy's integers too), from ``least`` to ``most``."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise ArgumentError(f"{name} must be a whole number, got {value!r}") from None
    if number < least:
        raise ArgumentError(f"{name} must be at least {least}, got {number}")
    if number > most:
        raise ArgumentError(f"{name} must be at most {most}, got {number}")
    return number
