"""Measures both loaders in turn, each with two workers or threads. The samples are clips.

python examples/recipes/vjepa2/bench.py --rounds 5 VIDEO...
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import original  # noqa: E402
import ported  # noqa: E402
from common import PatchModel, bench_arguments, compare_speed, write_list  # noqa: E402


def main() -> None:
    """Prints the table."""
    arguments = bench_arguments(__doc__, batch_size=(2, "videos per batch; the original has 24 on each GPU"))
    model = PatchModel()
    with tempfile.TemporaryDirectory() as folder:
        path = write_list(Path(folder) / "train.csv", arguments.videos)
        decord = original.make_loader(path, arguments.workers, arguments.batch_size)
        framespool = ported.make_loader(path, arguments.workers, arguments.batch_size)
        loaders = {"decord": lambda: decord, "framespool": lambda: (batch.torch() for batch in framespool)}
        embed = lambda batch: model(batch["frames"].flatten(0, 1))  # noqa: E731
        print("\n".join(compare_speed(loaders, arguments.rounds, embed, unit="clips")))


if __name__ == "__main__":
    main()
