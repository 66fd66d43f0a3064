"""Compares the samples of both loaders one by one.

python examples/recipes/dense_labels/compare.py VIDEO...

The random crops of the two differ, so the original crops each clip again where framespool did. A generated video of a
white square checks its box against its pixels.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import original  # noqa: E402
import ported  # noqa: E402
import torch  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

import dataset  # noqa: E402

#: Largest mean difference of the pixels of a sample, of 255: framespool resizes the planes, before it converts colors.
PIXELS = 1.6
#: Largest difference of a side of a box, in pixels of the crop; of the square's sides from its pixels.
BOXES, SQUARE = 0.5, 1.0


def compare_windows(path: Path) -> tuple[int, float]:
    """Compares the windows; returns their number and the largest mean difference of the pixels of a batch.

    Raises:
        ValueError: If a window differs.
    """
    farthest, count = 0.0, 0
    loaders = original.localization(path, 0, training=False), ported.localization(path, 1, training=False)
    for theirs, batch in zip(*loaders, strict=True):
        ours = batch.torch()
        values = {"pts_seconds": ours.pts_seconds, "labels": ours.columns["labels"], "mask": ours.mask}
        for name, value in values.items():
            if not torch.equal(theirs[name], value):
                raise ValueError(f"windows from {count}: {name} differ: {theirs[name].tolist()} and {value.tolist()}")
        farthest = max(farthest, check_pixels(theirs["frames"], ours.frames))
        count += len(ours.mask)
    return count, farthest


def check_pixels(theirs: torch.Tensor, ours: torch.Tensor) -> float:
    """The mean difference of pixels, of 255.

    Raises:
        ValueError: If it is too large.
    """
    far = float((theirs.float() - ours.float()).abs().mean())
    if theirs.shape != ours.shape or not far <= PIXELS:
        raise ValueError(f"{theirs.shape} and {ours.shape}: pixels differ by {far:.2f} on average")
    return far


def cropped(sample: dict[str, Any], geometry: torch.Tensor) -> dict[str, Any]:
    """Crops and flips a clip of the original as an affine map from the frame to the result."""
    (x, _, left), (_, y, top) = geometry.tolist()
    width, height = original.CROP / abs(x), original.CROP / y
    left = -left / x if x > 0 else left / abs(x) - width
    box = [round(value) for value in (-top / y, left, height, width)]
    moved = {
        name: v2.functional.resized_crop(sample[name], *box, [original.CROP] * 2, antialias=True)
        for name in ("frames", "boxes")
    }
    if x < 0:
        moved = {name: v2.functional.horizontal_flip(value) for name, value in moved.items()}
    return v2.SanitizeBoundingBoxes()({**sample, **moved})


def clips(annotations: Path, training: bool) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yields each view of both loaders: `frames`, `boxes`, `labels` and `indices`."""
    theirs = original.AnnotatedSeconds(annotations, training)
    places = {(Path(path).stem, second): place for place, (path, second, _) in enumerate(theirs.samples)}
    for batch in ported.detection(annotations, 1, training):
        values, found = batch.torch(), ported.boxes_of(batch)
        for number, views in enumerate(found):
            place = places.pop((batch.columns["video_id"][number], batch.columns["second"].tolist()[number]))
            frames = values.frames[number][None] if training else values.frames[number]
            left = [cropped(theirs.decode(place), values.geometry[number])] if training else theirs[place]
            for one, two, pixels in zip(left, views, frames, strict=True):
                yield one, {**two, "frames": pixels, "indices": values.indices[number].tolist()}
    if places:
        raise ValueError(f"framespool omits {sorted(places)}")


def compare_boxes(annotations: Path, training: bool) -> tuple[int, float, float]:
    """Compares the annotated seconds; returns the number of boxes and the largest differences of boxes and pixels.

    Raises:
        ValueError: If a clip differs.
    """
    boxes, far, farthest = 0, 0.0, 0.0
    for theirs, ours in clips(annotations, training):
        if theirs["indices"] != ours["indices"] or not torch.equal(theirs["labels"], ours["labels"]):
            differ = [{name: clip[name] for name in ("indices", "labels")} for clip in (theirs, ours)]
            raise ValueError(f"frames or labels differ: {differ}")
        sides = (theirs["boxes"] - ours["boxes"]).abs().flatten().tolist()
        if not max(sides, default=0) <= BOXES:
            raise ValueError(f"boxes differ: {theirs['boxes'].tolist()} and {ours['boxes'].tolist()}")
        far = max(far, *sides, 0)
        farthest = max(farthest, check_pixels(theirs["frames"], ours["frames"]))
        boxes += len(ours["boxes"])
    return boxes, far, farthest


def square_error(annotations: Path, training: bool) -> float:
    """The largest distance of a side of the square's box from the side of its pixels, in pixels.

    Raises:
        ValueError: If it is too large.
    """
    far = 0.0
    for _, view in clips(annotations, training):
        for frame in view["frames"]:
            rows, columns = (frame[0] > 127).any(1).nonzero(), (frame[0] > 127).any(0).nonzero()
            sides = torch.tensor([[columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]])
            far = max(far, float((view["boxes"] - sides).abs().max()))
    if not far <= SQUARE:
        raise ValueError(f"the box of the square is {far:.2f} pixels from it")
    return far


def main() -> None:
    """Compares, and exits with 1 at the first sample that differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path, help="video files")
    videos = parser.parse_args().videos
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        path = dataset.write_segments(Path(folder) / "segments.jsonl", videos)
        annotations, square = dataset.write_boxes(Path(folder), videos), dataset.write_square(Path(other))
        try:
            windows, farthest = compare_windows(path)
            print(f"{windows} windows: the same frames, padding and labels")
            for training, crops in ((False, "three crops"), (True, "random crops")):
                boxes, far, pixels = compare_boxes(annotations, training)
                print(f"{boxes} boxes in {crops}: the same frames and labels, sides within {far:.4f} pixels")
                print(f"box of the square: within {square_error(square, training):.2f} pixels of its pixels")
                farthest = max(farthest, pixels)
        except ValueError as error:
            sys.exit(str(error))
    print(f"largest mean difference of the pixels {farthest:.2f} of 255")


if __name__ == "__main__":
    main()
