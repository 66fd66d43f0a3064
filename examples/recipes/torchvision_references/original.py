"""The loaders of torchvision's `references/video_classification`, which fine-tunes R(2+1)D on Kinetics.

torchvision 0.29 has no decoder of its own any more: its `VideoClips` uses torchcodec.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch
from torch.utils.data import DataLoader
from torchcodec.decoders import VideoDecoder
from torchvision.datasets import Kinetics
from torchvision.datasets.samplers import RandomClipSampler, UniformClipSampler
from torchvision.transforms import v2

MEAN, STD = (0.43216, 0.394666, 0.37645), (0.22803, 0.22145, 0.216989)
#: The defaults of train.py.
FRAMES, FRAME_RATE, CLIPS_PER_VIDEO = 16, 15, 5


def to_cthw(frames: torch.Tensor) -> torch.Tensor:
    """Moves the channels before the frames."""
    return frames.permute(1, 0, 2, 3)


def transforms(split: Literal["train", "val"]) -> v2.Compose:
    """The steps of presets.py."""
    steps = [v2.ToDtype(torch.float32, scale=True), v2.Resize((128, 171), antialias=False)]
    if split == "train":
        steps.append(v2.RandomHorizontalFlip(0.5))
    crop = v2.RandomCrop((112, 112)) if split == "train" else v2.CenterCrop((112, 112))
    return v2.Compose([*steps, v2.Normalize(MEAN, STD), crop, v2.Lambda(to_cthw)])


class Clips(Kinetics):
    """torchvision's dataset, which here returns a dict with the frame indices and without audio."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        frames, _, label = super().__getitem__(index)
        video, clip = self.video_clips.get_clip_location(index)
        return {"frames": frames, "labels": label, "indices": self.video_clips.clips[video][clip]}


class TorchcodecClips(Clips):
    """The same clips with fewer costs: no audio, no frames between those of the clip, a decoder for successive clips.

    `VideoClips` decodes the complete range of a clip, also where it resamples, and opens the video for every clip.
    """

    decoder: tuple[str, VideoDecoder] | None = None

    def __getitem__(self, index: int) -> dict[str, Any]:
        video, clip = self.video_clips.get_clip_location(index)
        path, label = self.samples[video]
        if self.decoder is None or self.decoder[0] != path:
            self.decoder = path, VideoDecoder(path)
        indices = self.video_clips.clips[video][clip]
        frames = self.decoder[1].get_frames_at(indices.tolist()).data
        return {"frames": self.transform(frames), "labels": label, "indices": indices}


def make_loader(
    root: Path, num_workers: int, split: Literal["train", "val"], dataset: type[Clips] = Clips, batch_size: int = 24
) -> DataLoader:
    """Loads up to five clips of each video of `root/split/<class>/`: random ones in training, else evenly spread."""
    clips = dataset(
        root, FRAMES, split=split, frame_rate=FRAME_RATE, transform=transforms(split), num_workers=num_workers
    )
    sampler = {"train": RandomClipSampler, "val": UniformClipSampler}[split](clips.video_clips, CLIPS_PER_VIDEO)
    return DataLoader(clips, batch_size=batch_size, sampler=sampler, num_workers=num_workers)
