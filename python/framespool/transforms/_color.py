"""Transforms that change colors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, InitVar, dataclass
from functools import partial
from typing import Annotated, Any, Literal

from framespool._common.validate_args import number
from framespool.errors import ArgumentError
from framespool.transforms._args import Angle, Factor, Probability, Transform, as_channels, as_range, range_around

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


def _unless_neutral(name: str, value: Any, neutral: float, **limits: float) -> tuple[float, float] | None:
    """(low, high) around the neutral value, or `None` if nothing changes."""
    ends = (neutral, neutral) if value is None else range_around(name, value, neutral, **limits)
    return None if ends == (neutral, neutral) else ends


FactorAroundOne = Annotated[float | Sequence[float] | None, partial(_unless_neutral, neutral=1.0, least=0, most=20)]
Luminance = Annotated[float, partial(number, least=10, most=10000)]


@dataclass(frozen=True)
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

    brightness: FactorAroundOne = 0
    contrast: FactorAroundOne = 0
    saturation: FactorAroundOne = 0
    hue: Annotated[float | Sequence[float] | None, partial(_unless_neutral, neutral=0.0, least=-0.5, most=0.5)] = 0
    _: KW_ONLY
    per_frame: bool = False


@dataclass(frozen=True)
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

    brightness: Factor = (0.875, 1.125)
    contrast: Factor = (0.5, 1.5)
    saturation: Factor = (0.5, 1.5)
    hue: Annotated[float | Sequence[float], partial(as_range, least=-0.5, most=0.5)] = (-0.05, 0.05)
    p: Probability = 0.5
    _: KW_ONLY
    per_frame: bool = False


@dataclass(frozen=True)
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

    brightness: Factor = 1
    contrast: Factor = 1
    saturation: Factor = 1
    hue: Angle = 0
    _: KW_ONLY
    per_frame: bool = False


@dataclass(frozen=True)
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

    p: Probability = 0.1
    _: KW_ONLY
    per_frame: bool = False


@dataclass(frozen=True)
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

    num_output_channels: InitVar[Literal[3]] = 3

    def __post_init__(self, num_output_channels: Literal[3]) -> None:
        if num_output_channels != 3:
            raise ArgumentError(
                f"Grayscale: num_output_channels must be 3, got {num_output_channels!r}; take one channel of the result"
            )

    def _step(self) -> dict[str, Any]:
        return RandomGrayscale(1)._step()


@dataclass(frozen=True)
class AssumeColor(Transform):
    """Override the color metadata of the stream; `None` uses the stream's own.

    Args:
        matrix: Matrix between YUV and RGB, by its name in ITU-T H.273. `"luma"` is for planes that are no colors, such
            as depth maps: R, G and B are luma. JPEG files that are decoded with `exact=True` are RGB already and not
            affected.
        range: `"limited"` has black at 16 and white at 235 (of 8 bits), `"full"` uses all values.

    Example:
        >>> import framespool as fsp
        >>> video = fsp.Video("a.mp4")
        >>> video.frames([0], transforms=[fsp.transforms.AssumeColor(matrix="bt709", range="limited")]).frames.shape
        (1, 3, 360, 640)
    """

    matrix: Literal["bt601", "bt709", "bt2020", "fcc", "smpte240m", "ycgco", "luma"] | None = None
    range: Literal["limited", "full"] | None = None


@dataclass(frozen=True)
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

    target_peak: Luminance = 203.0
    source_peak: Luminance = 1000.0


@dataclass(frozen=True)
class Normalize(Transform):
    """Compute `(value / 255 - mean) / std` for each channel; needs a float dtype.

    Args:
        mean: Three numbers, or one for all channels, for values in 0..1.
        std: Three numbers, or one for all channels, for values in 0..1; above 0.

    Raises:
        ArgumentError: If an argument is invalid.

    Example:
        >>> import framespool as fsp
        >>> transforms = [fsp.transforms.Resize((8, 8)), fsp.transforms.Normalize(mean=0.5, std=0.5)]
        >>> fsp.Video("a.mp4").frames([0], transforms=transforms, dtype="float32").frames.dtype
        'float32'
    """

    mean: Annotated[float | Sequence[float], as_channels]
    std: Annotated[float | Sequence[float], partial(as_channels, above=0)]
