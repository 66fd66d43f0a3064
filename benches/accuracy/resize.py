"""Compares resized RGB with torchvision's and PIL's antialiased bilinear resize of the exact full-size RGB.

    python benches/accuracy/resize.py [--json out.json] [--files video/a.mp4@24 ...]

framespool resizes the planes and then converts them to RGB, so it clips to 0..255 after resizing. torchvision and PIL
get the full-size image, which is already clipped. The third comparison, `clipped last`, resizes the float64 RGB
before clipping; its only remaining difference is rounding. Exits with 1 if framespool differs from it by more.
"""

from __future__ import annotations

import argparse
import sys
from fractions import Fraction
from pathlib import Path

import framespool as fsp
import numpy as np
import PIL
import torch
import torchvision
from common import (
    Tally,
    corpus,
    exact_rgb,
    out_of_gamut,
    read_picture,
    resize,
    share,
    to_8_bit,
    versions,
    write_json,
)
from PIL import Image
from torchvision.transforms import v2

FILES = [
    "video/1080p/drone_city_24p.mp4@24",
    "video/1080p/desk_drawing_25p.mp4@24",
    "video/1080p/jellyfish_30p.mkv@24",
    "video/1080p/park_street_30p.mp4@24",
    "video/derived/hevc_main10_1080p.mkv@24",
    "video/codecs/hevc_main10_dog_848x464.mkv@24",
    "video/derived/h264_422_10bit_720p.mp4@24",
    "video/odd/h264_444_cockatoo_720p.mp4@24",
    "video/derived/alpha_prores4444_320x180.mov@1",
    "video/derived/h264_gray_640x360.mp4@24",
    "video/action/asl/book.mkv@24",
    "video/codecs/h264_bbb_b_pyramid.mp4@24",
]
FACTORS = [Fraction(n) for n in ("1/8", "1/4", "1/3", "1/2", "3/5", "3/4", "9/10", "1", "3/2")]
# Side length of the blocks, per channel, in which colors inside and outside RGB are counted.
BLOCK = 8
COLUMNS = ("torchvision", "pil", "clipped_last")
# The components have 15 bits and the weights 14; including the rounding to 8 bits, the error is at most 1.
GUARANTEED_CLIPPED_LAST = 1
GUARANTEED_WITHIN_2, GUARANTEED_MEAN = 0.99, 0.5


def by_torchvision(rgb: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    planes = torch.from_numpy(rgb).permute(2, 0, 1)
    return v2.functional.resize(planes, list(size), antialias=True).permute(1, 2, 0).numpy()


def by_pil(rgb: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    return np.asarray(Image.fromarray(rgb).resize(size[::-1], Image.Resampling.BILINEAR))


def outside(rgb: np.ndarray) -> dict[str, float]:
    """Values outside RGB: their share, their mean excess, and the share of blocks with values both inside and outside.

    If a complete block is outside, clipping before or after a resize is the same.
    """
    far = np.abs(rgb - np.clip(rgb, 0, 255))
    out = far >= 0.5
    height, width = (side // BLOCK * BLOCK for side in rgb.shape[:2])
    blocks = out[:height, :width].reshape(height // BLOCK, BLOCK, width // BLOCK, BLOCK, 3).mean(axis=(1, 3))
    mixed = float(((blocks > 0) & (blocks < 1)).mean())
    return {"outside": out_of_gamut(rgb), "by": float(far[out].mean()) if out.any() else 0.0, "mixed": mixed}


def line(name: str, row: dict) -> str:
    cells = []
    for column in COLUMNS:
        tally = row[column]
        cells.append(f"{tally.worst:>4} {tally.mean:>6.3f} {share(tally.within(1)):>7} {share(tally.within(2)):>7}")
    return f"  {name:<12} | " + " | ".join(cells)


HEAD = (
    f"  {'framespool -':<12} | {'torchvision':^27} | {'PIL':^27} | {'clipped last':^27}\n"
    f"  {'factor':<12} | " + " | ".join([f"{'max':>4} {'mean':>6} {'% <=1':>7} {'% <=2':>7}"] * 3)
)


def measure(name: str) -> tuple[dict, list[dict]]:
    path, _, index = name.partition("@")
    picture = read_picture(corpus() / path, int(index))
    unclipped = exact_rgb(picture)
    full = to_8_bit(unclipped)
    video = fsp.Video(corpus() / path, layout="THWC")
    same = Tally((video.frames([int(index)]).frames.numpy()[0], full))
    if same.worst > 1:
        raise RuntimeError(
            f"{name}: framespool's full size is {same.worst} off the exact RGB; check that it is the same frame"
        )
    properties = {
        "file": name,
        "pix_fmt": picture.pix_fmt,
        "size": f"{picture.size[1]}x{picture.size[0]}",
        "matrix": picture.matrix,
        "range": "full" if picture.full_range else "limited",
        **outside(unclipped),
    }
    rows = []
    for factor in FACTORS:
        size = tuple(max(1, round(side * factor)) for side in picture.size)
        ours = video.frames([int(index)], transforms=[fsp.transforms.Resize(size)]).frames.numpy()[0]
        theirs = by_pil(full, size)
        if Tally((to_8_bit(resize(full.astype(np.float64), size)), theirs)).worst > 1:
            raise RuntimeError(f"{name} by {factor}: PIL's resize differs from the float64 resize of the same image")
        row = {"file": name, "factor": str(factor), "size": f"{size[1]}x{size[0]}"}
        row |= {
            "torchvision": Tally((ours, by_torchvision(full, size))),
            "pil": Tally((ours, theirs)),
            "clipped_last": Tally((ours, to_8_bit(resize(unclipped, size)))),
        }
        rows.append(row)
    return properties, rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--files", nargs="+", default=FILES, help="path in the corpus @ frame")
    arguments = parser.parse_args()
    using = versions(torch=torch.__version__, torchvision=torchvision.__version__, PIL=PIL.__version__)
    print(", ".join(f"{name} {version}" for name, version in using.items()))
    print(HEAD)
    files, rows = [], []
    for name in arguments.files:
        source, measured = measure(name)
        files.append(source)
        rows += measured
        about = " ".join(source[key] for key in ("file", "pix_fmt", "size", "matrix", "range"))
        print(
            f"{about}; outside RGB: {100 * source['outside']:.2f} % of values, on average by {source['by']:.1f};"
            f" {100 * source['mixed']:.2f} % of {BLOCK}x{BLOCK} blocks have values inside and outside"
        )
        for row in measured:
            print(line(row["factor"], row), flush=True)
    print("all files")
    for factor in map(str, FACTORS):
        together = [row for row in rows if row["factor"] == factor]
        print(line(factor, {c: Tally().merge(row[c] for row in together) for c in COLUMNS}))
    print("files within the guarantee against torchvision (99 % within 2, mean below 0.5):")
    for factor in map(str, FACTORS):
        together = [row for row in rows if row["factor"] == factor]
        breaches = [
            f"{row['file']} ({share(row['torchvision'].within(2))} %, {row['torchvision'].mean:.3f})"
            for row in together
            if row["torchvision"].within(2) < GUARANTEED_WITHIN_2 or row["torchvision"].mean >= GUARANTEED_MEAN
        ]
        print(f"  {factor:<5} {len(together) - len(breaches)} of {len(together)}", *breaches, sep="\n          not: ")
    properties = [{k: v.properties() if isinstance(v, Tally) else v for k, v in row.items()} for row in rows]
    write_json(arguments.json, "resize", using, files=files, rows=properties)
    worst = max(row["clipped_last"].worst for row in rows)
    print(f"largest difference from the float64 resize that clips last: {worst}")
    return int(worst > GUARANTEED_CLIPPED_LAST)


if __name__ == "__main__":
    sys.exit(main())
