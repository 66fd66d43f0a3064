"""The preset after V-JEPA 2 (facebookresearch/vjepa2, ``src/datasets/video_dataset.py``)."""

from __future__ import annotations

from framespool.samplers._preset_spec import PresetSpec

_VIDEO_DATASET = """V-JEPA 2's ``VideoDataset``: a window of each of ``num_clips`` parts of the video, one clip each,
which the original returns as a list. Exactly one of ``fps`` (an int), ``duration`` (seconds) and ``frame_step`` is
given; since ``frame_step`` is 4 by default, the others also need ``frame_step=None``.

A window is ``linspace`` over ``frames_per_clip`` steps, both ends included: a random one, or the first without
``random_clip_sampling``. If parts are not longer than that, they are spread likewise and their last frame repeats;
with ``allow_clip_overlap`` the clips overlap instead. ``filter_short_videos``: a video shorter than a clip has
none. A video whose rate is below ``fps`` is an error.

Draws with ``random_clip_sampling``, for all clips of a video together: an int for each part, below the number of
starts; none if parts are short."""

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
