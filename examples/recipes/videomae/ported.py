"""The same loader with framespool: each clip is decoded once and delivered twice, with another crop and mask."""

from __future__ import annotations

from pathlib import Path

import framespool as fsp

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def make_loader(path: Path, num_workers: int, batch_size: int = 32, seed: int = 0) -> fsp.ClipLoader:
    """Loads a random clip of each video in random order, two views of each, with a mask of patches."""
    return fsp.ClipLoader(
        fsp.datasets.annotation_file(path),
        fsp.samplers.presets.videomae_pretrain(new_length=16, new_step=4),
        batch_size=batch_size,
        repeats=2,
        transforms=[
            fsp.transforms.MultiScaleCrop(224, scales=(1, 0.875, 0.75, 0.66)),
            fsp.transforms.Normalize(MEAN, STD),
            fsp.transforms.TubeMask(0.9, patch=(2, 16, 16)),
        ],
        shuffle="full",
        last_batch="drop",
        dtype="float32",
        layout="NCTHW",
        num_threads=num_workers,
        seed=seed,
    )
