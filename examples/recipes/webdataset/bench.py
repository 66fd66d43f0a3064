"""Measures both loaders in turn in training, each with two workers or threads.

python examples/recipes/webdataset/bench.py --rounds 5 VIDEO...
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import original  # noqa: E402
import ported  # noqa: E402
import torch  # noqa: E402
from common import PatchModel, compare_speed, write_shards  # noqa: E402


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path, help="video files")
    parser.add_argument("--rounds", type=int, default=5, help="epochs of each loader")
    parser.add_argument("--workers", type=int, default=2, help="worker processes, or threads of framespool")
    parser.add_argument("--shards", type=int, default=4, help="shards, each with all videos")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
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
