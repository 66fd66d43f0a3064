"""Clips whose frames a function of the user selects."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from framespool.errors import ArgumentError
from framespool.samplers._base import ClipSampler
from framespool.samplers._common import hinted, positive_integers

if TYPE_CHECKING:
    from framespool._framespool import ClipInfo, SamplerSpec


@hinted
@dataclass(frozen=True)
class Custom(ClipSampler):
    """The frames that a function returns.

    The function `function(info, rng)` returns frame indices from 0 to `info.num_frames - 1`, in any order, repeats
    allowed, as a list, range or array. `info` is a `ClipInfo`: it has `num_frames`, `fps`, `duration_seconds`, `clip`
    (number of the clip within the video) and `pts_seconds`, a list of presentation times that is built on access. `rng`
    is a `random.Random` seeded for this clip with one int below 2**63 drawn from the clip's random numbers.

    The function runs on the loader's threads, one call at a time since it holds the GIL, and may be called several
    times for a clip. Its result should depend only on `info` and `rng`. It must not wait for the loader. `mask`
    is always true.

    Args:
        function: The function.
        clips_per_video: Clips of each video.
        sequence_length: Frames of every clip. A clip of another length is then an error. `None`: clips may differ in
            length, and frames are a list of tensors.

    Raises:
        ArgumentError: If `function` cannot be called, or a number is less than 1.
        ClipSamplingError: While loading, if the function raises, or returns no index or one that the video does not
            have. The message names the file; `ClipSampler.indices()` and `ClipLoader.describe_clip` set the
            exception as `__cause__`.

    Example:
        >>> import framespool as fsp
        >>> def last_second(info, rng):
        ...     first = max(info.num_frames - round(info.fps), 0)
        ...     return sorted(rng.choices(range(first, info.num_frames), k=8))
        >>> clip_sampler = fsp.samplers.Custom(last_second, sequence_length=8)
        >>> len(clip_sampler.indices(100, fps=25.0).indices)
        8
    """

    function: Callable[[ClipInfo, random.Random], Iterable[int]]
    _: KW_ONLY
    clips_per_video: int = 1
    sequence_length: int | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ArgumentError(f"function must be a function of (info, rng), got {self.function!r}")
        positive_integers(self, "clips_per_video")
        if self.sequence_length is not None:
            positive_integers(self, "sequence_length")
        self.clips_in(0)

    def _spec(self) -> SamplerSpec:
        given = {"clips_per_video": self.clips_per_video, "sequence_length": self.sequence_length}
        return ("custom", given, self.function)
