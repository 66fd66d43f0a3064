"""Compares the inputs of the model that both loaders make, batch by batch.

python examples/recipes/mixed_samples/compare.py VIDEO...
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import original  # noqa: E402
import ported  # noqa: E402

from dataset import COUNTS, make_processor, write_records  # noqa: E402

#: Largest mean difference of the pixels of a batch, of 255: framespool resizes the planes, before it converts colors.
VIDEO_PIXELS = 1.5
#: Part of the values of images that differ by 1 at most: both resize RGB, but Pillow rounds between columns and rows.
IMAGE_VALUES = 0.999


def main() -> None:
    """Compares, and exits with 1 at the first batch that differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path, help="video files")
    videos = parser.parse_args().videos
    processor = make_processor()
    levels = 255 * max(processor.image_processor.image_std)  # the channels differ by 5 %
    count, farthest, least, mean = 0, 0, 1.0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = write_records(Path(folder), videos, 2 * len(COUNTS))
        both = zip(original.make_loader(path, 3, 0), ported.make_loader(path, 3, 1), strict=True)
        for number, (theirs, ours) in enumerate(both):
            if theirs.keys() != ours.keys():
                sys.exit(f"batch {number}: inputs differ: {sorted(theirs)} and {sorted(ours)}")
            if theirs["indices"] != ours["indices"]:
                sys.exit(f"batch {number}: indices differ: {theirs['indices']} and {ours['indices']}")
            for key in theirs.keys() - {"indices", "num_samples", "pixel_values", "pixel_values_videos"}:
                # The seconds follow from the frame rate, which decord rounds.
                if theirs[key].shape != ours[key].shape or not theirs[key].isclose(ours[key], rtol=1e-3, atol=0).all():
                    sys.exit(f"batch {number}: {key} differ: {theirs[key]} and {ours[key]}")
            if "pixel_values" in theirs:
                far = (levels * (theirs["pixel_values"] - ours["pixel_values"]).abs()).round()
                share = float((far <= 1).float().mean())
                if share < IMAGE_VALUES:
                    sys.exit(f"batch {number}: {share:.2%} of the values of images differ by 1 at most")
                least, farthest = min(least, share), max(farthest, int(far.max()))
            if "pixel_values_videos" in theirs:
                far = levels * float((theirs["pixel_values_videos"] - ours["pixel_values_videos"]).abs().mean())
                if far > VIDEO_PIXELS:
                    sys.exit(f"batch {number}: pixels of videos differ by {far:.2f} on average")
                mean = max(mean, far)
            count += ours["num_samples"]
    print(f"{count} samples: the same tokens, frames, sizes and seconds between frames")
    print(f"images: {least:.3%} of the values within 1 of 255, all within {farthest}")
    print(f"videos: values within {mean:.2f} of 255 on average")


if __name__ == "__main__":
    main()
