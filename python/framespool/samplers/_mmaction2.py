"""Presets after mmaction2 (open-mmlab/mmaction2, ``mmaction/datasets/transforms/loading.py``)."""

from __future__ import annotations

from framespool.samplers._preset_spec import PresetSpec, Required

_SAMPLE_FRAMES = """mmaction2's ``SampleFrames``: ``num_clips`` clips (in test with ``twice_sample`` twice as many),
which the original returns as one item.

``clip_len`` frames, ``frame_interval`` apart; ``out_of_bound_opt`` "loop" or "repeat_last" past the end;
``target_fps``: the clip spans ``clip_len * frame_interval`` frames of that rate. Ten- and thirty-view tests are these
clips times the crops of a transform (ThreeCrop).

Draws, for all clips of a video together. In training: a start for each clip (ints below the length of a part; where
parts would be empty, below the number of starts, then sorted; with ``keep_tail_frames`` floats; none for a short
video). Then, also in test, with ``temporal_jitter``: an int below ``frame_interval`` for each frame of each clip (with
``target_fps``: for each clip)."""

_DENSE = """mmaction2's ``DenseSampleFrames``: clips start at even distances within a range of ``sample_range``
frames. In training ``num_clips`` clips of one range; in test ``num_sample_positions`` times as many, range by range.
The original returns them as one item; its crops are a transform (ThreeCrop).

Draws, for all clips of a video together: in training, if the video is longer than the range, its start, below
``frames - sample_range``; with ``temporal_jitter`` an int below ``frame_interval`` for each frame of each clip."""

_UNIFORM = """mmaction2's ``UniformSample``: one frame from each of ``clip_len`` equal parts; in test ``num_clips``
clips.

Draws in training: an int for each frame, below the length of its part (both ends included)."""

_UNTRIMMED = """mmaction2's ``UntrimmedSampleFrames``: clips around centers that are ``clip_interval`` frames apart,
as many as fit into the video; frames outside repeat the first or the last one. A video without a center has no
clips."""

PRESETS = {
    "mmaction2": PresetSpec(
        _SAMPLE_FRAMES,
        {
            "clip_len": Required,
            "frame_interval": 1,
            "num_clips": 1,
            "temporal_jitter": False,
            "twice_sample": False,
            "out_of_bound_opt": "loop",
            "test_mode": False,
            "keep_tail_frames": False,
            "target_fps": None,
        },
    ),
    "mmaction2_dense": PresetSpec(
        _DENSE,
        {
            "clip_len": Required,
            "frame_interval": 1,
            "num_clips": 1,
            "sample_range": 64,
            "num_sample_positions": 10,
            "temporal_jitter": False,
            "out_of_bound_opt": "loop",
            "test_mode": False,
        },
    ),
    "mmaction2_uniform": PresetSpec(_UNIFORM, {"clip_len": Required, "num_clips": 1, "test_mode": False}),
    "mmaction2_untrimmed": PresetSpec(_UNTRIMMED, {"clip_len": 1, "clip_interval": 16, "frame_interval": 1}),
}
