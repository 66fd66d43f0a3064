"""Transforms that erase pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated

from framespool._common.validate_args import span
from framespool.transforms._args import (
    MAX_SIDE,
    Angle,
    EraseFill,
    PositiveRange,
    Probability,
    Side,
    Size,
    Transform,
    as_range,
)

__all__ = [
    "Cutout",
    "GridMask",
    "RandomErasing",
]


@dataclass(frozen=True)
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

    p: Probability = 0.5
    scale: Annotated[Sequence[float], partial(span, least=0, most=1)] = (0.02, 0.33)
    ratio: PositiveRange = (0.3, 3.3)
    value: EraseFill = 0
    _: KW_ONLY
    count: Side = 1
    per_frame: bool = False


@dataclass(frozen=True)
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

    size: Size
    count: Side = 1
    fill: EraseFill = 0
    p: Probability = 1.0
    _: KW_ONLY
    per_frame: bool = False


@dataclass(frozen=True)
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

    tile: Annotated[float | Sequence[float], partial(as_range, least=1, most=MAX_SIDE)] = 100
    ratio: Annotated[float | Sequence[float], partial(as_range, least=0, most=1)] = 0.5
    degrees: Angle = 0
    shift_x: Angle = 0
    shift_y: Angle = 0
    fill: EraseFill = 0
    p: Probability = 1.0
    _: KW_ONLY
    per_frame: bool = False
