"""torchvision's `VideoClips` (pytorch/vision, `torchvision/datasets/video_utils.py`)."""

from __future__ import annotations

from typing import Literal

from framespool.samplers.presets._preset import Preset, preset


def torchvision(
    *,
    clip_length_in_frames: int = 16,
    frames_between_clips: int = 1,
    frame_rate: float | None = None,
    sampler: Literal["uniform", "random"] | None = None,
    num_clips_per_video: int | None = None,
    max_clips_per_video: int | None = None,
) -> Preset:
    """torchvision's `VideoClips` and its clip samplers (as in torchvision 0.29).

    The clips are windows of the video resampled to `frame_rate`. A video that is too short has no clips. torchvision
    spreads uniform clips over the window numbers of the complete dataset, in float32; here each video is treated as the
    first one.

    `"random"` draws for all clips together, as the first entries of `torch.randperm(windows)`: one int for each clip,
    below `windows`, `windows - 1`, and so on (none for the last window). The order of clips, which torchvision also
    shuffles, is the loader's `shuffle`.

    Args:
        clip_length_in_frames: Frames of a window.
        frames_between_clips: Frames between the starts of windows.
        frame_rate: Frames per second. `None`: the video's own.
        sampler: `None`: all windows; `"uniform"`: evenly spread ones; `"random"`: random ones, each once.
        num_clips_per_video: Windows of `"uniform"`.
        max_clips_per_video: Maximum number of windows of `"random"`.

    Returns:
        The clip sampler.

    Example:
        >>> import framespool as fsp
        >>> clip_sampler = fsp.samplers.presets.torchvision(sampler="uniform", num_clips_per_video=2)
        >>> clip_sampler.indices(60, clip=1).indices[:3]
        [44, 45, 46]
    """
    return preset("torchvision", locals())
