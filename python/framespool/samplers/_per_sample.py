"""The clip sampler of datasets whose samples have different ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from framespool.samplers._base import ClipSampler

if TYPE_CHECKING:
    from framespool._framespool import SamplerSpec


class PerSample(ClipSampler):
    """A clip sampler for each range of consecutive samples; clips have equally many frames in all.

    Args:
        parts: Numbers of consecutive samples, and their clip sampler.

    Raises:
        ArgumentError: If clips of two of them have another number of frames.
    """

    def __init__(self, parts: Sequence[tuple[int, ClipSampler]]) -> None:
        self._parts = list(parts)
        self.clips_in(0)  # the engine checks the values

    def _spec(self) -> SamplerSpec:
        return ("per_sample", {"parts": [(count, sampler._spec()) for count, sampler in self._parts]}, None)
