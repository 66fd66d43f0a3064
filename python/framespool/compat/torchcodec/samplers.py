"""torchcodec's samplers: the same clips, and the same random clips for the same state of torch's generator."""

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
    """Decodes clips that start at random frames.

    Args:
        decoder: The decoder.
        num_clips: Number of clips.
        num_frames_per_clip: Frames of a clip.
        num_indices_between_frames: Distance of its frames, in frames; 1: consecutive.
        sampling_range_start: First frame at which a clip may start; negative values count from the end.
        sampling_range_end: Frame before which a clip must start; negative values count from the end. By default every
            clip fits into the video.
        policy: What replaces frames past the end of the video: the clip's last frame ("repeat_last"), the clip's frames
            from its start ("wrap"), or a ValueError ("error").

    Returns:
        The clips, (num_clips, num_frames_per_clip, C, H, W).

    Raises:
        ValueError: If a number is not positive, or the range is empty.
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
    """Decodes clips whose starts are spread evenly over the range.

    Args:
        decoder: The decoder.
        num_clips: Number of clips.
        num_frames_per_clip: Frames of a clip.
        num_indices_between_frames: Distance of its frames, in frames; 1: consecutive.
        sampling_range_start: First frame at which a clip may start; negative values count from the end.
        sampling_range_end: Frame before which a clip must start; negative values count from the end. By default every
            clip fits into the video.
        policy: What replaces frames past the end of the video: the clip's last frame ("repeat_last"), the clip's frames
            from its start ("wrap"), or a ValueError ("error").

    Returns:
        The clips, (num_clips, num_frames_per_clip, C, H, W).

    Raises:
        ValueError: If a number is not positive, or the range is empty.
    """

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
    """Decodes clips that start at random times.

    A clip has the frames on screen at ``num_frames_per_clip`` times.

    Args:
        decoder: The decoder.
        num_clips: Number of clips.
        num_frames_per_clip: Frames of a clip.
        seconds_between_frames: Distance of the times of its frames, in seconds. By default 1 / average frame rate.
        sampling_range_start: Earliest start of a clip, in seconds. By default the time of the first frame.
        sampling_range_end: Time before which a clip must start, in seconds. By default every clip fits into the video.
        policy: As for :func:`clips_at_random_indices`, for times past the end of the video.

    Returns:
        The clips, (num_clips, num_frames_per_clip, C, H, W).

    Raises:
        ValueError: If a number is not positive, or the range is empty or outside the video's times.
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
    """Decodes clips that start at regular intervals.

    A clip has the frames on screen at ``num_frames_per_clip`` times.

    Args:
        decoder: The decoder.
        seconds_between_clip_starts: Interval of the clips' starts in seconds.
        num_frames_per_clip: Frames of a clip.
        seconds_between_frames: Distance of the times of its frames, in seconds. By default 1 / average frame rate.
        sampling_range_start: Earliest start of a clip, in seconds. By default the time of the first frame.
        sampling_range_end: Time before which a clip must start, in seconds. By default every clip fits into the video.
        policy: As for :func:`clips_at_random_indices`, for times past the end of the video.

    Returns:
        The clips, (num_clips, num_frames_per_clip, C, H, W).

    Raises:
        ValueError: If a number is not positive, or the range is empty or outside the video's times.
    """
    _common(num_frames_per_clip, policy)
    _positive("seconds_between_clip_starts", seconds_between_clip_starts)
    start, end, apart = _time_range(
        decoder, num_frames_per_clip, seconds_between_frames, sampling_range_start, sampling_range_end
    )
    torch = needed()
    starts = torch.arange(start, end, seconds_between_clip_starts, dtype=torch.float64).tolist()
    # Rounding may move one to the end of the range, which is exclusive.
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
    """Extends the existing frames of a clip, at least one, to its full length."""
    if len(exist) == length:
        return exist
    if policy == "error":
        raise ValueError(
            f"policy is 'error', but only {len(exist)} of a clip's {length} frames exist: others are "
            "beyond the number of frames in the video; remove sampling_range_end"
        )
    return (exist * length if policy == "wrap" else exist + [exist[-1]] * length)[:length]


def _clips(batch: FrameBatch, length: int) -> FrameBatch:
    """Reshapes consecutive frames into clips of this length."""

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
    """Returns the range in which clips may start, and the seconds between their frames."""
    metadata = decoder.metadata
    first, last, fps = metadata.begin_stream_seconds, metadata.end_stream_seconds, metadata.average_fps
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
        raise ValueError(
            f"sampling_range_end ({end}) must be at least {first} and greater, when the first frame appears"
        )
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
