"""Compares the frames and embeddings of both programs.

python examples/recipes/embeddings/compare.py --reader torchcodec VIDEO...
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
from common import FrameModel, write_embeddings  # noqa: E402

#: Largest mean difference of the pixels of a chunk, of 255: framespool resizes the planes, before it converts colors.
PIXELS = 1.5
#: Largest difference of a value of an embedding.
EMBEDDINGS = 0.02


def main() -> None:
    """Compares, and exits with 1 at the first video that differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path, help="video files")
    parser.add_argument("--reader", choices=original.READERS, default="torchcodec", help="reader of the original")
    arguments = parser.parse_args()
    model, farthest, embedded, count = FrameModel(), 0.0, 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        for video in arguments.videos:
            written = []
            both = [list(original.READERS[arguments.reader](video, 1)), list(ported.read(video, 1))]
            for number, chunks in enumerate(both):
                path = Path(folder) / f"{number}.pt"
                write_embeddings(path, chunks, model)
                written.append(torch.load(path))
            theirs, ours = written
            if theirs["pts_seconds"] != ours["pts_seconds"]:
                sys.exit(f"{video}: frames differ: {theirs['pts_seconds']} and {ours['pts_seconds']}")
            for left, right in zip(*both, strict=True):
                if left["frames"].shape != right["frames"].shape:
                    sys.exit(f"{video}: chunks differ: {left['frames'].shape} and {right['frames'].shape}")
                far = float((left["frames"].float() - right["frames"].float()).abs().mean())
                if far > PIXELS:
                    sys.exit(f"{video}: pixels differ by {far:.2f} on average")
                farthest = max(farthest, far)
            far = float((theirs["embeddings"] - ours["embeddings"]).abs().max())
            if far > EMBEDDINGS:
                sys.exit(f"{video}: embeddings differ by {far:.4f}")
            embedded = max(embedded, far)
            count += len(ours["pts_seconds"])
    print(f"{count} frames of {len(arguments.videos)} videos: the same chunks and presentation times")
    print(f"largest mean difference of the pixels {farthest:.2f} of 255, of the embeddings {embedded:.4f}")


if __name__ == "__main__":
    main()
