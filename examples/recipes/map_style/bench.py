"""Measures the loaders in turn, each with two workers.

python examples/recipes/map_style/bench.py --rounds 5 VIDEO...
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import original  # noqa: E402
import ported  # noqa: E402
from common import PatchModel, bench_arguments, compare_speed, write_list  # noqa: E402


def main() -> None:
    """Prints the table."""
    arguments = bench_arguments(__doc__, batch_size=(8, "clips per batch"), draws=(3, "draws per video and epoch"))
    model = PatchModel()
    with tempfile.TemporaryDirectory() as folder:
        path = write_list(Path(folder) / "train.csv", arguments.videos)
        options = (path, arguments.workers, arguments.draws * len(arguments.videos), arguments.batch_size)
        decord = original.make_loader(*options)
        compat = original.make_loader(*options, dataset=ported.CompatClips)
        clips = ported.make_loader(*options)
        epochs = itertools.count()

        def start() -> Iterable[dict[str, Any]]:
            clips.dataset.set_epoch(next(epochs))
            return clips

        loaders = {"decord": lambda: decord, "compat.decord": lambda: compat, "VideoDataset": start}
        table = compare_speed(loaders, arguments.rounds, lambda batch: model((batch["frames"] / 255).transpose(1, 2)))
    print("\n".join(table))


if __name__ == "__main__":
    main()
