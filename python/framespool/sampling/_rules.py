"""Rules that say which frames of a video make a clip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from framespool._check import whole
from framespool.sampling._base import Sampling, arguments

if TYPE_CHECKING:
    from framespool._framespool import Rule

PadMode = Literal["none", "constant", "edge", "reflect_101", "reflect_1001"]
Short = Literal["repeat", "loop", "error"]


@dataclass(frozen=True, kw_only=True)
class Windows(Sampling):
    """Every window of a video; made by :func:`windows`."""

    sequence_length: int
    stride: int = 1
    step: int | None = None
    pad_mode: PadMode = "none"

    def __post_init__(self) -> None:
        whole("sequence_length", self.sequence_length, least=1)
        whole("stride", self.stride, least=1)
        if self.step is not None:
            whole("step", self.step, least=1)
        self.clips_in(0)  # the engine checks the rest

    def _rule(self) -> Rule:
        values = arguments(
            sequence_length=int(self.sequence_length),
            stride=int(self.stride),
            step=None if self.step is None else int(self.step),
            pad_mode=self.pad_mode,
        )
        return ("windows", values)


@dataclass(frozen=True, kw_only=True)
class Random(Sampling):
    """Windows at random places; made by :func:`random`."""

    sequence_length: int
    stride: int = 1
    clips_per_video: int = 1
    short: Short = "repeat"

    def __post_init__(self) -> None:
        whole("sequence_length", self.sequence_length, least=1)
        whole("stride", self.stride, least=1)
        whole("clips_per_video", self.clips_per_video, least=1)
        self.clips_in(0)

    def _rule(self) -> Rule:
        values = arguments(
            sequence_length=int(self.sequence_length),
            stride=int(self.stride),
            clips_per_video=int(self.clips_per_video),
            short=self.short,
        )
        return ("random", values)


def windows(*, sequence_length: int, stride: int = 1, step: int | None = None, pad_mode: PadMode = "none") -> Windows:
    """All windows of each video: frames ``s, s + stride, …`` for starts ``s = 0, step, 2 * step, …``.

    ``step`` defaults to ``sequence_length * stride``, as in DALI. What happens to windows that run past the end:
    ``pad_mode="none"`` leaves them out; ``"constant"`` fills with zeros of the result; ``"edge"`` repeats the last
    frame; ``"reflect_101"`` mirrors without and ``"reflect_1001"`` with repeating it. Padded frames have ``mask``
    false.
    """
    return Windows(sequence_length=sequence_length, stride=stride, step=step, pad_mode=pad_mode)


def random(*, sequence_length: int, stride: int = 1, clips_per_video: int = 1, short: Short = "repeat") -> Random:
    """``clips_per_video`` windows of each video, each starting at a random frame, drawn anew every epoch.

    The start is uniform over all that fit. A video shorter than the window starts at 0, and past its end the last
    frame repeats (``short="repeat"``), the video starts over (``"loop"``), or the clip is an error (``"error"``).
    The draw depends on (seed, epoch, clip) only.
    """
    return Random(sequence_length=sequence_length, stride=stride, clips_per_video=clips_per_video, short=short)
