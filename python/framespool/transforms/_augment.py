"""Transforms that change the 8-bit values of the finished frame, and policies that draw from a list of transforms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from framespool._common.validate_args import as_sequence, boolean, integer, number
from framespool.errors import ArgumentError
from framespool.transforms._args import (
    Transform,
    as_fill,
    as_interpolation,
    as_probability,
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

#: Limits of `bits`, of a sharpness factor and of a blur kernel.
_MAX_BITS, _MAX_SHARPNESS, _MAX_KERNEL = 8, 100, 255


@dataclass(frozen=True, init=False)
class _WithProbability(Transform):
    """A transform that has no argument but its probability."""

    p: float
    per_frame: bool

    def __init__(self, p: float = 0.5, *, per_frame: bool = False) -> None:
        name = type(self).__name__
        self._set(p=as_probability(name, p), per_frame=boolean(f"{name}: per_frame", per_frame))


@dataclass(frozen=True, init=False)
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

    bits: int
    p: float
    per_frame: bool

    def __init__(self, bits: int, p: float = 0.5, *, per_frame: bool = False) -> None:
        self._set(
            bits=integer("RandomPosterize: bits", bits, most=_MAX_BITS),
            p=as_probability("RandomPosterize", p),
            per_frame=boolean("RandomPosterize: per_frame", per_frame),
        )


@dataclass(frozen=True, init=False)
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

    threshold: float
    p: float
    per_frame: bool

    def __init__(self, threshold: float, p: float = 0.5, *, per_frame: bool = False) -> None:
        self._set(
            threshold=number("RandomSolarize: threshold", threshold, least=0, most=256),
            p=as_probability("RandomSolarize", p),
            per_frame=boolean("RandomSolarize: per_frame", per_frame),
        )


@dataclass(frozen=True, init=False)
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


@dataclass(frozen=True, init=False)
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


@dataclass(frozen=True, init=False)
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


@dataclass(frozen=True, init=False)
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

    sharpness_factor: float
    p: float
    per_frame: bool

    def __init__(self, sharpness_factor: float, p: float = 0.5, *, per_frame: bool = False) -> None:
        name = "RandomAdjustSharpness: sharpness_factor"
        self._set(
            sharpness_factor=number(name, sharpness_factor, least=0, most=_MAX_SHARPNESS),
            p=as_probability("RandomAdjustSharpness", p),
            per_frame=boolean("RandomAdjustSharpness: per_frame", per_frame),
        )


@dataclass(frozen=True, init=False)
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

    kernel_size: tuple[int, int]
    sigma: tuple[float, float]
    per_frame: bool

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        sigma: float | Sequence[float] = (0.1, 2.0),
        *,
        per_frame: bool = False,
    ) -> None:
        name = "GaussianBlur: kernel_size"
        sides = as_sequence(kernel_size)
        if sides is None:
            sides = (kernel_size,)
        if len(sides) not in (1, 2):
            raise ArgumentError(f"{name} must be an int or (width, height), got {kernel_size!r}")
        lengths = [integer(name, side, least=1, most=_MAX_KERNEL) for side in sides]
        if any(length % 2 == 0 for length in lengths):
            raise ArgumentError(f"{name} must be odd, got {kernel_size!r}")
        self._set(
            kernel_size=(lengths[0], lengths[-1]),
            sigma=as_range("GaussianBlur: sigma", sigma, least=1e-3, most=1e3),
            per_frame=boolean("GaussianBlur: per_frame", per_frame),
        )


@dataclass(frozen=True, init=False)
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

    num_ops: int
    magnitude: int
    num_magnitude_bins: int
    interpolation: str
    fill: tuple[float, float, float]
    per_frame: bool

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: str | int | Enum = "nearest",
        fill: float | Sequence[float] | None = None,
        *,
        per_frame: bool = False,
    ) -> None:
        bins = integer("RandAugment: num_magnitude_bins", num_magnitude_bins, least=2, most=1000)
        self._set(
            num_ops=integer("RandAugment: num_ops", num_ops, most=16),
            magnitude=integer("RandAugment: magnitude", magnitude, most=bins - 1),
            num_magnitude_bins=bins,
            interpolation=as_interpolation("RandAugment", interpolation),
            fill=as_fill("RandAugment", 0 if fill is None else fill),
            per_frame=boolean("RandAugment: per_frame", per_frame),
        )


@dataclass(frozen=True, init=False)
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

    num_magnitude_bins: int
    interpolation: str
    fill: tuple[float, float, float]
    per_frame: bool

    def __init__(
        self,
        num_magnitude_bins: int = 31,
        interpolation: str | int | Enum = "nearest",
        fill: float | Sequence[float] | None = None,
        *,
        per_frame: bool = False,
    ) -> None:
        name = "TrivialAugmentWide: num_magnitude_bins"
        self._set(
            num_magnitude_bins=integer(name, num_magnitude_bins, least=2, most=1000),
            interpolation=as_interpolation("TrivialAugmentWide", interpolation),
            fill=as_fill("TrivialAugmentWide", 0 if fill is None else fill),
            per_frame=boolean("TrivialAugmentWide: per_frame", per_frame),
        )
