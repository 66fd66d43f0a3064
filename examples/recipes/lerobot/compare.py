"""Compares the frames of both loaders one by one: a dataset is written with LeRobot, from the frames of videos.

python examples/recipes/lerobot/compare.py VIDEO...
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

from dataset import CAMERAS, write_dataset  # noqa: E402

#: Largest mean difference of the pixels of a batch, of 255. It is color conversion: torchcodec's result is darker than
#: the exact formula, which framespool has.
PIXELS = 1.5


def compare_batch(number: int, theirs: dict[str, object], ours: dict[str, object]) -> float:
    """Compares a batch, and exits with 1 if it differs.

    Args:
        number: Its number.
        theirs: The original's.
        ours: framespool's.

    Returns:
        The largest mean difference of the pixels of a camera.
    """
    if missing := sorted(theirs.keys() - ours.keys()):
        sys.exit(f"batch {number}: {', '.join(missing)} missing")
    farthest = 0.0
    for name, right in theirs.items():
        mine = ours[name]
        if not isinstance(right, torch.Tensor):
            if right != mine:
                sys.exit(f"batch {number}: {name} differs: {right} and {mine}")
        elif right.shape != mine.shape or right.dtype != mine.dtype:
            sys.exit(f"batch {number}: {name} differs: {right.shape}, {right.dtype} and {mine.shape}, {mine.dtype}")
        elif name in CAMERAS:
            far = 255 * float((right - mine).abs().mean())
            if not far <= PIXELS:
                sys.exit(f"batch {number}: the pixels of {name} differ by {far:.2f} on average")
            farthest = max(farthest, far)
        elif not torch.equal(right, mine):
            sys.exit(f"batch {number}: {name} differs")
    return farthest


def main() -> None:
    """Compares all frames in order, and the frames of an epoch in random order with the same items of the original."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path, help="video files")
    parser.add_argument("--episodes", type=int, default=5, help="episodes to write")
    videos = parser.parse_args()
    farthest, frames = 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        root = write_dataset(Path(folder) / "recipe", videos.videos, videos.episodes, length=20)
        theirs, ours = original.make_loader(root, 0, training=False), ported.make_loader(root, 1, training=False)
        for number, (left, right) in enumerate(zip(theirs, ours, strict=True)):
            values = right.torch()
            farthest = max(
                farthest, compare_batch(number, left, {name: values[name] for name in left if name in values})
            )
            frames += len(left["index"])
        print(f"{frames} frames of {videos.episodes} episodes: the same states, actions, padding and tasks")
        seen: list[int] = []
        for number, batch in enumerate(ported.make_loader(root, 1, training=True)):
            values = batch.torch()
            rows = values["index"].tolist()
            left = theirs.collate_fn([theirs.dataset[row] for row in rows])
            farthest = max(
                farthest, compare_batch(number, left, {name: values[name] for name in left if name in values})
            )
            seen += rows
        if sorted(seen) != list(range(frames)):
            sys.exit(f"an epoch in random order has other frames: {sorted(seen)}")
        print(f"{frames} frames in random order: each once, the same")
    print(f"largest mean difference of the pixels {farthest:.2f} of 255")


if __name__ == "__main__":
    main()
