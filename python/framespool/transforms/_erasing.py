"""Transforms that cover pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from framespool._validate_args import boolean, integer, span
from framespool.transforms._args import MAX_SIDE, Transform, as_erase_fill, as_probability, as_range, as_size

__all__ = [
    "Cutout",
    "GridMask",
    "RandomErasing",
]


@dataclass(frozen=True, init=False)
class RandomErasing(Transform):
    """Cover random rectangles with probability ``p``.

    ``scale``: least and most of a rectangle's area, as a share of the picture's. ``ratio``: least and most of its
    height / width, drawn uniformly in the logarithm. ``value``: what is painted, a number or (R, G, B), in code values
    0 to 255 before :class:`Normalize`, in units of the result after it; ``"random"`` is noise, of mean 0 and standard
    deviation 1 for float dtypes as in torchvision, and any code value for ``"uint8"``. ``count``: rectangles; one for
    which ten draws do not fit is left out.
    """

    p: float
    scale: tuple[float, float]
    ratio: tuple[float, float]
    value: tuple[float, float, float] | Literal["random"]
    count: int
    per_frame: bool

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: float | Sequence[float] | Literal["random"] = 0,
        *,
        count: int = 1,
        per_frame: bool = False,
    ) -> None:
        self._set(
            p=as_probability("RandomErasing", p),
            scale=span("RandomErasing: scale", scale, least=0, most=1),
            ratio=span("RandomErasing: ratio", ratio, above=0),
            value=as_erase_fill("RandomErasing: value", value),
            count=integer("RandomErasing: count", count, least=1, most=MAX_SIDE),
            per_frame=boolean("RandomErasing: per_frame", per_frame),
        )


@dataclass(frozen=True, init=False)
class Cutout(Transform):
    """Cover rectangles of one size about random centres with probability ``p``; they may reach over the edge.

    ``size``: an int for squares, or ``(height, width)``; in pixels. ``count``: rectangles. ``fill``: what is painted,
    as :class:`RandomErasing`'s ``value``.
    """

    size: tuple[int, int]
    count: int
    fill: tuple[float, float, float] | Literal["random"]
    p: float
    per_frame: bool

    def __init__(
        self,
        size: int | Sequence[int],
        count: int = 1,
        fill: float | Sequence[float] | Literal["random"] = 0,
        p: float = 1.0,
        *,
        per_frame: bool = False,
    ) -> None:
        self._set(
            size=as_size("Cutout", size),
            count=integer("Cutout: count", count, least=1, most=MAX_SIDE),
            fill=as_erase_fill("Cutout: fill", fill),
            p=as_probability("Cutout", p),
            per_frame=boolean("Cutout: per_frame", per_frame),
        )


@dataclass(frozen=True, init=False)
class GridMask(Transform):
    """Cover the squares of a grid with probability ``p``: DALI's ``grid_mask``.

    ``tile``: pixels from one square to the next. ``ratio``: side of a square as a part of ``tile``, 0 to 1.
    ``degrees``: turn of the grid about the upper left corner, as DALI's ``angle``, which is in radians. ``shift_x``,
    ``shift_y``: shift of the grid along its own axes, as parts of ``tile`` (DALI's are pixels), so that ``(0, 1)``
    reaches every place. Each of these may be a number or ``(low, high)`` to draw from. ``fill``: what is painted, as
    :class:`RandomErasing`'s ``value``.
    """

    tile: tuple[float, float]
    ratio: tuple[float, float]
    degrees: tuple[float, float]
    shift_x: tuple[float, float]
    shift_y: tuple[float, float]
    fill: tuple[float, float, float] | Literal["random"]
    p: float
    per_frame: bool

    def __init__(
        self,
        tile: float | Sequence[float] = 100,
        ratio: float | Sequence[float] = 0.5,
        degrees: float | Sequence[float] = 0,
        shift_x: float | Sequence[float] = 0,
        shift_y: float | Sequence[float] = 0,
        fill: float | Sequence[float] | Literal["random"] = 0,
        p: float = 1.0,
        *,
        per_frame: bool = False,
    ) -> None:
        self._set(
            tile=as_range("GridMask: tile", tile, least=1, most=MAX_SIDE),
            ratio=as_range("GridMask: ratio", ratio, least=0, most=1),
            degrees=as_range("GridMask: degrees", degrees, least=-1e6, most=1e6),
            shift_x=as_range("GridMask: shift_x", shift_x, least=-1e6, most=1e6),
            shift_y=as_range("GridMask: shift_y", shift_y, least=-1e6, most=1e6),
            fill=as_erase_fill("GridMask: fill", fill),
            p=as_probability("GridMask", p),
            per_frame=boolean("GridMask: per_frame", per_frame),
        )
