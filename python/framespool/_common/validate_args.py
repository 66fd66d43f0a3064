"""Validation of arguments: each function returns the value, or raises an error that repeats it."""

from __future__ import annotations

import functools
import math
import operator
import os
import re
import sys
from collections.abc import Callable, Mapping, Set
from typing import Any, Literal, TypeVar, get_args

from framespool import _framespool
from framespool.errors import ArgumentError

#: Element types of frames.
Dtype = Literal["uint8", "uint16", "float16", "bfloat16", "float32"]
#: Orders of the dimensions of a clip.
ClipLayout = Literal["THWC", "TCHW", "CTHW"]
#: Orders of the dimensions of a batch of clips: those of a clip after N.
BatchLayout = Literal["NTCHW", "NCTHW", "NTHWC"]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


_F = TypeVar("_F", bound=Callable[..., Any])


def keyword_hints(hints: Mapping[str, str]) -> Callable[[_F], _F]:
    """Decorates a function so that keywords of other libraries are refused with what to write instead.

    Args:
        hints: What to write instead of each keyword.

    Returns:
        The decorator. The function raises a `TypeError` for these keywords, as for any that it does not have.
    """

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def hinting(*args: Any, **keywords: Any) -> Any:
            for name in keywords:
                if name in hints:
                    called = function.__qualname__.removesuffix(".__init__")
                    raise TypeError(f"{called}() has no argument {name!r}: use {hints[name]}")
            return function(*args, **keywords)

        return hinting  # type: ignore[return-value]

    return decorate


def user_stacklevel() -> int:
    """Returns the `stacklevel` with which `warnings.warn`, called by the caller, names the code that uses this package.

    Returns:
        The level.
    """
    package = os.path.dirname(os.path.dirname(__file__)) + os.sep
    frame, level = sys._getframe(1), 1
    while frame.f_code.co_filename.startswith(package) and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    return level


def is_url(path: str | bytes) -> bool:
    """Whether a path is a URL, which the functions of `os.path` would damage.

    Args:
        path: The path.

    Returns:
        Whether it starts with a scheme.
    """
    return isinstance(path, str) and _URL.match(path) is not None


def display_path(path: str) -> str:
    """The name of a path in messages, files and representations: every way out of the process uses it.

    Args:
        path: The path or URL.

    Returns:
        The path; a URL without user name, password and content of the query.
    """
    return _framespool.display_name(path) if is_url(path) else path


def display_repr(value: Any) -> str:
    """As `repr()`, with `display_path()` of each URL.

    Args:
        value: A value that may be or contain a path.

    Returns:
        The representation.
    """
    if type(value) is list or type(value) is tuple:
        inner = ", ".join(map(display_repr, value))
        return f"[{inner}]" if type(value) is list else f"({inner}{',' if len(value) == 1 else ''})"
    return repr(display_path(value) if isinstance(value, str) else value)


def integer(name: str, value: Any, *, least: int = 0, most: int = 2**32 - 1) -> int:
    """Validates an int; NumPy's integers are accepted.

    Args:
        name: Name of the argument.
        value: Its value.
        least: Lower limit.
        most: Upper limit.

    Returns:
        The value as an int.

    Raises:
        ArgumentError: If the value is not an int or out of range.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise ArgumentError(f"{name} must be an int, got {value!r}") from None
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
    """Validates a finite float; NumPy's numbers are accepted.

    Args:
        name: Name of the argument.
        value: Its value.
        least: Lower limit, included.
        most: Upper limit, included.
        above: Lower limit, excluded.
        below: Upper limit, excluded.

    Returns:
        The value as a float.

    Raises:
        ArgumentError: If the value is not a finite number or out of range.
    """
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


def is_gpu(device: Any) -> bool:
    """Validates a device, without choosing a GPU.

    Args:
        device: As for `device_number()`.

    Returns:
        Whether it is a GPU.

    Raises:
        ArgumentError: If the value is no device.
    """
    if not isinstance(device, (str, bool)) and hasattr(device, "__index__"):
        return integer("device", device, most=9999) >= 0
    if not re.fullmatch(r"cpu|cuda(:\d{1,4})?", str(device)):
        raise ArgumentError(f'device must be "cpu", "cuda", "cuda:N" or N, got {device!r}')
    return str(device) != "cpu"


def device_number(device: Any) -> int | None:
    """Converts a device to the number of a GPU.

    Args:
        device: `"cpu"`, `"cuda"` (see `current_gpu()`), `"cuda:N"`, N, or a `torch.device`.

    Returns:
        The number of the GPU, `None` for the CPU.

    Raises:
        ArgumentError: If the value is anything else, or if it is not clear which GPU is meant.
    """
    if not is_gpu(device):
        return None
    if not isinstance(device, str) and hasattr(device, "__index__"):
        return operator.index(device)
    _, _, number = str(device).partition(":")
    return int(number) if number else current_gpu()


def current_gpu(ambiguous: int | None = None) -> int:
    """Chooses the GPU of this process where the caller names none.

    Args:
        ambiguous: What to return if there are several and nothing says which one is meant.

    Returns:
        PyTorch's current GPU, if PyTorch has initialized CUDA in this process. Otherwise the only GPU, or that of the
        environment variable `LOCAL_RANK`, which torchrun and other launchers set.

    Raises:
        ArgumentError: If there are several GPUs and nothing says which one is meant.
    """
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None and cuda.is_initialized():
        return int(cuda.current_device())
    count = _framespool.gpu_count()
    if count <= 1:
        return 0  # without a GPU, the engine raises an error with the reason
    rank = os.environ.get("LOCAL_RANK")
    if rank is not None:
        if rank.isdecimal() and int(rank) < count:
            return int(rank)
        raise ArgumentError(
            f'device="cuda" is the GPU of LOCAL_RANK={rank}, but this process sees {count} GPUs, counted from 0; start '
            'fewer processes, or name the GPU, such as device="cuda:0"'
        )
    if ambiguous is not None:
        return ambiguous
    raise ArgumentError(
        f'device="cuda" does not say which of the {count} GPUs is meant; name one, such as device="cuda:0", or call '
        "torch.cuda.set_device() before"
    )


_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def byte_size(name: str, value: Any) -> int:
    """Converts a size to bytes.

    Args:
        name: Name of the argument.
        value: A number of bytes, or a string such as `"2GiB"` or `"500 MB"`.

    Returns:
        Bytes.

    Raises:
        ArgumentError: If the value is anything else.
    """
    if not isinstance(value, str):
        return integer(name, value, most=2**63)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", value)
    unit = _UNITS.get((match[2] or "B").upper()) if match else None
    if match is None or unit is None:
        raise ArgumentError(f'{name} must be a number of bytes or a string such as "2GiB", got {value!r}')
    return integer(name, int(float(match[1]) * unit), most=2**63)


def as_sequence(value: Any) -> tuple[Any, ...] | None:
    """The entries of a list, tuple or array.

    Args:
        value: The value.

    Returns:
        The entries; `None` for a single value, a string, a mapping or a set.
    """
    if isinstance(value, (str, bytes, Mapping, Set)):
        return None
    try:
        return tuple(value)
    except TypeError:
        return None


def numbers(name: str, value: Any, count: int, **limits: float) -> tuple[float, ...]:
    """Validates a fixed number of numbers.

    Args:
        name: Name of the argument.
        value: Its value.
        count: How many numbers it must have.
        limits: As for `number()`.

    Returns:
        The numbers as floats.

    Raises:
        ArgumentError: If the value does not have `count` entries, or one is invalid.
    """
    entries = as_sequence(value)
    if entries is None or len(entries) != count:
        raise ArgumentError(f"{name} must be {count} numbers, got {value!r}")
    return tuple(number(name, entry, **limits) for entry in entries)


def span(name: str, value: Any, **limits: float) -> tuple[float, float]:
    """Validates a range of numbers.

    Args:
        name: Name of the argument.
        value: Its value, (low, high).
        limits: As for `number()`, for both.

    Returns:
        (low, high) as floats.

    Raises:
        ArgumentError: If the value is not (low, high) with low <= high, or one is invalid.
    """
    entries = as_sequence(value)
    if entries is None or len(entries) != 2:
        raise ArgumentError(f"{name} must be (low, high), got {value!r}")
    low, high = (number(name, entry, **limits) for entry in entries)
    if low > high:
        raise ArgumentError(f"{name} must be (low, high) with low <= high, got {value!r}")
    return low, high


#: Significant bits of the types that are less exact than Python's floats, by the name of the dtype.
_PRECISION_BITS = {"float32": 24, "float16": 11, "bfloat16": 8}


def rounding(value: Any) -> float:
    """By how much a number may differ from the one that was rounded to its type.

    A time of a video in float32, such as a timestamp of LeRobot, is often earlier than the frame that it is meant for.

    Args:
        value: A number, also of NumPy, PyTorch or JAX.

    Returns:
        Half the distance to the next number of the type; 0 for Python's numbers and for float64.
    """
    bits = _PRECISION_BITS.get(str(getattr(value, "dtype", "")).rpartition(".")[2])
    if bits is None or not value:
        return 0.0
    return math.ldexp(0.5, math.frexp(float(value))[1] - bits)


def boolean(name: str, value: Any) -> bool:
    """Validates a bool.

    Args:
        name: Name of the argument.
        value: Its value.

    Returns:
        The value.

    Raises:
        ArgumentError: If the value is not a bool.
    """
    if not isinstance(value, bool):
        raise ArgumentError(f"{name} must be True or False, got {value!r}")
    return value


def choice(name: str, value: Any, words: tuple[str, ...]) -> str:
    """Validates one of several words.

    Args:
        name: Name of the argument.
        value: Its value.
        words: The allowed words.

    Returns:
        The value.

    Raises:
        ArgumentError: If the value is not one of the words.
    """
    if not isinstance(value, str) or value not in words:
        known = ", ".join(f'"{word}"' for word in words)
        shown = f'"{value}"' if isinstance(value, str) else repr(value)
        raise ArgumentError(f"{name} must be one of {known}, got {shown}")
    return value


def check_dtype(dtype: Any) -> str:
    """Validates the element type of frames.

    Args:
        dtype: The argument.

    Returns:
        The value.

    Raises:
        ArgumentError: If the value is not one of the types.
    """
    return choice("dtype", dtype, get_args(Dtype))


def batch_layout(layout: Any) -> BatchLayout:
    """Validates the layout of a clip.

    Args:
        layout: The argument.

    Returns:
        The layout of a batch of such clips, which the engine takes.

    Raises:
        ArgumentError: If the value is not one of the layouts.
    """
    return "N" + choice("layout", layout, get_args(ClipLayout))  # type: ignore[return-value]


def stream_index(stream: Any) -> int | None:
    """Validates the index of a stream.

    Args:
        stream: An index among all streams of a file, or `None` for the default one.

    Returns:
        The index, or `None`.

    Raises:
        ArgumentError: If the value is anything else.
    """
    return None if stream is None else integer("stream", stream, most=2**32 - 1)
