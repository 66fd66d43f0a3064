"""The loaders of a fine-tuning as they are usually written: torchcodec in a Dataset, and a DataLoader."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset
from torchcodec.decoders import VideoDecoder
from torchvision.transforms import v2

MEAN, STD = (0.45, 0.45, 0.45), (0.225, 0.225, 0.225)
#: Frames of a clip, the distance between them, and the height and width of frames.
LENGTH, STRIDE, SIZE = 8, 2, 112
NORMALIZE = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
TRANSFORMS = {
    "train": v2.Compose([v2.RandomResizedCrop(SIZE), v2.RandomHorizontalFlip(), *NORMALIZE]),
    "val": v2.Compose([v2.Resize(128), v2.CenterCrop(SIZE), *NORMALIZE]),
}


def choose_frames(num_frames: int, split: str) -> list[int]:
    """The frames of a random clip, or of the clip in the middle; the last frame again if the video is too short."""
    last = max(num_frames - (LENGTH - 1) * STRIDE - 1, 0)
    start = random.randint(0, last) if split == "train" else last // 2
    return [min(start + k * STRIDE, num_frames - 1) for k in range(LENGTH)]


class Clips(Dataset):
    """One clip of each video of `root/split/<class>/`."""

    def __init__(self, root: Path, split: str) -> None:
        classes = sorted(folder.name for folder in (root / split).iterdir())
        self.split = split
        self.videos = [
            (video, label) for label, name in enumerate(classes) for video in sorted((root / split / name).iterdir())
        ]

    def __len__(self) -> int:
        return len(self.videos)

    def __getitem__(self, index: int) -> dict[str, Any]:
        video, label = self.videos[index]
        decoder = VideoDecoder(video, seek_mode="approximate", num_ffmpeg_threads=1)
        indices = choose_frames(len(decoder), self.split)
        frames = TRANSFORMS[self.split](decoder.get_frames_at(indices).data).permute(1, 0, 2, 3)
        return {"frames": frames, "labels": label, "clip_ids": index, "indices": torch.tensor(indices)}


def make_loader(root: Path, split: str, batch_size: int, num_workers: int) -> DataLoader:
    """Loads the clips of one part, those for training in random order."""
    return DataLoader(
        Clips(root, split),
        batch_size=batch_size,
        shuffle=split == "train",
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
    )


def for_lightning(root: Path, batch_size: int, num_workers: int) -> dict[str, DataLoader]:
    """The arguments of `lightning.pytorch.Trainer.fit`."""
    return {f"{split}_dataloaders": make_loader(root, split, batch_size, num_workers) for split in ("train", "val")}


def for_accelerate(
    root: Path, batch_size: int, num_workers: int, accelerator: Accelerator
) -> tuple[DataLoader, DataLoader]:
    """The loaders for training and validation."""
    return accelerator.prepare(*for_lightning(root, batch_size, num_workers).values())


def for_transformers(root: Path) -> dict[str, Any]:
    """The arguments of `transformers.Trainer`."""
    return {"train_dataset": Clips(root, "train"), "eval_dataset": Clips(root, "val")}
