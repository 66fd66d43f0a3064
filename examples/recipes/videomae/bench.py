"""Measures both loaders in turn, each with two workers or threads.

python examples/recipes/videomae/bench.py --rounds 5 VIDEO...
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import original  # noqa: E402
import ported  # noqa: E402
import torch  # noqa: E402
from common import compare_speed, write_list  # noqa: E402


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path, help="video files")
    parser.add_argument("--rounds", type=int, default=5, help="epochs of each loader")
    parser.add_argument("--workers", type=int, default=2, help="worker processes, or threads of framespool")
    parser.add_argument("--batch-size", type=int, default=2, help="clips per batch; the original has 32 on each GPU")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = write_list(Path(folder) / "train.csv", arguments.videos)
        decord = original.make_loader(path, arguments.workers, arguments.batch_size)
        framespool = ported.make_loader(path, arguments.workers, arguments.batch_size)
        loaders = {"decord": lambda: decord, "framespool": lambda: (batch.torch() for batch in framespool)}
        print("\n".join(compare_speed(loaders, arguments.rounds)))


if __name__ == "__main__":
    main()
