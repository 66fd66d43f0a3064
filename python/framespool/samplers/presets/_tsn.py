"""TSN (yjxiong/tsn-pytorch, `dataset.py`)."""

from __future__ import annotations

from framespool.samplers.presets._preset import Preset, preset


def tsn(*, num_segments: int = 3, new_length: int = 1, random_shift: bool = True, test_mode: bool = False) -> Preset:
    """TSN's and TSM's `TSNDataSet`: one clip of consecutive frames from each of several equal parts.

    For RGB differences the original increases `new_length` by one. Short videos: segments start at frame 0, and the
    last frame repeats.

    Draws in training: for each segment an int below the length of a part; where parts would be empty, below the
    number of starts, then sorted; none for a short video.

    Args:
        num_segments: Number of parts.
        new_length: Frames of each part.
        random_shift: A random position in each part (training) instead of around its middle.
        test_mode: The middle of each part, also in short videos.

    Returns:
        The clip sampler.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.presets.tsn(random_shift=False).indices(60).indices
        [10, 30, 50]
    """
    return preset("tsn", locals())
