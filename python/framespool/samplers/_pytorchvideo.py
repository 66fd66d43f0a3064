"""PyTorchVideo's clip samplers (facebookresearch/pytorchvideo, ``pytorchvideo/data/clip_sampling.py``)."""

from __future__ import annotations

from framespool.samplers._preset_spec import PresetSpec, Required

PRESETS = {
    "pytorchvideo": PresetSpec(
        """PyTorchVideo's ``make_clip_sampler`` (its main branch). A clip is the frames with presentation times within
        ``clip_duration`` seconds, the end excluded: ``num_samples`` evenly spread ones of these
        (``UniformTemporalSubsample``), or all (``None``; clips then differ in length). ``sampling_type``:

        - ``"random"``: one clip at a random time. Draws a float.
        - ``"random_multi"``: ``num_clips`` of these, which the original returns as one item. Draws for all clips
          together: a float each.
        - ``"uniform"``: a clip every ``stride`` seconds (by default every ``clip_duration``); ``backpad_last=True``
          adds one that ends with the video.
        - ``"constant_clips_per_video"``: ``clips_per_video`` evenly spread clips, each ``augs_per_clip`` times (1).

        ``clip_duration`` and ``stride`` may be :class:`fractions.Fraction`, as in the original; with a float stride
        starts are computed in floats. Seconds count from the first frame; the duration is the video stream's (the
        original takes the audio's where that is longer). If a clip contains no frame, the original continues with
        another video; here it is an error.""",
        {
            "sampling_type": "random",
            "clip_duration": Required,
            "num_samples": None,
            "num_clips": None,
            "stride": None,
            "backpad_last": None,
            "clips_per_video": None,
            "augs_per_clip": None,
        },
    ),
}
