"""The same loader with framespool: clips are decoded in its threads from their place in the shards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import framespool as fsp

#: As in the original.
CLIP_LENGTH, STRIDE, SIZE, BATCH_SIZE = 16, 4, (112, 112), 4


def make_loader(shards: Sequence[str], num_workers: int, training: bool, epoch: int = 0) -> Iterator[dict[str, Any]]:
    """Loads batches: in random order for training, otherwise in the order of the shards."""
    sampler = fsp.samplers.RandomClips if training else fsp.samplers.UniformClips
    loader = fsp.ClipLoader(
        fsp.datasets.webdataset(shards, label=("json", "label"), columns="json"),
        sampler(sequence_length=CLIP_LENGTH, stride=STRIDE),
        batch_size=BATCH_SIZE,
        transforms=[fsp.transforms.Resize(SIZE)],
        shuffle=training,
        num_threads=num_workers,
    )
    loader.set_epoch(epoch)
    for batch in loader:
        yield {
            "__key__": batch.columns["__key__"],
            "frames": batch.frames.torch(),
            "indices": batch.indices.tolist(),
            "label": batch.labels.torch(),
            "caption": batch.columns["caption"],
        }
