"""The loader of video generation as it is written with torchcodec and torchvision: captions, buckets of shapes."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, Sampler
from torchcodec.decoders import VideoDecoder
from torchvision.transforms import v2

#: Frames of a clip, frames per second, and the heights and widths of the buckets.
FRAMES, FPS, SIZES = 49, 16, ((288, 512), (384, 384), (512, 288))
#: Frames start at multiples of the frame duration, which has no exact float.
TOLERANCE = 1e-6


def nearest(height: int, width: int, sizes: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The size whose shape is the most like that of a video."""
    return min(sizes, key=lambda size: abs(math.log(width * size[0] / height / size[1])))


class Clips(Dataset):
    """A clip of each video that is long enough, with its caption; `sizes` has the height and width of each."""

    def __init__(self, path: Path, training: bool, sizes: Sequence[tuple[int, int]] = SIZES) -> None:
        self.training, self.rows, self.starts, self.sizes, self.dropped = training, [], [], [], []
        for row in map(json.loads, path.read_text().splitlines()):
            metadata = VideoDecoder(row["video"], seek_mode="approximate").metadata
            # Frames from which all of a clip is in the video.
            starts = math.ceil(metadata.num_frames - (FRAMES - 1) / FPS * metadata.average_fps - TOLERANCE)
            if starts > 0:
                self.rows.append({**row, "fps": metadata.average_fps})
                self.starts.append(starts)
                self.sizes.append(nearest(metadata.height, metadata.width, sizes))
            else:
                self.dropped.append(row["video"])

    def __len__(self) -> int:
        return len(self.rows)

    def choose(self, index: int, start: int) -> list[int]:
        """The frames of the clip that begins with a frame."""
        return [start + int(k / FPS * self.rows[index]["fps"] + TOLERANCE) for k in range(FRAMES)]

    def __getitem__(self, index: int) -> dict[str, Any]:
        """A random clip for training, otherwise the one in the middle."""
        starts = self.starts[index]
        indices = self.choose(index, random.randrange(starts) if self.training else (starts - 1) // 2)
        decoder = VideoDecoder(self.rows[index]["video"], seek_mode="approximate")
        frames = cover(decoder.get_frames_at(indices).data, self.sizes[index])
        return {"frames": frames.transpose(0, 1), "indices": torch.tensor(indices), **self.rows[index]}


def cover(frames: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """Resizes frames to the smallest size that covers another one, and crops the rest."""
    height, width = frames.shape[-2:]
    scale = max(size[0] / height, size[1] / width)
    frames = v2.functional.resize(frames, [round(height * scale), round(width * scale)], antialias=True)
    return v2.functional.center_crop(frames, list(size))


class BucketBatches(Sampler[list[int]]):
    """Batches of clips of one size: a random order for training, else that of the sizes."""

    def __init__(self, sizes: Sequence[tuple[int, int]], batch_size: int, training: bool) -> None:
        self.batch_size, self.training = batch_size, training
        self.buckets = [[row for row, other in enumerate(sizes) if other == size] for size in dict.fromkeys(sizes)]

    def __len__(self) -> int:
        return sum(-(-len(bucket) // self.batch_size) for bucket in self.buckets)

    def __iter__(self) -> Iterator[list[int]]:
        batches = []
        for bucket in self.buckets:
            rows = random.sample(bucket, len(bucket)) if self.training else bucket
            batches += [rows[first : first + self.batch_size] for first in range(0, len(rows), self.batch_size)]
        return iter(random.sample(batches, len(batches)) if self.training else batches)


def make_loader(
    path: Path, num_workers: int, training: bool, batch_size: int = 2, sizes: Sequence[tuple[int, int]] = SIZES
) -> DataLoader:
    """Loads batches (N, C, T, H, W) of one size each."""
    clips = Clips(path, training, sizes)
    batches = BucketBatches(clips.sizes, batch_size, training)
    return DataLoader(clips, batch_sampler=batches, num_workers=num_workers)
