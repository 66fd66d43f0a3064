"""Trains a small CNN on photographs or drawings; the training loop and its options are those of train_video.py.

    python examples/train_images.py                                       # one minute on two cores, no GPU
    python examples/train_images.py --data photos/ --pixels 128           # photos/train/<class>/*.jpg, photos/val/...
    torchrun --nproc-per-node 2 examples/train_images.py --data set/      # gloo on CPUs, NCCL on GPUs

Without a folder that contains `train` and `val`, a set of JPEGs is generated: shapes of any color, size and position
over any background; the label is the shape.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path

import framespool as fsp
import numpy as np
import torch
import torch.distributed as dist
from framespool.torch import ImageLoader
from PIL import Image, ImageDraw
from train_video import add_loop_arguments, fit, join, parser_of, say

CLASSES = ("circle", "cross", "ring", "square", "star", "triangle")
SIDE = 160


def drawing(label: str, seed: int) -> Image.Image:
    """Draws a shape over a background, both in random colors."""
    rng = np.random.default_rng(seed)
    noise = rng.integers(0, 120, (8, 8, 3), dtype=np.uint8)
    picture = Image.fromarray(noise).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    draw = ImageDraw.Draw(picture)
    color = tuple(int(value) for value in rng.integers(140, 256, 3))
    radius = rng.uniform(0.2, 0.35) * SIDE
    x, y = rng.uniform(radius, SIDE - radius, 2)
    turn = rng.uniform(0, 2 * math.pi)

    def corners(radii: list[float]) -> list[tuple[float, float]]:
        angles = [turn + 2 * math.pi * n / len(radii) for n in range(len(radii))]
        return [(x + r * math.cos(a), y + r * math.sin(a)) for r, a in zip(radii, angles, strict=True)]

    box = (x - radius, y - radius, x + radius, y + radius)
    if label == "circle":
        draw.ellipse(box, fill=color)
    elif label == "ring":
        draw.ellipse(box, outline=color, width=int(radius / 3))
    elif label == "cross":
        ends = corners([radius] * 4)
        draw.line([ends[0], ends[2]], fill=color, width=int(radius / 2))
        draw.line([ends[1], ends[3]], fill=color, width=int(radius / 2))
    else:
        draw.polygon(
            corners({"square": [radius] * 4, "triangle": [radius] * 3, "star": [radius, radius / 3] * 5}[label]),
            fill=color,
        )
    return picture


def make_set(folder: Path, training: int, validation: int) -> None:
    """Generates ``folder/train`` and ``folder/val``, one folder per class, unless they exist."""
    if (folder / "train").exists() != (folder / "val").exists():
        raise SystemExit(
            f"{folder} has one of train/ and val/ but not the other; pass a folder with both, or an empty one"
        )
    for part, count in (("train", training), ("val", validation)):
        if (folder / part).exists():
            continue
        half = folder / f"{part}.part"
        for number in range(count * len(CLASSES)):
            label = CLASSES[number % len(CLASSES)]
            (half / label).mkdir(parents=True, exist_ok=True)
            drawing(label, number + (100_000 if part == "val" else 0)).save(half / label / f"{number:04}.jpg")
        half.rename(folder / part)


class Net(torch.nn.Sequential):
    """Four convolution blocks."""

    def __init__(self, classes: int, width: int = 16) -> None:
        layers: list[torch.nn.Module] = []
        channels = [3, width, 2 * width, 4 * width, 4 * width]
        for here, there in zip(channels, channels[1:], strict=False):
            layers += [
                torch.nn.Conv2d(here, there, 3, 2, 1, bias=False),
                torch.nn.BatchNorm2d(there),
                torch.nn.ReLU(),
            ]
        super().__init__(*layers, torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(), torch.nn.LazyLinear(classes))


def loaders(folder: Path, arguments: argparse.Namespace) -> list[ImageLoader]:
    """Loader with random crops, flips and colors for training; with complete images for validation."""
    t = fsp.transforms
    normalize = t.Normalize((0.45,) * 3, (0.25,) * 3)
    augment = [
        t.RandomResizedCrop(arguments.pixels, scale=(0.8, 1.0), ratio=(0.9, 1.1)),
        t.RandomHorizontalFlip(),
        t.ColorJitter(0.3, 0.3, 0.3, 0.1),
        normalize,
    ]
    whole = [t.Resize((arguments.pixels, arguments.pixels)), normalize]
    common = {
        "batch_size": arguments.batch_size,
        "device": arguments.device,
        "dtype": arguments.dtype,
        "seed": arguments.seed,
    }
    train, val = (fsp.datasets.image_folder(folder / part) for part in ("train", "val"))
    return [
        ImageLoader(train, transforms=augment, shuffle=True, last_batch="drop", **common),
        ImageLoader(val, transforms=whole, **common),
    ]


def main() -> None:
    parser = parser_of(__doc__)
    add_loop_arguments(parser)
    parser.set_defaults(epochs=14, batch_size=32)
    parser.add_argument("--data", type=Path, help="folder with train/ and val/ (default: a temporary, generated one)")
    parser.add_argument("--pixels", type=int, default=64, help="side length of the model's input")
    parser.add_argument("--images", type=int, default=200, help="training images to generate per class")
    arguments = parser.parse_args()
    device = join(arguments.device)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            if dist.get_world_size() > 1 and arguments.data is None:
                parser.error("several processes need --data, a folder that all of them can read")
            folder = arguments.data or Path(scratch)
            if dist.get_rank() == 0:
                make_set(folder, arguments.images, max(10, arguments.images // 4))
            dist.barrier()  # the other ranks wait for rank 0
            training, validation = loaders(folder, arguments)
            say(f"{training.num_images} images, {len(training)} batches on each of {dist.get_world_size()} ranks")
            torch.manual_seed(arguments.seed)
            net = Net(len(training.dataset.classes))
            net(torch.zeros(1, 3, arguments.pixels, arguments.pixels))  # initializes the lazy last layer
            fit(net.to(device), training, validation, arguments)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
