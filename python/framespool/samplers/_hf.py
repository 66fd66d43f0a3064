"""Hugging Face Transformers (huggingface/transformers, ``video_processing_utils.py`` and ``video_utils.py``)."""

from __future__ import annotations

from framespool.samplers._preset_spec import PresetSpec

PRESETS = {
    "hf": PresetSpec(
        """Transformers' sampling of frames: one clip per video, frames evenly spread. Either ``num_frames`` frames, or
        those at ``fps`` frames per second, where clips differ in length. ``function``:

        - ``"sample_frames"``: ``BaseVideoProcessor.sample_frames``. Sometimes the original requests one frame past
          the end (17 frames, ``num_frames=7``). It is omitted, as by readers that decode a file sequentially.
        - ``"default_sample_indices_fn"``: the function of ``load_video``. NumPy truncates the distance to an int,
          so the end of the video is not reached, and there may be one frame more. With neither number: all frames.

        Requesting more frames than the video has is an error, as in the original.""",
        {"num_frames": None, "fps": None, "function": "sample_frames"},
    ),
}
