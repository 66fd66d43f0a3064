"""DALI's video readers (NVIDIA/DALI, `dali/operators/video`)."""

from __future__ import annotations

from typing import Literal

from framespool.samplers.presets._preset import Preset, preset

DaliPadMode = Literal["none", "constant", "edge", "repeat", "reflect_1001", "symmetric", "reflect_101", "reflect"]


def dali(
    *,
    sequence_length: int,
    step: int = -1,
    stride: int = 1,
    pad_mode: DaliPadMode | None = None,
    pad_sequences: bool | None = None,
    version: Literal["2.4", "main"] = "main",
) -> Preset:
    """The sequences of DALI's `readers.video` and `experimental.readers.video`, in their order.

    Sequence *s* is the frames `s * step + i * stride`.

    Args:
        sequence_length: Frames of a sequence.
        step: Frames between the starts of sequences; -1: `sequence_length * stride`.
        stride: Frames between two of a sequence.
        pad_mode: What happens to sequences that run past the end. `"repeat"` is `"edge"`, `"symmetric"` is
            `"reflect_1001"`, `"reflect"` is `"reflect_101"`. `None`: `"none"`.
        pad_sequences: True is the old name of `pad_mode="constant"`.
        version: `"2.4"` counts as `experimental.readers.video` of DALI 2.4 did: a sequence needs `stride - 1` frames
            more than it spans, and padding adds one sequence. `"main"` counts as later versions do, and as
            `readers.video` always did.

    Returns:
        The clip sampler, which draws no random numbers.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.presets.dali(sequence_length=4, stride=2).indices(31, clip=1).indices
        [8, 10, 12, 14]
    """
    return preset("dali", locals())


def dali_uniform_sample(*, sequence_length: int) -> Preset:
    """DALI's `experimental.readers.video(uniform_sample=True)`: one sequence per video, from first to last frame.

    Frame *i* is `i * (num_frames - 1) / (sequence_length - 1)`, with halves rounded away from zero. Frames repeat in a
    video that has fewer.

    Args:
        sequence_length: Frames of a sequence.

    Returns:
        The clip sampler, which draws no random numbers.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.presets.dali_uniform_sample(sequence_length=3).indices(4).indices
        [0, 2, 3]
    """
    return preset("dali_uniform_sample", locals())
