"""Measures both loaders in turn, each with two workers or threads. A sample is a video with its eight clips.

python examples/recipes/two_views/bench.py --rounds 5 VIDEO...
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import original  # noqa: E402
import ported  # noqa: E402
import torch  # noqa: E402
from common import PatchModel, bench_arguments, compare_speed, write_list  # noqa: E402


def main() -> None:
    """Prints the table."""
    arguments = bench_arguments(__doc__, batch_size=(2, "videos per batch"))
    model = PatchModel()

    def embed(batch: Any) -> torch.Tensor:
        frames = batch if isinstance(batch, dict) else batch.torch().frames
        return sum(model((frames[name][:, 0] / 255).transpose(1, 2)) for name in original.VIEWS)  # one clip of each

    with tempfile.TemporaryDirectory() as folder:
        path = write_list(Path(folder) / "train.csv", arguments.videos)
        torchcodec = original.make_loader(path, arguments.workers, arguments.batch_size)
        framespool = ported.make_loader(path, arguments.workers, arguments.batch_size)
        loaders = {"torchcodec": lambda: torchcodec, "framespool": lambda: framespool}
        print("\n".join(compare_speed(loaders, arguments.rounds, embed)))


if __name__ == "__main__":
    main()
