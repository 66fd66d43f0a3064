"""qwen-vl-utils (QwenLM/Qwen3-VL, ``qwen_vl_utils/vision_process.py``)."""

from __future__ import annotations

from framespool.samplers._preset_spec import PresetSpec

PRESETS = {
    "qwen_vl": PresetSpec(
        """qwen-vl-utils' reading of videos, with its torchcodec and decord readers: one clip a video, frames evenly
        spread. Either ``nframes`` of them, rounded to an even number, or as many as there are at ``fps`` frames per
        second (2.0), at least ``min_frames`` (4) and at most ``max_frames`` (768), an even number: clips of differing
        length. ``video_start`` and ``video_end`` (seconds) choose a part. A video with fewer frames than asked for, or
        an empty part, is an error, as in the original.""",
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
