"""Generates videos for the training programs of this folder: `FOLDER/train/<class>` and `FOLDER/val/<class>`.

    python examples/motion_videos.py set/                    # 24 videos of each class for training, 6 for validation

A shape moves over a background. The label is its motion, and each class has a counterpart that is its reverse in time.
A single frame only identifies the pair, so a model that looks at frames one by one is correct at most half of the time.
The encoder is the FFmpeg program of the PyPI package imageio-ffmpeg.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "demo"))
from make_videos import encode  # noqa: E402

CLASSES = ("left", "right", "up", "down", "clockwise", "anticlockwise", "grow", "shrink")
SIDE, FRAMES, FPS = 64, 32, 24


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


def make_set(folder: Path, training: int, validation: int) -> None:
    """Generates so many videos of each class; existing files stay."""
    for part, count in (("train", training), ("val", validation)):
        for number in range(count * len(CLASSES)):
            label = CLASSES[number % len(CLASSES)]
            path = folder / part / label / f"{number:04}.mp4"
            if not path.exists():
                encode(moving_shape(label, number + (100_000 if part == "val" else 0)), path, FPS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder to write to")
    parser.add_argument("--per-class", type=int, default=24, help="videos of each class for training (default 24)")
    arguments = parser.parse_args()
    make_set(arguments.folder, arguments.per_class, max(4, arguments.per_class // 4))


if __name__ == "__main__":
    main()
