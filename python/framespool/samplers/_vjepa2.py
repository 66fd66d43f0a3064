"""The preset after V-JEPA 2 (facebookresearch/vjepa2, ``src/datasets/video_dataset.py``)."""

from __future__ import annotations

from framespool.samplers._preset_spec import PresetSpec

_VIDEO_DATASET = """V-JEPA 2's ``VideoDataset``: a window of each of ``num_clips`` parts of the video, a clip each,
which the original hands on as a list. Exactly one of ``fps`` (whole), ``duration`` (seconds) and ``frame_step`` is
given; since ``frame_step`` is 4 by default, the others need ``frame_step=None`` beside them.

A window is ``linspace`` over ``frames_per_clip`` steps, both ends counted: a random one, or the first without
``random_clip_sampling``. Where parts are no longer than that, they are spread likewise and their last frame repeats;
with ``allow_clip_overlap`` the clips overlap instead. ``filter_short_videos``: a video shorter than a clip yields
none. A video whose rate is below ``fps`` is an error.

Draws with ``random_clip_sampling``, for all clips of a video together: a whole number for each part, below the number
of starts; none where parts are short."""

PRESETS = {
    "vjepa2": PresetSpec(
        _VIDEO_DATASET,
        {
            "frames_per_clip": 16,
            "fps": None,
            "duration": None,
            "frame_step": 4,
            "num_clips": 1,
            "random_clip_sampling": True,
            "allow_clip_overlap": False,
            "filter_short_videos": False,
        },
    ),
}
