"""The same loader with framespool: the rule is a function, which decides before anything is decoded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import framespool as fsp
from original import FPS, MAX_FRAMES, SIZE, prompt


def choose(info: fsp.samplers.ClipInfo, rng: Random) -> list[int]:
    """A frame per second, or `MAX_FRAMES` that are evenly spread if these are too many."""
    step = max(round(info.fps / FPS), 1)
    if -(-info.num_frames // step) <= MAX_FRAMES:
        return list(range(0, info.num_frames, step))
    return [place * (info.num_frames - 1) // (MAX_FRAMES - 1) for place in range(MAX_FRAMES)]


def make_loader(path: Path, num_workers: int) -> Iterator[dict[str, Any]]:
    """Loads the samples in order, one by one: they differ in length."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    loader = fsp.ClipLoader(
        fsp.datasets.Dataset([row["video"] for row in rows], columns={"caption": [row["caption"] for row in rows]}),
        fsp.samplers.Custom(choose),
        batch_size=1,
        transforms=[
            fsp.transforms.Resize((SIZE, SIZE), interpolation="bicubic"),
            fsp.transforms.Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
        ],
        collate="stack",
        dtype="float32",
        num_threads=num_workers,
    )
    for batch in loader:
        (about,) = batch.video_metadata()
        indices, (caption,) = about["frames_indices"], batch.columns["caption"]
        text = prompt(indices, about["total_num_frames"], about["fps"], caption)
        yield {"frames": batch.frames.torch()[0], "indices": indices, "text": text}
