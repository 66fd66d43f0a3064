"""What transforms have in common: their arguments in the words of users, checked, and their form for the engine."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

from framespool._validate_args import as_sequence, integer, number, numbers, span
from framespool.errors import ArgumentError

if TYPE_CHECKING:
    from framespool._framespool import Step


#: Pixels that a side may have at most.
MAX_SIDE = 65535


def as_sides(name: str, size: Any) -> tuple[int, ...]:
    """One or two sides in pixels."""
    sides = as_sequence(size)
    if sides is None:
        sides = (size,)
    if len(sides) not in (1, 2):
        raise ArgumentError(f"{name}: size must be a whole number or (height, width), got {size!r}")
    return tuple(integer(f"{name}: size", side, least=1, most=MAX_SIDE) for side in sides)


def as_size(name: str, size: Any) -> tuple[int, int]:
    """(height, width); one number stands for both."""
    sides = as_sides(name, size)
    return sides[0], sides[-1]


def as_padding(name: str, padding: Any) -> tuple[int, int, int, int]:
    """(left, top, right, bottom), from 1, 2 or 4 numbers."""
    entries = as_sequence(padding)
    if entries is None:
        entries = (padding,)
    if len(entries) not in (1, 2, 4):
        expected = "a whole number, (left and right, top and bottom) or (left, top, right, bottom)"
        raise ArgumentError(f"{name}: padding must be {expected}, got {padding!r}")
    pixels = [integer(f"{name}: padding", entry, most=MAX_SIDE) for entry in entries]
    left, top, right, bottom = pixels * (4 // len(pixels))
    return left, top, right, bottom


def as_padding_mode(name: str, mode: Any) -> None:
    if mode != "constant":
        raise ArgumentError(f'{name}: padding_mode {mode!r} is not supported; use "constant" with a fill')


def as_channels(name: str, value: Any, **limits: float) -> tuple[float, float, float]:
    """(R, G, B); one number stands for all three."""
    entries = as_sequence(value)
    if entries is None:
        entries = (value,)
    if len(entries) not in (1, 3):
        raise ArgumentError(f"{name} must be a number or three numbers, one per channel, got {value!r}")
    triple = [number(name, entry, **limits) for entry in entries] * (3 // len(entries))
    return triple[0], triple[1], triple[2]


def as_fill(name: str, fill: Any) -> tuple[float, float, float]:
    return as_channels(f"{name}: fill", fill, least=0, most=255)


def as_erase_fill(name: str, value: Any) -> tuple[float, float, float] | Literal["random"]:
    """What lies over covered pixels. Its range depends on whether ``Normalize`` came before."""
    if isinstance(value, str):
        if value != "random":
            raise ArgumentError(f'{name} must be a number, three numbers or "random", got {value!r}')
        return "random"
    return as_channels(name, value)


def as_probability(name: str, p: Any) -> float:
    return number(f"{name}: p", p, least=0, most=1)


def as_interpolation(name: str, interpolation: Any) -> str:
    # torchvision's and PIL's enums have these words for names; PIL.Image.NEAREST and BILINEAR are 0 and 2.
    word = interpolation.name if isinstance(interpolation, Enum) else interpolation
    if isinstance(word, int) and not isinstance(word, bool):
        word = {0: "nearest", 2: "bilinear"}.get(word)
    if isinstance(word, str):
        word = word.lower().replace("_", "-")
        if word in ("bilinear", "nearest"):
            return word
        if word == "nearest-exact":
            return "nearest"
    raise ArgumentError(f'{name}: interpolation {interpolation!r} is not supported; use "bilinear" or "nearest"')


def as_range(name: str, value: Any, **limits: float) -> tuple[float, float]:
    """(low, high); a number is both."""
    if as_sequence(value) is None:
        constant = number(name, value, **limits)
        return constant, constant
    return span(name, value, **limits)


def range_around(name: str, value: Any, centre: float, **limits: float) -> tuple[float, float]:
    """(low, high); a number is the distance of both from ``centre``."""
    if as_sequence(value) is None:
        distance = number(name, value, **{**limits, "least": 0})
        return max(centre - distance, limits.get("least", float("-inf"))), centre + distance
    return span(name, value, **limits)


def as_factor(name: str, value: Any) -> tuple[float, float] | None:
    """Factors between which to draw, about 1; ``None`` if there is nothing to change."""
    ends = (1.0, 1.0) if value is None else range_around(name, value, 1.0, least=0, most=20)
    return None if ends == (1.0, 1.0) else ends


def as_center(name: str, center: Any) -> tuple[float, float] | None:
    if center is None:
        return None
    x, y = numbers(f"{name}: center", center, 2)
    return x, y


def wire(value: Any) -> float | list[float] | str:
    if isinstance(value, str):
        return value
    return [float(entry) for entry in value] if isinstance(value, tuple) else float(value)


@dataclass(frozen=True)
class Transform:
    """Base of all transforms."""

    def _set(self, **values: Any) -> None:
        """Fills the fields of a new object, which is frozen already."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _step(self) -> Step:
        """The engine's form: the name, the fields that are not ``None``, and whether to draw for each frame."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        per_frame = given.pop("per_frame", False)
        arguments = {name: wire(value) for name, value in given.items() if value is not None}
        return type(self).__name__, arguments, per_frame
