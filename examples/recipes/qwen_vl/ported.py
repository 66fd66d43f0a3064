"""The same loader with framespool: frames are chosen, decoded and resized in its threads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import framespool as fsp


def make_loader(path: Path, num_workers: int) -> Iterator[dict[str, Any]]:
    """Loads the samples in the order of the file."""
    loader = fsp.ClipLoader(
        fsp.datasets.json_lines(path, source="video"),
        fsp.samplers.presets.qwen_vl(fps=2.0, max_frames=64),
        batch_size=1,
        transforms=[fsp.transforms.SmartResize(28, min_pixels=16 * 28 * 28, total_pixels=2048 * 28 * 28)],
        num_threads=num_workers,
    )
    for batch in loader:
        yield {
            "frames": batch.frames[0].torch().float(),
            "indices": batch.indices[0].tolist(),
            "caption": batch.columns["caption"][0],
        }
