"""Trains and tests an image classifier: rotation, random crop, color twist and grid mask; none of them for testing.

    python examples/images/classification.py photos/ --epochs 2

The same with DALI:

    def training(root):
        jpegs, labels = fn.readers.file(file_root=root, random_shuffle=True, name="reader")
        x = fn.decoders.image(jpegs, device="mixed", output_type=types.RGB)
        x = fn.resize(x, size=[int(1.2 * size), int(1.2 * size)])
        x = fn.rotate(x, angle=fn.random.uniform(range=(-20, 20)), keep_size=True, fill_value=0)
        x = fn.random_resized_crop(x, size=[size, size], random_area=[0.3, 1.0])
        x = fn.color_twist(
            x, brightness=fn.random.uniform(range=(0.6, 1.4)), contrast=fn.random.uniform(range=(0.6, 1.4)),
            saturation=fn.random.uniform(range=(0.6, 1.4)), hue=fn.random.uniform(range=(-20, 20)),
        )
        x = fn.grid_mask(x, tile=80, ratio=0.4, angle=fn.random.uniform(range=(-0.26, 0.26)))
        x = fn.crop_mirror_normalize(
            x, mirror=fn.random.coin_flip(), mean=mean, std=std, dtype=types.FLOAT, output_layout="CHW"
        )
        return x, labels

    def testing(root):
        jpegs, labels = fn.readers.file(file_root=root, name="reader")
        x = fn.decoders.image(jpegs, device="mixed", output_type=types.RGB)
        x = fn.resize(x, resize_shorter=256)
        return fn.crop_mirror_normalize(x, crop=[size, size], ...), labels

    DALIClassificationIterator(
        pipe, reader_name="reader", last_batch_policy=LastBatchPolicy.PARTIAL, auto_reset=True
    )

Here the last batch is shorter by default, and iterating again starts the next epoch. All transforms of a list run in
one pass over the pixels, in which erasing transforms come after geometric ones: so the flip comes before the grid mask.
"""

from __future__ import annotations

import argparse
import itertools

import framespool as fsp
from framespool import transforms as t

SIZE = 224
NORMALIZE = t.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))

TRAINING = [
    t.Resize((int(1.2 * SIZE), int(1.2 * SIZE))),
    t.RandomRotation(20, interpolation="bilinear"),
    t.RandomResizedCrop(SIZE, scale=(0.3, 1.0)),
    t.ColorTwist(brightness=(0.6, 1.4), contrast=(0.6, 1.4), saturation=(0.6, 1.4), hue=(-20, 20)),
    t.RandomHorizontalFlip(),
    t.GridMask(tile=80, ratio=0.4, degrees=(-15, 15)),
    NORMALIZE,
]
TESTING = [t.Resize(256), t.CenterCrop(SIZE), NORMALIZE]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", help="folder with one sub-folder per class")
    parser.add_argument("--test", help="folder to test on (default: the same)")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, help="batches per epoch (default: all)")
    arguments = parser.parse_args()

    common = {
        "batch_size": arguments.batch_size,
        "device": arguments.device,
        "dtype": "float32",
        "last_batch": "partial",
    }
    photos = fsp.datasets.image_folder(arguments.root)
    training = fsp.ImageLoader(photos, transforms=TRAINING, shuffle=True, **common)
    testing = fsp.ImageLoader(fsp.datasets.image_folder(arguments.test or arguments.root), transforms=TESTING, **common)

    for epoch in range(arguments.epochs):
        for name, loader in (("train", training), ("test", testing)):
            sizes = [len(batch) for batch in itertools.islice(loader, arguments.steps)]
            print(f"epoch {epoch}, {name}: {sum(sizes)} images in {len(sizes)} batches, the last of {sizes[-1]}")


if __name__ == "__main__":
    main()
