"""Hugging Face Transformers (huggingface/transformers, ``video_processing_utils.py`` and ``video_utils.py``)."""

from __future__ import annotations

from framespool.samplers._preset_spec import PresetSpec

PRESETS = {
    "hf": PresetSpec(
        """Transformers' sampling of frames: one clip a video, frames evenly spread. Either ``num_frames`` of them, or
        as many as there are at ``fps`` frames per second: clips of differing length. ``function``:

        - ``"sample_frames"``: ``BaseVideoProcessor.sample_frames``. Now and then the original asks for one frame past
          the end (17 frames, ``num_frames=7``): it is left out, as by readers that go through a file frame by frame.
        - ``"default_sample_indices_fn"``: that of ``load_video``. NumPy cuts the distance to a whole number, so the end
          of the video is not reached, and may give one frame more. With neither number: all frames.

        More frames than the video has are an error, as in the original.""",
        {"num_frames": None, "fps": None, "function": "sample_frames"},
    ),
}
