"""The same loader with framespool: each clip is decoded once and delivered twice, with another crop."""

from __future__ import annotations

from pathlib import Path

import framespool as fsp

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
#: framespool has no crops of four sizes at thirteen positions. This one has any size and position: the areas and shapes
#: lie between the least and the largest of the original for frames of 16:9.
CROP = fsp.transforms.RandomResizedCrop(224, scale=(0.66**2 * 9 / 16, 9 / 16), ratio=(0.857, 1.167))


def make_loader(path: Path, num_workers: int, batch_size: int = 32, seed: int = 0) -> fsp.ClipLoader:
    """Loads a random clip of each video in random order, two views of each."""
    return fsp.ClipLoader(
        fsp.datasets.annotation_file(path),
        fsp.samplers.preset("videomae_pretrain", new_length=16, new_step=4),
        batch_size=batch_size,
        repeats=2,
        transforms=[CROP, fsp.transforms.Normalize(MEAN, STD)],
        shuffle="full",
        last_batch="drop",
        dtype="float32",
        layout="NCTHW",
        num_threads=num_workers,
        seed=seed,
    )
