"""Clips of frames that the caller names: by number, by time, by distance in time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from framespool._validate_args import as_sequence, integer, number
from framespool.errors import ArgumentError
from framespool.samplers._base import ClipSampler, arguments
from framespool.samplers._common import Short, positive_integers, set_fields

if TYPE_CHECKING:
    from framespool._framespool import SamplerArgs

T = TypeVar("T")


def _clips(name: str, value: Any, check: Callable[[Any], T]) -> tuple[tuple[T, ...], ...]:
    """One list as one clip, or a list of lists as several."""
    entries = as_sequence(value)
    if not entries:
        raise ArgumentError(f"{name} must be a list, or a list of lists, with at least one entry, got {value!r}")
    lists = [as_sequence(entry) for entry in entries]
    if all(entry is None for entry in lists):
        return (tuple(check(entry) for entry in entries),)
    if not all(lists):
        raise ArgumentError(f"{name} must be a list, or a list of lists that are not empty, got {value!r}")
    return tuple(tuple(check(entry) for entry in entries) for entries in lists if entries)


def _whole_clips(value: Any) -> tuple[tuple[int, ...], ...]:
    return _clips("indices", value, lambda entry: integer("indices", entry, least=-(2**32), most=2**32))


def _timed_clips(value: Any) -> tuple[tuple[float, ...], ...]:
    return _clips("seconds", value, lambda entry: number("seconds", entry))


def _deltas(value: Any) -> tuple[float, ...]:
    deltas = as_sequence(value)
    if not deltas:
        raise ArgumentError(f"deltas_seconds must be a list with at least one entry, got {value!r}")
    return tuple(number("deltas_seconds", entry) for entry in deltas)


def _flat(clips: tuple[tuple[T, ...], ...]) -> tuple[list[T], list[int]]:
    return [entry for clip in clips for entry in clip], [len(clip) for clip in clips]


@dataclass(frozen=True, kw_only=True)
class Indices(ClipSampler):
    """Frames by number; made by :func:`indices`."""

    clips: tuple[tuple[int, ...], ...]
    short: Short = "error"

    def __post_init__(self) -> None:
        set_fields(self, clips=_whole_clips(self.clips))
        self.clips_in(0)  # the engine checks the rest

    def _sampler_args(self) -> SamplerArgs:
        flat, lengths = _flat(self.clips)
        return ("indices", arguments(indices=flat, lengths=lengths, short=self.short))


@dataclass(frozen=True, kw_only=True)
class Seconds(ClipSampler):
    """Frames by time; made by :func:`seconds`."""

    clips: tuple[tuple[float, ...], ...]
    short: Short = "error"

    def __post_init__(self) -> None:
        set_fields(self, clips=_timed_clips(self.clips))
        self.clips_in(0)

    def _sampler_args(self) -> SamplerArgs:
        flat, lengths = _flat(self.clips)
        return ("seconds", arguments(seconds=flat, lengths=lengths, short=self.short))


@dataclass(frozen=True, kw_only=True)
class Delta(ClipSampler):
    """Frames at distances in time from every frame; made by :func:`delta`."""

    deltas_seconds: tuple[float, ...]
    tolerance_seconds: float = 1e-4
    step: int = 1

    def __post_init__(self) -> None:
        set_fields(self, deltas_seconds=_deltas(self.deltas_seconds))
        set_fields(self, tolerance_seconds=number("tolerance_seconds", self.tolerance_seconds, least=0))
        positive_integers(self, "step")
        self.clips_in(0)

    def _sampler_args(self) -> SamplerArgs:
        values = asdict(self) | {"deltas_seconds": list(self.deltas_seconds)}
        return ("delta", arguments(**values))


def indices(frames: Sequence[int] | Sequence[Sequence[int]], *, short: Short = "error") -> Indices:
    """The same frames of every video: ``indices([0, 8, 16, -1])``, or several clips: ``indices([[0, 1], [7, 8, 9]])``.

    ``frames``: frame numbers in any order, also more than once; negative ones count from the end, -1 is the last. A
    list of lists makes one clip of each, which may differ in length.

    ``short``: what is shown for a frame that the video does not have. ``"repeat"``: the frame listed before it, as far
    as the video has that; ``"wrap"``: entry *i* of a clip shows the clip's real frame number *i* modulo their count;
    ``"clamp"``: the last frame, or the first one for a number too far before the end, as also where ``"repeat"`` or
    ``"wrap"`` find no real frame; ``"loop"``: the number modulo number of frames; ``"drop"``: a video that lacks a
    frame of any clip yields none. Nothing is drawn.

    Errors: :class:`~framespool.errors.ArgumentError` for empty lists and what is no whole number;
    :class:`~framespool.errors.ClipSamplingError` with ``short="error"``, with the number and the video's length.
    """
    return Indices(clips=_whole_clips(frames), short=short)


def seconds(times: Sequence[float] | Sequence[Sequence[float]], *, short: Short = "error") -> Seconds:
    """The frames on screen at the same times of every video: ``seconds([0.0, 0.5, 1.0])``, or several clips.

    ``times``: seconds after the first frame's appearance, in any order. The frame on screen is the last one that has
    appeared by then, a microsecond forgiven; the last frame stays on screen up to and without its end. A list of lists
    makes one clip of each, which may differ in length.

    ``short``: what is shown at a time past the end or before 0, as for :func:`indices`; ``"loop"``: seconds modulo the
    video's duration. Nothing is drawn.

    Errors: :class:`~framespool.errors.ArgumentError` for empty lists and what is no finite number;
    :class:`~framespool.errors.ClipSamplingError` with ``short="error"``, with the time and the video's duration.
    """
    return Seconds(clips=_timed_clips(times), short=short)


def delta(*, deltas_seconds: Sequence[float], tolerance_seconds: float = 1e-4, step: int = 1) -> Delta:
    """A clip for every frame of a video, of the frames at these distances in time from it (LeRobot's
    ``delta_timestamps``).

    Clip *c* belongs to frame ``step * c``, up to the last one; its frame *i* is the one nearest to
    ``time(step * c) + deltas_seconds[i]`` (of two equally near ones the earlier). ``tolerance_seconds``: how far away
    that frame may be, a microsecond forgiven. A time more than that before the first or after the last frame's own is
    clamped to that frame, and ``mask`` is false there. Nothing is drawn.

    Errors: :class:`~framespool.errors.ArgumentError` for an empty list and numbers that make no sense;
    :class:`~framespool.errors.ClipSamplingError` where the nearest frame is further away than ``tolerance_seconds``, with both
    times.
    """
    return Delta(deltas_seconds=_deltas(deltas_seconds), tolerance_seconds=tolerance_seconds, step=step)
