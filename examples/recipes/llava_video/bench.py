"""Measures both loaders in turn, each with two workers or threads.

python examples/recipes/llava_video/bench.py --rounds 5 VIDEO...
"""

from __future__ import annotations

import functools
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import original  # noqa: E402
import ported  # noqa: E402
from common import bench_arguments, compare_speed, write_samples  # noqa: E402


def main() -> None:
    """Prints the table."""
    arguments = bench_arguments(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        path = write_samples(Path(folder) / "train.jsonl", arguments.videos)
        loaders = {
            "decord": functools.partial(original.make_loader, path, arguments.workers),
            "framespool": functools.partial(ported.make_loader, path, arguments.workers),
        }
        print("\n".join(compare_speed(loaders, arguments.rounds)))


if __name__ == "__main__":
    main()
