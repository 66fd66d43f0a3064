"""PySlowFast (facebookresearch/SlowFast, `slowfast/datasets`). Options have its names in lower case."""

from __future__ import annotations

from typing import Literal

from framespool.samplers.presets._preset import Preset, preset

Mode = Literal["train", "val", "test"]


def slowfast(
    *,
    mode: Mode = "train",
    num_frames: int = 8,
    sampling_rate: int = 8,
    target_fps: float = 30,
    train_jitter_fps: float = 0.0,
    use_offset_sampling: bool = False,
    num_ensemble_views: int = 10,
) -> Preset:
    """PySlowFast's `Kinetics`, for its mode of decoding complete videos.

    A clip spans `sampling_rate * num_frames / target_fps` seconds; its frames are `torch.linspace` over it in float32
    (as PyTorch computes it on x86 with AVX2, and on Arm), truncated, with the last frame of the video past its end.

    Draws of a random clip: with `train_jitter_fps` (mode "train") a float for the rate; a float for the start.

    Args:
        mode: `"train"` and `"val"` give one random clip, `"test"` gives evenly spread views, which the original
            combines with `NUM_SPATIAL_CROPS` crops (a transform: ThreeCrop).
        num_frames: Frames of a clip.
        sampling_rate: Distance between them, at `target_fps`.
        target_fps: Frames per second to which `sampling_rate` refers.
        train_jitter_fps: Largest random increase of the rate, in frames per second.
        use_offset_sampling: Views start at frame boundaries and extend to the end.
        num_ensemble_views: Views of a video in test.

    Returns:
        The clip sampler.

    Example:
        >>> import framespool as fsp
        >>> clip_sampler = fsp.samplers.presets.slowfast(mode="test", num_frames=8, sampling_rate=8)
        >>> clip_sampler.clips_in(300)
        10
    """
    return preset("slowfast", locals())


def slowfast_ssv2(*, mode: Mode = "train", num_frames: int = 8) -> Preset:
    """PySlowFast's `Ssv2`: one frame from each of `num_frames` equal parts.

    Its test views differ only in their crops (a transform: ThreeCrop), so there is one clip here.

    Draws in training: an int for each frame, below the length of its part (both ends included).

    Args:
        mode: A random frame of each part in `"train"`, the middle one in `"val"` and `"test"`.
        num_frames: Frames of a clip.

    Returns:
        The clip sampler.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.presets.slowfast_ssv2(mode="val", num_frames=4).indices(33).indices
        [4, 12, 20, 28]
    """
    return preset("slowfast_ssv2", locals())
