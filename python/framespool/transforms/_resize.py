"""Transforms that resize the frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from framespool._common.validate_args import as_sequence, boolean, choice, integer
from framespool.errors import ArgumentError
from framespool.transforms._args import MAX_SIDE, Transform, as_fill, as_interpolation, as_sides, as_size

__all__ = ["Letterbox", "RandomShortestSize", "Resize", "SmartResize"]


@dataclass(frozen=True, init=False)
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

    size: int | tuple[int, int]
    interpolation: str
    max_size: int | None
    antialias: bool
    side: Literal["shorter", "longer"]
    fit: Literal["exact", "cover"]
    display_aspect: bool

    def __init__(
        self,
        size: int | Sequence[int] | None,
        interpolation: str | int | Enum = "bilinear",
        max_size: int | None = None,
        antialias: bool = True,
        *,
        side: Literal["shorter", "longer"] = "shorter",
        fit: Literal["exact", "cover"] = "exact",
        display_aspect: bool = False,
    ) -> None:
        if side not in ("shorter", "longer"):
            raise ArgumentError(f'Resize: side must be "shorter" or "longer", got {side!r}')
        choice("Resize: fit", fit, ("exact", "cover"))
        if size is None:
            if max_size is None:
                raise ArgumentError("Resize: size is None; give a size, or max_size for the longer side")
            size, max_size, side = max_size, None, "longer"
        sides = as_sides("Resize", size)
        if len(sides) == 2 and side == "longer":
            raise ArgumentError(f'Resize: side="longer" needs an int for size, got {size!r}')
        if len(sides) == 1 and fit == "cover":
            raise ArgumentError(f'Resize: fit="cover" needs (height, width) for size, got {size!r}')
        if max_size is not None:
            if len(sides) == 2 or side == "longer":
                given = f"size={size!r}, side={side!r}"
                raise ArgumentError(f"Resize: max_size={max_size!r} needs an int size of the shorter side, got {given}")
            max_size = integer("Resize: max_size", max_size, least=1, most=MAX_SIDE)
            if max_size <= sides[0]:
                raise ArgumentError(f"Resize: max_size must be greater than size={sides[0]}, got {max_size}")
        self._set(
            size=sides[0] if len(sides) == 1 else sides,
            interpolation=as_interpolation("Resize", interpolation, resizes=True),
            max_size=max_size,
            antialias=boolean("Resize: antialias", antialias),
            side=side,
            fit=fit,
            display_aspect=boolean("Resize: display_aspect", display_aspect),
        )


@dataclass(frozen=True, init=False)
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

    min_size: tuple[int, ...] | range
    max_size: int | None
    interpolation: str
    antialias: bool
    display_aspect: bool

    def __init__(
        self,
        min_size: int | Sequence[int],
        max_size: int | None = None,
        interpolation: str | int | Enum = "bilinear",
        antialias: bool = True,
        *,
        display_aspect: bool = False,
    ) -> None:
        sizes = min_size if isinstance(min_size, range) else as_sequence(min_size)
        sizes = (min_size,) if sizes is None else sizes
        if len(sizes) == 0:
            raise ArgumentError(f"RandomShortestSize: min_size must have at least one length, got {min_size!r}")
        checked = tuple(integer("RandomShortestSize: min_size", size, least=1, most=MAX_SIDE) for size in sizes)
        if max_size is not None:
            max_size = integer("RandomShortestSize: max_size", max_size, least=1, most=MAX_SIDE)
        self._set(
            min_size=sizes if isinstance(sizes, range) else checked,
            max_size=max_size,
            interpolation=as_interpolation("RandomShortestSize", interpolation, resizes=True),
            antialias=boolean("RandomShortestSize: antialias", antialias),
            display_aspect=boolean("RandomShortestSize: display_aspect", display_aspect),
        )


@dataclass(frozen=True, init=False)
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

    factor: int
    min_pixels: int
    max_pixels: int
    total_pixels: int | None
    interpolation: str
    antialias: bool
    display_aspect: bool

    def __init__(
        self,
        factor: int = 28,
        min_pixels: int | None = None,
        max_pixels: int | None = None,
        total_pixels: int | None = None,
        interpolation: str | int | Enum = "bicubic",
        antialias: bool = True,
        *,
        display_aspect: bool = False,
    ) -> None:
        factor = integer("SmartResize: factor", factor, least=1, most=MAX_SIDE)
        limits = {}
        for name, value, default in (("min_pixels", min_pixels, 128), ("max_pixels", max_pixels, 768)):
            value = default * factor**2 if value is None else value
            limits[name] = integer(f"SmartResize: {name}", value, least=1, most=MAX_SIDE**2)
        if limits["max_pixels"] < limits["min_pixels"]:
            given = f"{limits['min_pixels']} and {limits['max_pixels']}"
            raise ArgumentError(f"SmartResize: max_pixels must be at least min_pixels, got {given}")
        if total_pixels is not None:
            total_pixels = integer("SmartResize: total_pixels", total_pixels, least=1, most=2**53)
        self._set(
            factor=factor,
            **limits,
            total_pixels=total_pixels,
            interpolation=as_interpolation("SmartResize", interpolation, resizes=True),
            antialias=boolean("SmartResize: antialias", antialias),
            display_aspect=boolean("SmartResize: display_aspect", display_aspect),
        )


@dataclass(frozen=True, init=False)
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

    size: tuple[int, int]
    fill: tuple[float, float, float]
    interpolation: str
    antialias: bool
    display_aspect: bool

    def __init__(
        self,
        size: int | Sequence[int],
        fill: float | Sequence[float] = 0,
        interpolation: str | int | Enum = "bilinear",
        antialias: bool = True,
        *,
        display_aspect: bool = False,
    ) -> None:
        self._set(
            size=as_size("Letterbox", size),
            fill=as_fill("Letterbox", fill),
            interpolation=as_interpolation("Letterbox", interpolation, resizes=True),
            antialias=boolean("Letterbox: antialias", antialias),
            display_aspect=boolean("Letterbox: display_aspect", display_aspect),
        )
