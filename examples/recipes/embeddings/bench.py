"""Measures the programs in turn, each with two threads that decode. The samples are frames.

python examples/recipes/embeddings/bench.py --rounds 5 VIDEO...
"""

from __future__ import annotations

import functools
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import original  # noqa: E402
import ported  # noqa: E402
from common import FrameModel, bench_arguments, compare_speed, write_embeddings  # noqa: E402


def main() -> None:
    """Prints the table."""
    arguments = bench_arguments(__doc__)
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
