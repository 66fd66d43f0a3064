"""PyTorchVideo's clip samplers (facebookresearch/pytorchvideo, ``pytorchvideo/data/clip_sampling.py``)."""

from __future__ import annotations

from framespool.samplers._preset_spec import PresetSpec, Required

PRESETS = {
    "pytorchvideo": PresetSpec(
        """PyTorchVideo's ``make_clip_sampler`` (its main branch). A clip is the frames that appear in ``clip_duration``
        seconds, the end not included; of these ``num_samples`` evenly spread ones (``UniformTemporalSubsample``), or
        all (``None``: clips of differing length). ``sampling_type``:

        - ``"random"``: one clip at a random time. Draws a float.
        - ``"random_multi"``: ``num_clips`` of these; one item of the original has them all. Draws for all clips
          together: a float each.
        - ``"uniform"``: a clip every ``stride`` seconds (by default every ``clip_duration``); ``backpad_last=True``
          adds one that ends with the video.
        - ``"constant_clips_per_video"``: ``clips_per_video`` evenly spread clips, each ``augs_per_clip`` times (1).

        ``clip_duration`` and ``stride`` may be :class:`fractions.Fraction`, as in the original; a float stride makes it
        compute begins in floats. Seconds count from the first frame; the duration is the video stream's (the original
        takes the audio's where that is longer). Where no frame lies in a clip the original goes on to another video;
        here it is an error.""",
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
