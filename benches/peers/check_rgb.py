"""Compares full-size RGB of framespool with `ffmpeg -pix_fmt rgb24`, for the first frames of every video of the corpus.

    python benches/peers/check_rgb.py [--frames 8]

Needs the `ffmpeg` program on PATH. FFmpeg's default conversion differs by up to 3 from the exact formula for 8-bit
4:2:0 (framespool is within 1, see the Rust tests). For other formats it also interpolates chroma, which framespool
repeats; the larger differences at color edges come from that filter, and the table shows how rare they are.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import framespool as fsp
import numpy as np


def reference(path: Path, frames: int, height: int, width: int) -> np.ndarray:
    """The first frames decoded by FFmpeg, rotation applied."""
    command = ["ffmpeg", "-v", "error", "-i", str(path), "-map", "0:v:0", "-vsync", "passthrough"]
    command += ["-frames:v", str(frames), "-pix_fmt", "rgb24", "-f", "rawvideo", "-"]
    raw = subprocess.run(command, capture_output=True, check=True).stdout
    return np.frombuffer(raw, np.uint8).reshape(-1, height, width, 3)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=8, help="frames of each file (default: 8)")
    frames = parser.parse_args().frames
    if not (place := os.environ.get("FRAMESPOOL_CORPUS")):
        sys.exit("no corpus: set FRAMESPOOL_CORPUS to its folder")
    corpus = Path(place)
    rows: dict[str, list[tuple[str, int, int, float]]] = defaultdict(list)
    skipped = []
    for properties in json.loads((corpus / "manifest.json").read_text())["files"]:
        path = properties["path"]
        if not path.startswith("video/") or "/corrupt/" in path or not properties.get("frames_decoded"):
            continue
        try:
            video = fsp.Video(corpus / path)
            ours = video.frames(range(min(frames, len(video)))).data.numpy()
            theirs = reference(corpus / path, len(ours), *ours.shape[1:3])
            if theirs.shape != ours.shape:
                raise ValueError(f"shapes {ours.shape} and {theirs.shape}")
        except (fsp.Error, ValueError, subprocess.CalledProcessError) as error:
            skipped.append(f"{path}: {error}")
            continue
        # If the two decoders order or conceal frames differently, the frames do not correspond.
        difference = np.abs(ours.astype(np.int16) - theirs)
        beyond = float((difference > 3).mean())
        rows[properties["pix_fmt"]].append((path, len(ours), int(difference.max()), beyond))
    print(f"{'pixel format':<14} {'files':>5} {'frames':>6} {'worst':>5}  {'values off by over 3':>22}")
    for pix_fmt, files in sorted(rows.items()):
        worst, beyond = max(f[2] for f in files), max(f[3] for f in files)
        print(f"{pix_fmt:<14} {len(files):>5} {sum(f[1] for f in files):>6} {worst:>5}  {beyond:>21.4%}")
        for path, _, worst, beyond in files:
            if worst > 3:
                print(f"    {path}: worst {worst}, {beyond:.4%} of values off by more than 3")
    for line in skipped:
        print("not compared:", line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
