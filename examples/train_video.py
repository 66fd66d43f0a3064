"""Trains a small 3D CNN on clips, end to end, on one process or several, on CPUs or GPUs.

    python examples/train_video.py                                        # a few minutes on two cores, no GPU
    python examples/train_video.py --short                                # less than a minute
    torchrun --nproc-per-node 2 examples/train_video.py --data set/       # gloo on CPUs, NCCL on GPUs
    python examples/train_video.py --data set/ --checkpoint run.pt             # interrupt it at any time ...
    python examples/train_video.py --data set/ --checkpoint run.pt --resume    # ... same final parameters

The videos are generated (H.264, by the FFmpeg program of the PyPI package imageio-ffmpeg). A shape moves over a
background. The label is its motion, and each class has a counterpart that is its reverse in time. A single frame only
identifies the pair, so a model that looks at frames one by one is correct at most half of the time.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import framespool as fsp
import numpy as np
import torch
from train_loop import Ranks, TrainingRun, add_arguments

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "demo"))
from make_videos import encode  # noqa: E402

CLASSES = ("left", "right", "up", "down", "clockwise", "anticlockwise", "grow", "shrink")
SIDE, FRAMES, FPS = 64, 32, 24
CLIP, STRIDE, PIXELS = 6, 2, 32


def moving_shape(label: str, seed: int) -> np.ndarray:
    """(FRAMES, SIDE, SIDE, 3): a bar with a head, which shows its direction, moving on a torus, so it never leaves."""
    rng = np.random.default_rng(seed)
    t = np.arange(FRAMES) / FPS
    x, y, angle = (np.full(FRAMES, rng.uniform()) for _ in range(3))
    size = np.full(FRAMES, rng.uniform(0.16, 0.26))
    speed = rng.uniform(0.5, 0.9) * (-1 if label in ("left", "up", "anticlockwise", "shrink") else 1)
    if label in ("left", "right"):
        x += speed * t
    elif label in ("up", "down"):
        y += speed * t
    elif label in ("clockwise", "anticlockwise"):
        angle += speed * t
    else:
        size = 0.08 + 0.24 * ((rng.uniform() + 0.8 * speed * t) % 1.0)
    down, across = np.mgrid[0:SIDE, 0:SIDE].astype(np.float32) / SIDE
    background = 90 + 40 * np.sin(across * rng.uniform(10, 40)) * np.cos(down * rng.uniform(10, 40))
    background = background[..., None] * rng.uniform(0.5, 1.0, 3)
    shade = rng.uniform(150, 255, 3)
    frames = np.empty((FRAMES, SIDE, SIDE, 3), np.uint8)
    for n in range(FRAMES):
        # Coordinates relative to the shape, which is at the center of the torus.
        dx, dy = (across - x[n] + 0.5) % 1 - 0.5, (down - y[n] + 0.5) % 1 - 0.5
        cos, sin = np.cos(2 * np.pi * angle[n]), np.sin(2 * np.pi * angle[n])
        u, v = (dx * cos + dy * sin) / size[n], (dy * cos - dx * sin) / size[n]
        shape = ((abs(u) < 1) & (abs(v) < 0.3)) | ((u - 0.7) ** 2 + v**2 < 0.35)
        frames[n] = np.clip(np.where(shape[..., None], shade, background) + rng.normal(0, 3, (SIDE, SIDE, 1)), 0, 255)
    return frames


def make_set(folder: Path, training: int, testing: int) -> Path:
    """Generates ``folder/train`` and ``folder/test``, one folder per class; existing files stay."""
    for part, count in (("train", training), ("test", testing)):
        for number in range(count * len(CLASSES)):
            label = CLASSES[number % len(CLASSES)]
            path = folder / part / label / f"{number:04}.mp4"
            if not path.exists():
                encode(moving_shape(label, number + (100_000 if part == "test" else 0)), path, FPS)
    return folder


class Net(torch.nn.Sequential):
    """Three blocks of 3D convolutions; already the first one sees motion."""

    def __init__(self, classes: int, width: int = 12) -> None:
        layers: list[torch.nn.Module] = []
        for n, (kernel, stride) in enumerate([((3, 5, 5), (1, 2, 2)), ((3, 3, 3), (1, 2, 2)), ((3, 3, 3), (2, 2, 2))]):
            padding = tuple(size // 2 for size in kernel)
            there = width << n
            layers += [
                torch.nn.Conv3d(3 if n == 0 else there // 2, there, kernel, stride, padding, bias=False),
                torch.nn.BatchNorm3d(there),
                torch.nn.ReLU(),
            ]
        super().__init__(*layers, torch.nn.AdaptiveAvgPool3d(1), torch.nn.Flatten(), torch.nn.Linear(there, classes))


def loaders(folder: Path, arguments: argparse.Namespace, ranks: Ranks) -> tuple[fsp.ClipLoader, fsp.ClipLoader]:
    """Loader of random clips for training; of clips spread over each video for testing."""
    normalize = fsp.transforms.Normalize((0.45,) * 3, (0.25,) * 3)
    common = {
        "batch_size": arguments.batch_size,
        "device": str(ranks.device),
        "layout": "NCTHW",
        "dtype": "float32",
        "seed": arguments.seed,
        **ranks.part(),
    }
    training = fsp.ClipLoader(
        fsp.datasets.folder(folder / "train"),
        fsp.samplers.RandomClips(sequence_length=CLIP, stride=STRIDE, clips_per_video=4),
        # No flip: it would turn a motion to the left into one to the right.
        transforms=[fsp.transforms.RandomResizedCrop(PIXELS, scale=(0.7, 1.0)), normalize],
        shuffle=arguments.shuffle,
        cache=arguments.cache,
        **common,
    )
    testing = fsp.ClipLoader(
        fsp.datasets.folder(folder / "test"),
        fsp.samplers.UniformClips(sequence_length=CLIP, stride=STRIDE, clips_per_video=2),
        transforms=[fsp.transforms.Resize((PIXELS, PIXELS)), normalize],
        **common,
    )
    return training, testing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser, epochs=10, batch_size=16)
    parser.add_argument("--videos", type=int, default=24, help="training videos to generate per class")
    parser.add_argument("--shuffle", default="grouped", choices=["grouped", "full"])
    parser.add_argument("--cache", default="2GiB", help="memory of the training loader's clip cache")
    arguments = parser.parse_args()
    if arguments.short:
        arguments.videos, arguments.epochs = min(arguments.videos, 20), min(arguments.epochs, 9)
    ranks = Ranks.join(arguments.device)
    torch.manual_seed(arguments.seed)
    torch.use_deterministic_algorithms(ranks.device.type == "cpu")

    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.data or Path(scratch)
        if ranks.ranks > 1 and arguments.data is None:
            parser.error("several processes need --data, a folder that all of them can read")
        if ranks.rank == 0:
            make_set(folder, arguments.videos, max(4, arguments.videos // 4))
        ranks.sum(0)  # the other ranks wait for rank 0
        training, testing = loaders(folder, arguments, ranks)
        ranks.say(f"{training.num_clips} clips per epoch in {len(training)} batches on each of {ranks.ranks} ranks")
        run = TrainingRun(Net(len(CLASSES)), training, ranks, arguments)

        def take(batch: fsp.Batch) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
            return batch.frames.torch(), batch.labels.torch().to(ranks.device), batch.clip_ids.tolist()

        run.train(take, lambda: run.accuracy(testing, take))
        ranks.say(f"parameters {run.digest()}")
    ranks.leave()


if __name__ == "__main__":
    main()
