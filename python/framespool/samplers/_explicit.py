"""Clips of frames that the user lists: by index, by time, by distance in time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeVar

from framespool._common.validate_args import as_sequence, integer, number, rounding
from framespool.errors import ArgumentError
from framespool.samplers._base import ClipSampler
from framespool.samplers._common import Padding, hinted, positive_integers, set_fields

T = TypeVar("T")


def _clips(name: str, value: Any, check: Callable[[Any], T]) -> tuple[tuple[T, ...], ...]:
    """A list as one clip, or a list of lists as several."""
    entries = as_sequence(value)
    if not entries:
        raise ArgumentError(f"{name} must be a list, or a list of lists, with at least one entry, got {value!r}")
    lists = [as_sequence(entry) for entry in entries]
    if all(entry is None for entry in lists):
        return (tuple(check(entry) for entry in entries),)
    if not all(lists):
        raise ArgumentError(f"{name} must be a list, or a list of lists that are not empty, got {value!r}")
    return tuple(tuple(check(entry) for entry in entries) for entries in lists if entries)


def _index_clips(value: Any) -> tuple[tuple[int, ...], ...]:
    return _clips("frames", value, lambda entry: integer("frames", entry, least=-(2**32), most=2**32))


def _timed_clips(value: Any) -> tuple[tuple[float, ...], ...]:
    return _clips("times", value, lambda entry: number("times", entry) + rounding(entry))


def _deltas(value: Any) -> tuple[float, ...]:
    deltas = as_sequence(value)
    if not deltas:
        raise ArgumentError(f"deltas_seconds must be a list with at least one entry, got {value!r}")
    return tuple(number("deltas_seconds", entry) for entry in deltas)


@hinted
@dataclass(frozen=True)
class Indices(ClipSampler):
    """The same frames of every video.

    No random numbers are drawn.

    Args:
        frames: Frame indices in any order, repeats allowed; negative indices count from the end. A list of lists makes
            one clip of each, which may differ in length.
        padding: What replaces a frame that the video does not have. `"repeat"`: the frame listed before it, if the
            video has that. `"wrap"`: entry *i* of a clip becomes the existing frame number *i* modulo their count.
            `"edge"`: the last frame, or the first one for an index too far before the end; also used where `"repeat"`
            or `"wrap"` find no existing frame. `"loop"`: the index modulo number of frames. `"drop"`: a video that
            lacks a frame of any clip has no clips. `"blank"` and `"error"` as in `framespool.samplers`.

    Raises:
        ArgumentError: If a list is empty, or an index is not an int.
        ClipSamplingError: While loading, with `padding="error"`, with the index and the number of frames.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.Indices([0, 8, 16, -1]).indices(30).indices
        [0, 8, 16, 29]
        >>> fsp.samplers.Indices([[0, 1], [7, 8, 9]]).clips_in(30)
        2
    """

    _kind = "indices"
    frames: Sequence[int] | Sequence[Sequence[int]]
    _: KW_ONLY
    padding: Padding = "error"

    def __post_init__(self) -> None:
        set_fields(self, frames=_index_clips(self.frames))
        self.clips_in(0)  # the engine checks the rest


@hinted
@dataclass(frozen=True)
class Seconds(ClipSampler):
    """The frames shown at the same times of every video.

    No random numbers are drawn.

    Args:
        times: Seconds after the presentation time of the first frame, in any order. The frame shown is the last one
            whose presentation time is not later, with a tolerance of a microsecond; the last frame is shown up to its
            end, excluded. Of the times that are rounded to a float32, the latest counts. A list of lists makes one clip
            of each, which may differ in length.
        padding: What replaces a frame at a time before 0 or past the end, as for `Indices`; `"loop"` is seconds modulo
            the duration.

    Raises:
        ArgumentError: If a list is empty, or a time is not a finite number.
        ClipSamplingError: While loading, with `padding="error"`, with the time and the duration.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.Seconds([0.0, 0.5, 1.0]).indices(50, fps=25.0).indices
        [0, 12, 25]
    """

    _kind = "seconds"
    times: Sequence[float] | Sequence[Sequence[float]]
    _: KW_ONLY
    padding: Padding = "error"

    def __post_init__(self) -> None:
        set_fields(self, times=_timed_clips(self.times))
        self.clips_in(0)


@hinted
@dataclass(frozen=True, kw_only=True)
class Delta(ClipSampler):
    """One clip per frame, of frames at given distances in time (LeRobot's `delta_timestamps`).

    Clip *c* belongs to frame `step * c`. Its frame *i* is the one nearest to `time(step * c) + deltas_seconds[i]`,
    the earlier of two equally near ones. A time that is before the first or after the last frame by more than the
    tolerance is clamped to that frame, and `mask` is false there. No random numbers are drawn.

    Args:
        deltas_seconds: Distances in seconds.
        tolerance_seconds: Largest distance between a time and its frame, in seconds, plus a microsecond.
        step: Frames between the clips.

    Raises:
        ArgumentError: If the list is empty, or a number is invalid.
        ClipSamplingError: While loading, if the nearest frame is further away than the tolerance, with both times.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.Delta(deltas_seconds=[-0.1, 0.0]).indices(30, fps=10.0, clip=5).indices
        [4, 5]
    """

    _kind = "delta"
    deltas_seconds: Sequence[float]
    tolerance_seconds: float = 1e-4
    step: int = 1

    def __post_init__(self) -> None:
        set_fields(self, deltas_seconds=_deltas(self.deltas_seconds))
        set_fields(self, tolerance_seconds=number("tolerance_seconds", self.tolerance_seconds, least=0))
        positive_integers(self, "step")
        self.clips_in(0)
