"""Transforms that move pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, InitVar, dataclass
from functools import partial
from typing import Annotated, Any, Literal

from framespool._common.validate_args import as_sequence, integer, number, numbers, span
from framespool.errors import ArgumentError
from framespool.transforms._args import (
    MAX_SIDE,
    AngleAroundZero,
    Fill,
    Interpolation,
    OptionalPadding,
    Padding,
    Point,
    PositiveRange,
    Probability,
    ResizeInterpolation,
    Size,
    Transform,
    range_around,
)

__all__ = [
    "CenterCrop",
    "FiveCrop",
    "MultiScaleCrop",
    "Pad",
    "RandomAffine",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomVerticalFlip",
    "ThreeCrop",
]


def _check_padding_mode(name: str, mode: Any) -> None:
    """Raises if the padding mode is not the only one that is supported."""
    if mode != "constant":
        raise ArgumentError(f'{name}: padding_mode {mode!r} is not supported; use "constant" with a fill')


def _as_scales(name: str, scales: Any) -> tuple[float, ...]:
    entries = as_sequence(scales)
    if not entries:
        raise ArgumentError(f"{name} must be a list of at least one number, got {scales!r}")
    return tuple(number(name, scale, above=0, most=1) for scale in entries)


def _as_translation(name: str, shares: Any) -> tuple[float, ...]:
    return numbers(name, (0, 0) if shares is None else shares, 2, least=0, most=1)


def _as_scale(name: str, scale: Any) -> tuple[float, float]:
    return span(name, (1, 1) if scale is None else scale, least=1e-3, most=1e3)


def _as_shear(name: str, shear: Any) -> tuple[float, float, float, float]:
    """(x low, x high, y low, y high) in degrees."""
    shears = as_sequence(shear)
    if shears is not None and len(shears) not in (2, 4):
        raise ArgumentError(f"{name} must be a number or 2 or 4 numbers, got {shear!r}")
    limits: dict[str, float] = {"above": -90, "below": 90}
    if shears is not None and len(shears) == 4:
        x, y = span(f"{name} along x", shears[:2], **limits), span(f"{name} along y", shears[2:], **limits)
    else:
        x, y = range_around(name, 0 if shear is None else shear, 0.0, **limits), (0.0, 0.0)
    return (*x, *y)


@dataclass(frozen=True)
class CenterCrop(Transform):
    """Crop the middle of the frame.

    The corner is rounded as in torchvision (half to even). A smaller frame is padded with black.

    Args:
        size: An int for a square, or (height, width); in pixels.

    Example:
        >>> import framespool as fsp
        >>> fsp.Video("a.mp4").frames([0], transforms=[fsp.transforms.CenterCrop(224)]).frames.shape
        (1, 3, 224, 224)
    """

    _moves_pixels = True
    _has_fixed_size = True
    size: Size


@dataclass(frozen=True)
class RandomCrop(Transform):
    """Crop at a random position.

    Args:
        size: An int for a square, or (height, width); in pixels.
        padding: Pixels added before, as for `Pad`. `None`: none.
        pad_if_needed: Pad both sides of a frame that is smaller than `size`; otherwise it is an error.
        fill: Value of added pixels.
        padding_mode: Must be `"constant"`.
        per_frame: Draw for each frame.

    Example:
        >>> import framespool as fsp
        >>> transforms = [fsp.transforms.RandomCrop(64)]
        >>> fsp.Video("a.mp4").clip(start=0, sequence_length=4, transforms=transforms).frames.shape
        (4, 3, 64, 64)
    """

    _has_fixed_size = True
    size: Size
    padding: OptionalPadding = None
    pad_if_needed: bool = False
    fill: Fill = 0
    padding_mode: InitVar[Literal["constant"]] = "constant"
    _: KW_ONLY
    per_frame: bool = False

    @property
    def _moves_pixels(self) -> bool:  # type: ignore[override]
        return self.padding == (0, 0, 0, 0) and not self.pad_if_needed

    def __post_init__(self, padding_mode: Literal["constant"]) -> None:
        _check_padding_mode("RandomCrop", padding_mode)
        super().__post_init__()


@dataclass(frozen=True)
class RandomResizedCrop(Transform):
    """Crop a part of random area, shape and position, and resize it.

    If ten draws do not fit into the frame, the largest centered part with an allowed shape is used.

    Args:
        size: Size of the result, an int for a square, or (height, width); in pixels.
        scale: (low, high) of the area of the part, as a share of the frame.
        ratio: (low, high) of its width / height, drawn uniformly in the logarithm.
        interpolation: `"bilinear"`, `"bicubic"` or `"nearest"`.
        antialias: Filter when downscaling with bilinear or bicubic interpolation.
        per_frame: Draw for each frame.
        display_aspect: Crop a part of the frame of display size, as for `Resize`. The drawn position and size are in
            pixels of that frame.

    Example:
        >>> import framespool as fsp
        >>> crop = fsp.transforms.RandomResizedCrop(112)
        >>> fsp.Video("a.mp4").frames([0, 1], transforms=[crop], seed=1).frames.shape
        (2, 3, 112, 112)
    """

    _moves_pixels = True
    _has_fixed_size = True
    size: Size
    scale: PositiveRange = (0.08, 1.0)
    ratio: PositiveRange = (3 / 4, 4 / 3)
    interpolation: ResizeInterpolation = "bilinear"
    antialias: bool = True
    _: KW_ONLY
    per_frame: bool = False
    display_aspect: bool = False


@dataclass(frozen=True)
class MultiScaleCrop(Transform):
    """Crop a part whose height and width are the frame's shorter side times one of `scales` each, and resize it.

    This is the crop of TSN (Wang et al., "Temporal Segment Networks", 2016) and its successors, `MultiScaleCrop` in
    MMAction2. Products are truncated; a side that is less than 3 pixels off that of `size` becomes equal to it, if the
    frame is large enough.

    Args:
        size: Size of the result, an int for a square, or (height, width); in pixels.
        scales: Scales of which one is drawn for each side, above 0 and at most 1.
        max_distort: Largest distance in `scales` between the two that are drawn; 0 keeps the part square.
        fix_crop: Draw the position from 5 or 13 fixed ones; otherwise any position.
        more_fix_crop: The 13 positions are the corners, the center, the middles of the edges, and the points between
            the corners and the center; otherwise only the corners and the center. No effect without `fix_crop`.
        interpolation: `"bilinear"`, `"bicubic"` or `"nearest"`.
        antialias: Filter when downscaling with bilinear or bicubic interpolation.
        per_frame: Draw for each frame.
        display_aspect: Crop a part of the frame of display size, as for `RandomResizedCrop`.

    Raises:
        ArgumentError: If an argument is invalid.

    Example:
        >>> import framespool as fsp
        >>> crop = fsp.transforms.MultiScaleCrop(112, scales=(1, 0.875, 0.75, 0.66))
        >>> fsp.Video("a.mp4").frames([0, 1], transforms=[crop], seed=1).frames.shape
        (2, 3, 112, 112)
    """

    _moves_pixels = True
    _has_fixed_size = True
    size: Size
    scales: Annotated[Sequence[float], _as_scales] = (1, 0.875, 0.75, 0.66)
    max_distort: Annotated[int, partial(integer, most=MAX_SIDE)] = 1
    fix_crop: bool = True
    more_fix_crop: bool = True
    interpolation: ResizeInterpolation = "bilinear"
    antialias: bool = True
    _: KW_ONLY
    per_frame: bool = False
    display_aspect: bool = False

    def _variant(self) -> tuple[str, dict[str, Any]]:
        name, values = super()._variant()
        fixed, more = values.pop("fix_crop"), values.pop("more_fix_crop")
        return name, {**values, "positions": ("Thirteen" if more else "Five") if fixed else "Any"}


@dataclass(frozen=True)
class FiveCrop(Transform):
    """Crop five views of each frame: the corners (top left, top right, bottom left, bottom right) and the center.

    The views are a dimension V, the first of a clip: batches are (N, V, T, H, W, C), (N, V, T, C, H, W) or
    (N, V, C, T, H, W), and those of images (N, V, H, W, C) or (N, V, C, H, W). `Normalize` may follow. A frame
    smaller than `size` is an error.

    Args:
        size: An int for a square, or (height, width); in pixels.

    Example:
        >>> import framespool as fsp
        >>> transforms = [fsp.transforms.FiveCrop(64)]
        >>> fsp.Video("a.mp4").clip(start=0, sequence_length=4, transforms=transforms).frames.shape
        (5, 4, 3, 64, 64)
    """

    _moves_pixels = True
    _has_fixed_size = True
    size: Size


@dataclass(frozen=True)
class ThreeCrop(Transform):
    """Crop three views of each frame along its longer side: the start (left or top), the center and the end.

    The views are a dimension, as for `FiveCrop`.

    Args:
        size: An int for a square, or (height, width); in pixels.

    Example:
        >>> import framespool as fsp
        >>> transforms = [fsp.transforms.Resize(128), fsp.transforms.ThreeCrop(128)]
        >>> fsp.Video("a.mp4").frames([0, 1], transforms=transforms).frames.shape
        (3, 2, 3, 128, 128)
    """

    _moves_pixels = True
    _has_fixed_size = True
    size: Size


@dataclass(frozen=True)
class RandomHorizontalFlip(Transform):
    """Flip left and right with probability `p`.

    Args:
        p: Probability, 0 to 1.
        per_frame: Draw for each frame.

    Example:
        >>> import framespool as fsp
        >>> fsp.transforms.RandomHorizontalFlip().p
        0.5
    """

    _moves_pixels = True
    p: Probability = 0.5
    _: KW_ONLY
    per_frame: bool = False


@dataclass(frozen=True)
class RandomVerticalFlip(Transform):
    """Flip top and bottom with probability `p`.

    Args:
        p: Probability, 0 to 1.
        per_frame: Draw for each frame.

    Example:
        >>> import framespool as fsp
        >>> transforms = [fsp.transforms.RandomVerticalFlip(p=0.5)]
        >>> fsp.Video("a.mp4").clip(start=0, sequence_length=4, transforms=transforms).frames.shape
        (4, 3, 360, 640)
    """

    _moves_pixels = True
    p: Probability = 0.5
    _: KW_ONLY
    per_frame: bool = False


@dataclass(frozen=True)
class RandomRotation(Transform):
    """Rotate the frame by a random angle.

    Args:
        degrees: (low, high), counterclockwise; a number d means `(-d, d)`.
        interpolation: `"bilinear"` or `"nearest"`.
        expand: Enlarge the result to contain the complete rotated frame; its size then depends on the angle.
        center: Center of the rotation, (x, y) in pixels from the upper left corner. `None`: the middle; required with
            `expand`.
        fill: Value outside the frame.
        per_frame: Draw for each frame.

    Raises:
        ArgumentError: If an argument is invalid, or `expand` and `center` are both given.

    Example:
        >>> import framespool as fsp
        >>> transforms = [fsp.transforms.RandomRotation(degrees=15)]
        >>> fsp.Video("a.mp4").clip(start=0, sequence_length=4, transforms=transforms).frames.shape
        (4, 3, 360, 640)
    """

    degrees: AngleAroundZero
    interpolation: Interpolation = "nearest"
    expand: bool = False
    center: Point = None
    fill: Fill = 0
    _: KW_ONLY
    per_frame: bool = False

    @property
    def _keeps_one_size(self) -> bool:  # type: ignore[override]
        return not self.expand

    def __post_init__(self) -> None:
        if self.expand is True and self.center is not None:
            raise ArgumentError(f"RandomRotation: expand=True rotates about the middle; omit center={self.center!r}")
        super().__post_init__()


@dataclass(frozen=True)
class RandomAffine(Transform):
    """Shear, scale, rotate and translate the frame at random; its size is unchanged.

    Args:
        degrees: (low, high), clockwise; a number d means `(-d, d)`.
        translate: Largest shift (x, y) in either direction, as shares of width and height, 0 to 1. The shift is an
            integer number of pixels. `None`: no shift.
        scale: (low, high) of the scale factor. `None`: 1.
        shear: Degrees; a number s means `(-s, s)` parallel to the x axis, (low, high) likewise, and (x low, x high, y
            low, y high) along both axes. `None`: no shear.
        interpolation: `"bilinear"` or `"nearest"`.
        fill: Value outside the frame.
        center: Fixed point, except for the shift, (x, y) in pixels from the upper left corner. `None`: the middle.
        per_frame: Draw for each frame.

    Raises:
        ArgumentError: If an argument is not a number, a pair or another form of the list above.

    Example:
        >>> import framespool as fsp
        >>> transforms = [fsp.transforms.RandomAffine(degrees=10, translate=(0.1, 0.1), scale=(0.9, 1.1))]
        >>> fsp.Video("a.mp4").clip(start=0, sequence_length=4, transforms=transforms).frames.shape
        (4, 3, 360, 640)
    """

    degrees: AngleAroundZero
    translate: Annotated[Sequence[float] | None, _as_translation] = None
    scale: Annotated[Sequence[float] | None, _as_scale] = None
    shear: Annotated[float | Sequence[float] | None, _as_shear] = None
    interpolation: Interpolation = "nearest"
    fill: Fill = 0
    center: Point = None
    _: KW_ONLY
    per_frame: bool = False


@dataclass(frozen=True)
class Pad(Transform):
    """Add pixels at the sides.

    Args:
        padding: An int for all sides, (left and right, top and bottom), or (left, top, right, bottom); in pixels.
        fill: Value of added pixels.
        padding_mode: Must be `"constant"`.

    Example:
        >>> import framespool as fsp
        >>> transforms = [fsp.transforms.Pad(8)]
        >>> fsp.Video("a.mp4").clip(start=0, sequence_length=4, transforms=transforms).frames.shape
        (4, 3, 376, 656)
    """

    padding: Padding
    fill: Fill = 0
    padding_mode: InitVar[Literal["constant"]] = "constant"

    def __post_init__(self, padding_mode: Literal["constant"]) -> None:
        _check_padding_mode("Pad", padding_mode)
        super().__post_init__()
