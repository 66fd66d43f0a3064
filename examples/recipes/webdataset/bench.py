"""Measures both loaders in turn in training, each with two workers or threads.

python examples/recipes/webdataset/bench.py --rounds 5 VIDEO...
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import original  # noqa: E402
import ported  # noqa: E402
import torch  # noqa: E402
from common import PatchModel, bench_arguments, compare_speed, write_shards  # noqa: E402


def main() -> None:
    """Prints the table."""
    arguments = bench_arguments(__doc__, shards=(4, "shards, each with all videos"))
    model, epochs = PatchModel(), itertools.count()
    with tempfile.TemporaryDirectory() as folder:
        shards = write_shards(Path(folder), arguments.videos, arguments.shards)
        loaders = {
            "webdataset (torchcodec)": lambda: original.make_loader(shards, arguments.workers, training=True),
            "framespool": lambda: ported.make_loader(shards, arguments.workers, training=True, epoch=next(epochs)),
        }
        embed = lambda batch: torch.stack([model(clip) for clip in batch["frames"]])  # noqa: E731
        print("\n".join(compare_speed(loaders, arguments.rounds, embed)))


if __name__ == "__main__":
    main()
