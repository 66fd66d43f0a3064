"""The same loader with framespool in two ways: with one other import, and with a dataset that decodes whole batches."""

from __future__ import annotations

from pathlib import Path

import framespool as fsp
import original
from framespool.compat import decord  # in place of `import decord`
from framespool.torch import OccurrenceSampler, VideoDataset
from torch.utils.data import DataLoader


class CompatClips(original.Clips):
    """The dataset of the original with that import."""

    VideoReader = decord.VideoReader


def make_loader(path: Path, num_workers: int, num_samples: int, batch_size: int = 8, seed: int = 0) -> DataLoader:
    """Loads `num_samples` clips per epoch, (N, T, C, H, W) uint8; `loader.dataset.set_epoch()` chooses the epoch."""
    dataset = fsp.datasets.annotation_file(path)
    clips = VideoDataset(
        dataset,
        fsp.samplers.RandomClips(sequence_length=16, stride=4, padding="edge"),
        transforms=[
            fsp.transforms.RandomResizedCrop(112, scale=(0.3, 1.0)),
            fsp.transforms.RandomHorizontalFlip(),
        ],
        seed=seed,
    )
    # Without OccurrenceSampler, all draws of a video in an epoch would be the same clip.
    sampler = OccurrenceSampler(original.make_sampler([label for _, label in dataset], num_samples, seed))
    return DataLoader(clips, batch_size=batch_size, sampler=sampler, num_workers=num_workers)
