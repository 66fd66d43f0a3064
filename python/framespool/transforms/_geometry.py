"""Transforms that move pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from framespool._common.validate_args import as_sequence, boolean, integer, number, numbers, span
from framespool.errors import ArgumentError
from framespool.transforms._args import (
    MAX_SIDE,
    Transform,
    as_center,
    as_fill,
    as_interpolation,
    as_padding,
    as_padding_mode,
    as_probability,
    as_size,
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


@dataclass(frozen=True, init=False)
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

    size: tuple[int, int]

    def __init__(self, size: int | Sequence[int]) -> None:
        self._set(size=as_size("CenterCrop", size))


@dataclass(frozen=True, init=False)
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

    size: tuple[int, int]
    padding: tuple[int, int, int, int]
    pad_if_needed: bool
    fill: tuple[float, float, float]
    per_frame: bool

    def __init__(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: float | Sequence[float] = 0,
        padding_mode: Literal["constant"] = "constant",
        *,
        per_frame: bool = False,
    ) -> None:
        as_padding_mode("RandomCrop", padding_mode)
        self._set(
            size=as_size("RandomCrop", size),
            padding=as_padding("RandomCrop", 0 if padding is None else padding),
            pad_if_needed=boolean("RandomCrop: pad_if_needed", pad_if_needed),
            fill=as_fill("RandomCrop", fill),
            per_frame=boolean("RandomCrop: per_frame", per_frame),
        )


@dataclass(frozen=True, init=False)
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

    size: tuple[int, int]
    scale: tuple[float, float]
    ratio: tuple[float, float]
    interpolation: str
    antialias: bool
    per_frame: bool
    display_aspect: bool

    def __init__(
        self,
        size: int | Sequence[int],
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3 / 4, 4 / 3),
        interpolation: str | int | Enum = "bilinear",
        antialias: bool = True,
        *,
        per_frame: bool = False,
        display_aspect: bool = False,
    ) -> None:
        self._set(
            size=as_size("RandomResizedCrop", size),
            scale=span("RandomResizedCrop: scale", scale, above=0),
            ratio=span("RandomResizedCrop: ratio", ratio, above=0),
            interpolation=as_interpolation("RandomResizedCrop", interpolation, resizes=True),
            antialias=boolean("RandomResizedCrop: antialias", antialias),
            per_frame=boolean("RandomResizedCrop: per_frame", per_frame),
            display_aspect=boolean("RandomResizedCrop: display_aspect", display_aspect),
        )


@dataclass(frozen=True, init=False)
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

    size: tuple[int, int]
    scales: tuple[float, ...]
    max_distort: int
    fix_crop: bool
    more_fix_crop: bool
    interpolation: str
    antialias: bool
    per_frame: bool
    display_aspect: bool

    def __init__(
        self,
        size: int | Sequence[int],
        scales: Sequence[float] = (1, 0.875, 0.75, 0.66),
        max_distort: int = 1,
        fix_crop: bool = True,
        more_fix_crop: bool = True,
        interpolation: str | int | Enum = "bilinear",
        antialias: bool = True,
        *,
        per_frame: bool = False,
        display_aspect: bool = False,
    ) -> None:
        entries = as_sequence(scales)
        if not entries:
            raise ArgumentError(f"MultiScaleCrop: scales must be a list of at least one number, got {scales!r}")
        self._set(
            size=as_size("MultiScaleCrop", size),
            scales=tuple(number("MultiScaleCrop: scales", scale, above=0, most=1) for scale in entries),
            max_distort=integer("MultiScaleCrop: max_distort", max_distort, most=MAX_SIDE),
            fix_crop=boolean("MultiScaleCrop: fix_crop", fix_crop),
            more_fix_crop=boolean("MultiScaleCrop: more_fix_crop", more_fix_crop),
            interpolation=as_interpolation("MultiScaleCrop", interpolation, resizes=True),
            antialias=boolean("MultiScaleCrop: antialias", antialias),
            per_frame=boolean("MultiScaleCrop: per_frame", per_frame),
            display_aspect=boolean("MultiScaleCrop: display_aspect", display_aspect),
        )


@dataclass(frozen=True, init=False)
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

    size: tuple[int, int]

    def __init__(self, size: int | Sequence[int]) -> None:
        self._set(size=as_size("FiveCrop", size))


@dataclass(frozen=True, init=False)
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

    size: tuple[int, int]

    def __init__(self, size: int | Sequence[int]) -> None:
        self._set(size=as_size("ThreeCrop", size))


@dataclass(frozen=True, init=False)
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

    p: float
    per_frame: bool

    def __init__(self, p: float = 0.5, *, per_frame: bool = False) -> None:
        self._set(
            p=as_probability("RandomHorizontalFlip", p), per_frame=boolean("RandomHorizontalFlip: per_frame", per_frame)
        )


@dataclass(frozen=True, init=False)
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

    p: float
    per_frame: bool

    def __init__(self, p: float = 0.5, *, per_frame: bool = False) -> None:
        self._set(
            p=as_probability("RandomVerticalFlip", p), per_frame=boolean("RandomVerticalFlip: per_frame", per_frame)
        )


@dataclass(frozen=True, init=False)
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

    degrees: tuple[float, float]
    interpolation: str
    expand: bool
    center: tuple[float, float] | None
    fill: tuple[float, float, float]
    per_frame: bool

    def __init__(
        self,
        degrees: float | Sequence[float],
        interpolation: str | int | Enum = "nearest",
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: float | Sequence[float] = 0,
        *,
        per_frame: bool = False,
    ) -> None:
        if boolean("RandomRotation: expand", expand) and center is not None:
            raise ArgumentError(f"RandomRotation: expand=True rotates about the middle; omit center={center!r}")
        self._set(
            degrees=range_around("RandomRotation: degrees", degrees, 0.0, least=-1e6, most=1e6),
            interpolation=as_interpolation("RandomRotation", interpolation),
            expand=expand,
            center=as_center("RandomRotation", center),
            fill=as_fill("RandomRotation", fill),
            per_frame=boolean("RandomRotation: per_frame", per_frame),
        )


@dataclass(frozen=True, init=False)
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

    degrees: tuple[float, float]
    translate: tuple[float, float]
    scale: tuple[float, float]
    shear: tuple[float, float, float, float]
    interpolation: str
    fill: tuple[float, float, float]
    center: tuple[float, float] | None
    per_frame: bool

    def __init__(
        self,
        degrees: float | Sequence[float],
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: float | Sequence[float] | None = None,
        interpolation: str | int | Enum = "nearest",
        fill: float | Sequence[float] = 0,
        center: Sequence[float] | None = None,
        *,
        per_frame: bool = False,
    ) -> None:
        shears = as_sequence(shear)
        if shears is not None and len(shears) not in (2, 4):
            raise ArgumentError(f"RandomAffine: shear must be a number or 2 or 4 numbers, got {shear!r}")
        limits: dict[str, float] = {"above": -90, "below": 90}
        if shears is not None and len(shears) == 4:
            x = span("RandomAffine: shear along x", shears[:2], **limits)
            y = span("RandomAffine: shear along y", shears[2:], **limits)
        else:
            x, y = range_around("RandomAffine: shear", 0 if shear is None else shear, 0.0, **limits), (0.0, 0.0)
        self._set(
            degrees=range_around("RandomAffine: degrees", degrees, 0.0, least=-1e6, most=1e6),
            translate=numbers(
                "RandomAffine: translate", (0, 0) if translate is None else translate, 2, least=0, most=1
            ),
            scale=span("RandomAffine: scale", (1, 1) if scale is None else scale, least=1e-3, most=1e3),
            shear=(*x, *y),
            interpolation=as_interpolation("RandomAffine", interpolation),
            fill=as_fill("RandomAffine", fill),
            center=as_center("RandomAffine", center),
            per_frame=boolean("RandomAffine: per_frame", per_frame),
        )


@dataclass(frozen=True, init=False)
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

    padding: tuple[int, int, int, int]
    fill: tuple[float, float, float]

    def __init__(
        self,
        padding: int | Sequence[int],
        fill: float | Sequence[float] = 0,
        padding_mode: Literal["constant"] = "constant",
    ) -> None:
        as_padding_mode("Pad", padding_mode)
        self._set(padding=as_padding("Pad", padding), fill=as_fill("Pad", fill))
