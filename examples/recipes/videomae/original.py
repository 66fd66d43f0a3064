"""The loader of VideoMAE's pre-training on Kinetics: decord reads one random clip of each video.

As in `kinetics.py` of VideoMAE; that each clip is cropped several times (`num_sample`) is from the dataset of the same
name in VideoMAEv2. Each view has its own mask.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from decord import VideoReader
from PIL import Image
from torch.utils.data import DataLoader, Dataset, default_collate

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
#: The options of the scripts for Kinetics: 16 frames, 4 apart; two views of each clip.
FRAMES, STEP, SIZE, VIEWS = 16, 4, 224, 2
#: Pixels of a side of a patch, frames of a patch, and the part of the patches that is masked.
PATCH, TUBELET, RATIO = 16, 2, 0.9
#: Sides of crops, as shares of the shorter side of the frame.
SCALES = (1, 0.875, 0.75, 0.66)


def draw_start(num_frames: int) -> int:
    """The first frame of a random clip, 0 if the video is shorter than a clip."""
    return random.randrange(max(num_frames - FRAMES * STEP + 1, 1))


def clip_indices(num_frames: int, start: int) -> list[int]:
    """The frames of a clip. A step that would reach the last frame of the video is not made."""
    indices, at = [], start
    for _ in range(FRAMES):
        indices.append(at)
        if at + 1 + STEP < num_frames:
            at += STEP
    return indices


def crop_boxes(width: int, height: int) -> list[tuple[int, int, int, int]]:
    """The crops of four sizes per side at thirteen positions, of which one is drawn: left, top, right, bottom."""
    sides = [int(min(width, height) * scale) for scale in SCALES]
    sides = [SIZE if abs(side - SIZE) < 3 else side for side in sides]
    pairs = [(w, h) for i, h in enumerate(sides) for j, w in enumerate(sides) if abs(i - j) <= 1]
    positions = [*((x, y) for x in (0, 2, 4) for y in (0, 2, 4)), (1, 1), (3, 1), (1, 3), (3, 3)]
    corners = [((width - w) // 4 * x, (height - h) // 4 * y, w, h) for w, h in pairs for x, y in positions]
    return [(left, top, left + w, top + h) for left, top, w, h in corners]


def crop(images: Sequence[Image.Image], box: tuple[int, int, int, int]) -> torch.Tensor:
    """Crops, resizes and normalizes the frames of a clip: (C, T, H, W) float32."""
    resized = [np.asarray(image.crop(box).resize((SIZE, SIZE), Image.Resampling.BILINEAR)) for image in images]
    frames = torch.from_numpy(np.stack(resized)).permute(3, 0, 1, 2).contiguous().float().div_(255)
    mean, std = (torch.tensor(values)[:, None, None, None] for values in (MEAN, STD))
    return frames.sub_(mean).div_(std)


def draw_mask() -> torch.Tensor:
    """A random mask of patches, the same in all frames: (L,) bool."""
    patches = (SIZE // PATCH) ** 2
    mask = np.arange(patches) < int(RATIO * patches)
    np.random.shuffle(mask)
    return torch.from_numpy(np.tile(mask, FRAMES // TUBELET))


class Clips(Dataset):
    """Videos of a text file with a path and a label on each line."""

    def __init__(self, path: Path) -> None:
        self.videos = [line.split(" ")[0] for line in path.read_text().splitlines()]

    def __len__(self) -> int:
        return len(self.videos)

    def __getitem__(self, index: int) -> list[dict[str, Any]]:
        reader = VideoReader(self.videos[index], num_threads=1)
        indices = clip_indices(len(reader), draw_start(len(reader)))
        images = [Image.fromarray(frame) for frame in reader.get_batch(indices).asnumpy()]
        boxes = crop_boxes(*images[0].size)
        views = [crop(images, random.choice(boxes)) for _ in range(VIEWS)]
        return [{"frames": view, "indices": torch.tensor(indices), "bool_masked_pos": draw_mask()} for view in views]


def collate(clips: list[list[dict[str, Any]]]) -> dict[str, torch.Tensor]:
    """Makes a batch of the views of all clips."""
    return default_collate([view for clip in clips for view in clip])


def make_loader(path: Path, num_workers: int, batch_size: int = 32) -> DataLoader:
    """Loads a random clip of each video in random order, two views of each."""
    return DataLoader(
        Clips(path), batch_size=batch_size, shuffle=True, num_workers=num_workers, drop_last=True, collate_fn=collate
    )
