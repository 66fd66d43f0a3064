"""Presets after PySlowFast (facebookresearch/SlowFast, ``slowfast/datasets``)."""

from __future__ import annotations

from framespool.samplers._preset_spec import PresetSpec

_KINETICS = """PySlowFast's ``Kinetics``, for its mode of decoding complete videos: ``mode`` "train" and "val" give one
random clip, "test" gives ``num_ensemble_views`` evenly spread views, which the original combines with
``NUM_SPATIAL_CROPS`` crops (a transform: ThreeCrop).

A clip spans ``sampling_rate * num_frames / target_fps`` seconds; its frames are ``torch.linspace`` over it in float32
(as PyTorch computes it on x86 with AVX2, and on Arm), truncated, with the last frame of the video past its end. With
``use_offset_sampling`` views start at frame boundaries and extend to the end. Options have PySlowFast's names in
lower case.

Draws of a random clip: with ``train_jitter_fps`` (mode "train") a float for the rate; a float for the start."""

_SSV2 = """PySlowFast's ``Ssv2``: one frame from each of ``num_frames`` equal parts, a random one in ``mode`` "train",
the middle one in "val" and "test". Its test views differ only in their crops (a transform: ThreeCrop), so there is
one clip here.

Draws in training: an int for each frame, below the length of its part (both ends included)."""

PRESETS = {
    "slowfast": PresetSpec(
        _KINETICS,
        {
            "mode": "train",
            "num_frames": 8,
            "sampling_rate": 8,
            "target_fps": 30,
            "train_jitter_fps": 0.0,
            "use_offset_sampling": False,
            "num_ensemble_views": 10,
        },
    ),
    "slowfast_ssv2": PresetSpec(_SSV2, {"mode": "train", "num_frames": 8}),
}
