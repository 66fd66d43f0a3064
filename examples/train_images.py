"""Trains a small CNN on photographs or drawings, end to end, on one process or several, on CPUs or GPUs.

    python examples/train_images.py                                       # one minute on two cores, no GPU
    python examples/train_images.py --short                               # a third of that
    python examples/train_images.py --data photos/ --pixels 128           # photos/train/<class>/*.jpg, photos/test/...
    torchrun --nproc-per-node 2 examples/train_images.py --data set/      # gloo on CPUs, NCCL on GPUs

Without a folder that contains `train` and `test`, a set of JPEGs is generated: shapes of any color, size and position
over any background; the label is the shape. Checkpoints in the middle of an epoch work as in train_video.py.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path

import framespool as fsp
import numpy as np
import torch
from PIL import Image, ImageDraw
from train_loop import Ranks, TrainingRun, add_arguments

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


def make_set(folder: Path, training: int, testing: int) -> Path:
    """Generates ``folder/train`` and ``folder/test``, one folder per class, unless they exist."""
    if (folder / "train").exists() != (folder / "test").exists():
        raise SystemExit(
            f"{folder} has one of train/ and test/ but not the other; pass a folder with both, or an empty one"
        )
    for part, count in (("train", training), ("test", testing)):
        if (folder / part).exists():
            continue
        half = folder / f"{part}.part"
        for number in range(count * len(CLASSES)):
            label = CLASSES[number % len(CLASSES)]
            (half / label).mkdir(parents=True, exist_ok=True)
            drawing(label, number + (100_000 if part == "test" else 0)).save(half / label / f"{number:04}.jpg")
        half.rename(folder / part)
    return folder


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


def loaders(folder: Path, arguments: argparse.Namespace, ranks: Ranks) -> tuple[fsp.ImageLoader, fsp.ImageLoader]:
    """Loader with random crops, flips and colors for training; with complete images for testing."""
    t = fsp.transforms
    normalize = t.Normalize((0.45,) * 3, (0.25,) * 3)
    common = {
        "batch_size": arguments.batch_size,
        "device": str(ranks.device),
        "dtype": "float32",
        "seed": arguments.seed,
        **ranks.part(),
    }
    augment = [
        t.RandomResizedCrop(arguments.pixels, scale=(0.8, 1.0), ratio=(0.9, 1.1)),
        t.RandomHorizontalFlip(),
        t.ColorJitter(0.3, 0.3, 0.3, 0.1),
        normalize,
    ]
    whole = [t.Resize((arguments.pixels, arguments.pixels)), normalize]
    training = fsp.ImageLoader(
        fsp.datasets.image_folder(folder / "train"), transforms=augment, shuffle="full", **common
    )
    return training, fsp.ImageLoader(fsp.datasets.image_folder(folder / "test"), transforms=whole, **common)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser, epochs=20, batch_size=32)
    parser.add_argument("--pixels", type=int, default=64, help="side length of the model's input")
    parser.add_argument("--images", type=int, default=250, help="training images to generate per class")
    arguments = parser.parse_args()
    if arguments.short:
        arguments.images, arguments.epochs = min(arguments.images, 200), min(arguments.epochs, 14)
    ranks = Ranks.join(arguments.device)
    torch.manual_seed(arguments.seed)
    torch.use_deterministic_algorithms(ranks.device.type == "cpu")

    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.data or Path(scratch)
        if ranks.ranks > 1 and arguments.data is None:
            parser.error("several processes need --data, a folder that all of them can read")
        if ranks.rank == 0:
            make_set(folder, arguments.images, max(10, arguments.images // 4))
        ranks.sum(0)  # the other ranks wait for rank 0
        training, testing = loaders(folder, arguments, ranks)
        ranks.say(f"{training.num_images} images in {len(training)} batches on each of {ranks.ranks} ranks")
        net = Net(len(training.dataset.classes))
        net(torch.zeros(1, 3, arguments.pixels, arguments.pixels))  # initializes the lazy last layer
        run = TrainingRun(net, training, ranks, arguments)

        def take(batch: fsp.ImageBatch) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
            return batch.images.torch(), batch.labels.torch().to(ranks.device), batch.image_ids.tolist()

        run.train(take, lambda: run.accuracy(testing, take))
        ranks.say(f"parameters {run.digest()}")
    ranks.leave()


if __name__ == "__main__":
    main()
