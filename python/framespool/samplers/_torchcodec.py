"""torchcodec's four samplers (pytorch/torchcodec, ``torchcodec/samplers``)."""

from __future__ import annotations

from framespool.samplers._preset_spec import PresetSpec, Required

_CLIPS = """``policy`` says what a clip shows past the end: its last frame ("repeat_last"), its beginning ("wrap"), or
nothing: an error ("error"). Such frames have ``mask`` false."""

_INDICES = f"""``num_clips`` clips of ``num_frames_per_clip`` frames, ``num_indices_between_frames`` apart (1:
consecutive). They begin at or after frame ``sampling_range_start`` and before ``sampling_range_end``, both counted from
the end where negative; without an end, where they still fit. {_CLIPS} A range that holds no frame is an error."""

_TIMESTAMPS = f"""``num_frames_per_clip`` moments, ``seconds_between_frames`` apart (by default one frame at the average
rate), each showing the frame on screen. Clips begin at or after second ``sampling_range_start`` (by default the first
frame's) and before ``sampling_range_end``; without an end, where they still fit. {_CLIPS}"""

_INDEX_OPTIONS = {
    "num_clips": 1,
    "num_frames_per_clip": 1,
    "num_indices_between_frames": 1,
    "sampling_range_start": 0,
    "sampling_range_end": None,
    "policy": "repeat_last",
}

_TIME_OPTIONS = {
    "num_frames_per_clip": 1,
    "seconds_between_frames": None,
    "sampling_range_start": None,
    "sampling_range_end": None,
    "policy": "repeat_last",
}

PRESETS = {
    "torchcodec_random_indices": PresetSpec(
        f"""torchcodec's ``clips_at_random_indices``. {_INDICES}

        Draws for all clips together: ``num_clips`` whole numbers below the length of the range.""",
        _INDEX_OPTIONS,
    ),
    "torchcodec_regular_indices": PresetSpec(
        f"""torchcodec's ``clips_at_regular_indices``: starts evenly spread. {_INDICES}""", _INDEX_OPTIONS
    ),
    "torchcodec_random_timestamps": PresetSpec(
        f"""torchcodec's ``clips_at_random_timestamps``: ``num_clips`` clips of {_TIMESTAMPS} A range that is empty is
        an error.

        Draws for all clips together: ``num_clips`` floats.""",
        {"num_clips": 1, **_TIME_OPTIONS},
    ),
    "torchcodec_regular_timestamps": PresetSpec(
        f"""torchcodec's ``clips_at_regular_timestamps``: a clip every ``seconds_between_clip_starts``, of {_TIMESTAMPS}
        A video whose range is empty yields no clip.""",
        {"seconds_between_clip_starts": Required, **_TIME_OPTIONS},
    ),
}
