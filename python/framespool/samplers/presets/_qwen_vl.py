"""qwen-vl-utils (QwenLM/Qwen3-VL, `qwen_vl_utils/vision_process.py`)."""

from __future__ import annotations

from typing import Literal

from framespool.samplers.presets._preset import Preset, preset


def qwen_vl(
    *,
    fps: float | None = None,
    nframes: int | None = None,
    min_frames: int | None = None,
    max_frames: int | None = None,
    video_start: float | None = None,
    video_end: float | None = None,
    version: Literal["qwen_vl_utils", "sglang"] = "qwen_vl_utils",
) -> Preset:
    """qwen-vl-utils' reading of videos, with its torchcodec and decord readers: one clip per video.

    The frames are evenly spread: `round(linspace(first, last, n))`, in float32. *n* is `nframes`, rounded to an even
    number, or `num_frames / rate * fps` within the limits, rounded down to an even number; clips then differ in
    length. A video with fewer frames than requested, or an empty segment, is an error, as in the original. An
    image, or a video of one frame, is a clip of that frame unless `nframes` is given: the original reads images
    elsewhere.

    Args:
        fps: Frames per second. `None`: 2.0.
        nframes: Number of frames, instead of `fps`, `min_frames` and `max_frames`.
        min_frames: Minimum number of frames. `None`: 4.
        max_frames: Maximum number of frames. `None`: 768.
        video_start: Start of the segment in seconds.
        video_end: End of the segment in seconds.
        version: `"sglang"`: SGLang's version for Qwen2.5-VL and Qwen3-VL, `linspace` truncated, without segments.

    Returns:
        The clip sampler, which draws no random numbers.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.presets.qwen_vl(fps=2.0).indices(90).indices
        [0, 18, 36, 53, 71, 89]
    """
    options = locals()
    if nframes is None:  # otherwise giving these is an error
        defaults = {"fps": 2.0, "min_frames": 4, "max_frames": 768}
        options |= {name: value for name, value in defaults.items() if options[name] is None}
    return preset("qwen_vl", options)
