"""torchcodec's samplers: the same clips, and for the same state of torch's generator the same random ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from framespool.compat.torchcodec._frame import FrameBatch
from framespool.compat.torchcodec._torch import needed
from framespool.compat.torchcodec.decoders import VideoDecoder

__all__ = [
    "clips_at_random_indices",
    "clips_at_random_timestamps",
    "clips_at_regular_indices",
    "clips_at_regular_timestamps",
]

Policy = Literal["repeat_last", "wrap", "error"]


def clips_at_random_indices(
    decoder: VideoDecoder,
    *,
    num_clips: int = 1,
    num_frames_per_clip: int = 1,
    num_indices_between_frames: int = 1,
    sampling_range_start: int = 0,
    sampling_range_end: int | None = None,
    policy: Policy = "repeat_last",
) -> FrameBatch:
    """Clips that begin at random frames: a FrameBatch (num_clips, num_frames_per_clip, C, H, W).

    A clip is ``num_frames_per_clip`` frames, ``num_indices_between_frames`` apart (1: consecutive). It begins at or
    after frame ``sampling_range_start`` and before ``sampling_range_end``, counted from the end where negative; without
    an end, where it still fits. ``policy``: what stands for frames past the end of the video, the clip's last one
    ("repeat_last"), its beginning ("wrap"), or a ValueError ("error").

    Raises ValueError for numbers that are not positive and for an empty range.
    """

    def draw(start: int, end: int) -> list[int]:
        starts: list[int] = needed().randint(start, end, (num_clips,)).tolist()
        return starts

    return _at_indices(
        decoder,
        draw,
        num_clips,
        num_frames_per_clip,
        num_indices_between_frames,
        sampling_range_start,
        sampling_range_end,
        policy,
    )


def clips_at_regular_indices(
    decoder: VideoDecoder,
    *,
    num_clips: int = 1,
    num_frames_per_clip: int = 1,
    num_indices_between_frames: int = 1,
    sampling_range_start: int = 0,
    sampling_range_end: int | None = None,
    policy: Policy = "repeat_last",
) -> FrameBatch:
    """As :func:`clips_at_random_indices`, with the beginnings spread evenly over the range."""

    def spread(start: int, end: int) -> list[int]:
        torch = needed()
        starts: list[int] = torch.linspace(start, end - 1, steps=num_clips, dtype=torch.int).tolist()
        return starts

    return _at_indices(
        decoder,
        spread,
        num_clips,
        num_frames_per_clip,
        num_indices_between_frames,
        sampling_range_start,
        sampling_range_end,
        policy,
    )


def clips_at_random_timestamps(
    decoder: VideoDecoder,
    *,
    num_clips: int = 1,
    num_frames_per_clip: int = 1,
    seconds_between_frames: float | None = None,
    sampling_range_start: float | None = None,
    sampling_range_end: float | None = None,
    policy: Policy = "repeat_last",
) -> FrameBatch:
    """Clips that begin at random times: a FrameBatch (num_clips, num_frames_per_clip, C, H, W).

    A clip is the frames on screen at ``num_frames_per_clip`` moments, ``seconds_between_frames`` apart (by default a
    frame at the average rate). It begins at or after second ``sampling_range_start`` (by default the first frame's) and
    before ``sampling_range_end``; without an end, where it still fits. ``policy``: as for
    :func:`clips_at_random_indices`, for moments past the end of the video.

    Raises ValueError for numbers that are not positive, and for a range that is empty or outside the video's times.
    """
    _common(num_frames_per_clip, policy)
    _positive("num_clips", num_clips)
    start, end, apart = _time_range(
        decoder, num_frames_per_clip, seconds_between_frames, sampling_range_start, sampling_range_end
    )
    torch = needed()
    starts = (torch.rand(num_clips, dtype=torch.float64) * (end - start) + start).tolist()
    return _at_times(decoder, starts, num_frames_per_clip, apart, policy)


def clips_at_regular_timestamps(
    decoder: VideoDecoder,
    *,
    seconds_between_clip_starts: float,
    num_frames_per_clip: int = 1,
    seconds_between_frames: float | None = None,
    sampling_range_start: float | None = None,
    sampling_range_end: float | None = None,
    policy: Policy = "repeat_last",
) -> FrameBatch:
    """As :func:`clips_at_random_timestamps`, with a clip every ``seconds_between_clip_starts`` seconds of the range."""
    _common(num_frames_per_clip, policy)
    _positive("seconds_between_clip_starts", seconds_between_clip_starts)
    start, end, apart = _time_range(
        decoder, num_frames_per_clip, seconds_between_frames, sampling_range_start, sampling_range_end
    )
    torch = needed()
    starts = torch.arange(start, end, seconds_between_clip_starts, dtype=torch.float64).tolist()
    # Rounding may bring one to the end of the range, where no clip begins.
    starts = [first for first in starts if first < end]
    return _at_times(decoder, starts, num_frames_per_clip, apart, policy)


def _positive(name: str, value: float) -> None:
    if value <= 0:
        raise ValueError(f"{name} ({value}) must be > 0")


def _strictly_positive(name: str, value: int) -> None:
    if value <= 0:
        raise ValueError(f"{name} ({value}) must be strictly positive")


def _common(length: int, policy: str) -> None:
    _strictly_positive("num_frames_per_clip", length)
    if policy not in ("repeat_last", "wrap", "error"):
        raise ValueError(f"Invalid policy ({policy!r}): give 'repeat_last', 'wrap' or 'error'")


def _filled(exist: list[Any], length: int, policy: str) -> list[Any]:
    """A clip of full length from those of its frames that exist, one at least."""
    if len(exist) == length:
        return exist
    if policy == "error":
        raise ValueError(
            f"policy is 'error', and only {len(exist)} of a clip's {length} frames exist: others are "
            "beyond the number of frames in the video; leave out sampling_range_end"
        )
    return (exist * length if policy == "wrap" else exist + [exist[-1]] * length)[:length]


def _clips(batch: FrameBatch, length: int) -> FrameBatch:
    """A row of frames as clips of this length."""

    def folded(tensor: Any) -> Any:
        return tensor.reshape(-1, length, *tensor.shape[1:])

    return FrameBatch(folded(batch.data), folded(batch.pts_seconds), folded(batch.duration_seconds))


def _at_indices(
    decoder: VideoDecoder,
    choose: Callable[[int, int], list[int]],
    num_clips: int,
    length: int,
    apart: int,
    start: int,
    end: int | None,
    policy: str,
) -> FrameBatch:
    _common(length, policy)
    _positive("num_clips", num_clips)
    _strictly_positive("num_indices_between_frames", apart)
    frames = len(decoder)
    if start < 0:
        start += frames
    if start >= frames:
        raise ValueError(f"sampling_range_start ({start}) must be smaller than the number of frames ({frames})")
    if end is None:
        end = max(frames - (length - 1) * apart, 1)
        if start >= end:
            raise ValueError(
                f"We determined that sampling_range_end should be {end}, before which clips fit, and "
                f"sampling_range_start ({start}) is not below it"
            )
    elif end < 0:
        end += frames
    end = min(end, frames)
    if start >= end:
        raise ValueError(f"sampling_range_start ({start}) must be smaller than sampling_range_end ({end})")
    wanted: list[int] = []
    for first in choose(start, end):
        wanted += _filled(list(range(first, min(first + (length - 1) * apart + 1, frames), apart)), length, policy)
    return _clips(decoder.get_frames_at(wanted), length)


def _time_range(
    decoder: VideoDecoder, length: int, apart: float | None, start: float | None, end: float | None
) -> tuple[float, float, float]:
    """Where clips may begin, and the seconds between two of their frames."""
    facts = decoder.metadata
    first, last, fps = facts.begin_stream_seconds, facts.end_stream_seconds, facts.average_fps
    if fps is None:
        raise ValueError("Could not infer average fps: metadata.average_fps is None; use a sampler by indices")
    if first is None or last is None:
        raise ValueError(
            "Could not infer stream end from video metadata: begin_stream_seconds or end_stream_seconds is None; use a "
            "sampler by indices"
        )
    if apart is None:
        apart = 1 / fps
    _positive("seconds_between_frames", apart)
    if start is None:
        start = first
    if start < first:
        raise ValueError(f"sampling_range_start ({start}) must be at least {first}, when the first frame appears")
    if start >= last:
        raise ValueError(f"sampling_range_start ({start}) must be smaller than {last}, the end of the video")
    if end is None:
        end = last - (length - 1) * apart
    elif end <= first:
        raise ValueError(f"sampling_range_end ({end}) must be at least {first}, and behind it: the video begins there")
    if start >= end:
        raise ValueError(f"sampling_range_start ({start}) must be smaller than sampling_range_end ({end})")
    return start, min(end, last), apart


def _at_times(decoder: VideoDecoder, starts: list[float], length: int, apart: float, policy: str) -> FrameBatch:
    end = decoder.metadata.end_stream_seconds or 0.0
    wanted: list[float] = []
    for first in starts:
        moments = [first + place * apart for place in range(length)]
        wanted += _filled([moment for moment in moments if moment < end], length, policy)
    return _clips(decoder.get_frames_played_at(wanted), length)
