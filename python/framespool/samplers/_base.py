"""What all rules have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from framespool import _framespool
from framespool._validate_args import integer, number

if TYPE_CHECKING:
    from framespool._framespool import SamplerArgs, VideoDescription


class ClipIndices(NamedTuple):
    """The frames of one clip: ``indices`` (display indices), and ``mask``, false for frames past the end."""

    indices: list[int]
    mask: list[bool]


def arguments(**values: Any) -> dict[str, Any]:
    """Arguments of a rule as the engine takes them."""
    return {name: value for name, value in values.items() if value is not None}


def _video_description(num_frames: int | Sequence[float], fps: float | None) -> VideoDescription:
    """What is known of a video: a number of frames at a rate, or their times."""
    if isinstance(num_frames, Sequence):
        times = [number("times", time) for time in num_frames]
        # The last frame stays as long as frames do on average.
        last = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else 0.0
        return (times, times[-1] + last if times else 0.0)
    return (integer("num_frames", num_frames), number("fps", fps, above=0))


class ClipSampler:
    """Base of all rules."""

    def _sampler_args(self) -> SamplerArgs:
        raise NotImplementedError

    def clips_in(self, num_frames: int | Sequence[float], *, fps: float = 30.0) -> int:
        """Number of clips that a video yields: one of ``num_frames`` frames at ``fps`` frames per second, or one
        whose frames appear at the times ``num_frames`` (a sequence of seconds, ascending)."""
        return _framespool.num_clips_of(self._sampler_args(), _video_description(num_frames, fps))

    def frames(
        self,
        num_frames: int | Sequence[float],
        *,
        fps: float = 30.0,
        clip: int = 0,
        draws: Sequence[float] | None = None,
        seed: int = 0,
        epoch: int = 0,
    ) -> ClipIndices:
        """The frames of clip number ``clip`` of a video; the video as for :meth:`clips_in`.

        ``draws``: the random numbers, in the order in which the rule draws them, so that a published formula can be
        compared number by number: whole numbers from 0, or floats in [0, 1). A rule whose clips are drawn together
        takes the draws of all clips. Without them, the numbers are those that a loader over this one video draws with
        this ``seed`` in this ``epoch``.
        """
        key = (integer("seed", seed, most=2**64 - 1), integer("epoch", epoch, most=2**64 - 1))
        given = None if draws is None else list(draws)
        indices, mask = _framespool.sample(
            self._sampler_args(), _video_description(num_frames, fps), integer("clip", clip), given, key
        )
        return ClipIndices(indices, mask)
