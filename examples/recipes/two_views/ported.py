"""The same clips with framespool: a view of the loader for each kind, decoded in one pass over the video."""

from __future__ import annotations

from pathlib import Path

import framespool as fsp


def view(clips: int, frames: int, step: int, size: int, scale: tuple[float, float]) -> fsp.View:
    """Clips of one kind, (N, C, T, 3, H, W) uint8."""
    return fsp.View(
        fsp.samplers.RandomClips(sequence_length=frames, stride=step, clips_per_video=clips, padding="edge"),
        [fsp.transforms.RandomResizedCrop(size, scale=scale), fsp.transforms.RandomHorizontalFlip()],
    )


def make_loader(path: Path, num_workers: int, batch_size: int = 16, seed: int = 0) -> fsp.ClipLoader:
    """Loads videos in random order, each with the clips of both views."""
    return fsp.ClipLoader(
        fsp.datasets.annotation_file(path),
        views={"global": view(2, 16, 4, 224, (0.4, 1.0)), "local": view(6, 8, 2, 96, (0.05, 0.4))},
        batch_size=batch_size,
        shuffle=True,
        seed=seed,
        last_batch="drop",
        num_threads=num_workers,
    )
