"""FFmpeg (`libavfilter/vf_fps.c`)."""

from __future__ import annotations

from typing import Literal

from framespool.samplers.presets._preset import Preset, preset


def ffmpeg_fps(
    *,
    fps: float,
    round: Literal["zero", "inf", "down", "up", "near"] = "near",
    eof_action: Literal["round", "pass"] = "round",
) -> Preset:
    """The frames that FFmpeg's filter `fps` outputs, as `ffmpeg -i a.mp4 -vf fps=1` does: one clip per video.

    Times, counted from the first frame, are rounded to periods of the output, and each period shows the last frame
    that is not later: at 30 frames per second and `fps=1` the frames 14, 44, 74, … Frames repeat at a rate above the
    video's. A video that ends before its first period has no clip.

    Args:
        fps: Frames per second.
        round: How times are rounded; `"zero"` is `"down"` and `"inf"` is `"up"` here.
        eof_action: How the end is rounded: `"round"` as times, `"pass"` up.

    Returns:
        The clip sampler, which draws no random numbers.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.presets.ffmpeg_fps(fps=1).indices(90).indices
        [14, 44, 74]
    """
    return preset("ffmpeg_fps", locals())
