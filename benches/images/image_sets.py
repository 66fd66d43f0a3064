"""The files that the adapters read: class folders, each with a few hundred distinct file names.

`photos` are the corpus' photographs, as links. `imagenet` are the same re-encoded to ImageNet's mean size,
500x375 or 375x500, quality 90, 4:2:0; center crops, so that nothing is stretched. Both repeat the same
41 images. `coordinates` is an image whose pixels encode their position.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

SETS = ("photos", "imagenet")
LONG, SHORT = 500, 375
QUALITY = 90
# Image of coordinates: width, height, and the code values at its first and last pixel.
COORDINATES = (512, 384)
FIRST, LAST = 16.0, 240.0


def photographs(folder: Path) -> list[tuple[Path, str]]:
    found = sorted(path for path in folder.glob("*/*") if path.suffix.lower() in (".jpg", ".jpeg"))
    if not found:
        raise SystemExit(f"{folder} has no class folders with JPEG files; give --pictures another folder")
    return [(path, path.parent.name) for path in found]


def imagenet_sized(path: Path, to: Path) -> None:
    with Image.open(path) as image:
        size = (LONG, SHORT) if image.width >= image.height else (SHORT, LONG)
        fitted = ImageOps.fit(image.convert("RGB"), size, Image.Resampling.LANCZOS)
        fitted.save(to, quality=QUALITY, subsampling="4:2:0")


def make(name: str, source: Path, folder: Path, count: int) -> list[tuple[str, int]]:
    """At least `count` files under `folder`, as (path, label)."""
    originals = photographs(source)
    classes = sorted({kind for _, kind in originals})
    files = []
    for turn in range(-(-count // len(originals))):
        for path, kind in originals:
            file = folder / name / kind / f"{path.stem}_{turn:03}.jpg"
            files.append((str(file), classes.index(kind)))
            if file.exists():
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            if name == "photos":
                file.symlink_to(path.resolve())
            elif turn == 0:
                imagenet_sized(path, file)
            else:
                shutil.copyfile(file.with_stem(f"{path.stem}_000"), file)
    return files


def coordinates(folder: Path) -> str:
    """Red increases from left to right, green from top to bottom; blue is 255, which no fill value is."""
    width, height = COORDINATES
    picture = np.full((height, width, 3), 255, np.uint8)
    picture[:, :, 0] = np.linspace(FIRST, LAST, width).round()[None, :]
    picture[:, :, 1] = np.linspace(FIRST, LAST, height).round()[:, None]
    path = folder / "coordinates.jpg"
    Image.fromarray(picture).save(path, quality=98, subsampling="4:4:4")
    return str(path)


def properties(files: list[tuple[str, int]]) -> str:
    """Mean size of the distinct images among the files."""
    different = {Path(path).stem[:-4]: path for path, _ in files}.values()
    sizes = []
    for path in different:
        with Image.open(path) as image:
            sizes.append((image.width, image.height, os.path.getsize(path)))
    width, height, size = np.mean(sizes, axis=0)
    return f"{len(sizes)} different images, {width:.0f}x{height:.0f} and {size / 1024:.0f} KiB on average"
