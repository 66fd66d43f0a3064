"""Photographs and segmentation masks: crops, flips and rotations are drawn once and applied to both.

    python examples/images/segmentation.py photos/ masks/         # photos/a/1.jpg and masks/a/1.png

Masks are PNG files of the same size as the photographs, with one channel or with a palette whose indices are the
labels. With DALI, each step is written twice with the same random numbers:

    jpegs, _ = fn.readers.file(files=photos, name="reader")
    pngs, _ = fn.readers.file(files=masks)
    x = fn.decoders.image(jpegs, output_type=types.RGB)
    y = fn.decoders.image(pngs, output_type=types.GRAY)       # for a palette: gray of the colors
    angle, mirror = fn.random.uniform(range=(-10, 10)), fn.random.coin_flip()
    x = fn.rotate(x, angle=angle, keep_size=True, fill_value=0)
    y = fn.rotate(y, angle=angle, keep_size=True, fill_value=255, interp_type=types.INTERP_NN)
    start, shape = fn.random_crop_generator(x.shape(), random_area=[0.25, 1.0])
    x = fn.resize(fn.slice(x, start, shape, axes=[0, 1]), size=[512, 512])
    y = fn.resize(fn.slice(y, start, shape, axes=[0, 1]), size=[512, 512], interp_type=types.INTERP_NN)
    x = fn.crop_mirror_normalize(x, mirror=mirror, ...)
    y = fn.flip(y, horizontal=mirror)

Here the loader gets the masks too, and color transforms and normalization do not change them.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

import framespool as fsp
import numpy as np
from framespool import transforms as t

# Ignored label: where a rotation shows what is outside of the image.
IGNORED = 255


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path, help="folder with one sub-folder per class")
    parser.add_argument("masks", type=Path, help="folder with the same file names, ending in .png")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, help="number of batches (default: one epoch)")
    arguments = parser.parse_args()

    photos = fsp.datasets.image_folder(arguments.photos)
    names = [Path(path).relative_to(arguments.photos) for path, _ in photos]
    loader = fsp.ImageLoader(
        photos,
        masks=[arguments.masks / name.with_suffix(".png") for name in names],
        mask_fill=IGNORED,
        batch_size=arguments.batch_size,
        transforms=[
            t.RandomRotation(10, interpolation="bilinear"),
            t.RandomResizedCrop(512, scale=(0.25, 1.0)),
            t.RandomHorizontalFlip(),
            t.ColorJitter(0.3, 0.3, 0.3),
            t.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ],
        device=arguments.device,
        shuffle=True,
        dtype="float32",
    )
    for batch in itertools.islice(loader, arguments.steps):
        labels, pixels = np.unique(batch.masks.cpu().numpy(), return_counts=True)
        shares = {int(label): f"{count / pixels.sum():.0%}" for label, count in zip(labels, pixels, strict=True)}
        print(f"images {batch.images.shape}, masks {batch.masks.shape} {batch.masks.dtype}, labels {shares}")


if __name__ == "__main__":
    main()
