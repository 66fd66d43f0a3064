"""Transforms that erase pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from framespool._common.validate_args import boolean, integer, span
from framespool.transforms._args import MAX_SIDE, Transform, as_erase_fill, as_probability, as_range, as_size

__all__ = [
    "Cutout",
    "GridMask",
    "RandomErasing",
]


@dataclass(frozen=True, init=False)
class RandomErasing(Transform):
    """Erase random rectangles with probability `p`.

    Args:
        p: Probability, 0 to 1.
        scale: (low, high) of the area of a rectangle, as a share of the frame.
        ratio: (low, high) of its height / width, drawn uniformly in the logarithm.
        value: Fill, a number or (R, G, B), in code values 0 to 255 before `Normalize`, in units of the result
            after it. `"random"` is noise, of mean 0 and standard deviation 1 for float types as in torchvision, and
            any code value for `"uint8"`.
        count: Number of rectangles; one that does not fit in ten draws is skipped.
        per_frame: Draw for each frame.

    Example:
        >>> import framespool as fsp
        >>> transforms = [fsp.transforms.RandomErasing(p=1.0)]
        >>> fsp.Video("a.mp4").clip(start=0, sequence_length=4, transforms=transforms).frames.shape
        (4, 3, 360, 640)
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
    """Erase rectangles of one size around random centers with probability `p`; they may extend over the edge.

    Args:
        size: An int for squares, or (height, width); in pixels.
        count: Number of rectangles.
        fill: As `value` of `RandomErasing`.
        p: Probability, 0 to 1.
        per_frame: Draw for each frame.

    Example:
        >>> import framespool as fsp
        >>> transforms = [fsp.transforms.Cutout(size=16, count=2)]
        >>> fsp.Video("a.mp4").clip(start=0, sequence_length=4, transforms=transforms).frames.shape
        (4, 3, 360, 640)
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
    """Erase the squares of a grid with probability `p`, as DALI's `grid_mask`.

    All numbers but `fill` and `p` may be (low, high) to draw from.

    Args:
        tile: Pixels from one square to the next.
        ratio: Side of a square as a share of `tile`, 0 to 1.
        degrees: Rotation of the grid about the upper left corner; DALI's `angle` is in radians.
        shift_x: Shift of the grid along its own axis, as a share of `tile` (DALI's is in pixels); `(0, 1)` reaches
            every position.
        shift_y: As `shift_x`.
        fill: As `value` of `RandomErasing`.
        p: Probability, 0 to 1.
        per_frame: Draw for each frame.

    Example:
        >>> import framespool as fsp
        >>> transforms = [fsp.transforms.GridMask(tile=32, ratio=0.4)]
        >>> fsp.Video("a.mp4").clip(start=0, sequence_length=4, transforms=transforms).frames.shape
        (4, 3, 360, 640)
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
