"""Rules that make clips out of videos.

A rule is a small immutable object that compares by value and can be pickled. Frames are counted from 0, in
presentation order; ``stride`` is the distance between two frames of a clip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from framespool import _framespool
from framespool._check import number, whole

if TYPE_CHECKING:
    from framespool._framespool import Known, Rule

__all__ = ["Random", "Sample", "Sampling", "Windows", "random", "windows"]

PadMode = Literal["none", "constant", "edge", "reflect_101", "reflect_1001"]
Short = Literal["repeat", "loop", "error"]


class Sample(NamedTuple):
    """The frames of one clip: ``indices`` (display indices), and ``mask``, false for frames past the end."""

    indices: list[int]
    mask: list[bool]


def _arguments(**values: Any) -> dict[str, Any]:
    """Arguments of a rule as the engine takes them."""
    return {name: value for name, value in values.items() if value is not None}


def _known(num_frames: int | Sequence[float], fps: float | None) -> Known:
    """What is known of a video: a number of frames at a rate, or their times."""
    if isinstance(num_frames, Sequence):
        times = [number("times", time) for time in num_frames]
        # The last frame stays as long as frames do on average.
        last = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else 0.0
        return (times, times[-1] + last if times else 0.0)
    return (whole("num_frames", num_frames), number("fps", fps, above=0))


class Sampling:
    """Base of all rules."""

    def _rule(self) -> Rule:
        raise NotImplementedError

    def clips_in(self, num_frames: int | Sequence[float], *, fps: float = 30.0) -> int:
        """Number of clips that a video yields: one of ``num_frames`` frames at ``fps`` frames per second, or one
        whose frames appear at the times ``num_frames`` (a sequence of seconds, ascending)."""
        return _framespool.clips_in(self._rule(), _known(num_frames, fps))

    def frames(
        self,
        num_frames: int | Sequence[float],
        *,
        fps: float = 30.0,
        clip: int = 0,
        draws: Sequence[float] | None = None,
        seed: int = 0,
        epoch: int = 0,
    ) -> Sample:
        """The frames of clip number ``clip`` of a video; the video as for :meth:`clips_in`.

        ``draws``: the random numbers, in the order in which the rule draws them, so that a published formula can be
        compared number by number: whole numbers from 0, or floats in [0, 1). A rule whose clips are drawn together
        takes the draws of all clips. Without them, the numbers are those that a loader over this one video draws with
        this ``seed`` in this ``epoch``.
        """
        key = (whole("seed", seed, most=2**64 - 1), whole("epoch", epoch, most=2**64 - 1))
        given = None if draws is None else list(draws)
        indices, mask = _framespool.sample(self._rule(), _known(num_frames, fps), whole("clip", clip), given, key)
        return Sample(indices, mask)


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
        values = _arguments(
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
        values = _arguments(
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
