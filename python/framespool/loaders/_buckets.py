"""What buckets make of the clip sampler and the options of a loader."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from framespool.errors import ArgumentError
from framespool.options import Buckets, TokenBudget
from framespool.options._loader import LoaderOptions
from framespool.samplers import ClipSampler
from framespool.transforms import ResizeToNearest
from framespool.transforms._compose import listed


class LongestFit(ClipSampler):
    """Takes from each video the longest of several clips that fits.

    Args:
        clip_sampler: The clip sampler; its own `sequence_length` is not used.
        lengths: Frames of a clip, the longest one first.

    Raises:
        ArgumentError: If the clip sampler has no number of frames at a given distance.
    """

    _kind = "longest"

    def __init__(self, clip_sampler: Any, lengths: tuple[int, ...]) -> None:
        name = type(clip_sampler).__name__
        named = {each.name for each in fields(clip_sampler)} if is_dataclass(clip_sampler) else set()
        if not named >= {"sequence_length", "padding"}:
            raise ArgumentError(f"Buckets(frames=) needs RandomClips, UniformClips or Windows, got {name}")
        if getattr(clip_sampler, "duration_seconds", None) is not None:
            raise ArgumentError(
                f"Buckets(frames=) chooses the duration of clips: give {name} stride or fps, not duration_seconds"
            )
        *longer, last = lengths
        fixed: list[Any] = [replace(clip_sampler, sequence_length=n, padding="drop") for n in longer]  # type: ignore[type-var]
        self._clip_samplers: list[Any] = [*fixed, replace(clip_sampler, sequence_length=last)]  # type: ignore[type-var]
        #: What happens to videos that are too short for the shortest clip.
        self.padding = clip_sampler.padding
        #: Frames per second of the clips, if the clip sampler has a rate.
        self.fps = getattr(clip_sampler, "fps", None)

    def _spec(self) -> Any:
        return (self._kind, {"clip_samplers": [each._spec() for each in self._clip_samplers]}, None)


def with_buckets(clip_sampler: ClipSampler, options: LoaderOptions) -> tuple[ClipSampler, LoaderOptions]:
    """The clip sampler and the options of a loader with buckets.

    Args:
        clip_sampler: The clip sampler.
        options: The options.

    Returns:
        Both, unchanged without buckets.

    Raises:
        ArgumentError: If another argument contradicts the buckets.
    """
    buckets = options.buckets
    if buckets is None:
        return clip_sampler, options
    if not isinstance(buckets, Buckets):
        raise ArgumentError(f"buckets must be Buckets(...), got {buckets!r}")
    if isinstance(options.batch_size, TokenBudget):
        raise ArgumentError("with buckets= give a number or a PixelBudget as batch_size")
    if options.on_error.action == "replace":
        raise ArgumentError(
            'on_error="replace" could put a clip of another bucket into a batch; use "skip", or "raise"'
        )
    if options.collate not in ("auto", "stack"):
        raise ArgumentError(f"buckets= makes batches of one size, which collate={options.collate!r} does not need")
    if buckets.frames is not None:
        clip_sampler = LongestFit(clip_sampler, tuple(buckets.frames))
    rest = listed(options.transforms)
    if rest is None:
        raise ArgumentError(f"transforms must be a list of transforms, got {options.transforms!r}")
    resize = ResizeToNearest(buckets.sizes or (), fit=buckets.fit, display_aspect=buckets.display_aspect)
    return clip_sampler, replace(options, transforms=[resize, *rest], collate="stack")
