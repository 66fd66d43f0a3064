"""A map-style dataset as in many code bases: decord reads a clip, and a sampler with replacement balances classes."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import decord
import torch
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler
from torchvision.transforms import v2

#: Frames of a clip, their distance, the side of the crop, and its area as a share of the frame.
FRAMES, STEP, SIZE, SCALE = 16, 4, 112, (0.3, 1.0)
AUGMENT = v2.Compose([v2.RandomResizedCrop(SIZE, scale=SCALE, antialias=True), v2.RandomHorizontalFlip()])


def num_starts(num_frames: int) -> int:
    """The number of frames at which a clip can start."""
    return max(num_frames - (FRAMES - 1) * STEP, 1)


def clip_indices(num_frames: int, start: int) -> list[int]:
    """The frames of a clip; the last frame of the video again and again where it is too short."""
    return [min(start + STEP * k, num_frames - 1) for k in range(FRAMES)]


class Clips(Dataset):
    """Videos of a text file with a path and a label on each line; an item is a random clip."""

    VideoReader = decord.VideoReader

    def __init__(self, path: Path) -> None:
        rows = [line.rsplit(" ", 1) for line in path.read_text().splitlines()]
        self.videos, self.labels = [video for video, _ in rows], [int(label) for _, label in rows]

    def __len__(self) -> int:
        return len(self.videos)

    def __getitem__(self, index: int) -> dict[str, Any]:
        reader = self.VideoReader(self.videos[index], num_threads=1)
        indices = clip_indices(len(reader), random.randrange(num_starts(len(reader))))
        frames = torch.from_numpy(reader.get_batch(indices).asnumpy()).permute(0, 3, 1, 2)
        return {
            "frames": AUGMENT(frames),
            "labels": self.labels[index],
            "video_ids": index,
            "indices": torch.tensor(indices),
        }


def make_sampler(labels: list[int], num_samples: int, seed: int = 0) -> WeightedRandomSampler:
    """Draws samples so that all labels are equally frequent on average."""
    counts = Counter(labels)
    weights = [1 / counts[label] for label in labels]
    return WeightedRandomSampler(weights, num_samples, generator=torch.Generator().manual_seed(seed))


def make_loader(
    path: Path, num_workers: int, num_samples: int, batch_size: int = 8, dataset: type[Clips] = Clips
) -> DataLoader:
    """Loads `num_samples` clips per epoch, (N, T, C, H, W) uint8."""
    clips = dataset(path)
    sampler = make_sampler(clips.labels, num_samples)
    return DataLoader(clips, batch_size=batch_size, sampler=sampler, num_workers=num_workers)
