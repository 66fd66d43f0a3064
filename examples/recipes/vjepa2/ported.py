"""The same loader with framespool: the clips of a video are one row of the batch."""

from __future__ import annotations

from pathlib import Path

import framespool as fsp

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def make_loader(path: Path, num_workers: int, batch_size: int = 24, seed: int = 0) -> fsp.ClipLoader:
    """Loads the clips of each video in random order, (N, CLIPS, C, T, H, W)."""
    t = fsp.transforms
    return fsp.ClipLoader(
        fsp.datasets.annotation_file(path),
        fsp.samplers.presets.vjepa2(frames_per_clip=16, frame_step=4, num_clips=2),
        batch_size=batch_size,
        group_clips=True,
        transforms=[
            t.RandomResizedCrop(256, scale=(0.3, 1.0), ratio=(0.75, 1.35), antialias=False),
            t.RandomHorizontalFlip(),
            t.Normalize(MEAN, STD),
        ],
        shuffle=True,
        last_batch="drop",
        dtype="float32",
        layout="NCTHW",
        num_threads=num_workers,
        seed=seed,
    )
