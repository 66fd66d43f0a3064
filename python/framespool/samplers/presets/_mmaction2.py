"""mmaction2 (open-mmlab/mmaction2, `mmaction/datasets/transforms/loading.py`)."""

from __future__ import annotations

from typing import Literal

from framespool.samplers.presets._preset import Preset, preset

OutOfBound = Literal["loop", "repeat_last"]


def mmaction2(
    *,
    clip_len: int,
    frame_interval: int = 1,
    num_clips: int = 1,
    temporal_jitter: bool = False,
    twice_sample: bool = False,
    out_of_bound_opt: OutOfBound = "loop",
    test_mode: bool = False,
    keep_tail_frames: bool = False,
    target_fps: float | None = None,
) -> Preset:
    """mmaction2's `SampleFrames`: clips from equal parts of the video, which the original returns as one item.

    Ten- and thirty-view tests are these clips times the crops of a transform (ThreeCrop).

    Draws, for all clips of a video together. In training: a start for each clip (ints below the length of a part; where
    parts would be empty, below the number of starts, then sorted; with `keep_tail_frames` floats; none for a short
    video). Then, also in test, with `temporal_jitter`: an int below `frame_interval` for each frame of each clip (with
    `target_fps`: for each clip).

    Args:
        clip_len: Frames of a clip.
        frame_interval: Distance between them.
        num_clips: Clips of a video.
        temporal_jitter: Add a random part of the interval to each frame.
        twice_sample: Twice as many clips in test.
        out_of_bound_opt: Past the end, start again (`"loop"`) or repeat the last frame of the clip (`"repeat_last"`).
        test_mode: Test or validation instead of training.
        keep_tail_frames: In training, draw starts from the whole range instead of from parts of integer length.
        target_fps: A clip spans `clip_len * frame_interval` frames of this rate. `None`: of the video's.

    Returns:
        The clip sampler.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.presets.mmaction2(clip_len=4, frame_interval=8, test_mode=True).indices(100).indices
        [37, 45, 53, 61]
    """
    return preset("mmaction2", locals())


def mmaction2_dense(
    *,
    clip_len: int,
    frame_interval: int = 1,
    num_clips: int = 1,
    sample_range: int = 64,
    num_sample_positions: int = 10,
    temporal_jitter: bool = False,
    out_of_bound_opt: OutOfBound = "loop",
    test_mode: bool = False,
) -> Preset:
    """mmaction2's `DenseSampleFrames`: clips start at even distances within a range of frames.

    In training `num_clips` clips of one range; in test `num_sample_positions` times as many, range by range. The
    original returns them as one item.

    Draws, for all clips of a video together: in training, if the video is longer than the range, its start, below
    `frames - sample_range`; with `temporal_jitter` an int below `frame_interval` for each frame of each clip.

    Args:
        clip_len: Frames of a clip.
        frame_interval: Distance between them.
        num_clips: Clips of a range.
        sample_range: Frames of the range.
        num_sample_positions: Ranges in test.
        temporal_jitter: Add a random part of the interval to each frame.
        out_of_bound_opt: As for `mmaction2()`.
        test_mode: Test or validation instead of training.

    Returns:
        The clip sampler.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.presets.mmaction2_dense(clip_len=2, num_clips=2).indices(100, clip=1, draws=[5]).indices
        [37, 38]
    """
    return preset("mmaction2_dense", locals())


def mmaction2_uniform(*, clip_len: int, num_clips: int = 1, test_mode: bool = False) -> Preset:
    """mmaction2's `UniformSample`: one frame from each of `clip_len` equal parts.

    Draws in training: an int for each frame, below the length of its part (both ends included).

    Args:
        clip_len: Frames of a clip.
        num_clips: Clips of a video in test.
        test_mode: Test or validation instead of training.

    Returns:
        The clip sampler.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.presets.mmaction2_uniform(clip_len=4, test_mode=True).indices(33).indices
        [4, 12, 20, 28]
    """
    return preset("mmaction2_uniform", locals())


def mmaction2_untrimmed(*, clip_len: int = 1, clip_interval: int = 16, frame_interval: int = 1) -> Preset:
    """mmaction2's `UntrimmedSampleFrames`: clips around centers at even distances, as many as fit into the video.

    Clip *c* is around frame `clip_interval // 2 + c * clip_interval`. Frames outside the video repeat the first or the
    last one. A video without a center has no clips.

    Args:
        clip_len: Frames of a clip.
        clip_interval: Frames between the centers.
        frame_interval: Distance between the frames of a clip.

    Returns:
        The clip sampler, which draws no random numbers.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.presets.mmaction2_untrimmed(clip_len=3).indices(40, clip=1).indices
        [23, 24, 25]
    """
    return preset("mmaction2_untrimmed", locals())
