"""Small loaders, and digests of their batches, for tests that compare two ways to the same clips.

Also damaged tables, for readers of several formats.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from pathlib import Path

import framespool as fsp
from framespool.datasets import ArchiveMember, Dataset

SMALL = [fsp.transforms.Resize((32, 40))]
KEYWORDS = {"batch_size": 4, "transforms": SMALL, "shuffle": "full", "seed": 7}


def digest(loader) -> str:
    """Digest of everything in a loader's batches but the dataset's columns and the identities of files."""
    md5 = hashlib.md5()
    for batch in loader:
        for name, value in sorted(vars(batch).items()):
            if value is not None and name not in ("columns", "content_keys"):
                for tensor in value if isinstance(value, tuple) else [value]:
                    md5.update(f"{name}{tensor.shape}".encode() + tensor.tobytes())
    return md5.hexdigest()


def clips(dataset, rule=None, **keywords) -> fsp.ClipLoader:
    return fsp.ClipLoader(
        dataset, rule or fsp.samplers.RandomClips(sequence_length=4, stride=3), **{**KEYWORDS, **keywords}
    )


def damaged(
    path: Path,
    rng: random.Random,
    rounds: int,
    place: Callable[[], int],
    read: Callable[[str], Dataset],
    every: int,
) -> dict[str, int]:
    """Reads truncated tables of images, and ones changed at positions that ``place`` draws, under both error policies.

    Each error must name the file, and listed ranges must be inside it. Returns counts."""
    intact = path.read_bytes()
    outcomes = {"listed": 0, "refused": 0, "opened": 0, "failed": 0}

    def check_error(error: fsp.Error, what: str) -> None:
        assert str(path) in str(error) and "panic" not in str(error)
        outcomes[what] += 1

    for number in range(rounds):
        changed = bytearray(intact)
        if number % 5 == 0:
            changed = changed[: rng.randrange(len(intact))]
        else:
            for _ in range(rng.choice((1, 1, 3))):
                at = place()
                changed[at] = (changed[at] + rng.randrange(1, 256)) % 256
        path.write_bytes(changed)
        for on_error in ("raise", "skip"):
            try:
                dataset = read(on_error)
            except fsp.Error as error:
                check_error(error, "refused")
                continue
            outcomes["listed"] += 1
            for source, _ in dataset.samples[::every]:
                if isinstance(source, ArchiveMember):
                    assert source.offset_bytes + source.num_bytes <= len(changed)
                try:
                    fsp.decode_image(source)
                    outcomes["opened"] += 1
                except fsp.Error as error:
                    check_error(error, "failed")
    return outcomes
