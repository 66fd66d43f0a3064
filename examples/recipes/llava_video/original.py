"""The loader of LLaVA-Video's fine-tuning: decord reads frames that are evenly spread over a video.

The frames, their times in the prompt and the resizing are those of `load_video` of the model card and of the image
processor of SigLIP. The conversation itself is a caption here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from decord import VideoReader
from PIL import Image
from torch.utils.data import DataLoader, Dataset

#: One frame per second, at most 32 of them, 384x384 pixels.
FPS, MAX_FRAMES, SIZE = 1, 32, 384


def frame_indices(num_frames: int, average_fps: float) -> list[int]:
    """A frame per second, or `MAX_FRAMES` that are evenly spread if these are too many."""
    step = max(round(average_fps / FPS), 1)
    indices = list(range(0, num_frames, step))
    if len(indices) > MAX_FRAMES:
        indices = np.linspace(0, num_frames - 1, MAX_FRAMES, dtype=int).tolist()
    return indices


def prompt(indices: list[int], num_frames: int, average_fps: float, caption: str) -> str:
    """The text with the times of the frames, for the model."""
    times = ",".join(f"{index / average_fps:.2f}s" for index in indices)
    return f"The video lasts for {num_frames / average_fps:.2f} seconds, frames at {times}. {caption}"


def resize(frames: np.ndarray) -> torch.Tensor:
    """Resizes and normalizes frames: (T, C, H, W) float32, -1 to 1."""
    images = [Image.fromarray(frame).resize((SIZE, SIZE), Image.Resampling.BICUBIC) for frame in frames]
    pixels = torch.from_numpy(np.stack([np.asarray(image) for image in images])).permute(0, 3, 1, 2)
    return pixels.float().div_(255).sub_(0.5).div_(0.5)


class Conversations(Dataset):
    """Rows of a JSON-lines file with a video and a caption."""

    def __init__(self, path: Path) -> None:
        self.rows = [json.loads(line) for line in path.read_text().splitlines()]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = self.rows[index]
        reader = VideoReader(row["video"], num_threads=1)
        num_frames, average_fps = len(reader), reader.get_avg_fps()
        indices = frame_indices(num_frames, average_fps)
        text = prompt(indices, num_frames, average_fps, row["caption"])
        return {"frames": resize(reader.get_batch(indices).asnumpy()), "indices": indices, "text": text}


def make_loader(path: Path, num_workers: int) -> DataLoader:
    """Loads the samples in order, one by one: they differ in length."""
    return DataLoader(Conversations(path), batch_size=None, num_workers=num_workers)
