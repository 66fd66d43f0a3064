"""Transforms that change the 8-bit values of the finished frame, and policies that draw from a list of transforms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated, Any

from framespool._common.validate_args import as_sequence, integer, number
from framespool.errors import ArgumentError
from framespool.transforms._args import (
    Interpolation,
    Probability,
    Transform,
    as_channels,
    as_range,
)

__all__ = [
    "GaussianBlur",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAutocontrast",
    "RandomEqualize",
    "RandomInvert",
    "RandomPosterize",
    "RandomSolarize",
    "TrivialAugmentWide",
]


def _as_kernel_size(name: str, size: Any) -> tuple[int, int]:
    """(width, height) of an int or (width, height)."""
    sides = as_sequence(size)
    if sides is None:
        sides = (size,)
    if len(sides) not in (1, 2):
        raise ArgumentError(f"{name} must be an int or (width, height), got {size!r}")
    lengths = [integer(name, side, least=1, most=255) for side in sides]
    if any(length % 2 == 0 for length in lengths):
        raise ArgumentError(f"{name} must be odd, got {size!r}")
    return lengths[0], lengths[-1]


def _as_policy_fill(name: str, fill: Any) -> tuple[float, float, float]:
    return as_channels(name, 0 if fill is None else fill, least=0, most=255)


Bins = Annotated[int, partial(integer, least=2, most=1000)]
PolicyFill = Annotated[float | Sequence[float] | None, _as_policy_fill]


@dataclass(frozen=True)
class _WithProbability(Transform):
    """A transform that has no argument but its probability."""

    p: Probability = 0.5
    _: KW_ONLY
    per_frame: bool = False


@dataclass(frozen=True)
class RandomPosterize(Transform):
    """Keep only the highest bits of each value, with probability `p`.

    Args:
        bits: Number of bits that are kept, 0 to 8.
        p: Probability, 0 to 1.
        per_frame: Draw for each frame.

    Example:
        >>> import framespool as fsp
        >>> transforms = [fsp.transforms.RandomPosterize(bits=3)]
        >>> fsp.Video("a.mp4").clip(start=0, sequence_length=4, transforms=transforms).frames.shape
        (4, 3, 360, 640)
    """

    bits: Annotated[int, partial(integer, most=8)]
    p: Probability = 0.5
    _: KW_ONLY
    per_frame: bool = False


@dataclass(frozen=True)
class RandomSolarize(Transform):
    """Invert the values that are at least a threshold, with probability `p`.

    Args:
        threshold: A value from 0 to 256.
        p: Probability, 0 to 1.
        per_frame: Draw for each frame.

    Example:
        >>> import framespool as fsp
        >>> transforms = [fsp.transforms.RandomSolarize(threshold=128, p=0.2)]
        >>> fsp.Video("a.mp4").clip(start=0, sequence_length=4, transforms=transforms).frames.shape
        (4, 3, 360, 640)
    """

    threshold: Annotated[float, partial(number, least=0, most=256)]
    p: Probability = 0.5
    _: KW_ONLY
    per_frame: bool = False


@dataclass(frozen=True)
class RandomInvert(_WithProbability):
    """Invert all values, with probability `p`.

    Args:
        p: Probability, 0 to 1.
        per_frame: Draw for each frame.

    Example:
        >>> import framespool as fsp
        >>> transforms = [fsp.transforms.RandomInvert(p=0.1)]
        >>> fsp.Video("a.mp4").clip(start=0, sequence_length=4, transforms=transforms).frames.shape
        (4, 3, 360, 640)
    """


@dataclass(frozen=True)
class RandomAutocontrast(_WithProbability):
    """Stretch the values of each channel of each frame to 0..255, with probability `p`.

    Args:
        p: Probability, 0 to 1.
        per_frame: Draw for each frame.

    Example:
        >>> import framespool as fsp
        >>> transforms = [fsp.transforms.RandomAutocontrast()]
        >>> fsp.Video("a.mp4").clip(start=0, sequence_length=4, transforms=transforms).frames.shape
        (4, 3, 360, 640)
    """


@dataclass(frozen=True)
class RandomEqualize(_WithProbability):
    """Equalize the histogram of each channel of each frame, with probability `p`.

    Args:
        p: Probability, 0 to 1.
        per_frame: Draw for each frame.

    Example:
        >>> import framespool as fsp
        >>> transforms = [fsp.transforms.RandomEqualize()]
        >>> fsp.Video("a.mp4").clip(start=0, sequence_length=4, transforms=transforms).frames.shape
        (4, 3, 360, 640)
    """


@dataclass(frozen=True)
class RandomAdjustSharpness(Transform):
    """Blend the frame with a smoothed one, with probability `p`. Pixels at the border are unchanged.

    Args:
        sharpness_factor: 0 gives the smoothed frame, 1 no change, 2 twice the sharpness; at most 100.
        p: Probability, 0 to 1.
        per_frame: Draw for each frame.

    Example:
        >>> import framespool as fsp
        >>> transforms = [fsp.transforms.RandomAdjustSharpness(sharpness_factor=2)]
        >>> fsp.Video("a.mp4").clip(start=0, sequence_length=4, transforms=transforms).frames.shape
        (4, 3, 360, 640)
    """

    sharpness_factor: Annotated[float, partial(number, least=0, most=100)]
    p: Probability = 0.5
    _: KW_ONLY
    per_frame: bool = False


@dataclass(frozen=True)
class GaussianBlur(Transform):
    """Blur with a Gaussian kernel of random standard deviation. The frame is reflected at its edges.

    Args:
        kernel_size: Width and height of the kernel in pixels; odd, at most 255, and less than twice the frame's side. A
            number is both.
        sigma: (low, high) of the standard deviation in pixels, above 0; a number is both ends.
        per_frame: Draw for each frame.

    Raises:
        ArgumentError: If an argument is invalid; while decoding, if the kernel is too large for the frame.

    Example:
        >>> import framespool as fsp
        >>> transforms = [fsp.transforms.Resize((90, 160)), fsp.transforms.GaussianBlur(kernel_size=9)]
        >>> fsp.Video("a.mp4").clip(start=0, sequence_length=4, transforms=transforms).frames.shape
        (4, 3, 90, 160)
    """

    kernel_size: Annotated[int | Sequence[int], _as_kernel_size]
    sigma: Annotated[float | Sequence[float], partial(as_range, least=1e-3, most=1e3)] = (0.1, 2.0)
    _: KW_ONLY
    per_frame: bool = False


@dataclass(frozen=True)
class RandAugment(Transform):
    """Apply random operations of one magnitude (Cubuk et al., "RandAugment", 2020), as torchvision's class does.

    The operations are: none, shear, translation and rotation, brightness, color (saturation), contrast, sharpness,
    posterize, solarize, autocontrast and equalize. All frames of a clip get the same ones.

    Args:
        num_ops: Number of operations.
        magnitude: Number of the magnitude, below `num_magnitude_bins`.
        num_magnitude_bins: Number of magnitudes, at least 2.
        interpolation: `"bilinear"` or `"nearest"`, of operations that move pixels.
        fill: Value outside the frame. `None`: 0.
        per_frame: Draw for each frame.

    Raises:
        ArgumentError: If an argument is invalid.

    Example:
        >>> import framespool as fsp
        >>> transforms = [fsp.transforms.Resize((112, 112)), fsp.transforms.RandAugment(magnitude=7)]
        >>> fsp.Video("a.mp4").clip(start=0, sequence_length=4, transforms=transforms).frames.shape
        (4, 3, 112, 112)
    """

    num_ops: Annotated[int, partial(integer, most=16)] = 2
    magnitude: Annotated[int, integer] = 9
    num_magnitude_bins: Bins = 31
    interpolation: Interpolation = "nearest"
    fill: PolicyFill = None
    _: KW_ONLY
    per_frame: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        integer("RandAugment: magnitude", self.magnitude, most=self.num_magnitude_bins - 1)


@dataclass(frozen=True)
class TrivialAugmentWide(Transform):
    """Apply one random operation of random magnitude (Müller and Hutter, "TrivialAugment", 2021), as torchvision does.

    The operations are those of `RandAugment`, with a wider range of magnitudes.

    Args:
        num_magnitude_bins: Number of magnitudes, at least 2.
        interpolation: `"bilinear"` or `"nearest"`, of operations that move pixels.
        fill: Value outside the frame. `None`: 0.
        per_frame: Draw for each frame.

    Raises:
        ArgumentError: If an argument is invalid.

    Example:
        >>> import framespool as fsp
        >>> transforms = [fsp.transforms.Resize((112, 112)), fsp.transforms.TrivialAugmentWide()]
        >>> fsp.Video("a.mp4").clip(start=0, sequence_length=4, transforms=transforms).frames.shape
        (4, 3, 112, 112)
    """

    num_magnitude_bins: Bins = 31
    interpolation: Interpolation = "nearest"
    fill: PolicyFill = None
    _: KW_ONLY
    per_frame: bool = False
