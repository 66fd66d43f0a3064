"""The preset after InternVideo2 (OpenGVLab/InternVideo, ``InternVideo2/multi_modality/dataset/video_utils.py``)."""

from __future__ import annotations

from framespool.samplers._preset_spec import PresetSpec, Required

_READ_FRAMES = """InternVideo2's ``read_frames_decord``: one clip over the complete video, or its first 30 seconds
(``trimmed30``). ``sample`` "rand": a random frame of each of ``num_frames`` intervals; "middle": the middle one, or
the one ``fix_start`` after the first; "fps0.5" and the like: so many frames per second, at most ``max_num_frames``
(-1: all), and ``num_frames`` is ignored. A video of fewer than ``num_frames`` frames repeats its last one.

Draws of "rand": an int for each interval, below its length minus 1. If any interval is a single frame, instead an int
below i for each i from the number of frames down to 2 (the first entries of NumPy's ``permutation``)."""

PRESETS = {
    "internvideo2": PresetSpec(
        _READ_FRAMES,
        {
            "num_frames": Required,
            "sample": "rand",
            "fix_start": None,
            "max_num_frames": -1,
            "trimmed30": False,
        },
    ),
}
