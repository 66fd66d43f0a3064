"""The same loader with framespool: videos and images are decoded and resized in its threads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import framespool as fsp

from dataset import IMAGE, VIDEO, make_processor, prompt


def make_loader(path: Path, batch_size: int, num_workers: int) -> Iterator[dict[str, Any]]:
    """Loads the records in the order of the file."""
    processor = make_processor()
    limits = {"min_pixels": VIDEO["min_pixels"], "total_pixels": VIDEO["total_pixels"]}
    loader = fsp.ClipLoader(
        fsp.datasets.json_lines(path, videos="videos", images="images"),
        fsp.samplers.presets.qwen_vl(fps=VIDEO["fps"], max_frames=VIDEO["max_frames"]),
        batch_size=batch_size,
        transforms={
            "videos": [fsp.transforms.SmartResize(28, **limits)],
            "images": [fsp.transforms.SmartResize(28, **IMAGE)],
        },
        num_threads=num_workers,
    )
    for batch in loader:
        batch = batch.torch()
        yield processor(
            text=[prompt(conversation) for conversation in batch.columns["conversations"]],
            images=batch.images.images or None,
            videos=batch.videos.frames or None,
            video_metadata=batch.video_metadata() or None,
            padding=True,
            return_tensors="pt",
        ) | {"num_samples": len(batch), "indices": [each["frames_indices"] for each in batch.video_metadata()]}
