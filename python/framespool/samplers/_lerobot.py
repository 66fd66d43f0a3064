"""LeRobot's datasets (huggingface/lerobot, ``lerobot/datasets``)."""

from __future__ import annotations

from framespool.samplers._preset_spec import PresetSpec, Required

PRESETS = {
    "lerobot": PresetSpec(
        """LeRobot's ``delta_timestamps`` for one camera: one clip per frame of a video (an episode), made of the
        frames at these distances in seconds. The distances must be multiples of ``1 / fps`` (by default the video's
        average rate) to within ``tolerance_s`` seconds. Past either end the first or the last frame is used, with
        ``mask`` false (LeRobot's ``is_pad``, inverted). A frame further than ``tolerance_s`` from its time is an error,
        as in the original. Seconds count from the first frame of the video, or of its segment.""",
        {"delta_timestamps": Required, "fps": None, "tolerance_s": 1e-4},
    ),
}
