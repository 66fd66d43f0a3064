"""Cosmos-Curate (nvidia-cosmos/cosmos-curate, ``cosmos_curate/pipelines/video/utils/decoder_utils.py``)."""

from __future__ import annotations

from framespool.samplers._preset_spec import PresetSpec, Required

PRESETS = {
    "cosmos_curate": PresetSpec(
        """Cosmos-Curate's ``decode_video_cpu`` (``sample_closest``): one clip per video, the frames nearest to the
        times ``start``, ``start + 1 / sample_rate_fps``, … up to ``stop`` (in the video's seconds; by default the
        presentation times of the first and the last frame), in float32 as with NumPy 2. Clips differ in length; frames
        repeat at a rate above the video's. ``endpoint=False`` omits a last time that equals ``stop``.""",
        {"sample_rate_fps": Required, "start": None, "stop": None, "endpoint": True},
    ),
}
