"""torchcodec's four samplers (pytorch/torchcodec, `torchcodec/samplers`)."""

from __future__ import annotations

from typing import Literal

from framespool.samplers.presets._preset import Preset, preset

Policy = Literal["repeat_last", "wrap", "error"]


def torchcodec_random_indices(
    *,
    num_clips: int = 1,
    num_frames_per_clip: int = 1,
    num_indices_between_frames: int = 1,
    sampling_range_start: int = 0,
    sampling_range_end: int | None = None,
    policy: Policy = "repeat_last",
) -> Preset:
    """torchcodec's `clips_at_random_indices`. An empty range is an error.

    Draws for all clips together: `num_clips` ints below the length of the range.

    Args:
        num_clips: Clips of a video.
        num_frames_per_clip: Frames of a clip.
        num_indices_between_frames: Distance between them; 1: consecutive.
        sampling_range_start: First frame at which a clip may start; negative values count from the end. Before the
            first frame come the last ones, as in the original.
        sampling_range_end: Clips start before this frame; likewise. `None`: clips start where they still fit.
        policy: Past the end, where `mask` is false, repeat the clip's last frame (`"repeat_last"`), start the clip
            again (`"wrap"`), or raise an error (`"error"`).

    Returns:
        The clip sampler.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.presets.torchcodec_random_indices(num_frames_per_clip=3).indices(30, draws=[7]).indices
        [7, 8, 9]
    """
    return preset("torchcodec_random_indices", locals())


def torchcodec_regular_indices(
    *,
    num_clips: int = 1,
    num_frames_per_clip: int = 1,
    num_indices_between_frames: int = 1,
    sampling_range_start: int = 0,
    sampling_range_end: int | None = None,
    policy: Policy = "repeat_last",
) -> Preset:
    """torchcodec's `clips_at_regular_indices`: evenly spread starts. An empty range is an error.

    Args:
        num_clips: Clips of a video.
        num_frames_per_clip: Frames of a clip.
        num_indices_between_frames: Distance between them; 1: consecutive.
        sampling_range_start: First frame at which a clip may start; negative values count from the end. Before the
            first frame come the last ones, as in the original.
        sampling_range_end: Clips start before this frame; likewise. `None`: clips start where they still fit.
        policy: Past the end, where `mask` is false, repeat the clip's last frame (`"repeat_last"`), start the clip
            again (`"wrap"`), or raise an error (`"error"`).

    Returns:
        The clip sampler.

    Example:
        >>> import framespool as fsp
        >>> clip_sampler = fsp.samplers.presets.torchcodec_regular_indices(num_clips=3, num_frames_per_clip=2)
        >>> [clip_sampler.indices(30, clip=n).indices for n in range(3)]
        [[0, 1], [14, 15], [28, 29]]
    """
    return preset("torchcodec_regular_indices", locals())


def torchcodec_random_timestamps(
    *,
    num_clips: int = 1,
    num_frames_per_clip: int = 1,
    seconds_between_frames: float | None = None,
    sampling_range_start: float | None = None,
    sampling_range_end: float | None = None,
    policy: Policy = "repeat_last",
) -> Preset:
    """torchcodec's `clips_at_random_timestamps`: the frames shown at times that are evenly spaced.

    An empty range is an error. Draws for all clips together: `num_clips` floats.

    Args:
        num_clips: Clips of a video.
        num_frames_per_clip: Frames of a clip.
        seconds_between_frames: Distance between them. `None`: one frame at the average rate.
        sampling_range_start: Earliest start in the video's seconds. `None`: the time of the first frame.
        sampling_range_end: Clips start before this time. `None`: clips start where they still fit.
        policy: Past the end, where `mask` is false, repeat the clip's last frame (`"repeat_last"`), start the clip
            again (`"wrap"`), or raise an error (`"error"`).

    Returns:
        The clip sampler.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.presets.torchcodec_random_timestamps(num_frames_per_clip=3).indices(30, draws=[0.5]).indices
        [14, 15, 16]
    """
    return preset("torchcodec_random_timestamps", locals())


def torchcodec_regular_timestamps(
    *,
    seconds_between_clip_starts: float,
    num_frames_per_clip: int = 1,
    seconds_between_frames: float | None = None,
    sampling_range_start: float | None = None,
    sampling_range_end: float | None = None,
    policy: Policy = "repeat_last",
) -> Preset:
    """torchcodec's `clips_at_regular_timestamps`: clips of the frames shown at times, at even distances.

    A video whose range is empty has no clips.

    Args:
        seconds_between_clip_starts: Seconds between the starts of clips.
        num_frames_per_clip: Frames of a clip.
        seconds_between_frames: Distance between them. `None`: one frame at the average rate.
        sampling_range_start: Earliest start in the video's seconds. `None`: the time of the first frame.
        sampling_range_end: Clips start before this time. `None`: clips start where they still fit.
        policy: Past the end, where `mask` is false, repeat the clip's last frame (`"repeat_last"`), start the clip
            again (`"wrap"`), or raise an error (`"error"`).

    Returns:
        The clip sampler.

    Example:
        >>> import framespool as fsp
        >>> clip_sampler = fsp.samplers.presets.torchcodec_regular_timestamps(seconds_between_clip_starts=0.5)
        >>> [clip_sampler.indices(30, clip=n).indices for n in range(clip_sampler.clips_in(30))]
        [[0], [15]]
    """
    return preset("torchcodec_regular_timestamps", locals())
