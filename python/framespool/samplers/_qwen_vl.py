"""qwen-vl-utils (QwenLM/Qwen3-VL, ``qwen_vl_utils/vision_process.py``)."""

from __future__ import annotations

from framespool.samplers._preset_spec import PresetSpec

PRESETS = {
    "qwen_vl": PresetSpec(
        """qwen-vl-utils' reading of videos, with its torchcodec and decord readers: one clip per video, frames evenly
        spread. Either ``nframes`` frames, rounded to an even number, or those at ``fps`` frames per second (2.0), at
        least ``min_frames`` (4) and at most ``max_frames`` (768), an even number; clips then differ in length.
        ``video_start`` and ``video_end`` (seconds) select a segment. A video with fewer frames than requested, or an
        empty segment, is an error, as in the original.""",
        {
            "fps": None,
            "nframes": None,
            "min_frames": None,
            "max_frames": None,
            "video_start": None,
            "video_end": None,
        },
    ),
}
