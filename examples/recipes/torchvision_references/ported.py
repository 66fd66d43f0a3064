"""The same loaders with framespool: the same clips, decoded and transformed in its threads."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import framespool as fsp

MEAN, STD = (0.43216, 0.394666, 0.37645), (0.22803, 0.22145, 0.216989)
UNIFORM = fsp.samplers.presets.torchvision(frame_rate=15, sampler="uniform", num_clips_per_video=5)
RANDOM = fsp.samplers.presets.torchvision(frame_rate=15, sampler="random", max_clips_per_video=5)


def transforms(split: Literal["train", "val"]) -> list[fsp.transforms.Transform]:
    """The steps of presets.py, which framespool runs in one pass; `dtype` and `layout` of the loader do the rest."""
    t = fsp.transforms
    flip = [t.RandomHorizontalFlip(0.5)] if split == "train" else []
    crop = t.RandomCrop((112, 112)) if split == "train" else t.CenterCrop((112, 112))
    return [t.Resize((128, 171), antialias=False), *flip, t.Normalize(MEAN, STD), crop]


def make_loader(root: Path, num_workers: int, split: Literal["train", "val"], batch_size: int = 24) -> fsp.ClipLoader:
    """Loads up to five clips of each video of `root/split/<class>/`: random ones in training, else evenly spread."""
    return fsp.ClipLoader(
        fsp.datasets.folder(root / split, extensions=["avi", "mp4"]),
        RANDOM if split == "train" else UNIFORM,
        batch_size=batch_size,
        transforms=transforms(split),
        shuffle="full" if split == "train" else False,
        dtype="float32",
        layout="NCTHW",
        num_threads=num_workers,
    )
