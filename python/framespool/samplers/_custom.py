"""Clips whose frames a function of the caller's names."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from framespool.errors import ArgumentError
from framespool.samplers._base import ClipSampler, arguments
from framespool.samplers._common import positive_integers

if TYPE_CHECKING:
    from framespool._framespool import ClipInfo, SamplerArgs


@dataclass(frozen=True, kw_only=True)
class Custom(ClipSampler):
    """Frames that a function names; made by :func:`custom`. Can be pickled if the function can."""

    function: Callable[[ClipInfo, random.Random], Iterable[int]]
    clips_per_video: int = 1
    sequence_length: int | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ArgumentError(f"fn must be a function of (info, rng), got {self.function!r}")
        positive_integers(self, "clips_per_video")
        if self.sequence_length is not None:
            positive_integers(self, "sequence_length")
        self.clips_in(0)

    def _sampler_args(self) -> SamplerArgs:
        values: dict[str, Any] = {"function": self.function, "clips_per_video": self.clips_per_video}
        return ("custom", arguments(**values, sequence_length=self.sequence_length))


def custom(
    fn: Callable[[ClipInfo, random.Random], Iterable[int]],
    *,
    clips_per_video: int = 1,
    sequence_length: int | None = None,
) -> Custom:
    """``clips_per_video`` clips of each video, of the frames that ``fn(info, rng)`` returns::

        def last_second(info, rng):
            first = max(info.num_frames - round(info.fps), 0)
            return sorted(rng.choices(range(first, info.num_frames), k=8))

        loader = fsp.ClipLoader(dataset, fsp.samplers.custom(last_second, sequence_length=8), batch_size=4)

    ``info`` (:class:`ClipInfo`) knows ``num_frames``, ``fps``, ``duration_seconds``, ``clip`` (which clip of the video,
    from 0) and ``pts_seconds``, a list of when each frame appears, made when asked for. ``rng`` is a ``random.Random``
    seeded for this clip: one whole number below 2**63 is drawn from the clip's stream. Frame numbers run from 0 to
    ``info.num_frames - 1``, in any order, also more than once; a list, a range or an array. ``mask`` is true
    throughout.

    ``sequence_length``: frames of every clip, if you know; batches then have memory of their own, and a clip of another
    length is an error. Without it clips may differ in length, and frames come as a list of tensors.

    The function runs on the loader's threads, one at a time since it holds the GIL, and may be called more than once
    for a clip: what it returns should depend on ``info`` and ``rng`` alone. It must not wait for the loader.

    Errors: :class:`~framespool.errors.ClipSamplingError`, which names the file, for a clip whose function raises (with the
    exception and its line), or returns no frame number, a negative one or one that the video does not have.
    :meth:`ClipSampler.frames` and ``ClipLoader.describe_clip`` raise with the exception itself as ``__cause__``.
    """
    return Custom(function=fn, clips_per_video=clips_per_video, sequence_length=sequence_length)
