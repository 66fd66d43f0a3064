"""Finds the clip that made a loss NaN, and makes its batch, and the clip alone, again with the same bits.

The standardization divides by 0 where all pixels of a clip are equal, as in a black video, and MixUp mixes the NaN into
another clip. Videos that cannot be read are skipped, and listed at the end.

python examples/recipes/debugging/find_bad_clip.py VIDEO...
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import framespool as fsp
import torch
from framespool.torch import VideoDataset

t = fsp.transforms
EPOCHS, REPEATS, SIZE = 10, 2, 64
CLIPS = fsp.samplers.RandomClips(sequence_length=4, stride=2)
#: What each clip draws, and the functions after it.
DRAWN = [t.RandomResizedCrop(SIZE), t.ColorJitter(brightness=0.4, hue=0.1)]


def standardize(clip: torch.Tensor) -> torch.Tensor:
    """Subtracts the mean of a clip, and divides by its standard deviation."""
    return (clip - clip.mean()) / clip.std()


def make_loader(dataset: fsp.datasets.Dataset, functions: Sequence[Any]) -> fsp.ClipLoader:
    """Loads a random clip of each video, twice with another crop."""
    return fsp.ClipLoader(
        dataset,
        CLIPS,
        batch_size=2,
        repeats=REPEATS,
        transforms=[*DRAWN, *functions],
        shuffle="full",
        dtype="float32",
        on_error="skip",
    )


def train_until_nan(loader: fsp.ClipLoader, num_classes: int) -> tuple[int, int, fsp.Batch]:
    """Trains; returns the epoch, the number and the batch of the first loss that is not finite."""
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.LazyLinear(num_classes))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        for number, batch in enumerate(map(fsp.Batch.torch, loader)):
            loss = torch.nn.functional.cross_entropy(model(batch.frames), batch.labels)
            if not loss.isfinite():
                return epoch, number, batch
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    sys.exit(f"no loss of {EPOCHS} epochs is NaN")


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two float32 tensors are equal, also in their NaN."""
    return torch.equal(left.view(torch.int32), right.view(torch.int32))


def main() -> None:
    """Prints the clip, and exits with 1 if anything that is made again differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path, help="video files")
    parser.add_argument("--failures", type=Path, default=Path("failures.jsonl"), help="receives unreadable videos")
    arguments = parser.parse_args()
    dataset = fsp.datasets.Dataset([(str(video), label) for label, video in enumerate(arguments.videos)])
    loader = make_loader(dataset, [t.PerClip(standardize), t.MixUp(num_classes=len(dataset))])
    epoch, number, batch = train_until_nan(loader, len(dataset))
    rows = batch.frames.isnan().flatten(1).any(1).nonzero()[:, 0].tolist()
    print(f"NaN in epoch {epoch}, batch {number}, rows {rows}")

    # The same batch, and without the functions, which shows what they were given.
    again = loader.batch(epoch=epoch, index=number).torch()
    drawn = make_loader(dataset, []).batch(epoch=epoch, index=number).torch()
    print(f"the batch again: {'the same bits' if same_bits(again.frames, batch.frames) else 'other frames'}")
    bad = [row for row, clip in enumerate(drawn.frames) if not standardize(clip).isfinite().all()]
    for row in bad:
        clip = loader.describe_clip(int(batch.clip_ids[row]), epoch=epoch, repeat=row % REPEATS)
        print(f"row {row}: {clip['path']}, frames {clip['indices']}, label {clip['label']}")
        for transform in clip["transforms"]:
            print(f"  {transform}")
        mixed = [other for other, partner in enumerate(batch.mixed_with.tolist()) if partner == row]
        print(f"  mixed with row {int(batch.mixed_with[row])}, and into rows {mixed}")
        if clip["indices"] != batch.indices[row].tolist():
            sys.exit(f"row {row} has the frames {batch.indices[row].tolist()}")

    # This clip alone, the first time that the batch has it.
    clips = VideoDataset(dataset, CLIPS, transforms=DRAWN, dtype="float32", on_error="replace")
    clips.set_epoch(epoch)
    row = bad[0]
    alone = clips[int(batch.clip_ids[row])]["frames"]
    print(f"the clip alone: {'the same bits' if same_bits(alone, drawn.frames[row]) else 'other frames'}")
    print(f"its pixels are from {float(alone.min())} to {float(alone.max())}")

    for entry in loader.dropped():
        print(f"omitted: {entry['path']}: {entry['reason']}")
    print(f"{loader.write_failures(arguments.failures)} videos in {arguments.failures}")
    # Train without them: dataset.exclude(arguments.failures).
    if not same_bits(again.frames, batch.frames) or not same_bits(alone, drawn.frames[row]):
        sys.exit(1)


if __name__ == "__main__":
    main()
