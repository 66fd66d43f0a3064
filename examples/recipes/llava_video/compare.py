"""Compares the samples of both loaders: frame indices, prompts and sizes exactly, pixels within a limit.

python examples/recipes/llava_video/compare.py VIDEO...
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import original  # noqa: E402
import ported  # noqa: E402
from common import write_samples  # noqa: E402

#: Largest mean difference of the pixels of a sample, of 255. Most of it is color conversion: decord's result is 1.2
#: darker than the exact formula, which framespool has.
PIXELS = 1.5


def main() -> None:
    """Exits with 1 at the first sample that differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path, help="video files")
    videos = parser.parse_args().videos
    farthest, count = 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        path = write_samples(Path(folder) / "train.jsonl", videos)
        for theirs, ours in zip(original.make_loader(path, 1), ported.make_loader(path, 1), strict=True):
            for name in ("indices", "text"):
                if theirs[name] != ours[name]:
                    sys.exit(f"{videos[count]}: {name} {ours[name]}, the original has {theirs[name]}")
            if theirs["frames"].shape != ours["frames"].shape:
                sys.exit(f"{videos[count]}: frames {ours['frames'].shape}, the original has {theirs['frames'].shape}")
            far = float((theirs["frames"] - ours["frames"]).abs().mean()) * 127.5
            if not far <= PIXELS:
                sys.exit(f"{videos[count]}: the pixels differ by {far:.2f} on average")
            farthest, count = max(farthest, far), count + 1
    print(f"{count} samples: the same frames, prompts and sizes")
    print(f"largest mean difference of the pixels {farthest:.2f} of 255")


if __name__ == "__main__":
    main()
