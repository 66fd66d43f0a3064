"""The same loader with framespool: threads decode the frames of both cameras, each picture once."""

from __future__ import annotations

from pathlib import Path

import framespool as fsp

FPS = 30
#: As in the original.
DELTAS = {
    "observation.images.top": [-1 / FPS, 0.0],
    "observation.images.wrist": [-1 / FPS, 0.0],
    "observation.state": [-1 / FPS, 0.0],
    "action": [step / FPS for step in range(-1, 15)],
}


def make_loader(root: Path, num_workers: int, training: bool, batch_size: int = 16) -> fsp.ClipLoader:
    """Loads batches: in random order for training, otherwise in the order of the frames."""
    dataset = fsp.datasets.lerobot(root, delta_timestamps=DELTAS)
    return fsp.ClipLoader(
        dataset, batch_size=batch_size, shuffle=training, dtype="float32", num_threads=max(num_workers, 2)
    )
