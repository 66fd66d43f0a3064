"""V-JEPA 2 (facebookresearch/vjepa2, `src/datasets/video_dataset.py`)."""

from __future__ import annotations

from framespool.samplers.presets._preset import Preset, preset


def vjepa2(
    *,
    frames_per_clip: int = 16,
    fps: int | None = None,
    duration: float | None = None,
    frame_step: int | None = 4,
    num_clips: int = 1,
    random_clip_sampling: bool = True,
    allow_clip_overlap: bool = False,
    filter_short_videos: bool = False,
) -> Preset:
    """V-JEPA 2's `VideoDataset`: a window of each of `num_clips` equal parts, which the original returns as a list.

    Exactly one of `fps`, `duration` and `frame_step` is given; since `frame_step` is 4 by default, the others also need
    `frame_step=None`. A window is `linspace` over `frames_per_clip` steps, both ends included. If parts are not longer
    than that, they are spread likewise and their last frame repeats. A video whose rate is below `fps` is an error.

    Draws with `random_clip_sampling`, for all clips of a video together: an int for each part, below the number of
    starts; none if parts are short.

    Args:
        frames_per_clip: Frames of a clip.
        fps: The step is the video's rate, rounded up, divided by this and rounded down.
        duration: The step is that of a clip of this many seconds.
        frame_step: The step in frames.
        num_clips: Clips of a video.
        random_clip_sampling: A random window of each part instead of the first.
        allow_clip_overlap: If parts are short, clips overlap instead.
        filter_short_videos: A video shorter than a clip has none.

    Returns:
        The clip sampler.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.presets.vjepa2(frames_per_clip=4).indices(100, draws=[10]).indices
        [10, 15, 20, 25]
    """
    return preset("vjepa2", locals())
