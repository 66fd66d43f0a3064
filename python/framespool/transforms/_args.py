"""The base class of transforms: options are fields, with their checks, and reach the engine in one form."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

from framespool._common.validate_args import as_sequence, boolean, choice, integer, number, numbers, span
from framespool.errors import ArgumentError

if TYPE_CHECKING:
    Check = Callable[[str, Any], Any]

#: Largest side in pixels.
MAX_SIDE = 65535


def optional(check: Check) -> Check:
    """A check that also accepts `None`.

    Args:
        check: The check of other values.

    Returns:
        The check.
    """
    return lambda name, value: None if value is None else check(name, value)


def as_sides(name: str, size: Any) -> tuple[int, ...]:
    """Validates one or two sides.

    Args:
        name: Name of the argument.
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
        raise ArgumentError(f"{name} must be an int or (height, width), got {size!r}")
    return tuple(integer(name, side, least=1, most=MAX_SIDE) for side in sides)


def _as_size(name: str, size: Any) -> tuple[int, int]:
    """(height, width) of an int for a square, or (height, width)."""
    sides = as_sides(name, size)
    return sides[0], sides[-1]


def _as_padding(name: str, padding: Any) -> tuple[int, int, int, int]:
    """(left, top, right, bottom) of 1, 2 or 4 ints."""
    entries = as_sequence(padding)
    if entries is None:
        entries = (padding,)
    if len(entries) not in (1, 2, 4):
        expected = "an int, (left and right, top and bottom) or (left, top, right, bottom)"
        raise ArgumentError(f"{name} must be {expected}, got {padding!r}")
    pixels = [integer(name, entry, most=MAX_SIDE) for entry in entries]
    left, top, right, bottom = pixels * (4 // len(pixels))
    return left, top, right, bottom


def as_channels(name: str, value: Any, **limits: float) -> tuple[float, float, float]:
    """Validates one number per channel.

    Args:
        name: Name of the argument.
        value: Three numbers, or one for all channels.
        limits: As for `number()`.

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


def _as_erase_fill(name: str, value: Any) -> tuple[float, float, float] | Literal["random"]:
    """(R, G, B) or `"random"`. The engine knows whether `Normalize` precedes it, and checks the range."""
    if isinstance(value, str):
        if value != "random":
            raise ArgumentError(f'{name} must be a number, three numbers or "random", got {value!r}')
        return "random"
    return as_channels(name, value)


def _as_interpolation(name: str, interpolation: Any, *, resizes: bool = False) -> str:
    """The word for a word, or a constant of torchvision or PIL; `"bicubic"` only if the transform resizes."""
    # The enums of torchvision and PIL have these names; PIL.Image.NEAREST, BILINEAR and BICUBIC are 0, 2 and 3.
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
    raise ArgumentError(f"{name} {interpolation!r} is not supported{resize_first}; use {supported}")


def as_range(name: str, value: Any, **limits: float) -> tuple[float, float]:
    """Validates a range; a number is both ends.

    Args:
        name: Name of the argument.
        value: A number or (low, high).
        limits: As for `number()`.

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
        limits: As for `number()`.

    Returns:
        (low, high).

    Raises:
        ArgumentError: If the value is anything else.
    """
    if as_sequence(value) is None:
        distance = number(name, value, **{**limits, "least": 0})
        return max(center - distance, float(limits.get("least", "-inf"))), center + distance
    return span(name, value, **limits)


# Types of options, each with its check: what a user may pass, and how it becomes the value of the field.
Side = Annotated[int, functools.partial(integer, least=1, most=MAX_SIDE)]
OptionalSide = Annotated[int | None, optional(functools.partial(integer, least=1, most=MAX_SIDE))]
Size = Annotated[int | Sequence[int], _as_size]
Padding = Annotated[int | Sequence[int], _as_padding]
OptionalPadding = Annotated[
    int | Sequence[int] | None, lambda name, padding: _as_padding(name, 0 if padding is None else padding)
]
Fill = Annotated[float | Sequence[float], functools.partial(as_channels, least=0, most=255)]
EraseFill = Annotated[float | Sequence[float] | Literal["random"], _as_erase_fill]
Probability = Annotated[float, functools.partial(number, least=0, most=1)]
Interpolation = Annotated[str | int | Enum, _as_interpolation]
ResizeInterpolation = Annotated[str | int | Enum, functools.partial(_as_interpolation, resizes=True)]
PositiveRange = Annotated[Sequence[float], functools.partial(span, above=0)]
Factor = Annotated[float | Sequence[float], functools.partial(as_range, least=0, most=20)]
Angle = Annotated[float | Sequence[float], functools.partial(as_range, least=-1e6, most=1e6)]
AngleAroundZero = Annotated[float | Sequence[float], functools.partial(range_around, center=0.0, least=-1e6, most=1e6)]
Point = Annotated[Sequence[float] | None, optional(functools.partial(numbers, count=2))]


@functools.cache
def _checks(transform: type[Transform]) -> dict[str, Check]:
    """The check of each field: that of its type, `boolean` for a bool, `choice` for a `Literal`."""
    hints = get_type_hints(transform, include_extras=True)
    found = {field.name: _check(hints[field.name]) for field in fields(transform)}
    return {name: check for name, check in found.items() if check is not None}


def _check(hint: Any) -> Check | None:
    if get_origin(hint) is Annotated:
        return hint.__metadata__[0]  # type: ignore[no-any-return]
    if hint is bool:
        return boolean
    words = next((get_args(each) for each in (hint, *get_args(hint)) if get_origin(each) is Literal), None)
    if words is None:
        return None
    one_of = functools.partial(choice, words=words)
    return optional(one_of) if type(None) in get_args(hint) else one_of


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

    #: Whether it only moves pixels: `Normalize` may then stand before it, as in torchvision.
    _moves_pixels = False
    #: Whether its result has one size for frames of every size.
    _has_fixed_size = False
    #: Whether its result has one size if the frames have one.
    _keeps_one_size = True

    def __post_init__(self) -> None:
        """Checks the fields, and replaces each by its checked value."""
        name, found = type(self).__name__, _checks(type(self))  # type: ignore[arg-type]
        given = {field: check(f"{name}: {field}", getattr(self, field)) for field, check in found.items()}
        self._set(**given)

    def _set(self, **values: Any) -> None:
        """Sets fields of a new object, which is frozen."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _variant(self) -> tuple[str, dict[str, Any]]:
        """The engine's transform and its fields; a class overrides this if its own fields differ from them."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "per_frame"}
        if "antialias" in values:
            values["filter"] = (values.pop("interpolation"), values.pop("antialias"))
        return type(self).__name__, values

    def _step(self) -> dict[str, Any]:
        """The engine's form: the transform, and whether to draw for each frame."""
        name, values = self._variant()
        return {"transform": {name: values}, "per_frame": getattr(self, "per_frame", False)}
