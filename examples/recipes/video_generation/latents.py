"""Latents of clips, each in a file: a clip whose latent exists is not decoded."""

from __future__ import annotations

import hashlib
import os
import random
from pathlib import Path
from typing import Any

import ported
import torch
from framespool.torch import VideoDataset
from torch import nn
from torch.utils.data import Dataset


class Clips(Dataset):
    """Clips by (bucket, number): the file of the latent, the caption, and the frames if there is no such file."""

    def __init__(self, path: Path, cache: Path, sizes: Any) -> None:
        self.cache, (buckets, self.dropped) = cache, ported.read(path, training=False, sizes=sizes)
        self.buckets = [VideoDataset(**bucket, layout="CTHW") for bucket in buckets]
        self.transforms = [bucket["transforms"] for bucket in buckets]

    def batches(self, epoch: int, batch_size: int) -> list[list[tuple[int, int]]]:
        """The batches of an epoch, each of one bucket."""
        draw, batches = random.Random(epoch), []
        for number, bucket in enumerate(self.buckets):
            clips = [(number, clip) for clip in draw.sample(range(len(bucket)), len(bucket))]
            batches += [clips[first : first + batch_size] for first in range(0, len(clips), batch_size)]
        return draw.sample(batches, len(batches))

    def __getitems__(self, clips: list[tuple[int, int]]) -> list[dict[str, Any]]:
        number, items = clips[0][0], []
        bucket = self.buckets[number]
        for _, clip in clips:
            chosen = bucket.describe(clip)  # before anything is decoded
            key = repr((chosen["path"], chosen["indices"], self.transforms[number]))
            file = self.cache / f"{hashlib.sha256(key.encode()).hexdigest()}.pt"
            items.append({"file": file, "caption": bucket.dataset.columns["caption"][chosen["video_id"]], "clip": clip})
        missing = [item for item in items if not item["file"].exists()]
        for item, decoded in zip(missing, bucket.__getitems__([item["clip"] for item in missing]), strict=True):
            item["frames"] = decoded["frames"]
        return items


@torch.no_grad()
def latent_of(item: dict[str, Any], encoder: nn.Module) -> torch.Tensor:
    """The latent of a clip: that of the cache, or of its frames, which is then stored."""
    if "frames" in item:
        # One clip at a time: the last bits of a latent may depend on the other clips of a batch.
        partial = item["file"].with_suffix(".partial")
        torch.save(encoder(item["frames"][None] / 127.5 - 1)[0], partial)
        os.replace(partial, item["file"])  # so that a file is complete, also if the training is killed
    return torch.load(item["file"])
