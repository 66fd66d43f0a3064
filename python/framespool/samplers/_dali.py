"""DALI's video readers (NVIDIA/DALI, ``dali/operators/video``)."""

from __future__ import annotations

from framespool.samplers._preset_spec import PresetSpec, Required

PRESETS = {
    "dali": PresetSpec(
        """The sequences of DALI's ``readers.video`` and ``experimental.readers.video``, in their order:
        ``sequence_length`` frames ``stride`` apart, starting every ``step`` frames (-1: ``sequence_length * stride``).
        ``pad_mode``: ``"none"``, ``"constant"``, ``"edge"`` (``"repeat"``), ``"reflect_1001"`` (``"symmetric"``),
        ``"reflect_101"`` (``"reflect"``); ``pad_sequences=True`` is the old name of ``"constant"``. ``version``:
        ``"2.4"`` counts as ``experimental.readers.video`` of DALI 2.4 did: a sequence needs ``stride - 1`` frames more
        than it spans, and padding adds one sequence; ``"main"`` counts as later versions do, and as ``readers.video``
        always did.""",
        {
            "sequence_length": Required,
            "step": -1,
            "stride": 1,
            "pad_mode": None,
            "pad_sequences": None,
            "version": "main",
        },
    ),
    "dali_uniform_sample": PresetSpec(
        """DALI's ``experimental.readers.video(uniform_sample=True)``: one sequence per video, from its first frame to
        its last, with halves rounded away from zero. Frames repeat in a video that has fewer.""",
        {"sequence_length": Required},
    ),
}
