"""InternVideo2 (OpenGVLab/InternVideo, `InternVideo2/multi_modality/dataset/video_utils.py`)."""

from __future__ import annotations

from framespool.samplers.presets._preset import Preset, preset


def internvideo2(
    *,
    num_frames: int,
    sample: str = "rand",
    fix_start: int | None = None,
    max_num_frames: int = -1,
    trimmed30: bool = False,
) -> Preset:
    """InternVideo2's `read_frames_decord`: one clip over the complete video.

    A video of fewer than `num_frames` frames repeats its last one.

    Draws of "rand": an int for each interval, below its length minus 1. If any interval is a single frame, instead an
    int below i for each i from the number of frames down to 2 (the first entries of NumPy's `permutation`).

    Args:
        num_frames: Frames of a clip; ignored at a rate.
        sample: `"rand"`: a random frame of each of `num_frames` intervals. `"middle"`: its middle one. `"fps0.5"` and
            the like: so many frames per second.
        fix_start: With `"middle"`: the frame this many after the first of each interval.
        max_num_frames: Maximum number of frames at a rate; -1: all.
        trimmed30: Only the first 30 seconds.

    Returns:
        The clip sampler.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.presets.internvideo2(num_frames=4, sample="middle").indices(32).indices
        [3, 11, 19, 27]
    """
    return preset("internvideo2", locals())
