"""LLaVA-Video (LLaVA-VL/LLaVA-NeXT, `llava/utils.py`)."""

from __future__ import annotations

from framespool.samplers.presets._preset import Preset, preset


def llava_video(*, video_fps: float = 1.0, frames_upbound: int | None = None, force_sample: bool = False) -> Preset:
    """LLaVA-NeXT's `process_video_with_decord`, which trains LLaVA-Video and LLaVA-OneVision: one clip per video.

    Args:
        video_fps: Frames per second: every `round(rate / video_fps)`-th frame.
        frames_upbound: If those are more than this, so many evenly spread frames instead. `None`: no limit.
        force_sample: Always `frames_upbound` frames; a short video repeats some.

    Returns:
        The clip sampler, which draws no random numbers.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.presets.llava_video(frames_upbound=4, force_sample=True).indices(30).indices
        [0, 9, 19, 29]
    """
    return preset("llava_video", locals())
