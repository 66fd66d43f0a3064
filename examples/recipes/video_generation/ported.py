"""The same loader with framespool: a ClipLoader for each size."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import framespool as fsp

#: As in the original.
FRAMES, FPS, SIZES = 49, 16, ((288, 512), (384, 384), (512, 288))


def read(path: Path, training: bool, sizes: Any = SIZES) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Returns the arguments of a ClipLoader or VideoDataset for each size, and the videos that are too short."""
    videos = fsp.datasets.json_lines(path, source="video")
    choose = fsp.samplers.RandomClips if training else fsp.samplers.UniformClips
    clip_sampler = choose(sequence_length=FRAMES, fps=FPS, padding="drop")
    dropped = fsp.ClipLoader(videos, clip_sampler, batch_size=1).dropped()
    videos = videos.exclude(dropped)
    rows_of: dict[tuple[int, int], list[int]] = {}
    for row, (video, _) in enumerate(videos):
        info = fsp.Video(video).info
        nearest = min(sizes, key=lambda size: abs(math.log(info.width * size[0] / info.height / size[1])))
        rows_of.setdefault(nearest, []).append(row)
    buckets = []
    for size, rows in rows_of.items():
        cover = [fsp.transforms.Resize(size, fit="cover"), fsp.transforms.CenterCrop(size)]
        buckets.append({"dataset": videos.subset(rows), "clip_sampler": clip_sampler, "transforms": cover})
    return buckets, dropped


class BucketLoader:
    """Batches (N, C, T, H, W) of one size each: a random order for training, else that of the sizes."""

    def __init__(self, path: Path, num_threads: int, training: bool, batch_size: int = 2, sizes: Any = SIZES) -> None:
        more = {"batch_size": batch_size, "layout": "NCTHW", "shuffle": training, "num_threads": num_threads}
        buckets, self.dropped = read(path, training, sizes)
        self.loaders, self.training, self.epoch = [fsp.ClipLoader(**each, **more) for each in buckets], training, 0

    def __iter__(self) -> Iterator[fsp.Batch]:
        order = [number for number, loader in enumerate(self.loaders) for _ in range(len(loader))]
        if self.training:
            random.Random(self.epoch).shuffle(order)
        batches, self.epoch = [iter(loader) for loader in self.loaders], self.epoch + 1
        return (next(batches[number]) for number in order)
