"""Compares the samples of both loaders one by one.

python examples/recipes/qwen_vl/compare.py VIDEO...
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import original  # noqa: E402
import ported  # noqa: E402
from common import PatchModel, write_samples  # noqa: E402

#: Largest mean difference of the pixels of a sample, of 255: framespool resizes the planes, before it converts colors.
PIXELS = 1.5


def main() -> None:
    """Compares, and exits with 1 at the first sample that differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path, help="video files")
    videos = parser.parse_args().videos
    model, farthest, embedded, count = PatchModel(), 0.0, 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        path = write_samples(Path(folder) / "train.jsonl", videos)
        both = zip(original.make_loader(path, 0), ported.make_loader(path, 1), strict=True)
        for video, (theirs, ours) in zip(videos, both, strict=True):
            for key in ("indices", "caption"):
                if theirs[key] != ours[key]:
                    sys.exit(f"{video}: {key} differ: {theirs[key]} and {ours[key]}")
            if theirs["frames"].shape != ours["frames"].shape:
                sys.exit(f"{video}: sizes differ: {theirs['frames'].shape} and {ours['frames'].shape}")
            far = float((theirs["frames"] - ours["frames"]).abs().mean())
            if far > PIXELS:
                sys.exit(f"{video}: pixels differ by {far:.2f} on average")
            farthest = max(farthest, far)
            embedded = max(embedded, float((model(theirs["frames"]) - model(ours["frames"])).abs().max()))
            count += 1
    print(f"{count} samples: the same frames, sizes and captions")
    print(f"largest mean difference of the pixels {farthest:.2f} of 255, of the embeddings {embedded:.4f}")


if __name__ == "__main__":
    main()
