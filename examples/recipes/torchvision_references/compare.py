"""Compares the clips of both loaders one by one, in evaluation, where nothing is random.

python examples/recipes/torchvision_references/compare.py VIDEO...
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
from common import PatchModel, link_class_folders  # noqa: E402

#: Largest mean difference of the pixels of a clip, of 255. Most of it is color conversion: torchcodec's result is 1.2
#: darker than the exact formula, which framespool has. That framespool resizes the planes, before it converts colors,
#: makes a difference of 0.2 to 0.3.
PIXELS = 1.5
#: Levels of 255 per unit of a normalized value.
LEVELS = 255 * torch.tensor(original.STD)[:, None, None, None]


def main() -> None:
    """Compares, and exits with 1 at the first batch that differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path, help="video files, mp4 or avi")
    videos = parser.parse_args().videos
    model, farthest, embedded, clips = PatchModel(), 0.0, 0.0, 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        link_class_folders(folder / "val", videos)
        both = zip(original.make_loader(folder, 0, "val"), ported.make_loader(folder, 1, "val"), strict=True)
        for number, (theirs, batch) in enumerate(both):
            ours = batch.torch()
            for key in ("labels", "indices"):
                if not torch.equal(theirs[key], ours[key]):
                    sys.exit(f"batch {number}: {key} differ: {theirs[key].tolist()} and {ours[key].tolist()}")
            if theirs["frames"].shape != ours.frames.shape:
                sys.exit(f"batch {number}: sizes differ: {theirs['frames'].shape} and {ours.frames.shape}")
            far = float(((theirs["frames"] - ours.frames) * LEVELS).abs().mean(dim=(1, 2, 3, 4)).max())
            if not far <= PIXELS:
                sys.exit(f"batch {number}: the pixels of a clip differ by {far:.2f} on average")
            farthest = max(farthest, far)
            embedded = max(embedded, float((model(theirs["frames"]) - model(ours.frames)).abs().max()))
            clips += len(ours.labels)
    print(f"{clips} clips of {len(videos)} videos: the same frames, sizes and labels")
    print(f"largest mean difference of the pixels {farthest:.2f} of 255, of the embeddings {embedded:.4f}")


if __name__ == "__main__":
    main()
