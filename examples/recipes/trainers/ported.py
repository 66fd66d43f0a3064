"""The same clips with framespool, in the form that each framework takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import framespool as fsp
from framespool.torch import TorchLoader, VideoDataset, rank_and_world
from framespool.torch import for_accelerate as wrap

t = fsp.transforms
#: As in the original.
LENGTH, STRIDE, SIZE = 8, 2, 112
NORMALIZE = t.Normalize((0.45, 0.45, 0.45), (0.225, 0.225, 0.225))
CLIPS = {
    "train": fsp.samplers.RandomClips(sequence_length=LENGTH, stride=STRIDE),
    "val": fsp.samplers.UniformClips(sequence_length=LENGTH, stride=STRIDE),
}
TRANSFORMS = {
    "train": [t.RandomResizedCrop(SIZE), t.RandomHorizontalFlip(), NORMALIZE],
    "val": [t.Resize(128), t.CenterCrop(SIZE), NORMALIZE],
}


def arguments(root: Path, split: str) -> dict[str, Any]:
    """What all loaders of one part have in common: one clip of each video of `root/split/<class>/`."""
    dataset = fsp.datasets.folder(root / split)
    return {"dataset": dataset, "clip_sampler": CLIPS[split], "transforms": TRANSFORMS[split], "dtype": "float32"}


def for_lightning(root: Path, batch_size: int, num_threads: int) -> dict[str, Any]:
    """The arguments of `lightning.pytorch.Trainer.fit`."""
    from framespool.torch import ClipDataModule  # imports Lightning

    train, val = {**arguments(root, "train"), "shuffle": "full"}, arguments(root, "val")
    data = ClipDataModule(train=train, val=val, batch_size=batch_size, layout="NCTHW", num_threads=num_threads)
    return {"datamodule": data}


def for_accelerate(root: Path, batch_size: int, num_threads: int, accelerator: Any) -> list[TorchLoader]:
    """The loaders for training and validation."""
    common = {"batch_size": batch_size, "layout": "NCTHW", "num_threads": num_threads, **rank_and_world()}
    shuffle = {"train": "full", "val": False}
    loaders = [fsp.ClipLoader(**arguments(root, split), shuffle=shuffle[split], **common) for split in shuffle]
    return [wrap(loader, accelerator) for loader in loaders]


def for_transformers(root: Path) -> dict[str, Any]:
    """The arguments of `transformers.Trainer`."""
    train, val = (VideoDataset(**arguments(root, split), layout="CTHW") for split in ("train", "val"))
    return {"train_dataset": train, "eval_dataset": val, "callbacks": [train.trainer_callback()]}
