"""Measures both loaders in turn, each with two workers or threads, in training and in evaluation.

python examples/recipes/kinetics_csv/bench.py --rounds 5 VIDEO...
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any, Literal

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import original  # noqa: E402
import ported  # noqa: E402
import torch  # noqa: E402
from common import PatchModel, bench_arguments, compare_speed, write_table  # noqa: E402

MODEL = PatchModel()


def embed(batch: Any) -> torch.Tensor:
    """Embeds the clips of a batch of training, or each video of evaluation by the mean of its views."""
    frames = batch["frames"]
    if frames.ndim == 5:
        return MODEL(frames)
    videos = MODEL(frames.flatten(0, 2)).unflatten(0, frames.shape[:3]).mean((1, 2))
    return videos if isinstance(batch, dict) else videos[~batch.padding]


def measure(table: Path, split: Literal["train", "val"], videos_per_batch: int, workers: int, rounds: int) -> list[str]:
    """Measures one split."""
    clips_of_video, unit = (original.TRAIN_CLIPS, "clips") if split == "train" else (1, "videos")
    torchcodec = original.make_loader(table, split, workers, videos_per_batch)
    framespool = ported.make_loader(table, split, videos_per_batch * clips_of_video, num_threads=workers)
    loaders = {"torchcodec": lambda: torchcodec, "framespool": lambda: framespool}
    return [split, *compare_speed(loaders, rounds, embed, unit)]


def main() -> None:
    """Prints a table for training and one for evaluation."""
    arguments = bench_arguments(__doc__, videos_per_batch=(2, "a divisor of the number of videos"))
    with tempfile.TemporaryDirectory() as folder:
        table = write_table(Path(folder) / "videos.csv", arguments.videos)
        for split in ("train", "val"):
            lines = measure(table, split, arguments.videos_per_batch, arguments.workers, arguments.rounds)
            print("\n".join(lines))


if __name__ == "__main__":
    main()
