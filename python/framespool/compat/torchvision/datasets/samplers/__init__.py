"""torchvision's samplers of clips."""

from framespool.compat.torchvision.datasets.samplers.clip_sampler import (
    DistributedSampler,
    RandomClipSampler,
    UniformClipSampler,
)

__all__ = ["DistributedSampler", "RandomClipSampler", "UniformClipSampler"]
