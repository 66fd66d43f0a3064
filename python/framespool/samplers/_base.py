"""The base class of clip samplers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from framespool import _framespool
from framespool._common.validate_args import integer, number

if TYPE_CHECKING:
    from framespool._framespool import SamplerSpec, VideoDescription


class ClipIndices(NamedTuple):
    """The frames of one clip.

    Attributes:
        indices: Frame indices in presentation order.
        mask: False for frames past the end.

    Example:
        >>> import framespool as fsp
        >>> indices, mask = fsp.samplers.Windows(sequence_length=4, padding="edge").indices(6, clip=1)
        >>> indices, mask
        ([4, 5, 5, 5], [True, True, False, False])
    """

    indices: list[int]
    mask: list[bool]


def _video_description(num_frames: int | Sequence[float], fps: float | None) -> VideoDescription:
    """A video as the engine takes it: number of frames and rate, or presentation times."""
    if isinstance(num_frames, Sequence):
        times = [number("times", time) for time in num_frames]
        # The last frame stays as long as frames do on average.
        last = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else 0.0
        return (times, times[-1] + last if times else 0.0)
    return (integer("num_frames", num_frames), number("fps", fps, above=0))


class ClipSampler:
    """Base class of all clip samplers.

    Example:
        >>> import framespool as fsp
        >>> clip_sampler = fsp.samplers.Windows(sequence_length=16)
        >>> isinstance(clip_sampler, fsp.samplers.ClipSampler)
        True
        >>> clip_sampler.clips_in(100), clip_sampler.indices(100, clip=1).indices[:3]
        (6, [16, 17, 18])
    """

    #: Name of the clip sampler in the engine.
    _kind: ClassVar[str]

    def _spec(self) -> SamplerSpec:
        """The clip sampler as the engine reads it: its name, its arguments, and the function of a custom one."""
        return (self._kind, vars(self), None)

    def clips_in(self, num_frames: int | Sequence[float], *, fps: float = 30.0) -> int:
        """Returns the number of clips of a video.

        Args:
            num_frames: Number of frames, or the presentation times of the frames in seconds, ascending.
            fps: Frames per second, if `num_frames` is a number.

        Returns:
            Number of clips.

        Raises:
            ArgumentError: If an argument is invalid.

        Example:
            >>> import framespool as fsp
            >>> fsp.samplers.Windows(sequence_length=16).clips_in(100)
            6
        """
        return _framespool.num_clips_of(self._spec(), _video_description(num_frames, fps))

    def indices(
        self,
        num_frames: int | Sequence[float],
        *,
        fps: float = 30.0,
        clip: int = 0,
        draws: Sequence[float] | None = None,
        seed: int = 0,
        epoch: int = 0,
    ) -> ClipIndices:
        """Returns the frames of one clip of a video.

        Args:
            num_frames: As for `clips_in()`.
            fps: As for `clips_in()`.
            clip: Number of the clip.
            draws: The random numbers in the order in which the clip sampler draws them, to compare with a published
                formula: ints from 0, or floats in [0, 1). A clip sampler that draws for all clips together takes the
                draws of all clips. `None`: the numbers that a loader over this one video draws.
            seed: Seed of the loader.
            epoch: Epoch of the loader.

        Returns:
            Frame indices and mask.

        Raises:
            ArgumentError: If an argument is invalid.
            ClipSamplingError: If the video cannot give the clip.

        Example:
            >>> import framespool as fsp
            >>> fsp.samplers.UniformClips(sequence_length=4, stride=2).indices(20)
            ClipIndices(indices=[6, 8, 10, 12], mask=[True, True, True, True])
        """
        key = (integer("seed", seed, most=2**64 - 1), integer("epoch", epoch, most=2**64 - 1))
        given = None if draws is None else list(draws)
        indices, mask = _framespool.sample(
            self._spec(), _video_description(num_frames, fps), integer("clip", clip), given, key
        )
        return ClipIndices(indices, mask)
