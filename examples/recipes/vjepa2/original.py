"""The loader of V-JEPA 2 with two clips of each video: decord reads the frames of both in one call.

The frames, crops and normalization are those of `video_dataset.py` and of the transforms of its pre-training. The masks
of the encoder are omitted: they do not depend on the video.
"""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import torch
from decord import VideoReader
from torch.utils.data import DataLoader, Dataset

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
#: Two clips of 16 frames, 4 apart, of 256x256 pixels.
CLIPS, FRAMES, STEP, SIZE = 2, 16, 4, 256
#: Area of a crop as a share of the frame, and its width divided by its height.
SCALE, RATIO = (0.3, 1.0), (0.75, 1.35)


def clip_indices(num_frames: int, clip: int, offset: int) -> list[int]:
    """The frames of a clip, which is in a part of the video of its own.

    Args:
        num_frames: Frames of the video.
        clip: Number of the clip.
        offset: First frame of the clip within its part, for a part that is longer than a clip.
    """
    part, length = num_frames // CLIPS, FRAMES * STEP
    if part > length:
        indices = np.clip(np.linspace(offset, offset + length, FRAMES), offset, offset + length - 1)
    else:  # the frames of the part, and its last one again and again
        spread = np.linspace(0, part, part // STEP)
        indices = np.clip(np.append(spread, [part] * (FRAMES - len(spread))), 0, part - 1)
    return (indices.astype(np.int64) + clip * part).tolist()


def num_offsets(num_frames: int) -> int:
    """The number of places of a clip within its part."""
    return max(num_frames // CLIPS - FRAMES * STEP, 1)


def draw_box(width: int, height: int) -> tuple[int, int, int, int]:
    """A random crop of a random size and shape: left, top, right, bottom."""
    for _ in range(10):
        area = width * height * random.uniform(*SCALE)
        ratio = math.exp(random.uniform(*map(math.log, RATIO)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = random.randint(0, width - w), random.randint(0, height - h)
            return left, top, left + w, top + h
    w, h = min(width, round(height * RATIO[1])), min(height, round(width / RATIO[0]))
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h


def crop(frames: np.ndarray, box: tuple[int, int, int, int], flip: bool) -> torch.Tensor:
    """Crops, resizes, flips and normalizes the frames of a clip: (C, T, H, W) float32."""
    left, top, right, bottom = box
    pixels = torch.from_numpy(frames).permute(0, 3, 1, 2)[:, :, top:bottom, left:right].float()
    pixels = torch.nn.functional.interpolate(pixels, (SIZE, SIZE), mode="bilinear", align_corners=False)
    pixels = (pixels.flip(-1) if flip else pixels).permute(1, 0, 2, 3) / 255
    mean, std = (torch.tensor(values)[:, None, None, None] for values in (MEAN, STD))
    return (pixels - mean) / std


class Videos(Dataset):
    """Videos of a text file with a path and a label on each line; an item has all clips of one."""

    def __init__(self, path: Path) -> None:
        rows = [line.rsplit(" ", 1) for line in path.read_text().splitlines()]
        self.rows = [(video, int(label)) for video, label in rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor | int]:
        video, label = self.rows[index]
        reader = VideoReader(video, num_threads=1)
        offsets = [random.randrange(num_offsets(len(reader))) for _ in range(CLIPS)]
        indices = [clip_indices(len(reader), clip, offset) for clip, offset in enumerate(offsets)]
        frames = reader.get_batch(sum(indices, [])).asnumpy()
        size = frames.shape[2], frames.shape[1]
        clips = [crop(part, draw_box(*size), random.random() < 0.5) for part in np.split(frames, CLIPS)]
        return {"frames": torch.stack(clips), "indices": torch.tensor(indices), "labels": label}


def make_loader(path: Path, num_workers: int, batch_size: int = 24) -> DataLoader:
    """Loads the clips of each video in random order, (N, CLIPS, C, T, H, W)."""
    return DataLoader(Videos(path), batch_size=batch_size, shuffle=True, num_workers=num_workers, drop_last=True)
