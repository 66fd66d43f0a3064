"""The loader of a training run as webdataset is used: shards are read in order, and worker processes decode clips."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from typing import Any

import webdataset as wds
from torchcodec.decoders import VideoDecoder
from torchvision.transforms import v2

#: Frames of a clip, the distance between them, the height and width of frames, and the clips of a batch.
CLIP_LENGTH, STRIDE, SIZE, BATCH_SIZE = 16, 4, (112, 112), 4
RESIZE = v2.Resize(SIZE)


def choose_frames(num_frames: int, training: bool) -> list[int]:
    """Chooses a random clip for training, and the clip in the middle otherwise."""
    last = max(num_frames - 1 - (CLIP_LENGTH - 1) * STRIDE, 0)
    start = random.randint(0, last) if training else last // 2
    indices = list(range(start, min(start + CLIP_LENGTH * STRIDE, num_frames), STRIDE))
    return indices + indices[-1:] * (CLIP_LENGTH - len(indices))


def decode_clip(data: bytes, training: bool, indices: list[int] | None = None) -> dict[str, Any]:
    """Decodes a clip of the bytes of a video, or the frames with the given indices."""
    decoder = VideoDecoder(data)
    indices = indices or choose_frames(len(decoder), training)
    return {"frames": RESIZE(decoder.get_frames_at(indices).data), "indices": indices}


def to_sample(sample: dict[str, Any]) -> dict[str, Any]:
    """Puts the fields of the members of a sample into one dict."""
    return {"__key__": sample["__key__"], **sample["mp4"], **sample["json"]}


def make_loader(shards: Sequence[str], num_workers: int, training: bool) -> wds.WebLoader:
    """Loads batches: in random order for training, otherwise in the order of the shards."""
    dataset = wds.WebDataset(shards, shardshuffle=100 if training else False)
    if training:
        dataset = dataset.shuffle(1000)
    video = wds.handle_extension("mp4", functools.partial(decode_clip, training=training))
    dataset = dataset.decode(video).map(to_sample).batched(BATCH_SIZE)
    return wds.WebLoader(dataset, batch_size=None, num_workers=num_workers)
