"""Measures the loaders of both tasks in turn in training, each with two workers or threads.

python examples/recipes/dense_labels/bench.py --rounds 5 VIDEO...
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import original  # noqa: E402
import ported  # noqa: E402
import torch  # noqa: E402
from common import PatchModel, bench_arguments, compare_speed  # noqa: E402

import dataset  # noqa: E402

model = PatchModel()


def embed(batch: dict[str, Any]) -> torch.Tensor:
    """Embeds the clips of a batch."""
    return torch.stack([model(clip) for clip in batch["frames"]])


def with_boxes(loader: Any) -> Iterator[dict[str, Any]]:
    """Yields frames and boxes of framespool's batches."""
    for batch in loader:
        yield {"frames": batch.frames.torch(), "boxes": ported.boxes_of(batch)}


def main() -> None:
    """Prints a table for the windows and one for the boxes."""
    arguments = bench_arguments(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        path = dataset.write_segments(Path(folder) / "segments.jsonl", arguments.videos)
        theirs = original.localization(path, arguments.workers, training=True)
        ours = ported.localization(path, arguments.workers, training=True)
        loaders = {"torchcodec": lambda: theirs, "framespool": lambda: (batch.torch() for batch in ours)}
        print("localization", *compare_speed(loaders, arguments.rounds, embed, "windows"), sep="\n")
    with tempfile.TemporaryDirectory() as folder:
        annotations = dataset.write_boxes(Path(folder), arguments.videos)
        theirs_of_boxes = original.detection(annotations, arguments.workers, training=True)
        ours_of_boxes = ported.detection(annotations, arguments.workers, training=True)
        loaders = {
            "torchcodec": lambda: ({"frames": [clip["frames"] for clip in batch]} for batch in theirs_of_boxes),
            "framespool": lambda: with_boxes(ours_of_boxes),
        }
        print("detection", *compare_speed(loaders, arguments.rounds, embed, "clips"), sep="\n")


if __name__ == "__main__":
    main()
