"""The same loader with framespool: one ClipLoader whose batches are buckets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import framespool as fsp

#: As in the original.
FRAMES, FPS, SIZES = 49, 16, ((288, 512), (384, 384), (512, 288))


def make_loader(
    path: Path, num_threads: int | None, training: bool, batch_size: int = 2, sizes: Any = SIZES, **more: Any
) -> fsp.ClipLoader:
    """Batches (N, C, T, H, W) of one size each: a random order for training, else that of the sizes."""
    choose = fsp.samplers.RandomClips if training else fsp.samplers.UniformClips
    return fsp.ClipLoader(
        fsp.datasets.json_lines(path, source="video"),
        choose(sequence_length=FRAMES, fps=FPS, padding="drop"),
        batch_size=batch_size,
        buckets=fsp.Buckets(sizes=sizes, display_aspect=False),  # the original does not know the display size
        layout="NCTHW",
        num_threads=num_threads,
        **{"shuffle": training, **more},
    )
