"""Measures both loaders in turn in training, each with two workers or threads. A dataset is written with LeRobot.

python examples/recipes/lerobot/bench.py --rounds 5 VIDEO...
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import original  # noqa: E402
import ported  # noqa: E402
from common import PatchModel, bench_arguments, compare_speed  # noqa: E402

from dataset import CAMERAS, write_dataset  # noqa: E402


def main() -> None:
    """Prints the table, and how many pictures framespool decodes for a frame."""
    arguments = bench_arguments(
        __doc__, episodes=(20, "episodes to write"), length=(30, "frames of the longest episode")
    )
    model = PatchModel()
    top = next(iter(CAMERAS))
    with tempfile.TemporaryDirectory() as folder:
        root = write_dataset(Path(folder) / "recipe", arguments.videos, arguments.episodes, arguments.length)
        lerobot = original.make_loader(root, arguments.workers, training=True)
        framespool = ported.make_loader(root, arguments.workers, training=True)
        loaders = {
            "lerobot (torchcodec)": lambda: lerobot,
            "framespool": lambda: (batch.torch() for batch in framespool),
        }
        print("\n".join(compare_speed(loaders, arguments.rounds, lambda batch: model(batch[top].transpose(1, 2)))))
        stats = framespool.stats()
        # Each frame belongs to as many clips as there are distances.
        needed = len(framespool.dataset.cameras) * framespool.num_clips * (arguments.rounds + 1)
        print(f"framespool decoded {stats['frames_decoded'] / needed:.2f} pictures per frame of the dataset and camera")


if __name__ == "__main__":
    main()
