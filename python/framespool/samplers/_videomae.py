"""Presets after VideoMAE (MCG-NJU/VideoMAE, and OpenGVLab/VideoMAEv2 where ``version=2``)."""

from __future__ import annotations

from framespool.samplers._preset_spec import PresetSpec

_FINETUNE = """VideoMAE's ``VideoClsDataset``. ``mode`` "train" and "validation": a random window of each of
``num_segment`` parts (in ``version`` 2 validation takes the middle one), one clip each, which the original returns as
one item. "test": ``test_num_segment`` views, of every ``frame_sample_rate``-th frame from first to last, or with
``sparse_sample`` (VideoMAEv2) of ``num_segment`` frames spread over the video. Test crops are a transform
(ThreeCrop).

A window is ``linspace`` over ``clip_len * frame_sample_rate`` frames, both ends included. A part that is not longer
than that is spread likewise and its last frame repeats.

Draws in training, for all clips of a video together: an int for each part, below the number of starts; none if parts
are short."""

_SSV2 = """VideoMAE's ``SSVideoClsDataset`` (``version`` 1) and VideoMAEv2's ``RawFrameClsDataset`` (2): one frame
from each of ``num_segment`` parts; in ``mode`` "test" ``test_num_segment`` views (2 in VideoMAE's scripts; version 1
gives views of different lengths for more). Test crops are a transform (ThreeCrop).

Draws in training, and in version 1 in validation: an int for each part, below its length; none for a video with fewer
frames than parts, which repeats its first frame."""

_PRETRAIN = """VideoMAE's pre-training dataset ``VideoMAE``: ``new_length`` frames, ``new_step`` apart, from a random
position in each of ``num_segments`` parts; one clip each, which the original returns as one item.

Draws, for all clips of a video together: an int for each part, below the number of starts in it; where parts would be
empty, below the number of starts in the video, then sorted; none for a short video. Then with
``temporal_jitter`` an int below ``new_step`` for each frame, the same for all clips."""

PRESETS = {
    "videomae": PresetSpec(
        _FINETUNE,
        {
            "mode": "train",
            "version": 1,
            "clip_len": 8,
            "frame_sample_rate": 2,
            "num_segment": 1,
            "test_num_segment": 10,
            "sparse_sample": False,
        },
    ),
    "videomae_ssv2": PresetSpec(_SSV2, {"mode": "train", "version": 1, "num_segment": 1, "test_num_segment": 10}),
    "videomae_pretrain": PresetSpec(
        _PRETRAIN, {"num_segments": 1, "new_length": 1, "new_step": 1, "temporal_jitter": False}
    ),
}
