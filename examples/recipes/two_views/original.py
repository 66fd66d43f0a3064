"""Two global and six local clips of each video, as for self-distillation (DINO): torchcodec decodes all in one call.

Changes of colors are omitted: they run on the device, in the same way for both loaders.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader, Dataset
from torchcodec.decoders import VideoDecoder
from torchvision.transforms import v2


class View(NamedTuple):
    """Clips of one kind: their number, frames, the step between these, the side of crops, their share of the frame."""

    clips: int
    frames: int
    step: int
    size: int
    scale: tuple[float, float]

    def num_starts(self, num_frames: int) -> int:
        """The number of frames at which a clip can start."""
        return max(num_frames - (self.frames - 1) * self.step, 1)

    def clip_indices(self, num_frames: int, start: int) -> list[int]:
        """The frames of a clip; the last frame of the video again and again where it is too short."""
        return [min(start + self.step * k, num_frames - 1) for k in range(self.frames)]


VIEWS = {"global": View(2, 16, 4, 224, (0.4, 1.0)), "local": View(6, 8, 2, 96, (0.05, 0.4))}


def decode(decoder: VideoDecoder, clips: list[list[int]]) -> list[torch.Tensor]:
    """Decodes each frame of several clips once: (T, C, H, W) uint8 of each clip."""
    union = sorted({index for clip in clips for index in clip})
    frames, places = decoder.get_frames_at(union).data, {index: place for place, index in enumerate(union)}
    return [frames[[places[index] for index in clip]] for clip in clips]


class Videos(Dataset):
    """Videos of a text file with a path and a label on each line; an item has all clips of one."""

    def __init__(self, path: Path) -> None:
        self.videos = [line.rsplit(" ", 1)[0] for line in path.read_text().splitlines()]
        self.transforms = {
            name: v2.Compose([v2.RandomResizedCrop(view.size, view.scale, antialias=True), v2.RandomHorizontalFlip()])
            for name, view in VIEWS.items()
        }

    def __len__(self) -> int:
        return len(self.videos)

    def __getitem__(self, index: int) -> dict[str, Any]:
        decoder = VideoDecoder(self.videos[index], num_ffmpeg_threads=1, seek_mode="approximate")
        count = len(decoder)
        names = [name for name, view in VIEWS.items() for _ in range(view.clips)]
        starts = [random.randrange(VIEWS[name].num_starts(count)) for name in names]
        clips = [VIEWS[name].clip_indices(count, start) for name, start in zip(names, starts, strict=True)]
        cropped: dict[str, list[torch.Tensor]] = {name: [] for name in VIEWS}
        for name, frames in zip(names, decode(decoder, clips), strict=True):
            cropped[name].append(self.transforms[name](frames))
        return {"video_ids": index, **{name: torch.stack(frames) for name, frames in cropped.items()}}


def make_loader(path: Path, num_workers: int, batch_size: int = 16) -> DataLoader:
    """Loads videos in random order: the clips of each view are (N, C, T, 3, H, W) uint8."""
    return DataLoader(Videos(path), batch_size=batch_size, shuffle=True, num_workers=num_workers, drop_last=True)
