"""Hugging Face Transformers (huggingface/transformers).

`video_processing_utils.py`, `video_utils.py`, and `models/*/video_processing_*.py` of processors with sampling of their
own.
"""

from __future__ import annotations

from typing import Any, Literal

from framespool.samplers.presets._preset import Preset, preset


def hf(
    *,
    num_frames: int | None = None,
    fps: float | None = None,
    function: Literal["sample_frames", "default_sample_indices_fn"] = "sample_frames",
    version: Literal["4.57", "5.23"] = "5.23",
) -> Preset:
    """Transformers' sampling of frames: one clip per video, frames evenly spread.

    Requesting more frames than the video has is an error, as in the original.

    Args:
        num_frames: Number of frames; without it and `fps`, all frames.
        fps: Frames per second instead, where clips differ in length.
        function: Which function of version 4.57. `"sample_frames"` is `BaseVideoProcessor.sample_frames`, which needs
            one of the numbers. Sometimes the original requests one frame past the end (17 frames, `num_frames=7`). It
            is omitted, as by readers that decode a file sequentially. `"default_sample_indices_fn"` is the function of
            `load_video`. NumPy truncates the distance to an int, so the end of the video is not reached, and there
            may be one frame more.
        version: Release of Transformers. `"5.23"`, and later: frame `i * total // num_frames`, and at least one frame
            at `fps`, in both functions.

    Returns:
        The clip sampler, which draws no random numbers.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.presets.hf(num_frames=4).indices(30).indices
        [0, 7, 15, 22]
    """
    return preset("hf", locals())


def hf_internvl(
    *, num_frames: int | None = None, fps: float | None = None, initial_shift: bool | float = True
) -> Preset:
    """Transformers' `InternVLVideoProcessor`: one clip per video, the middle frames of equal parts.

    Requesting more frames than the video has is an error, as in the original. InternVL's own training has the sampling
    of :func:`internvideo2`.

    Args:
        num_frames: Number of frames.
        fps: Frames per second instead, where clips differ in length.
        initial_shift: Position of the first frame. `True`: half the distance of two frames.

    Returns:
        The clip sampler, which draws no random numbers.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.presets.hf_internvl(num_frames=4).indices(30).indices
        [3, 11, 18, 26]
    """
    return preset("hf_internvl", locals())


def hf_qwen2_vl(
    *,
    fps: float | None = None,
    num_frames: int | None = None,
    min_frames: int = 4,
    max_frames: int = 768,
    temporal_patch_size: int = 2,
) -> Preset:
    """Transformers' `Qwen2VLVideoProcessor` (Qwen2-VL, Qwen2.5-VL), and vLLM's loader for it: one clip per video.

    The frames are `arange(0, N, N / n)`, in float32, which can yield frame `N` as well. Transformers then fails; here
    as in vLLM the last frame is repeated, with `mask` false. For the sampling of qwen-vl-utils see :func:`qwen_vl`.

    Args:
        fps: Frames per second. `None`: 2.0.
        num_frames: Number of frames, instead of `fps`.
        min_frames: Minimum number of frames at a rate.
        max_frames: Maximum number of frames at a rate.
        temporal_patch_size: The number of frames is a multiple of this, rounded down at a rate.

    Returns:
        The clip sampler, which draws no random numbers.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.presets.hf_qwen2_vl(fps=2.0).indices(90).indices
        [0, 15, 30, 45, 60, 75]
    """
    return preset("hf_qwen2_vl", _with_fps(locals()))


def hf_qwen3_vl(
    *, fps: float | None = None, num_frames: int | None = None, min_frames: int = 4, max_frames: int = 768
) -> Preset:
    """Transformers' `Qwen3VLVideoProcessor` (Qwen3-VL), and vLLM's loader for it: one clip per video.

    The frames are `round(linspace(0, N - 1, n))`. The number of frames may be odd, other than in :func:`qwen_vl`.

    Args:
        fps: Frames per second. `None`: 2.0.
        num_frames: Number of frames, instead of `fps`.
        min_frames: Minimum number of frames at a rate.
        max_frames: Maximum number of frames at a rate.

    Returns:
        The clip sampler, which draws no random numbers.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.presets.hf_qwen3_vl(fps=2.0).indices(80).indices
        [0, 20, 40, 59, 79]
    """
    return preset("hf_qwen3_vl", _with_fps(locals()))


def hf_smolvlm(*, num_frames: int = 64, fps: float = 1.0, skip_secs: float = 1.0) -> Preset:
    """Transformers' `SmolVLMVideoProcessor` (SmolVLM2): one clip per video, evenly spread from first to last frame.

    Args:
        num_frames: Maximum number of frames.
        fps: Frames per second up to that number.
        skip_secs: Seconds omitted at both ends of videos with more than `num_frames * fps` other seconds.

    Returns:
        The clip sampler, which draws no random numbers.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.presets.hf_smolvlm(fps=2).indices(60).indices
        [0, 19, 39, 59]
    """
    return preset("hf_smolvlm", locals())


def _with_fps(options: dict[str, Any]) -> dict[str, Any]:
    """The options with the default rate, unless the number of frames is given."""
    return {**options, "fps": 2.0} if options["fps"] is None and options["num_frames"] is None else options
