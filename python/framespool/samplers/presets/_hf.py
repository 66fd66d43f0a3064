"""Hugging Face Transformers (huggingface/transformers, `video_processing_utils.py` and `video_utils.py`)."""

from __future__ import annotations

from typing import Literal

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
