"""Measures both loaders in turn in training, each with two workers or threads.

python examples/recipes/video_generation/bench.py --rounds 5 VIDEO...
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import original  # noqa: E402
import ported  # noqa: E402
import torch  # noqa: E402
from common import PatchModel, bench_arguments, compare_speed, write_samples  # noqa: E402


def main() -> None:
    """Prints the table."""
    arguments = bench_arguments(
        __doc__, batch_size=(2, "clips per batch"), divisor=(1, "divides the sizes of the buckets")
    )
    sizes = [(height // arguments.divisor, width // arguments.divisor) for height, width in original.SIZES]
    model = PatchModel()
    with tempfile.TemporaryDirectory() as folder:
        path = write_samples(Path(folder) / "train.jsonl", arguments.videos)
        theirs = original.make_loader(path, arguments.workers, True, arguments.batch_size, sizes)
        ours = ported.make_loader(path, arguments.workers, True, arguments.batch_size, sizes)
        loaders = {"torchcodec": lambda: theirs, "framespool": lambda: (batch.torch() for batch in ours)}
        # Of each clip two frames: the model is to cost little.
        embed = lambda batch: torch.stack([model(clip.transpose(0, 1)[:2]) for clip in batch["frames"]])  # noqa: E731
        print("\n".join(compare_speed(loaders, arguments.rounds, embed, unit="clips")))


if __name__ == "__main__":
    main()
