"""vLLM (vllm-project/vllm, `vllm/multimodal/video.py`)."""

from __future__ import annotations

from framespool.samplers.presets._preset import Preset, preset


def vllm(*, num_frames: int | None = 32, fps: float | None = None) -> Preset:
    """vLLM's default video loader, for models without a loader of their own: one clip per video.

    The frames are `linspace(0, N - 1, n)`, truncated. For Qwen2.5-VL and Qwen3-VL, vLLM has the sampling of
    :func:`hf_qwen2_vl` and :func:`hf_qwen3_vl`.

    Args:
        num_frames: Maximum number of frames. `None`: no limit.
        fps: Maximum number of frames per second. `None`: no limit.

    Returns:
        The clip sampler, which draws no random numbers.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.presets.vllm(num_frames=4).indices(30).indices
        [0, 9, 19, 29]
    """
    return preset("vllm", locals())
