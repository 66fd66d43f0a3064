"""Cosmos-Curate (nvidia-cosmos/cosmos-curate, `cosmos_curate/pipelines/video/utils/decoder_utils.py`)."""

from __future__ import annotations

from framespool.samplers.presets._preset import Preset, preset


def cosmos_curate(
    *, sample_rate_fps: float, start: float | None = None, stop: float | None = None, endpoint: bool = True
) -> Preset:
    """Cosmos-Curate's `decode_video_cpu` (`sample_closest`): one clip per video, at a rate.

    The frames nearest to the times `start`, `start + 1 / sample_rate_fps`, … up to `stop`, in float32 as with NumPy 2.
    Clips differ in length; frames repeat at a rate above the video's.

    Args:
        sample_rate_fps: Frames per second.
        start: First time, in the video's seconds. `None`: the presentation time of the first frame.
        stop: Last time. `None`: that of the last frame.
        endpoint: Whether a last time that equals `stop` is included.

    Returns:
        The clip sampler.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.presets.cosmos_curate(sample_rate_fps=2).indices(60).indices
        [0, 15, 30, 45, 59]
    """
    return preset("cosmos_curate", locals())
