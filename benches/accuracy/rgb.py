"""Compares full-size RGB with the exact formula and libswscale, for every matrix, range, depth and chroma format.

    python benches/accuracy/rgb.py [--json out.json] [--full-table]

Each image is converted to each format with NumPy, stored lossless (FFV1 in Matroska, color tags set, read back and
compared), and decoded by framespool from memory. The images:

    video   three 1080p frames of the corpus, upsampled to full chroma first
    codes   1920x1080, planes with every code value, drawn independently: most of these colors are outside RGB
    odd     the first of the frames at 1919x1079
    odd codes
    all     8 bits, 4:4:4: every triple of code values

libswscale converts to rgb24 with the defaults of PyAV's `reformat`, then with the flags accurate_rnd,
full_chroma_int and full_chroma_inp (`careful`). It interpolates chroma, which the exact formula here repeats; that
difference is an error of neither. In 4:4:4 and 4:0:0 nothing is interpolated. It treats 4:0:0 as full range, also if
another range is specified.
Exits with 1 if a value is more than 1 from the exact formula.
"""

from __future__ import annotations

import argparse
import sys
from itertools import product
from pathlib import Path

import framespool as fsp
import numpy as np
from common import (
    CAREFUL,
    CHROMA,
    WEIGHTS,
    Picture,
    Tally,
    corpus,
    encode,
    exact_rgb,
    interpolated_rgb,
    lossless,
    out_of_gamut,
    read_picture,
    share,
    swscale,
    to_8_bit,
    versions,
    write_json,
)

FRAMES = ["video/1080p/drone_city_24p.mp4", "video/1080p/jellyfish_30p.mkv", "video/1080p/park_street_30p.mp4"]
FRAME = 24
ODD = (1079, 1919)
DEPTHS = (8, 10, 12)
COLUMNS = ("exact", "swscale", "swscale_exact", "careful_exact")
GUARANTEED = 1


def every_code(size: tuple[int, int], chroma: str, depth: int, matrix: str, full_range: bool) -> Picture:
    """Planes in which each code value occurs equally often, in independent random order."""
    rng = np.random.default_rng(depth)
    shapes = [size]
    if CHROMA[chroma]:
        across, down = CHROMA[chroma]
        shapes += [(-(-size[0] >> down), -(-size[1] >> across))] * 2
    planes = []
    for height, width in shapes:
        codes = np.resize(np.arange(1 << depth, dtype=np.uint8 if depth == 8 else np.uint16), height * width)
        planes.append(rng.permutation(codes).reshape(height, width))
        if np.unique(planes[-1]).size != 1 << depth:
            raise RuntimeError(f"a plane of {width}x{height} does not contain every code value of {depth} bits")
    return Picture(tuple(planes), chroma, depth, matrix, full_range)


def every_triple(matrix: str, full_range: bool) -> list[Picture]:
    """All 2^24 triples of 8-bit code values, in frames of 2048x1024."""
    triples = np.arange(1 << 24, dtype=np.uint32).reshape(-1, 1024, 2048)
    return [
        Picture(tuple((part >> shift).astype(np.uint8) for shift in (16, 8, 0)), "4:4:4", 8, matrix, full_range)
        for part in triples
    ]


def compare(pictures: list[Picture]) -> dict[str, Tally | float]:
    tallies = {name: Tally() for name in COLUMNS}
    outside = []
    ours = fsp.Video(lossless(pictures), layout="THWC").frames(range(len(pictures))).frames.numpy()
    for picture, have in zip(pictures, ours, strict=True):
        unclipped = exact_rgb(picture)
        outside.append(out_of_gamut(unclipped))
        exact, theirs = to_8_bit(unclipped), swscale(picture)
        tallies["exact"].add(have, exact)
        tallies["swscale"].add(have, theirs)
        tallies["swscale_exact"].add(theirs, exact)
        tallies["careful_exact"].add(swscale(picture, CAREFUL), exact)
    return {**tallies, "out_of_gamut": float(np.mean(outside))}


HEAD = (
    f"{'':<38} | {'framespool-exact':^16} | {'framespool-swscale':^38}"
    f" | {'swscale-exact':^13} | {'careful-exact':^13}\n"
    f"{'pictures  matrix   range    bits chroma':<38} | {'max':>5} {'% off by 1':>10} | {'max':>4} {'mean':>6}"
    f" {'% <=1':>8} {'% <=2':>8} {'% <=3':>8} | {'max':>5} {'mean':>7} | {'max':>5} {'mean':>7}"
)


def line(name: str, row: dict[str, Tally]) -> str:
    exact, theirs, sws, careful = (row[column] for column in COLUMNS)
    return (
        f"{name:<38} | {exact.worst:>5} {100 * (1 - exact.within(0)):>10.3f} | {theirs.worst:>4} {theirs.mean:>6.3f}"
        f" {share(theirs.within(1)):>8} {share(theirs.within(2)):>8} {share(theirs.within(3)):>8} |"
        f" {sws.worst:>5} {sws.mean:>7.3f} | {careful.worst:>5} {careful.mean:>7.3f}"
    )


def gather(rows: list[dict], *keys: str) -> list[tuple[str, dict[str, Tally]]]:
    """Rows that agree in these keys, counted together."""
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return [
        ("  ".join(map(str, group)), {column: Tally().merge(row[column] for row in members) for column in COLUMNS})
        for group, members in groups.items()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the results of every row to this file")
    parser.add_argument("--full-table", action="store_true", help="print every row, not only the summaries")
    arguments = parser.parse_args()
    using = versions()
    print(", ".join(f"{name} {version}" for name, version in using.items()))
    sources = [interpolated_rgb(read_picture(corpus() / path, FRAME), "center") for path in FRAMES]
    rows = []

    def run(pictures: str, made: list[Picture]) -> None:
        first = made[0]
        row = {
            "pictures": pictures,
            "matrix": first.matrix,
            "range": "full" if first.full_range else "limited",
            "bits": first.depth,
            "chroma": first.chroma,
            **compare(made),
        }
        rows.append(row)
        if sys.stderr.isatty():
            print(f"\r{len(rows)} formats", end="", file=sys.stderr, flush=True)

    size = sources[0].shape[:2]
    odd = sources[0][: ODD[0], : ODD[1]]
    for matrix, full_range, depth, chroma in product(WEIGHTS, (False, True), DEPTHS, CHROMA):
        kind = (chroma, depth, matrix, full_range)
        run("video", [encode(rgb, *kind) for rgb in sources])
        run("codes", [every_code(size, *kind)])
        run("odd", [encode(odd, *kind)])
        run("odd codes", [every_code(ODD, *kind)])
    for matrix, full_range in product(WEIGHTS, (False, True)):
        run("all", every_triple(matrix, full_range))
    if sys.stderr.isatty():
        print(file=sys.stderr)

    print(f"\n{HEAD}")
    if arguments.full_table:
        for row in rows:
            name = f"{row['pictures']:<9} {row['matrix']:<8} {row['range']:<8} {row['bits']:>4} {row['chroma']}"
            print(line(name, row))
        print()
    for keys in (("pictures", "chroma", "bits"), ("pictures", "range"), ("pictures", "matrix"), ("pictures",)):
        print("by " + ", ".join(keys))
        for name, row in gather(rows, *keys):
            print(line("  " + name, row))
    print("\nvalues outside RGB before clipping, % by image:")
    for pictures in dict.fromkeys(row["pictures"] for row in rows):
        outside = [row["out_of_gamut"] for row in rows if row["pictures"] == pictures]
        print(f"  {pictures:<6} {100 * min(outside):.2f} to {100 * max(outside):.2f}")
    properties = [{k: v.properties() if isinstance(v, Tally) else v for k, v in row.items()} for row in rows]
    write_json(arguments.json, "rgb", using, rows=properties)
    worst = max(row["exact"].worst for row in rows)
    print(f"\nlargest difference from the exact formula: {worst}")
    return int(worst > GUARANTEED)


if __name__ == "__main__":
    sys.exit(main())
