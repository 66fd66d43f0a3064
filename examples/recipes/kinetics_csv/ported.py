"""The same loaders with framespool: the CSV file, clips, crops, and mixing by the batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import framespool as fsp
from framespool import transforms as t
from framespool.torch import ClipLoader

MEAN, STD = (0.43216, 0.394666, 0.37645), (0.22803, 0.22145, 0.216989)


def make_loader(
    table: Path, split: Literal["train", "val"], batch_size: int, crop: int = 224, num_threads: int | None = None
) -> ClipLoader:
    """Loads two random clips of each video in random order, or three views of three clips each in the file's order.

    `batch_size` is a number of clips in training, and of videos in evaluation. Under torchrun each rank has its part.
    """
    # The classes are those of all rows, so that a split that lacks one has the same numbers.
    dataset = fsp.datasets.csv(table, label="label name", where={"split": split})
    normalize, short_sides = t.Normalize(MEAN, STD), range(crop * 8 // 7, crop * 10 // 7 + 1)
    options: dict[str, Any] = {
        "batch_size": batch_size,
        "layout": "NCTHW",
        "dtype": "float32",
        "num_threads": num_threads,
    }
    if split == "val":
        clips = fsp.samplers.UniformClips(sequence_length=8, stride=4, clips_per_video=3)
        views = [t.Resize(short_sides[0]), t.ThreeCrop(short_sides[0]), normalize]
        return ClipLoader(dataset, clips, transforms=views, group_clips=True, last_batch="fill", **options)
    clips = fsp.samplers.RandomClips(sequence_length=8, stride=4, clips_per_video=2)
    crops = [t.RandomShortestSize(short_sides), t.RandomCrop(crop), t.RandomHorizontalFlip()]
    num_classes = len(dataset.classes)
    mix = [t.OneOf([t.MixUp(num_classes, alpha=0.8), t.CutMix(num_classes)]), t.LabelSmoothing(smoothing=0.1)]
    return ClipLoader(dataset, clips, transforms=[*crops, normalize, *mix], shuffle=True, last_batch="drop", **options)
