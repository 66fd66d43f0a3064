"""Measures the programs in turn, each with two threads that decode. The samples are frames.

python examples/recipes/embeddings/bench.py --rounds 5 VIDEO...
"""

from __future__ import annotations

import argparse
import functools
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import original  # noqa: E402
import ported  # noqa: E402
import torch  # noqa: E402
from common import FrameModel, compare_speed, write_embeddings  # noqa: E402


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path, help="video files")
    parser.add_argument("--rounds", type=int, default=5, help="passes of each program over the videos")
    parser.add_argument("--workers", type=int, default=2, help="threads that decode")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model = FrameModel()

    def start(read: Callable[[Path, int], Iterator[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
        for video in arguments.videos:
            yield {"chunks": read(video, arguments.workers)}

    with tempfile.TemporaryDirectory() as folder:
        programs = {**original.READERS, "framespool": ported.read}
        table = compare_speed(
            {name: functools.partial(start, read) for name, read in programs.items()},
            arguments.rounds,
            lambda item: write_embeddings(Path(folder) / "embeddings.pt", item["chunks"], model),
            unit="frames",
        )
    print("\n".join(table))


if __name__ == "__main__":
    main()
