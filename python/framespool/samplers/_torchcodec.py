"""torchcodec's four samplers (pytorch/torchcodec, ``torchcodec/samplers``)."""

from __future__ import annotations

from framespool.samplers._preset_spec import PresetSpec, Required

_CLIPS = """``policy`` selects what replaces frames past the end: the clip's last frame ("repeat_last"), its start
("wrap"), or an error ("error"). ``mask`` is false for replacements."""

_INDICES = f"""``num_clips`` clips of ``num_frames_per_clip`` frames, ``num_indices_between_frames`` apart (1:
consecutive). They start at or after frame ``sampling_range_start`` and before ``sampling_range_end``; negative values
count from the end. Without an end, they start where they still fit. {_CLIPS} An empty range is an error."""

_TIMESTAMPS = f"""the frames shown at ``num_frames_per_clip`` times, ``seconds_between_frames`` apart (by default one
frame at the average rate). Clips start at or after second ``sampling_range_start`` (by default that of the first frame)
and before ``sampling_range_end``; without an end, where they still fit. {_CLIPS}"""

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

        Draws for all clips together: ``num_clips`` ints below the length of the range.""",
        _INDEX_OPTIONS,
    ),
    "torchcodec_regular_indices": PresetSpec(
        f"""torchcodec's ``clips_at_regular_indices``: evenly spread starts. {_INDICES}""", _INDEX_OPTIONS
    ),
    "torchcodec_random_timestamps": PresetSpec(
        f"""torchcodec's ``clips_at_random_timestamps``: ``num_clips`` clips of {_TIMESTAMPS} An empty range is an
        error.

        Draws for all clips together: ``num_clips`` floats.""",
        {"num_clips": 1, **_TIME_OPTIONS},
    ),
    "torchcodec_regular_timestamps": PresetSpec(
        f"""torchcodec's ``clips_at_regular_timestamps``: a clip every ``seconds_between_clip_starts``, of {_TIMESTAMPS}
        A video whose range is empty has no clips.""",
        {"seconds_between_clip_starts": Required, **_TIME_OPTIONS},
    ),
}
