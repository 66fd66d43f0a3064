"""The same clips with framespool: a loader for each view, which deliver the same videos in the same order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import framespool as fsp
import torch


def make_loader(
    path: Path, clips: int, frames: int, step: int, size: int, scale: tuple[float, float], **keywords: int
) -> fsp.ClipLoader:
    """Loads clips of one view, (N, C, T, 3, H, W) uint8."""
    return fsp.ClipLoader(
        fsp.datasets.annotation_file(path),
        fsp.samplers.RandomClips(sequence_length=frames, stride=step, clips_per_video=clips, padding="edge"),
        transforms=[fsp.transforms.RandomResizedCrop(size, scale=scale), fsp.transforms.RandomHorizontalFlip()],
        group_clips=True,
        shuffle=True,
        last_batch="drop",
        **keywords,
    )


def make_loaders(path: Path, num_workers: int, batch_size: int = 16, seed: int = 0) -> dict[str, fsp.ClipLoader]:
    """Makes the loaders of both views. Seed, shuffle and batch size must be equal, since they determine the order."""
    keywords = {"batch_size": batch_size, "seed": seed, "num_threads": max(1, num_workers // 2)}
    return {
        "global": make_loader(path, 2, 16, 4, 224, (0.4, 1.0), **keywords),
        "local": make_loader(path, 6, 8, 2, 96, (0.05, 0.4), **keywords),
    }


def load(loaders: dict[str, fsp.ClipLoader]) -> Iterator[dict[str, torch.Tensor]]:
    """Yields the batches of an epoch with the frames of both views."""
    for batches in zip(*loaders.values(), strict=True):
        yield {name: batch.frames.torch() for name, batch in zip(loaders, batches, strict=True)}
