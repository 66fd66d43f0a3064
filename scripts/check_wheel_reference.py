#!/usr/bin/env python3
"""Chooses test media and writes the expected decoding results for every Python; run by scripts/check_wheel_pythons.sh.

The planes that the ffmpeg program of imageio-ffmpeg decodes from one H.264, HEVC, VP9 and AV1 clip must have the
recorded hashes, and framespool's RGB must be within 1 of the formula on these planes. Its RGB of one JPEG must be
Pillow's. Each Python must then reproduce the hashes of this RGB, for which it needs neither NumPy nor the program.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import framespool as fsp
import imageio_ffmpeg
import numpy as np
from PIL import Image

CODECS = ("h264", "hevc", "vp9", "av1")
MAX_WIDTH = 640
MAX_FRAMES = 150
#: Weights of red and blue in luma. A stream with unspecified matrix is BT.601 (docs/concepts/frames.md).
WEIGHTS = {"bt709": (0.2126, 0.0722), "smpte170m": (0.299, 0.114), "bt470bg": (0.299, 0.114), "": (0.299, 0.114)}


def ffmpeg(*arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    """Runs the ffmpeg program."""
    return subprocess.run([imageio_ffmpeg.get_ffmpeg_exe(), "-nostdin", *map(str, arguments)], capture_output=True)


def colors(file: Path) -> tuple[str, bool] | None:
    """Matrix (empty if unspecified) and whether the range is full, as reported by the ffmpeg program.

    Returns:
        None for anything but 8-bit 4:2:0 with a matrix of `WEIGHTS`, and for rotated videos.
    """
    said = ffmpeg("-hide_banner", "-i", file).stderr
    found = re.search(rb"Video: .*?, (yuvj?420p)(?:\(([^)]*)\))?,", said)
    if not found or b"rotation of" in said:
        return None
    tags = (found[2] or b"").decode().split(", ")
    [matrix] = [tag.split("/")[0] for tag in tags if tag.split("/")[0] in WEIGHTS][:1] or [""]
    others = {"tv", "pc", "progressive", "top first", "bottom first", "unknown/unknown/unknown", ""}
    if not matrix and not others.issuperset(tags):
        return None
    return matrix, found[1] == b"yuvj420p" or "pc" in tags


def planes(file: Path, width: int, height: int) -> Iterator[bytes]:
    """The planes of each frame in presentation order, from the ffmpeg program."""
    size = width * height + 2 * ((width + 1) // 2) * ((height + 1) // 2)
    run = ffmpeg(
        "-v", "error", "-noautorotate", "-i", file, "-map", "0:v:0", "-fps_mode", "passthrough", "-f", "rawvideo", "-"
    )
    if run.returncode or len(run.stdout) % size:
        raise SystemExit(f"{file}: the ffmpeg program returned no {width}x{height} frames: {run.stderr.decode()}")
    for at in range(0, len(run.stdout), size):
        yield run.stdout[at : at + size]


def rgb(data: bytes, width: int, height: int, matrix: str, full: bool) -> np.ndarray:
    """RGB (height, width, 3) of 8-bit 4:2:0 planes by the formula of ITU-T H.273, not rounded, chroma repeated."""
    half = ((height + 1) // 2, (width + 1) // 2)
    samples = np.frombuffer(data, np.uint8).astype(np.float64)
    y, cb, cr = np.split(samples, [width * height, width * height + half[0] * half[1]])
    y = y.reshape(height, width)
    cb, cr = (c.reshape(half).repeat(2, 0).repeat(2, 1)[:height, :width] - 128 for c in (cb, cr))
    if not full:
        y, cb, cr = (y - 16) * 255 / 219, cb * 255 / 224, cr * 255 / 224
    red, blue = WEIGHTS[matrix]
    r, b = y + 2 * (1 - red) * cr, y + 2 * (1 - blue) * cb
    return np.clip(np.stack([r, (y - red * r - blue * b) / (1 - red - blue), b], axis=-1), 0, 255)


def compare(name: str, decoded: fsp.video.Tensor, wanted: np.ndarray, most: float) -> str:
    """The hash of a frame decoded by framespool, which must be within `most` of the expected one."""
    if decoded.shape != wanted.shape:
        raise SystemExit(f"{name}: framespool returned the shape {decoded.shape}, expected {wanted.shape}")
    difference = float(np.abs(decoded.numpy() - wanted).max())
    if difference > most:
        raise SystemExit(
            f"{name}: framespool differs by {difference:.1f} from the expected RGB, at most {most} is allowed"
        )
    return hashlib.md5(decoded.tobytes()).hexdigest()


def clip(media: Path, codec: str, entries: list[dict[str, Any]]) -> dict[str, Any]:
    """The expectation for the first matching clip of a codec."""
    for entry in entries:
        path, frames = entry["path"], media / "frames" / f"{entry['path']}.txt"
        fits = (
            entry.get("codec") == codec and entry.get("width", MAX_WIDTH + 1) <= MAX_WIDTH and "/corrupt/" not in path
        )
        if not fits or not frames.is_file():
            continue
        recorded = [line.split()[1] for line in frames.read_text().splitlines()]
        found = colors(media / path) if len(recorded) <= MAX_FRAMES else None
        if not found:
            continue
        width, height = entry["width"], entry["height"]
        shown = list(planes(media / path, width, height))
        if [hashlib.md5(data).hexdigest()[:16] for data in shown] != recorded:
            raise SystemExit(f"{path}: the hashes of the ffmpeg program's frames differ from those of {frames}")
        video = fsp.Video(media / path, layout="THWC")
        if len(video) != len(shown):
            raise SystemExit(f"{path}: framespool reports {len(video)} frames, the ffmpeg program {len(shown)}")
        pairs = enumerate(zip(video, shown, strict=True))
        md5 = [compare(f"{path}, frame {n}", got, rgb(data, width, height, *found), 1) for n, (got, data) in pairs]
        return {"path": path, "codec": codec, "md5": md5}
    raise SystemExit(
        f"{media}/manifest.json: no {codec} clip of 8-bit 4:2:0, at most {MAX_WIDTH} wide, with recorded frames"
    )


def picture(media: Path, entries: list[dict[str, Any]]) -> dict[str, Any]:
    """The expectation for the first matching JPEG."""
    for entry in entries:
        path = entry["path"]
        if not path.startswith("images/") or not path.endswith(".jpg") or "/corrupt/" in path:
            continue
        with Image.open(media / path) as image:
            if image.format != "JPEG" or image.mode != "RGB" or image.getexif():
                continue
            wanted = np.asarray(image, np.float64)
        decoded = fsp.decode_image((media / path).read_bytes(), layout="HWC")
        return {"path": path, "codec": "jpeg", "md5": [compare(path, decoded, wanted, 0)]}
    raise SystemExit(f"{media}/manifest.json: no JPEG in RGB without EXIF")


def main() -> None:
    """Writes the expectations as JSON to standard output."""
    media = Path(sys.argv[1]).resolve()
    entries = json.loads((media / "manifest.json").read_text())["files"]
    found = [*(clip(media, codec, entries) for codec in CODECS), picture(media, entries)]
    print(json.dumps({"media": str(media), "files": found}))


if __name__ == "__main__":
    main()
