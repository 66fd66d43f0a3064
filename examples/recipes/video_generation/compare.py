"""Compares the clips of both loaders one by one.

python examples/recipes/video_generation/compare.py VIDEO...

Without training both choose the clips in the middle of the videos. Random clips of framespool are
checked against the rule of the original.
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
from common import write_samples  # noqa: E402

#: Largest mean difference of the pixels of a clip, of 255: framespool resizes the planes, before it converts colors.
PIXELS = 1.6


def scaled(divisor: int) -> list[tuple[int, int]]:
    """The sizes of the buckets, smaller by a factor."""
    return [(height // divisor, width // divisor) for height, width in original.SIZES]


def compare(path: Path, sizes: list[tuple[int, int]]) -> tuple[int, float]:
    """Compares the clips in the middle of the videos.

    Args:
        path: The JSON-lines file.
        sizes: Heights and widths of the buckets.

    Returns:
        The number of clips, and the largest mean difference of the pixels of one.

    Raises:
        ValueError: If a clip differs.
    """
    farthest, count = 0.0, 0
    theirs = original.make_loader(path, 0, training=False, sizes=sizes)
    ours = ported.make_loader(path, 1, training=False, sizes=sizes)
    clips = {
        caption: (frames, indices)
        for batch in theirs
        for caption, frames, indices in zip(batch["caption"], batch["frames"], batch["indices"], strict=True)
    }
    for batch in ours:
        right = batch.torch()
        for number, caption in enumerate(right.columns["caption"]):
            frames, indices = clips.pop(caption)
            if not torch.equal(indices, right.indices[number]):
                raise ValueError(f"{caption}: frames differ: {indices.tolist()}, {right.indices[number].tolist()}")
            far = float((frames.float() - right.frames[number].float()).abs().mean())
            if frames.shape != right.frames[number].shape or not far <= PIXELS:
                raise ValueError(f"{caption}: {frames.shape}, {right.frames.shape}, pixels differ by {far:.2f}")
            farthest, count = max(farthest, far), count + 1
    if clips:
        raise ValueError(f"framespool omits {sorted(clips)}")
    short = [video["path"] for video in ours.dropped()]
    if sorted(short) != sorted(theirs.dataset.dropped):
        raise ValueError(f"other videos are too short: {theirs.dataset.dropped} and {short}")
    return count, farthest


def check_random(path: Path, sizes: list[tuple[int, int]]) -> int:
    """Checks random clips: each video once, with frames that the original can choose; returns their number.

    Raises:
        ValueError: If a clip is wrong.
    """
    theirs = original.Clips(path, training=True, sizes=sizes)
    rows = {row["caption"]: number for number, row in enumerate(theirs.rows)}
    for batch in ported.make_loader(path, 1, training=True, sizes=sizes):
        for caption, indices in zip(batch.columns["caption"], batch.indices.tolist(), strict=True):
            number = rows.pop(caption)
            starts = theirs.starts[number]
            if not 0 <= indices[0] < starts or indices != theirs.choose(number, indices[0]):
                raise ValueError(f"{caption}: {indices} is no clip of it")
            if tuple(batch.frames.shape[3:]) != theirs.sizes[number]:
                raise ValueError(f"{caption}: size {batch.frames.shape[3:]}, not {theirs.sizes[number]}")
    if rows:
        raise ValueError(f"framespool omits {sorted(rows)}")
    return len(theirs)


def main() -> None:
    """Compares, and exits with 1 at the first clip that differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path, help="video files")
    parser.add_argument("--divisor", type=int, default=1, help="divides the sizes of the buckets")
    arguments = parser.parse_args()
    sizes = scaled(arguments.divisor)
    with tempfile.TemporaryDirectory() as folder:
        path = write_samples(Path(folder) / "train.jsonl", arguments.videos)
        try:
            count, farthest = compare(path, sizes)
            random_count = check_random(path, sizes)
        except ValueError as error:
            sys.exit(str(error))
    print(f"{count} clips: the same frames, captions and sizes; {len(arguments.videos) - count} videos are too short")
    print(f"{random_count} random clips: each video once, with frames that the original can choose, and its size")
    print(f"largest mean difference of the pixels {farthest:.2f} of 255")


if __name__ == "__main__":
    main()
