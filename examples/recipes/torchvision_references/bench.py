"""Measures the loaders in turn, each with two workers or threads, in training and in evaluation.

python examples/recipes/torchvision_references/bench.py --rounds 5 VIDEO...
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Literal

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import original  # noqa: E402
import ported  # noqa: E402
from common import bench_arguments, compare_speed, link_class_folders  # noqa: E402


def measure(root: Path, split: Literal["train", "val"], workers: int, rounds: int) -> list[str]:
    """Measures one split; as in train.py, the lengths of the videos are read before the first epoch."""
    torchvision = original.make_loader(root, workers, split)
    torchcodec = original.make_loader(root, workers, split, original.TorchcodecClips)
    framespool = ported.make_loader(root, workers, split)
    loaders = {
        "torchvision": lambda: torchvision,
        "torchcodec": lambda: torchcodec,
        "framespool": lambda: (batch.torch() for batch in framespool),
    }
    return [split, *compare_speed(loaders, rounds)]


def main() -> None:
    """Prints a table for training and one for evaluation."""
    arguments = bench_arguments(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        for split in ("train", "val"):
            link_class_folders(Path(folder) / split, arguments.videos)
            print("\n".join(measure(Path(folder), split, arguments.workers, arguments.rounds)))


if __name__ == "__main__":
    main()
