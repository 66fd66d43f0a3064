"""Validation of the arguments of transforms, and their form for the engine."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

from framespool._common.validate_args import as_sequence, integer, number, numbers, span
from framespool.errors import ArgumentError

if TYPE_CHECKING:
    from framespool._framespool import Step


#: Largest side in pixels.
MAX_SIDE = 65535


def as_sides(name: str, size: Any) -> tuple[int, ...]:
    """Validates one or two sides.

    Args:
        name: Name of the transform.
        size: An int or (height, width) in pixels.

    Returns:
        One or two ints.

    Raises:
        ArgumentError: If the value is anything else.
    """
    sides = as_sequence(size)
    if sides is None:
        sides = (size,)
    if len(sides) not in (1, 2):
        raise ArgumentError(f"{name}: size must be an int or (height, width), got {size!r}")
    return tuple(integer(f"{name}: size", side, least=1, most=MAX_SIDE) for side in sides)


def as_size(name: str, size: Any) -> tuple[int, int]:
    """Validates a size.

    Args:
        name: Name of the transform.
        size: An int for a square, or (height, width) in pixels.

    Returns:
        (height, width).

    Raises:
        ArgumentError: If the value is anything else.
    """
    sides = as_sides(name, size)
    return sides[0], sides[-1]


def as_padding(name: str, padding: Any) -> tuple[int, int, int, int]:
    """Validates padding.

    Args:
        name: Name of the transform.
        padding: 1, 2 or 4 ints in pixels.

    Returns:
        (left, top, right, bottom).

    Raises:
        ArgumentError: If the value is anything else.
    """
    entries = as_sequence(padding)
    if entries is None:
        entries = (padding,)
    if len(entries) not in (1, 2, 4):
        expected = "an int, (left and right, top and bottom) or (left, top, right, bottom)"
        raise ArgumentError(f"{name}: padding must be {expected}, got {padding!r}")
    pixels = [integer(f"{name}: padding", entry, most=MAX_SIDE) for entry in entries]
    left, top, right, bottom = pixels * (4 // len(pixels))
    return left, top, right, bottom


def as_padding_mode(name: str, mode: Any) -> None:
    """Checks that the padding mode is "constant", the only one that is supported.

    Args:
        name: Name of the transform.
        mode: The padding mode.

    Raises:
        ArgumentError: If it is another one.
    """
    if mode != "constant":
        raise ArgumentError(f'{name}: padding_mode {mode!r} is not supported; use "constant" with a fill')


def as_channels(name: str, value: Any, **limits: float) -> tuple[float, float, float]:
    """Validates one number per channel.

    Args:
        name: Name of the argument.
        value: Three numbers, or one for all channels.
        limits: As for `_validate_args.number`.

    Returns:
        (R, G, B).

    Raises:
        ArgumentError: If the value is anything else.
    """
    entries = as_sequence(value)
    if entries is None:
        entries = (value,)
    if len(entries) not in (1, 3):
        raise ArgumentError(f"{name} must be a number or three numbers, one per channel, got {value!r}")
    triple = [number(name, entry, **limits) for entry in entries] * (3 // len(entries))
    return triple[0], triple[1], triple[2]


def as_fill(name: str, fill: Any) -> tuple[float, float, float]:
    """Validates a fill.

    Args:
        name: Name of the transform.
        fill: A number or (R, G, B), 0 to 255.

    Returns:
        (R, G, B).

    Raises:
        ArgumentError: If the value is anything else.
    """
    return as_channels(f"{name}: fill", fill, least=0, most=255)


def as_erase_fill(name: str, value: Any) -> tuple[float, float, float] | Literal["random"]:
    """Validates the fill of erased pixels. Its range depends on whether `Normalize` precedes it.

    Args:
        name: Name of the argument.
        value: A number, (R, G, B) or `"random"`.

    Returns:
        (R, G, B) or `"random"`.

    Raises:
        ArgumentError: If the value is anything else.
    """
    if isinstance(value, str):
        if value != "random":
            raise ArgumentError(f'{name} must be a number, three numbers or "random", got {value!r}')
        return "random"
    return as_channels(name, value)


def as_probability(name: str, p: Any) -> float:
    """Validates a probability.

    Args:
        name: Name of the transform.
        p: A number from 0 to 1.

    Returns:
        The number.

    Raises:
        ArgumentError: If the value is anything else.
    """
    return number(f"{name}: p", p, least=0, most=1)


def as_interpolation(name: str, interpolation: Any, *, resizes: bool = False) -> str:
    # The enums of torchvision and PIL have these names; PIL.Image.NEAREST, BILINEAR and BICUBIC are 0, 2 and 3.
    """Validates an interpolation.

    Args:
        name: Name of the transform.
        interpolation: A name, or a constant of torchvision or PIL.
        resizes: Whether the transform resizes, for which there is also "bicubic".

    Returns:
        "bilinear", "bicubic" or "nearest".

    Raises:
        ArgumentError: If the value is anything else.
    """
    word = interpolation.name if isinstance(interpolation, Enum) else interpolation
    if isinstance(word, int) and not isinstance(word, bool):
        word = {0: "nearest", 2: "bilinear", 3: "bicubic"}.get(word)
    if isinstance(word, str):
        word = word.lower().replace("_", "-")
        if word in ("bilinear", "nearest") or (word == "bicubic" and resizes):
            return word
        if word == "nearest-exact":
            return "nearest"
    supported = '"bilinear", "bicubic" or "nearest"' if resizes else '"bilinear" or "nearest"'
    resize_first = '; only resizes have "bicubic"' if word == "bicubic" else ""
    raise ArgumentError(f"{name}: interpolation {interpolation!r} is not supported{resize_first}; use {supported}")


def as_range(name: str, value: Any, **limits: float) -> tuple[float, float]:
    """Validates a range; a number is both ends.

    Args:
        name: Name of the argument.
        value: A number or (low, high).
        limits: As for `_validate_args.number`.

    Returns:
        (low, high).

    Raises:
        ArgumentError: If the value is anything else.
    """
    if as_sequence(value) is None:
        constant = number(name, value, **limits)
        return constant, constant
    return span(name, value, **limits)


def range_around(name: str, value: Any, center: float, **limits: float) -> tuple[float, float]:
    """Validates a range; a number is the distance of both ends from `center`.

    Args:
        name: Name of the argument.
        value: A number or (low, high).
        center: Middle of the range.
        limits: As for `_validate_args.number`.

    Returns:
        (low, high).

    Raises:
        ArgumentError: If the value is anything else.
    """
    if as_sequence(value) is None:
        distance = number(name, value, **{**limits, "least": 0})
        return max(center - distance, limits.get("least", float("-inf"))), center + distance
    return span(name, value, **limits)


def as_factor(name: str, value: Any) -> tuple[float, float] | None:
    """Validates a range of factors around 1.

    Args:
        name: Name of the argument.
        value: A number, (low, high) or `None`.

    Returns:
        (low, high); `None` if nothing changes.

    Raises:
        ArgumentError: If the value is anything else.
    """
    ends = (1.0, 1.0) if value is None else range_around(name, value, 1.0, least=0, most=20)
    return None if ends == (1.0, 1.0) else ends


def as_center(name: str, center: Any) -> tuple[float, float] | None:
    """Validates a point.

    Args:
        name: Name of the transform.
        center: (x, y) in pixels, or `None`.

    Returns:
        (x, y), or `None`.

    Raises:
        ArgumentError: If the value is anything else.
    """
    if center is None:
        return None
    x, y = numbers(f"{name}: center", center, 2)
    return x, y


def wire(value: Any) -> float | list[float] | str:
    """Converts an argument to the engine's form.

    Args:
        value: A number, a tuple or range of numbers or a string.

    Returns:
        A float, a list of floats or the string.
    """
    if isinstance(value, str):
        return value
    return [float(entry) for entry in value] if isinstance(value, (tuple, range)) else float(value)


@dataclass(frozen=True)
class Transform:
    """Base class of all transforms.

    Example:
        >>> import framespool as fsp
        >>> isinstance(fsp.transforms.Resize(256), fsp.transforms.Transform)
        True
        >>> fsp.transforms.CenterCrop(256)
        CenterCrop(size=(256, 256))
    """

    def _set(self, **values: Any) -> None:
        """Sets the fields of a new object, which is frozen."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _step(self) -> Step:
        """The engine's form: the name, the fields that are not `None`, and whether to draw for each frame."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        per_frame = given.pop("per_frame", False)
        arguments: Any = {name: wire(value) for name, value in given.items() if value is not None}
        return type(self).__name__, arguments, per_frame
