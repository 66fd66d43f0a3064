"""Compares the samples of both loaders one by one.

python examples/recipes/webdataset/compare.py VIDEO...

In the order of the shards both deliver the same samples. The random clips of the two differ, so the original's function
decodes the frames that framespool draws.
"""

from __future__ import annotations

import argparse
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import original  # noqa: E402
import ported  # noqa: E402
from common import write_shards  # noqa: E402

#: Largest mean difference of the pixels of a sample, of 255: framespool resizes the planes, before it converts colors.
PIXELS = 1.5


def samples(batches: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Splits batches into samples."""
    for batch in batches:
        batch = {**batch, "label": batch["label"].tolist()}
        for number in range(len(batch["frames"])):
            yield {name: batch[name][number] for name in ("__key__", "frames", "indices", "label", "caption")}


def decoded_by_original(shards: list[str], drawn: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Decodes the frames of samples with the original's function; labels and captions are those of a pass in order."""
    members = {}
    for shard in shards:
        with tarfile.open(shard) as tar:
            members.update({member.name: tar.extractfile(member).read() for member in tar.getmembers()})
    metadata = {sample["__key__"]: sample for sample in samples(original.make_loader(shards, 0, training=False))}
    for sample in drawn:
        key = sample["__key__"]
        clip = original.decode_clip(members[f"{key}.mp4"], training=True, indices=sample["indices"])
        yield {**metadata[key], **clip}


def compare(theirs: Iterable[dict[str, Any]], ours: Iterable[dict[str, Any]]) -> tuple[int, float]:
    """Compares samples, and exits with 1 at the first one that differs.

    Args:
        theirs: The original's samples.
        ours: framespool's.

    Returns:
        The number of samples, and the largest mean difference of the pixels of a sample.
    """
    farthest, count = 0.0, 0
    for left, right in zip(theirs, ours, strict=True):
        for name in ("__key__", "indices", "label", "caption"):
            if left[name] != right[name]:
                sys.exit(f"sample {left['__key__']}: {name} differ: {left[name]} and {right[name]}")
        if left["frames"].shape != right["frames"].shape:
            sys.exit(f"sample {left['__key__']}: sizes differ: {left['frames'].shape} and {right['frames'].shape}")
        far = float((left["frames"].float() - right["frames"].float()).abs().mean())
        if far > PIXELS:
            sys.exit(f"sample {left['__key__']}: pixels differ by {far:.2f} on average")
        farthest = max(farthest, far)
        count += 1
    return count, farthest


def main() -> None:
    """Compares, and exits with 1 at the first sample that differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path, help="video files")
    videos = parser.parse_args().videos
    with tempfile.TemporaryDirectory() as folder:
        shards = write_shards(Path(folder), videos, 2)
        theirs = samples(original.make_loader(shards, 0, training=False))
        count, far = compare(theirs, samples(ported.make_loader(shards, 1, training=False)))
        print(f"{count} samples in order: the same keys, frames, sizes, labels and captions")
        drawn = list(samples(ported.make_loader(shards, 1, training=True)))
        random_count, random_far = compare(decoded_by_original(shards, drawn), drawn)
        if len({sample["__key__"] for sample in drawn}) != count:
            sys.exit(f"an epoch in random order has other samples: {[sample['__key__'] for sample in drawn]}")
        print(f"{random_count} random clips: each sample once, the same frames, sizes, labels and captions")
    print(f"largest mean difference of the pixels {max(far, random_far):.2f} of 255")


if __name__ == "__main__":
    main()
