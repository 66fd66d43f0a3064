"""Batches that are limited by what their clips cost, in place of a number of clips."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from framespool._common.validate_args import as_sequence, boolean, choice, integer
from framespool.errors import ArgumentError

#: Clips per batch that the order assumes if batches have a budget: how far a grouped shuffle spreads a video.
_USUAL_CLIPS = 8


@dataclass(frozen=True)
class PixelBudget:
    """Limits the pixels of a batch: frames x height x width, summed over its clips.

    In place of a `batch_size`. Batches then have different numbers of clips, and clips of like shape share a batch; see
    docs/howto/batches.md. A clip that is larger than the budget is a batch of its own.

    Args:
        pixels: Maximum number of pixels.
        max_clips: Maximum number of clips. `None`: no limit.

    Raises:
        ArgumentError: If an argument is invalid.

    Example:
        >>> import framespool as fsp
        >>> loader = fsp.ClipLoader(
        ...     fsp.datasets.folder("videos/"),
        ...     fsp.samplers.RandomClips(sequence_length=8),
        ...     batch_size=fsp.PixelBudget(2 * 8 * 112 * 112),
        ...     transforms=[fsp.transforms.Resize((112, 112))],
        ... )
        >>> len(next(iter(loader)))
        2
    """

    pixels: int
    _: KW_ONLY
    max_clips: int | None = None

    def __post_init__(self) -> None:
        integer("pixels", self.pixels, least=1, most=2**63)
        _check_max_clips(self.max_clips)


@dataclass(frozen=True)
class TokenBudget:
    """Limits the tokens of a batch of a video-language model, as `PixelBudget` limits pixels.

    A token is two frames x a square of the factor of `transforms.SmartResize`, which must be one of the transforms.

    Args:
        tokens: Maximum number of tokens.
        max_clips: Maximum number of clips. `None`: no limit.
        text: Name of a column of the dataset with the number of text tokens of each sample, which count, too. `None`:
            only the tokens of frames count.

    Raises:
        ArgumentError: If an argument is invalid.

    Example:
        >>> import framespool as fsp
        >>> loader = fsp.ClipLoader(
        ...     fsp.datasets.folder("videos/"),
        ...     fsp.samplers.RandomClips(sequence_length=8),
        ...     batch_size=fsp.TokenBudget(1024),
        ...     transforms=[fsp.transforms.SmartResize(factor=28, max_pixels=128 * 28 * 28)],
        ... )
        >>> batch = next(iter(loader))
    """

    tokens: int
    _: KW_ONLY
    max_clips: int | None = None
    text: str | None = None

    def __post_init__(self) -> None:
        integer("tokens", self.tokens, least=1, most=2**63)
        _check_max_clips(self.max_clips)
        if self.text is not None and not isinstance(self.text, str):
            raise ArgumentError(f"text must be the name of a column, got {self.text!r}")


#: Ratios of width and height of usual videos.
_ASPECTS = ("16:9", "3:2", "4:3", "1:1", "3:4", "2:3", "9:16")


@dataclass(frozen=True)
class Buckets:
    """Batches whose clips have one size and one length, as models of video generation need.

    Each video gets the size whose shape is nearest to its own, and the longest of `frames` that fits into it. All clips
    of a batch are of one bucket, a size with a length, and `frames` of the batch is one tensor. The ranks of a step
    have batches of one bucket where the numbers of clips permit it. See docs/howto/batches.md.

    Args:
        area: Number of pixels of a frame that the sizes approximate, such as `480 * 832`; they are computed for each of
            `aspects`.
        multiple: Divisor of both sides in pixels: the factor of the VAE times the patch size of the model. Only with
            `area`.
        aspects: Ratios of width and height, as numbers or as `"16:9"`. Only with `area`.
        sizes: (height, width) of each bucket, in place of `area`.
        frames: Lengths of clips, of which each video gets the longest that fits. They replace the `sequence_length` of
            the clip sampler, whose `padding` says what happens to videos that are too short for the shortest one.
            `None`: the clips of the clip sampler.
        frame_rule: What each of `frames` must be, such as `"4n+1"` or `"8n+1"`; needs `frames`. `None`: any number.
        fit: What becomes of a video whose shape is not that of its size: `"cover"` cuts off what is too much on both
            sides, `"random_cover"` cuts it off at a random position, `"letterbox"` adds black on both sides,
            `"stretch"` changes the shape.
        display_aspect: Whether the shape of a video is that of its display, as players show it. `False`: that of its
            stored frames, as of programs that ignore the sample aspect ratio.

    Attributes:
        sizes: (height, width) of all buckets; also those that follow from `area`.

    Raises:
        ArgumentError: If an argument is invalid, or both or none of `area` and `sizes` are given.

    Example:
        >>> import framespool as fsp
        >>> buckets = fsp.Buckets(area=480 * 832, multiple=32, frames=(17, 33, 49, 81), frame_rule="4n+1")
        >>> buckets.sizes[:3]
        ((480, 832), (512, 768), (544, 736))
        >>> loader = fsp.ClipLoader(
        ...     fsp.datasets.folder("videos/"),
        ...     fsp.samplers.RandomClips(sequence_length=33, fps=16),
        ...     batch_size=2,
        ...     buckets=fsp.Buckets(area=96 * 160, multiple=16, frames=(9, 17, 33)),
        ... )
        >>> sorted({batch.frames.shape[1:] for batch in loader})
        [(33, 3, 112, 144)]
    """

    area: int | None = None
    multiple: int = 32
    aspects: Sequence[float | str] = _ASPECTS
    _: KW_ONLY
    sizes: Sequence[Sequence[int]] | None = None
    frames: Sequence[int] | None = None
    frame_rule: str | None = None
    fit: Literal["cover", "random_cover", "letterbox", "stretch"] = "cover"
    display_aspect: bool = True

    def __post_init__(self) -> None:
        boolean("display_aspect", self.display_aspect)
        choice("fit", self.fit, ("cover", "random_cover", "letterbox", "stretch"))
        if self.area is None and self.sizes is None:
            raise ArgumentError("Buckets: give either area or sizes")
        sizes = tuple(dict.fromkeys(self._given() if self.area is None else self._of_area()))
        # `dataclasses.replace` passes the sizes that followed from the area.
        if self.area is not None and self.sizes is not None and tuple(self._given()) != sizes:
            raise ArgumentError(
                "Buckets: give either area or sizes; for dataclasses.replace() with another area, multiple or "
                "aspects, add sizes=None"
            )
        object.__setattr__(self, "sizes", sizes)
        if self.frames is not None:
            lengths = as_sequence(self.frames)
            if not lengths:
                raise ArgumentError(f"Buckets: frames must be a list of lengths, got {self.frames!r}")
            checked = sorted({integer("frames", length, least=1, most=2**24) for length in lengths}, reverse=True)
            object.__setattr__(self, "frames", tuple(checked))
        self._check_rule()

    def _of_area(self) -> list[tuple[int, int]]:
        area = integer("area", self.area, least=1, most=2**32)
        multiple = integer("multiple", self.multiple, least=1, most=2**15)
        aspects = as_sequence(self.aspects)
        if not aspects:
            raise ArgumentError(f"Buckets: aspects must be a list of ratios, got {self.aspects!r}")

        def side(length: float) -> int:
            return max(1, round(length / multiple)) * multiple

        ratios = [_ratio(aspect) for aspect in aspects]
        return [(side(math.sqrt(area / ratio)), side(math.sqrt(area * ratio))) for ratio in ratios]

    def _given(self) -> list[tuple[int, int]]:
        found = []
        for size in as_sequence(self.sizes) or ():
            sides = as_sequence(size)
            if sides is None or len(sides) != 2:
                raise ArgumentError(f"Buckets: each of sizes must be (height, width), got {size!r}")
            height, width = (integer("sizes", side, least=1, most=2**15) for side in sides)
            found.append((height, width))
        if not found:
            raise ArgumentError(f"Buckets: sizes must be a list of (height, width), got {self.sizes!r}")
        return found

    def _check_rule(self) -> None:
        if self.frame_rule is None:
            return
        rule = re.fullmatch(r"\s*(\d+)\s*n\s*\+\s*(\d+)\s*", str(self.frame_rule))
        if rule is None or int(rule[1]) < 1:
            raise ArgumentError(f'Buckets: frame_rule must be such as "4n+1", got {self.frame_rule!r}')
        if self.frames is None:
            raise ArgumentError("Buckets: frame_rule is about frames; give the lengths of clips as frames")
        step, first = int(rule[1]), int(rule[2])
        for length in self.frames:
            if (length - first) % step or length < first:
                below = first + max(0, (length - first) // step) * step
                raise ArgumentError(
                    f"Buckets: a clip of {length} frames is not {self.frame_rule}; the nearest are {below} and "
                    f"{below + step}"
                )


def _ratio(aspect: Any) -> float:
    """A ratio of width and height, given as a number or as "16:9"."""
    parts = aspect.split(":") if isinstance(aspect, str) else [aspect]
    try:
        ratio = float(parts[0]) / (float(parts[1]) if len(parts) == 2 else 1.0)
        if len(parts) <= 2 and 0.01 <= ratio <= 100:
            return ratio
    except (TypeError, ValueError, ZeroDivisionError):
        pass
    raise ArgumentError(f'Buckets: each of aspects must be a ratio of width and height, such as "16:9", got {aspect!r}')


def _check_max_clips(max_clips: Any) -> None:
    if max_clips is not None:
        integer("max_clips", max_clips, least=1)


def clips_per_batch(batch_size: Any) -> int:
    """Converts the argument `batch_size` of a loader.

    Args:
        batch_size: A number, or a budget.

    Returns:
        The number; with a budget the one that the order assumes.

    Raises:
        ArgumentError: If it is neither.
    """
    if isinstance(batch_size, (PixelBudget, TokenBudget)):
        return _USUAL_CLIPS if batch_size.max_clips is None else batch_size.max_clips
    return integer("batch_size", batch_size)
