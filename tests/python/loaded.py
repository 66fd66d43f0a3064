"""Small loaders, and what one delivers as a number, for tests that compare two ways to the same clips."""

from __future__ import annotations

import hashlib

import framespool as fsp

SMALL = [fsp.transforms.Resize((32, 40))]
KEYWORDS = {"batch_size": 4, "transforms": SMALL, "shuffle": "full", "seed": 7}


def digest(loader) -> str:
    """Of everything in a loader's batches."""
    md5 = hashlib.md5()
    for batch in loader:
        for name, tensor in sorted(vars(batch).items()):
            if tensor is not None:
                md5.update(f"{name}{tensor.shape}".encode() + tensor.tobytes())
    return md5.hexdigest()


def clips(dataset, rule=None, **keywords) -> fsp.ClipLoader:
    return fsp.ClipLoader(dataset, rule or fsp.sampling.random(sequence_length=4, stride=3), **{**KEYWORDS, **keywords})
