#!/usr/bin/env python3
"""Prints hashes of what framespool decodes from the test media, so that platforms can be compared.

    check_wheel_media.py MEDIA

Run by scripts/test_emulated.sh and scripts/check_release.sh. Of every video: the number of frames, the RGB of the first
12 frames, of one in the middle and of the last one, and clips of different dtypes, layouts and transforms. Of every
image: its RGB. A file that cannot be decoded gives the error. Needs the standard library only.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import framespool as fsp

NORMALIZE = fsp.transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
#: Output of a clip: dtype, layout, transforms.
CLIPS: list[tuple[str, str, list[fsp.transforms.Transform]]] = [
    ("uint8", "NTHWC", []),
    ("float16", "NTCHW", [fsp.transforms.Resize((48, 56), "bicubic"), NORMALIZE]),
    ("bfloat16", "NTHWC", [fsp.transforms.Resize((48, 56)), fsp.transforms.RandomHorizontalFlip(1.0), NORMALIZE]),
    (
        "float32",
        "NCTHW",
        [fsp.transforms.RandomResizedCrop((40, 40)), fsp.transforms.ColorJitter(0.4, 0.4, 0.4, 0.1), NORMALIZE],
    ),
]


def md5(data: bytes) -> str:
    """The first 16 digits of the hash."""
    return hashlib.md5(data).hexdigest()[:16]


def video_lines(path: Path) -> Iterator[str]:
    """What is compared of a video, in parts."""
    video = fsp.Video(path, layout="THWC")
    yield f"{len(video)} frames"
    for index in sorted({*range(min(12, len(video))), len(video) // 2, len(video) - 1}):
        try:
            yield md5(video[index].tobytes())
        except fsp.Error as error:
            yield f"{index}: {type(error).__name__}"
    for number, (dtype, layout, transforms) in enumerate(CLIPS):
        loader = fsp.ClipLoader(
            [path],
            fsp.samplers.Windows(sequence_length=2, stride=3, step=10_000, padding="edge"),
            batch_size=1,
            transforms=transforms,
            dtype=dtype,  # type: ignore[arg-type]
            layout=layout,  # type: ignore[arg-type]
            collate="stack",
            seed=number,
            num_threads=1,
        )
        yield md5(next(iter(loader)).frames.tobytes())


def image_lines(path: Path) -> Iterator[str]:
    """What is compared of an image."""
    yield md5(fsp.decode_image(path.read_bytes(), layout="HWC").tobytes())


def main() -> None:
    """Prints one line per file."""
    media = Path(sys.argv[1])
    for entry in json.loads((media / "manifest.json").read_text())["files"]:
        path, parts = media / entry["path"], []
        try:
            for part in image_lines(path) if entry["path"].startswith("images/") else video_lines(path):
                parts.append(part)
        except (fsp.Error, ValueError) as error:
            parts.append(type(error).__name__)
        print(entry["path"], *parts, flush=True)


if __name__ == "__main__":
    main()
