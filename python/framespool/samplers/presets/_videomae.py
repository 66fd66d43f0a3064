"""VideoMAE (MCG-NJU/VideoMAE) and VideoMAEv2 (OpenGVLab/VideoMAEv2). Test crops are a transform (ThreeCrop)."""

from __future__ import annotations

from typing import Literal

from framespool.samplers.presets._preset import Preset, preset

Mode = Literal["train", "validation", "test"]
Version = Literal[1, 2]


def videomae(
    *,
    mode: Mode = "train",
    version: Version = 1,
    clip_len: int = 8,
    frame_sample_rate: int = 2,
    num_segment: int = 1,
    test_num_segment: int = 10,
    sparse_sample: bool = False,
) -> Preset:
    """VideoMAE's `VideoClsDataset`.

    `"train"` and `"validation"`: a random window of each of `num_segment` parts, one clip each, which the original
    returns as one item. `"test"`: views of every `frame_sample_rate`-th frame from first to last.

    A window is `linspace` over `clip_len * frame_sample_rate` frames, both ends included. A part that is not longer
    than that is spread likewise and its last frame repeats.

    Draws in training, for all clips of a video together: an int for each part, below the number of starts; none if
    parts are short.

    Args:
        mode: `"train"`, `"validation"` or `"test"`.
        version: In 2, validation takes the middle window.
        clip_len: Frames of a clip.
        frame_sample_rate: Distance between them.
        num_segment: Parts of the video; frames of a view with `sparse_sample`.
        test_num_segment: Views in test.
        sparse_sample: In test (VideoMAEv2), views of `num_segment` frames spread over the video.

    Returns:
        The clip sampler.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.presets.videomae(clip_len=4, frame_sample_rate=4).indices(100, draws=[10]).indices
        [10, 15, 20, 25]
    """
    return preset("videomae", locals())


def videomae_ssv2(
    *, mode: Mode = "train", version: Version = 1, num_segment: int = 1, test_num_segment: int = 10
) -> Preset:
    """VideoMAE's `SSVideoClsDataset` and VideoMAEv2's `RawFrameClsDataset`: one frame from each of several parts.

    Draws in training, and in version 1 in validation: an int for each part, below its length; none for a video with
    fewer frames than parts, which repeats its first frame.

    Args:
        mode: `"train"`, `"validation"` or `"test"`.
        version: 1 for `SSVideoClsDataset`, 2 for `RawFrameClsDataset`.
        num_segment: Number of parts.
        test_num_segment: Views in test: 2 in VideoMAE's scripts; version 1 gives views of different lengths for more.

    Returns:
        The clip sampler.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.presets.videomae_ssv2(num_segment=3).indices(30, draws=[0, 5, 9]).indices
        [0, 15, 29]
    """
    return preset("videomae_ssv2", locals())


def videomae_pretrain(
    *, num_segments: int = 1, new_length: int = 1, new_step: int = 1, temporal_jitter: bool = False
) -> Preset:
    """VideoMAE's pre-training dataset `VideoMAE`: a random position in each of several parts.

    Each part is a clip; the original returns them as one item. A step that would leave the video is skipped.

    Draws, for all clips of a video together: an int for each part, below the number of starts in it; where parts would
    be empty, below the number of starts in the video, then sorted; none for a short video. Then with `temporal_jitter`
    an int below `new_step` for each frame, the same for all clips.

    Args:
        num_segments: Number of parts.
        new_length: Frames of a clip.
        new_step: Distance between them.
        temporal_jitter: Add a random part of the distance to each frame.

    Returns:
        The clip sampler.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.presets.videomae_pretrain(new_length=4, new_step=4).indices(100, draws=[10]).indices
        [10, 14, 18, 22]
    """
    return preset("videomae_pretrain", locals())
