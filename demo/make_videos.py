"""Generates a small labeled set of videos: H.264 in MP4, with B-frames and long GOPs, like typical web videos.

A bright disc moves over a textured background; the label is its motion. Encoded by the FFmpeg program of the PyPI
package imageio-ffmpeg. Only this demo uses that program: framespool neither needs nor contains it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
from progress import Progress

WIDTH, HEIGHT, FPS, FRAMES, PER_CLASS = 320, 240, 30, 120, 2


def _path(label: str, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Center (x, y) and radius of the disc at times ``t`` in 0..1; all in units of the frame size."""
    still = np.full_like(t, 0.5)
    size = np.full_like(t, 0.12)
    return {
        "left": (0.9 - 0.8 * t, still, size),
        "right": (0.1 + 0.8 * t, still, size),
        "up": (still, 0.9 - 0.8 * t, size),
        "down": (still, 0.1 + 0.8 * t, size),
        "circle": (0.5 + 0.3 * np.cos(2 * np.pi * t), 0.5 + 0.3 * np.sin(2 * np.pi * t), size),
        "grow": (still, still, 0.05 + 0.3 * t),
    }[label]


CLASSES = ("circle", "down", "grow", "left", "right", "up")


def _frames(label: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float32)
    texture = 110 + 35 * np.sin(x / rng.uniform(6, 20)) * np.cos(y / rng.uniform(6, 20))
    tint = rng.uniform(0.4, 1.0, 3).astype(np.float32)
    disc = rng.uniform(120, 255, 3).astype(np.float32)
    t = np.linspace(0, rng.uniform(0.8, 1.6), FRAMES) % 1.0
    xs, ys, radii = _path(label, t)
    background = np.clip(texture[..., None] * tint, 0, 255)
    out = np.empty((FRAMES, HEIGHT, WIDTH, 3), np.uint8)
    for n in range(FRAMES):
        inside = (x - xs[n] * WIDTH) ** 2 + (y - ys[n] * HEIGHT) ** 2 < (radii[n] * HEIGHT) ** 2
        grain = rng.normal(0, 3, (HEIGHT, WIDTH, 1)).astype(np.float32)
        out[n] = np.clip(np.where(inside[..., None], disc, background) + grain, 0, 255)
    return out


def encode(frames: np.ndarray, path: Path, fps: float = FPS) -> None:
    """Encodes frames (N, height, width, 3) as H.264, as `encode_with()` does."""
    _, height, width, _ = frames.shape
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(fps), "-i", "-"]
    encode_with(source, path, frames.tobytes())


def encode_with(source: list[str], path: Path, stdin: bytes = b"") -> None:
    """Encodes a source, given as arguments of FFmpeg's program, as H.264 with a keyframe every 250 frames.

    The file appears when it is complete.
    """
    import imageio_ffmpeg

    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part.mp4")
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y", *source, "-c:v", "libx264", "-preset", "veryfast"]
    command += ["-crf", "23", "-g", "250", "-sc_threshold", "0", "-bf", "3", "-pix_fmt", "yuv420p"]
    command += ["-movflags", "+faststart", str(part)]
    subprocess.run(command, input=stdin, check=True)
    part.rename(path)


def make_videos(folder: Path) -> Path:
    """Generates the videos under `folder`, one sub-folder per class, unless they exist."""
    wanted = [folder / label / f"{n}.mp4" for label in CLASSES for n in range(PER_CLASS)]
    missing = [path for path in wanted if not path.exists()]
    if missing:
        with Progress("Generating videos", len(missing)) as progress:
            for path in missing:
                encode(_frames(path.parent.name, seed=wanted.index(path)), path)
                progress.step(str(path.relative_to(folder)))
    return folder
