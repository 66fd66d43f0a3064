"""Transforms that change colors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from framespool._common.validate_args import boolean, choice, number
from framespool.errors import ArgumentError
from framespool.transforms._args import Transform, as_channels, as_factor, as_probability, as_range, range_around

if TYPE_CHECKING:
    from framespool._framespool import Step

__all__ = [
    "AssumeColor",
    "ColorJitter",
    "ColorTwist",
    "Grayscale",
    "Normalize",
    "RandomGrayscale",
    "RandomPhotometricDistort",
    "ToneMap",
]


@dataclass(frozen=True, init=False)
class ColorJitter(Transform):
    """Change brightness, contrast, saturation and hue by random amounts, in a random order.

    Hue is shifted in HSV, which needs a second pass over the result. Values are rounded and clamped before and after
    that shift, and not between the other changes.

    Args:
        brightness: (low, high) of a factor, not negative; a number b means `(max(0, 1 - b), 1 + b)`. 0 or `None`:
            no change.
        contrast: As `brightness`.
        saturation: As `brightness`.
        hue: (low, high) of a shift as a fraction of the full circle, -0.5 to 0.5; a number h means `(-h, h)`. 0 or
            `None`: no change.
        per_frame: Draw for each frame.

    Example:
        >>> import framespool as fsp
        >>> fsp.transforms.ColorJitter(brightness=0.4, hue=0.1).brightness
        (0.6, 1.4)
    """

    brightness: tuple[float, float] | None
    contrast: tuple[float, float] | None
    saturation: tuple[float, float] | None
    hue: tuple[float, float] | None
    per_frame: bool

    def __init__(
        self,
        brightness: float | Sequence[float] | None = 0,
        contrast: float | Sequence[float] | None = 0,
        saturation: float | Sequence[float] | None = 0,
        hue: float | Sequence[float] | None = 0,
        *,
        per_frame: bool = False,
    ) -> None:
        shift = (0.0, 0.0) if hue is None else range_around("ColorJitter: hue", hue, 0.0, least=-0.5, most=0.5)
        self._set(
            brightness=as_factor("ColorJitter: brightness", brightness),
            contrast=as_factor("ColorJitter: contrast", contrast),
            saturation=as_factor("ColorJitter: saturation", saturation),
            hue=None if shift == (0.0, 0.0) else shift,
            per_frame=boolean("ColorJitter: per_frame", per_frame),
        )


@dataclass(frozen=True, init=False)
class RandomPhotometricDistort(Transform):
    """Change brightness, contrast, saturation, hue and the order of the channels, each with probability `p`.

    This is the photometric distortion of SSD (Liu et al., "SSD: Single Shot MultiBox Detector", 2016), as torchvision's
    class does it: brightness first, then saturation and hue, and contrast before or after these two. Hue needs a second
    pass, as in `ColorJitter`.

    Args:
        brightness: (low, high) of a factor, 0 to 20; a number is both ends.
        contrast: As `brightness`.
        saturation: As `brightness`.
        hue: (low, high) of a shift as a fraction of the full circle, -0.5 to 0.5; a number is both ends.
        p: Probability of each of the five changes, 0 to 1.
        per_frame: Draw for each frame.

    Raises:
        ArgumentError: If an argument is invalid.

    Example:
        >>> import framespool as fsp
        >>> distort = fsp.transforms.RandomPhotometricDistort()
        >>> [drawn] = fsp.transforms.sample_params((90, 160), [distort])
        >>> sorted(drawn)
        ['brightness', 'channels', 'contrast', 'contrast_first', 'hue', 'name', 'saturation']
    """

    brightness: tuple[float, float]
    contrast: tuple[float, float]
    saturation: tuple[float, float]
    hue: tuple[float, float]
    p: float
    per_frame: bool

    def __init__(
        self,
        brightness: float | Sequence[float] = (0.875, 1.125),
        contrast: float | Sequence[float] = (0.5, 1.5),
        saturation: float | Sequence[float] = (0.5, 1.5),
        hue: float | Sequence[float] = (-0.05, 0.05),
        p: float = 0.5,
        *,
        per_frame: bool = False,
    ) -> None:
        self._set(
            brightness=as_range("RandomPhotometricDistort: brightness", brightness, least=0, most=20),
            contrast=as_range("RandomPhotometricDistort: contrast", contrast, least=0, most=20),
            saturation=as_range("RandomPhotometricDistort: saturation", saturation, least=0, most=20),
            hue=as_range("RandomPhotometricDistort: hue", hue, least=-0.5, most=0.5),
            p=as_probability("RandomPhotometricDistort", p),
            per_frame=boolean("RandomPhotometricDistort: per_frame", per_frame),
        )


@dataclass(frozen=True, init=False)
class ColorTwist(Transform):
    """Change hue, then saturation, contrast and brightness, as DALI's `color_twist`.

    Hue and saturation are applied in YIQ, contrast about 128. Unlike in DALI, values are clamped at the end of the list
    only.

    Args:
        brightness: A factor, 0 to 20, or (low, high) to draw from.
        contrast: As `brightness`.
        saturation: As `brightness`.
        hue: Degrees, or (low, high) to draw from.
        per_frame: Draw for each frame.

    Example:
        >>> import framespool as fsp
        >>> transforms = [fsp.transforms.ColorTwist(hue=(-20, 20), saturation=(0.5, 1.5))]
        >>> fsp.Video("a.mp4").clip(start=0, sequence_length=4, transforms=transforms).frames.shape
        (4, 3, 360, 640)
    """

    brightness: tuple[float, float]
    contrast: tuple[float, float]
    saturation: tuple[float, float]
    hue: tuple[float, float]
    per_frame: bool

    def __init__(
        self,
        brightness: float | Sequence[float] = 1,
        contrast: float | Sequence[float] = 1,
        saturation: float | Sequence[float] = 1,
        hue: float | Sequence[float] = 0,
        *,
        per_frame: bool = False,
    ) -> None:
        self._set(
            brightness=as_range("ColorTwist: brightness", brightness, least=0, most=20),
            contrast=as_range("ColorTwist: contrast", contrast, least=0, most=20),
            saturation=as_range("ColorTwist: saturation", saturation, least=0, most=20),
            hue=as_range("ColorTwist: hue", hue, least=-1e6, most=1e6),
            per_frame=boolean("ColorTwist: per_frame", per_frame),
        )


@dataclass(frozen=True, init=False)
class RandomGrayscale(Transform):
    """Convert the frame to gray, in three equal channels, with probability `p`.

    Args:
        p: Probability, 0 to 1.
        per_frame: Draw for each frame.

    Example:
        >>> import framespool as fsp
        >>> transforms = [fsp.transforms.RandomGrayscale(p=0.2)]
        >>> fsp.Video("a.mp4").clip(start=0, sequence_length=4, transforms=transforms).frames.shape
        (4, 3, 360, 640)
    """

    p: float
    per_frame: bool

    def __init__(self, p: float = 0.1, *, per_frame: bool = False) -> None:
        self._set(p=as_probability("RandomGrayscale", p), per_frame=boolean("RandomGrayscale: per_frame", per_frame))


@dataclass(frozen=True, init=False)
class Grayscale(Transform):
    """Convert the frame to gray, in three equal channels; torchvision's default is one channel.

    Args:
        num_output_channels: Must be 3.

    Raises:
        ArgumentError: If `num_output_channels` is not 3.

    Example:
        >>> import framespool as fsp
        >>> transforms = [fsp.transforms.Grayscale()]
        >>> fsp.Video("a.mp4").clip(start=0, sequence_length=4, transforms=transforms).frames.shape
        (4, 3, 360, 640)
    """

    def __init__(self, num_output_channels: Literal[3] = 3) -> None:
        if num_output_channels != 3:
            raise ArgumentError(
                f"Grayscale: num_output_channels must be 3, got {num_output_channels!r}; take one channel of the result"
            )

    def _step(self) -> Step:
        return RandomGrayscale(1)._step()


@dataclass(frozen=True, init=False)
class AssumeColor(Transform):
    """Override the color metadata of the stream; `None` uses the stream's own.

    Args:
        matrix: Matrix between YUV and RGB, by its name in ITU-T H.273. JPEG files that are decoded with `exact=True`
            are RGB already and not affected.
        range: `"limited"` has black at 16 and white at 235 (of 8 bits), `"full"` uses all values.

    Example:
        >>> import framespool as fsp
        >>> video = fsp.Video("a.mp4")
        >>> video.frames([0], transforms=[fsp.transforms.AssumeColor(matrix="bt709", range="limited")]).frames.shape
        (1, 3, 360, 640)
    """

    matrix: Literal["bt601", "bt709", "bt2020", "fcc", "smpte240m", "ycgco"] | None
    range: Literal["limited", "full"] | None

    def __init__(
        self,
        matrix: Literal["bt601", "bt709", "bt2020", "fcc", "smpte240m", "ycgco"] | None = None,
        range: Literal["limited", "full"] | None = None,
    ) -> None:
        if matrix is not None:
            choice("AssumeColor: matrix", matrix, ("bt601", "bt709", "bt2020", "fcc", "smpte240m", "ycgco"))
        if range is not None:
            choice("AssumeColor: range", range, ("limited", "full"))
        self._set(matrix=matrix, range=range)


@dataclass(frozen=True, init=False)
class ToneMap(Transform):
    """Map video of high dynamic range (PQ or HLG) to BT.709 colors of standard dynamic range.

    The operator is the EETF of ITU-R BT.2390 (section 5.4.1, from black to black) on luminance, with R, G and B
    multiplied by the same factor (its "YRGB"). Luminance below a knee is unchanged; luminance between the knee and
    `source_peak` is compressed to end at `target_peak`. PQ is display light (SMPTE ST 2084); HLG gets the OOTF of ITU-R
    BT.2100 for a display of `source_peak`.

    Colors are then converted to the primaries of BT.709, clipped, and encoded by the inverse of BT.1886 (a power of
    1/2.4). Resizing precedes this, on the samples as the video stores them. Metadata of the video (mastering display,
    content light level) is not used: every frame of every video is mapped the same way.

    Video that is not PQ or HLG, images and arrays are unchanged. Color transforms must follow it. Primaries are those
    of the stream, or BT.2020 if it does not state them. Float results keep more than 8 bits.

    Args:
        target_peak: Luminance in cd/m2 that becomes white (255), 10 to 10000; 203 is the reference white of ITU-R
            BT.2408.
        source_peak: Luminance in cd/m2 above which values are not distinguished, 10 to 10000.

    Raises:
        ArgumentError: If a value is out of range.
        UnsupportedError: While decoding, if the white point of the primaries is not D65.

    Example:
        >>> import framespool as fsp
        >>> video = fsp.Video("a.mp4")
        >>> video.frames([0], transforms=[fsp.transforms.ToneMap()]).frames.shape
        (1, 3, 360, 640)
    """

    target_peak: float
    source_peak: float

    def __init__(self, target_peak: float = 203.0, source_peak: float = 1000.0) -> None:
        self._set(
            target_peak=number("ToneMap: target_peak", target_peak, least=10, most=10000),
            source_peak=number("ToneMap: source_peak", source_peak, least=10, most=10000),
        )


@dataclass(frozen=True, init=False)
class Normalize(Transform):
    """Compute `(value / 255 - mean) / std` for each channel; needs a float dtype.

    Args:
        mean: Three numbers, or one for all channels, for values in 0..1.
        std: Three numbers, or one for all channels, for values in 0..1; not 0.

    Raises:
        ArgumentError: If `std` has a 0.

    Example:
        >>> import framespool as fsp
        >>> transforms = [fsp.transforms.Resize((8, 8)), fsp.transforms.Normalize(mean=0.5, std=0.5)]
        >>> fsp.Video("a.mp4").frames([0], transforms=transforms, dtype="float32").frames.dtype
        'float32'
    """

    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    def __init__(self, mean: float | Sequence[float], std: float | Sequence[float]) -> None:
        self._set(mean=as_channels("Normalize: mean", mean), std=as_channels("Normalize: std", std))
        if 0.0 in self.std:
            raise ArgumentError(f"Normalize: std must not be 0, got {std!r}")
