"""PyTorchVideo's clip samplers (facebookresearch/pytorchvideo, `pytorchvideo/data/clip_sampling.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from framespool.samplers.presets._preset import Preset, preset

if TYPE_CHECKING:
    from fractions import Fraction


def pytorchvideo(
    *,
    sampling_type: Literal["random", "random_multi", "uniform", "constant_clips_per_video"] = "random",
    clip_duration: float | Fraction,
    num_samples: int | None = None,
    num_clips: int | None = None,
    stride: float | Fraction | None = None,
    backpad_last: bool | None = None,
    clips_per_video: int | None = None,
    augs_per_clip: int | None = None,
) -> Preset:
    """PyTorchVideo's `make_clip_sampler` (its main branch).

    A clip is the frames with presentation times from its start to `clip_duration` seconds later, the end excluded.
    Times are exact fractions as in the original; with a float stride starts are computed in floats. Seconds count from
    the first frame; the duration is the video stream's (the original takes the audio's where that is longer). If a
    clip contains no frame, the original continues with another video; here it is an error.

    Draws: a float for each random clip, with `"random_multi"` for all clips together.

    Args:
        sampling_type: `"random"`: one clip at a random time. `"random_multi"`: `num_clips` of these, which the original
            returns as one item. `"uniform"`: a clip every `stride` seconds. `"constant_clips_per_video"`:
            `clips_per_video` evenly spread clips.
        clip_duration: Seconds of a clip.
        num_samples: Evenly spread frames of a clip (`UniformTemporalSubsample`). `None`: all; clips then differ in
            length.
        num_clips: Clips of `"random_multi"`.
        stride: Seconds between the starts of `"uniform"`. `None`: `clip_duration`.
        backpad_last: `True` adds a clip of `"uniform"` that ends with the video.
        clips_per_video: Clips of `"constant_clips_per_video"`.
        augs_per_clip: Number of times that each of these occurs. `None`: once.

    Returns:
        The clip sampler.

    Example:
        >>> import framespool as fsp
        >>> clip_sampler = fsp.samplers.presets.pytorchvideo(sampling_type="uniform", clip_duration=0.5, num_samples=4)
        >>> clip_sampler.indices(60, clip=1).indices
        [15, 19, 24, 29]
    """
    return preset("pytorchvideo", locals())
