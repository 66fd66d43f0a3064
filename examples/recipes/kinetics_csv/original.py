"""The loaders of a training of R(2+1)D from a CSV file: pandas, torchcodec and torchvision in a DataLoader.

The crops are those of SlowFast. Each video is opened once per epoch, for all of its clips, and frames are uint8 until
a batch is complete.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import torch
from torch.utils.data import DataLoader, Dataset
from torchcodec.decoders import VideoDecoder
from torchvision import tv_tensors
from torchvision.transforms import v2

MEAN, STD = (0.43216, 0.394666, 0.37645), (0.22803, 0.22145, 0.216989)
FRAMES, STRIDE = 8, 4
#: Clips of each video in training and in evaluation.
TRAIN_CLIPS, VAL_CLIPS = 2, 3
SHORT_SIDES, CROP, VAL_SIDE = range(256, 321), 224, 256
MIXUP_ALPHA, SMOOTHING = 0.8, 0.1

AUGMENT = v2.Compose([v2.RandomShortestSize(SHORT_SIDES), v2.RandomCrop(CROP), v2.RandomHorizontalFlip()])
NORMALIZE = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD, inplace=True)])


def last_start(num_frames: int) -> int:
    """The last frame from which a complete clip fits, 0 if none does."""
    return max(num_frames - 1 - (FRAMES - 1) * STRIDE, 0)


def even_starts(num_frames: int) -> list[int]:
    """The first frames of clips from the start to the end of a video; halves are rounded up."""
    return [int(last_start(num_frames) * clip / (VAL_CLIPS - 1) + 0.5) for clip in range(VAL_CLIPS)]


def clip_indices(num_frames: int, start: int) -> list[int]:
    """The frames of a clip. The last one that exists is repeated."""
    indices = list(range(start, min(start + FRAMES * STRIDE, num_frames), STRIDE))
    return indices + indices[-1:] * (FRAMES - len(indices))


def three_crops(frames: torch.Tensor) -> torch.Tensor:
    """The squares at the start, in the center and at the end of the longer side: (3, T, 3, S, S)."""
    side, spare = min(frames.shape[-2:]), torch.tensor(frames.shape[-2:]) - min(frames.shape[-2:])
    corners = [(round(int(spare[0]) * part / 2), round(int(spare[1]) * part / 2)) for part in range(3)]
    return torch.stack([frames[..., top : top + side, left : left + side] for top, left in corners])


class Clips(Dataset):
    """The videos of a split. An item has all clips of a video."""

    def __init__(self, table: Path, split: Literal["train", "val"]) -> None:
        rows = pd.read_csv(table)
        #: The classes of all splits, so that a split that lacks one has the same numbers.
        self.classes = sorted(rows["label name"].unique())
        rows = rows[rows["split"] == split]
        self.paths = [str(table.parent / path) for path in rows["path"]]
        self.labels = [self.classes.index(name) for name in rows["label name"]]
        self.split = split

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: int) -> dict[str, Any]:
        decoder = VideoDecoder(self.paths[number], seek_mode="approximate", num_ffmpeg_threads=1)
        starts = even_starts(len(decoder))
        if self.split == "train":
            starts = [random.randint(0, last_start(len(decoder))) for _ in range(TRAIN_CLIPS)]
        indices = torch.tensor([clip_indices(len(decoder), start) for start in starts])
        clips = decoder.get_frames_at(indices.flatten().tolist()).data.unflatten(0, indices.shape)
        if self.split == "train":
            clips = torch.stack([AUGMENT(clip) for clip in clips])
        else:
            clips = torch.stack([three_crops(clip) for clip in v2.functional.resize(clips, VAL_SIDE)])
        return {"frames": clips, "labels": self.labels[number], "indices": indices}


class Collate:
    """Makes batches of float32 frames with the channels before the frames; those of training are mixed."""

    def __init__(self, split: Literal["train", "val"], num_classes: int) -> None:
        self.split, self.num_classes = split, num_classes
        mixes = (v2.MixUp(alpha=MIXUP_ALPHA, num_classes=num_classes), v2.CutMix(num_classes=num_classes))
        self.mix = v2.RandomChoice(mixes)

    def __call__(self, items: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
        frames = NORMALIZE(torch.stack([item["frames"] for item in items]))
        labels = torch.tensor([item["labels"] for item in items])
        indices = torch.stack([item["indices"] for item in items])
        if self.split == "train":
            # The first clips of all videos, then the second ones: a clip is not mixed with one of the same video.
            frames, indices = frames.transpose(0, 1).flatten(0, 1), indices.transpose(0, 1).flatten(0, 1)
            frames, labels = self.mix(tv_tensors.Video(frames), labels.repeat(TRAIN_CLIPS))
            labels = labels * (1 - SMOOTHING) + SMOOTHING / self.num_classes
        return {"frames": frames.transpose(-4, -3), "labels": labels, "indices": indices}


def make_loader(table: Path, split: Literal["train", "val"], num_workers: int, videos_per_batch: int = 4) -> DataLoader:
    """Loads two random clips of each video in random order, or three views of three clips each in the file's order."""
    clips = Clips(table, split)
    return DataLoader(
        clips,
        batch_size=videos_per_batch,
        shuffle=split == "train",
        drop_last=split == "train",
        num_workers=num_workers,
        collate_fn=Collate(split, len(clips.classes)),
    )
