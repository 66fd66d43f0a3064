"""LeRobot's datasets (huggingface/lerobot, `lerobot/datasets`)."""

from __future__ import annotations

from collections.abc import Sequence

from framespool.samplers.presets._preset import Preset, preset


def lerobot(*, delta_timestamps: Sequence[float], fps: float | None = None, tolerance_s: float = 1e-4) -> Preset:
    """LeRobot's `delta_timestamps` for one camera: one clip per frame of a video (an episode).

    Clip *c* has frame `c + round(delta * fps)` for each distance. Past either end the first or the last frame is used,
    with `mask` false (LeRobot's `is_pad`, inverted). A frame further than `tolerance_s` from its time is an error, as
    in the original. Seconds count from the first frame of the video, or of its segment.

    Args:
        delta_timestamps: Distances in seconds: multiples of `1 / fps` to within `tolerance_s`.
        fps: Frames per second of the dataset. `None`: the video's average rate.
        tolerance_s: Tolerance in seconds.

    Returns:
        The clip sampler, which draws no random numbers.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.presets.lerobot(delta_timestamps=[-0.1, 0.0]).indices(30, fps=10.0, clip=5).indices
        [4, 5]
    """
    return preset("lerobot", locals())
