"""Latents of clips, which a FeatureCache keeps: a clip whose latent is stored is not decoded."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import ported
import torch
from framespool.torch import FeatureCache, VideoDataset
from torch import nn
from torch.utils.data import Dataset


class Clips(Dataset):
    """Clips by (bucket, number): the caption, and the latent if it is stored, else the frames."""

    def __init__(self, path: Path, cache: FeatureCache, sizes: Any) -> None:
        self.cache, (buckets, self.dropped) = cache, ported.read(path, training=False, sizes=sizes)
        self.buckets = [VideoDataset(**bucket, layout="CTHW") for bucket in buckets]

    def batches(self, epoch: int, batch_size: int) -> list[list[tuple[int, int]]]:
        """The batches of an epoch, each of one bucket."""
        draw, batches = random.Random(epoch), []
        for number, bucket in enumerate(self.buckets):
            clips = [(number, clip) for clip in draw.sample(range(len(bucket)), len(bucket))]
            batches += [clips[first : first + batch_size] for first in range(0, len(clips), batch_size)]
        return draw.sample(batches, len(batches))

    def __getitems__(self, clips: list[tuple[int, int]]) -> list[dict[str, Any]]:
        bucket, items = self.buckets[clips[0][0]], []
        for _, clip in clips:
            chosen = bucket.describe(clip)  # before anything is decoded
            key, caption = chosen["content_key"], bucket.dataset.columns["caption"][chosen["video_id"]]
            items.append({"clip": clip, "key": key, "caption": caption, "latent": self.cache.get(key)})
        missing = [item for item in items if item["latent"] is None]
        for item, decoded in zip(missing, bucket.__getitems__([item["clip"] for item in missing]), strict=True):
            item["batch"] = {name: decoded[name][None] for name in ("frames", "content_keys")}
        return items


def latent_of(item: dict[str, Any], cache: FeatureCache, encoder: nn.Module) -> torch.Tensor:
    """The latent of a clip: the stored one, or that of its frames, which is then stored."""
    if item["latent"] is not None:
        return item["latent"]
    # One clip at a time: the last bits of a latent may depend on the other clips of a batch.
    return cache.get_or_compute(item["batch"], lambda frames: encoder(frames / 127.5 - 1))[0]
