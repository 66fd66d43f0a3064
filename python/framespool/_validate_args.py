"""Checks of what users give: the value, or an error that repeats it back."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping, Set
from typing import Any

from framespool.errors import ArgumentError

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def is_url(path: str | bytes) -> bool:
    """Whether a path is a URL, which the functions of ``os.path`` would spoil."""
    return isinstance(path, str) and _URL.match(path) is not None


def integer(name: str, value: Any, *, least: int = 0, most: int = 2**32 - 1) -> int:
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


def number(
    name: str,
    value: Any,
    *,
    least: float = -math.inf,
    most: float = math.inf,
    above: float = -math.inf,
    below: float = math.inf,
) -> float:
    """``value`` as a finite float (NumPy's too), from ``least`` to ``most`` and between ``above`` and ``below``."""
    try:
        if isinstance(value, (bool, str, bytes)):
            raise TypeError
        result = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(f"{name} must be a number, got {value!r}") from None
    if not math.isfinite(result):
        raise ArgumentError(f"{name} must be finite, got {value!r}")
    if result < least:
        raise ArgumentError(f"{name} must be at least {least:g}, got {value!r}")
    if result > most:
        raise ArgumentError(f"{name} must be at most {most:g}, got {value!r}")
    if result <= above:
        raise ArgumentError(f"{name} must be greater than {above:g}, got {value!r}")
    if result >= below:
        raise ArgumentError(f"{name} must be less than {below:g}, got {value!r}")
    return result


def device_number(device: Any) -> int | None:
    """The number of a GPU, as such or in ``"cuda:0"``, ``"cuda"`` (which is 0) or a torch.device; ``None`` for
    ``"cpu"``."""
    if not isinstance(device, (str, bool)) and hasattr(device, "__index__"):
        return integer("device", device, most=9999)
    text = str(device)
    if text == "cpu":
        return None
    match = re.fullmatch(r"cuda(?::(\d{1,4}))?", text)
    if match is None:
        raise ArgumentError(f'device must be "cpu", "cuda", "cuda:N" or N, got {device!r}')
    return int(match[1] or 0)


_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def byte_size(name: str, value: Any) -> int:
    """A number of bytes, or a string such as ``"2GiB"`` or ``"500 MB"``, as an int."""
    if not isinstance(value, str):
        return integer(name, value, most=2**63)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", value)
    unit = _UNITS.get((match[2] or "B").upper()) if match else None
    if match is None or unit is None:
        raise ArgumentError(f'{name} must be a number of bytes or a string such as "2GiB", got {value!r}')
    return integer(name, int(float(match[1]) * unit), most=2**63)


def as_sequence(value: Any) -> tuple[Any, ...] | None:
    """The entries of a list, tuple or array; ``None`` if it is a single thing."""
    if isinstance(value, (str, bytes, Mapping, Set)):
        return None
    try:
        return tuple(value)
    except TypeError:
        return None


def numbers(name: str, value: Any, count: int, **limits: float) -> tuple[float, ...]:
    """``value`` as ``count`` numbers, each within ``limits`` as in :func:`number`."""
    entries = as_sequence(value)
    if entries is None or len(entries) != count:
        raise ArgumentError(f"{name} must be {count} numbers, got {value!r}")
    return tuple(number(name, entry, **limits) for entry in entries)


def span(name: str, value: Any, **limits: float) -> tuple[float, float]:
    """``value`` as (low, high), both within ``limits``."""
    entries = as_sequence(value)
    if entries is None or len(entries) != 2:
        raise ArgumentError(f"{name} must be (low, high), got {value!r}")
    low, high = (number(name, entry, **limits) for entry in entries)
    if low > high:
        raise ArgumentError(f"{name} must be (low, high) with low <= high, got {value!r}")
    return low, high


def boolean(name: str, value: Any) -> bool:
    """``value`` as a bool."""
    if not isinstance(value, bool):
        raise ArgumentError(f"{name} must be True or False, got {value!r}")
    return value


def choice(name: str, value: Any, words: tuple[str, ...]) -> str:
    """``value``, which must be one of ``words``."""
    if not isinstance(value, str) or value not in words:
        known = ", ".join(f'"{word}"' for word in words)
        shown = f'"{value}"' if isinstance(value, str) else repr(value)
        raise ArgumentError(f"{name} must be one of {known}, got {shown}")
    return value


def stream_index(stream: Any) -> int | None:
    """``stream`` as the engine takes it: an index among all streams of a file, or ``None`` for the default one."""
    return None if stream is None else integer("stream", stream, most=2**32 - 1)
