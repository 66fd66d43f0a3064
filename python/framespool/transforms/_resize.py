"""Transforms that resize the frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated, Any, Literal

from framespool._common.validate_args import as_sequence, integer
from framespool.errors import ArgumentError
from framespool.transforms._args import (
    MAX_SIDE,
    Fill,
    OptionalSide,
    ResizeInterpolation,
    Side,
    Size,
    Transform,
    as_sides,
    optional,
)

__all__ = ["Letterbox", "RandomShortestSize", "Resize", "ResizeToNearest", "SmartResize"]


_pixels = partial(integer, least=1, most=MAX_SIDE**2)


def _as_side_or_size(name: str, size: Any) -> int | tuple[int, ...]:
    sides = as_sides(name, size)
    return sides[0] if len(sides) == 1 else sides


def _as_lengths(name: str, lengths: Any) -> tuple[int, ...] | range:
    sizes = lengths if isinstance(lengths, range) else as_sequence(lengths)
    sizes = (lengths,) if sizes is None else sizes
    if len(sizes) == 0:
        raise ArgumentError(f"{name} must have at least one length, got {lengths!r}")
    checked = tuple(integer(name, size, least=1, most=MAX_SIDE) for size in sizes)
    return sizes if isinstance(sizes, range) else checked


@dataclass(frozen=True)
class Resize(Transform):
    """Resize the frame.

    Args:
        size: (height, width), or an int for the shorter side, in pixels. The longer side becomes `int(size * longer /
            shorter)`; with `side="longer"` the shorter one becomes `int(size * shorter / longer)`. `None` with
            `max_size` gives the longer side, as in torchvision.
        interpolation: `"bilinear"`, `"bicubic"` or `"nearest"`.
        max_size: Upper limit of the longer side in pixels, only for a given shorter side.
        antialias: Filter when downscaling with bilinear or bicubic interpolation.
        side: The side that an int `size` gives, `"shorter"` or `"longer"`.
        fit: What becomes of a frame whose shape is not that of (height, width): `"exact"` stretches it. `"cover"` keeps
            its shape and makes the smallest frame that is at least as high and as wide; `CenterCrop` or `RandomCrop`
            of the same size then removes the rest.
        display_aspect: Compute the other side from the display size, `VideoInfo.display_width` and `display_height`, so
            that the result has square pixels. With (height, width) the result is the same, and its pixels count as
            square in later transforms.

    Raises:
        ArgumentError: If an argument is invalid, or two contradict each other.

    Example:
        >>> import framespool as fsp
        >>> video = fsp.Video("a.mp4")
        >>> video.frames([0], transforms=[fsp.transforms.Resize(180)]).frames.shape
        (1, 3, 180, 320)
        >>> cover = [fsp.transforms.Resize((128, 192), fit="cover"), fsp.transforms.CenterCrop((128, 192))]
        >>> video.frames([0], transforms=cover).frames.shape
        (1, 3, 128, 192)
    """

    _moves_pixels = True
    size: Annotated[int | Sequence[int] | None, _as_side_or_size]
    interpolation: ResizeInterpolation = "bilinear"
    max_size: OptionalSide = None
    antialias: bool = True
    _: KW_ONLY
    side: Literal["shorter", "longer"] = "shorter"
    fit: Literal["exact", "cover"] = "exact"
    display_aspect: bool = False

    def __post_init__(self) -> None:
        if self.size is None:
            if self.max_size is None:
                raise ArgumentError("Resize: size is None; give a size, or max_size for the longer side")
            self._set(size=self.max_size, max_size=None, side="longer")
        super().__post_init__()
        size, max_size = self.size, self.max_size
        if not isinstance(size, int) and self.side == "longer":
            raise ArgumentError(f'Resize: side="longer" needs an int for size, got {size!r}')
        if isinstance(size, int) and self.fit == "cover":
            raise ArgumentError(f'Resize: fit="cover" needs (height, width) for size, got {size!r}')
        if max_size is not None:
            if not isinstance(size, int) or self.side == "longer":
                given = f"size={size!r}, side={self.side!r}"
                raise ArgumentError(f"Resize: max_size={max_size!r} needs an int size of the shorter side, got {given}")
            if max_size <= size:
                raise ArgumentError(f"Resize: max_size must be greater than size={size}, got {max_size}")

    def _variant(self) -> tuple[str, dict[str, Any]]:
        name, values = super()._variant()
        size, side, fit, longest = (values.pop(each) for each in ("size", "side", "fit", "max_size"))
        target: dict[str, Any]
        if isinstance(size, tuple):
            target = {"Cover" if fit == "cover" else "Exact": size}
        else:
            target = {"Longer": size} if side == "longer" else {"Shorter": {"size": size, "longest": longest}}
        return name, {**values, "target": target}


@dataclass(frozen=True)
class RandomShortestSize(Transform):
    """Resize the shorter side to a length drawn from a list, and keep the shape of the frame.

    `RandomShortestSize(range(256, 321))` before a crop is the scale jitter of SlowFast: any length from 256 to 320.
    Each clip has its own size, so a crop must follow if clips are to form a batch. The shorter side is exactly as drawn
    and the longer one is truncated; in torchvision both may be a pixel less, by rounding.

    Args:
        min_size: Lengths of the shorter side in pixels, of which one is drawn: a list or a `range`. As in torchvision,
            `(256, 320)` is a list of two lengths, not the lengths between them. An int is always this length.
        max_size: Upper limit of the longer side in pixels; the shorter side is then less than drawn.
        interpolation: `"bilinear"`, `"bicubic"` or `"nearest"`.
        antialias: Filter when downscaling with bilinear or bicubic interpolation.
        display_aspect: Compute the sides from the display size, as for `Resize`.

    Raises:
        ArgumentError: If an argument is invalid.

    Example:
        >>> import framespool as fsp
        >>> t = fsp.transforms
        >>> transforms = [t.RandomShortestSize(range(128, 161)), t.RandomCrop(112)]
        >>> fsp.Video("a.mp4").frames([0, 1], transforms=transforms, seed=1).frames.shape
        (2, 3, 112, 112)
    """

    _moves_pixels = True
    _keeps_one_size = False
    min_size: Annotated[int | Sequence[int], _as_lengths]
    max_size: OptionalSide = None
    interpolation: ResizeInterpolation = "bilinear"
    antialias: bool = True
    _: KW_ONLY
    display_aspect: bool = False


@dataclass(frozen=True)
class SmartResize(Transform):
    """Resize the frame to sides that are multiples of a number, as vision-language models of the Qwen family need.

    The ratio of the sides is kept as far as the multiples allow. The size is that of `smart_resize` in qwen-vl-utils
    and transformers, the largest number of pixels that of `fetch_video` in qwen-vl-utils. Videos of different sizes,
    and with `total_pixels` also clips of different lengths, get different sizes: a batch is then a list of clips.

    Args:
        factor: Divisor of both sides in pixels: patch size times merge size, 28 for Qwen2-VL and Qwen2.5-VL, 32 for
            Qwen3-VL.
        min_pixels: Least number of pixels of a frame. `None`: `128 * factor**2`.
        max_pixels: Largest number of pixels of a frame. `None`: `768 * factor**2`.
        total_pixels: Limit for all frames of a clip, of which models take two at a time: a frame has at most
            `2 * total_pixels / num_frames` pixels, but never fewer than `1.05 * min_pixels`. `None`: no limit.
        interpolation: `"bicubic"`, `"bilinear"` or `"nearest"`.
        antialias: Filter when downscaling with bilinear or bicubic interpolation.
        display_aspect: Compute the sides from the display size, as for `Resize`.

    Raises:
        ArgumentError: If an argument is invalid; for a clip, if one side is more than 200 times the other.

    Example:
        >>> import framespool as fsp
        >>> smart = fsp.transforms.SmartResize(factor=28, max_pixels=256 * 28 * 28)
        >>> fsp.Video("a.mp4").frames([0], transforms=[smart]).frames.shape
        (1, 3, 336, 588)
    """

    _moves_pixels = True
    factor: Side = 28
    min_pixels: Annotated[int | None, optional(_pixels)] = None
    max_pixels: Annotated[int | None, optional(_pixels)] = None
    total_pixels: Annotated[int | None, optional(partial(integer, least=1, most=2**53))] = None
    interpolation: ResizeInterpolation = "bicubic"
    antialias: bool = True
    _: KW_ONLY
    display_aspect: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        least = _pixels("SmartResize: min_pixels", self.min_pixels or 128 * self.factor**2)
        most = _pixels("SmartResize: max_pixels", self.max_pixels or 768 * self.factor**2)
        if most < least:
            raise ArgumentError(f"SmartResize: max_pixels must be at least min_pixels, got {least} and {most}")
        self._set(min_pixels=least, max_pixels=most)

    def _variant(self) -> tuple[str, dict[str, Any]]:
        _, values = super()._variant()
        limits = {each: values.pop(each) for each in ("factor", "min_pixels", "max_pixels", "total_pixels")}
        return "Resize", {**values, "target": {"Multiple": limits}}


@dataclass(frozen=True)
class Letterbox(Transform):
    """Resize to the largest frame of the same shape that fits inside `size`, and pad evenly on both sides.

    Args:
        size: Size of the result, an int for a square, or (height, width); in pixels.
        fill: Value of added pixels.
        interpolation: `"bilinear"`, `"bicubic"` or `"nearest"`.
        antialias: Filter when downscaling with bilinear or bicubic interpolation.
        display_aspect: Fit the frame of display size, as for `Resize`.

    Example:
        >>> import framespool as fsp
        >>> fsp.Video("a.mp4").frames([0], transforms=[fsp.transforms.Letterbox(256)]).frames.shape
        (1, 3, 256, 256)
    """

    _has_fixed_size = True
    size: Size
    fill: Fill = 0
    interpolation: ResizeInterpolation = "bilinear"
    antialias: bool = True
    _: KW_ONLY
    display_aspect: bool = False


def _as_sizes(name: str, sizes: Any) -> tuple[tuple[int, int], ...]:
    entries = as_sequence(sizes)
    if not entries:
        raise ArgumentError(f"{name} must be a list of (height, width), got {sizes!r}")
    found = [as_sides(name, entry) for entry in entries]
    return tuple((sides[0], sides[-1]) for sides in found)


@dataclass(frozen=True)
class ResizeToNearest(Transform):
    """Resize to the one of several sizes whose ratio of the sides is nearest to that of the frame.

    Of videos of several shapes, each gets one of few sizes. `Buckets` puts those of one size into a batch.

    Args:
        sizes: (height, width) of each size in pixels.
        fit: `"cover"` keeps the shape of the frame and cuts off what is too much on both sides, `"random_cover"` cuts
            it off at a random position, `"letterbox"` adds `fill` on both sides, `"stretch"` changes the shape.
        fill: Value of added pixels.
        interpolation: `"bilinear"`, `"bicubic"` or `"nearest"`.
        antialias: Filter when downscaling with bilinear or bicubic interpolation.
        display_aspect: Compare and fit the frame of display size, as for `Resize`.

    Raises:
        ArgumentError: If an argument is invalid.

    Example:
        >>> import framespool as fsp
        >>> nearest = fsp.transforms.ResizeToNearest([(96, 160), (128, 128), (160, 96)])
        >>> fsp.Video("a.mp4").frames([0], transforms=[nearest]).frames.shape
        (1, 3, 96, 160)
    """

    _moves_pixels = True
    _keeps_one_size = False
    sizes: Annotated[Sequence[Sequence[int]], _as_sizes]
    fit: Literal["cover", "random_cover", "letterbox", "stretch"] = "cover"
    fill: Fill = 0
    interpolation: ResizeInterpolation = "bilinear"
    antialias: bool = True
    _: KW_ONLY
    display_aspect: bool = False
