"""torchvision's ``VideoClips`` (pytorch/vision, ``torchvision/datasets/video_utils.py``)."""

from __future__ import annotations

from framespool.samplers._preset_spec import PresetSpec

PRESETS = {
    "torchvision": PresetSpec(
        """torchvision's ``VideoClips`` and its clip samplers (as in torchvision 0.29). All windows of
        ``clip_length_in_frames`` frames, ``frames_between_clips`` apart, of the video resampled to ``frame_rate``
        frames per second (by default its own). ``sampler``: all of them (``None``); ``"uniform"``:
        ``num_clips_per_video`` of them, evenly spread; ``"random"``: at most ``max_clips_per_video``, each once. A
        video that is too short has no clips. torchvision spreads uniform clips over the window numbers of the complete
        dataset, in float32; here each video is treated as the first one.

        ``"random"`` draws for all clips together, as the first entries of ``torch.randperm(windows)``: one int for
        each clip, below ``windows``, ``windows - 1``, and so on (none for the last window). The order of clips, which
        torchvision also shuffles, is the loader's ``shuffle``.""",
        {
            "clip_length_in_frames": 16,
            "frames_between_clips": 1,
            "frame_rate": None,
            "sampler": None,
            "num_clips_per_video": None,
            "max_clips_per_video": None,
        },
    ),
}
