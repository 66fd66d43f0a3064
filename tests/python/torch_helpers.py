"""What the tests of PyTorch's loaders share."""

from __future__ import annotations

import framespool as fsp

SAMPLING = fsp.samplers.RandomClips(sequence_length=2, stride=2, clips_per_video=2)
KEYWORDS = {"batch_size": 4, "transforms": [fsp.transforms.Resize((16, 24))], "shuffle": "full", "seed": 7}


def expected(short_clips, epoch):
    loader = fsp.ClipLoader(short_clips, SAMPLING, **KEYWORDS)
    loader.set_epoch(epoch)
    return [batch.clip_ids.tolist() for batch in loader]


def ids(batches):
    return [batch["clip_ids"].tolist() for batch in batches]


def flat(lists):
    return [item for inner in lists for item in inner]
