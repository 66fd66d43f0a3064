"""Generates a thousand short MP4s: a few encodes, cut to different lengths without re-encoding."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import accumulate, islice
from pathlib import Path

import av
from long_gop import OPTIONS, retimed, to_and_fro

SIZES = ((320, 240), (1280, 720))
LONGEST_SECONDS = 10
SHORTEST_SECONDS = 2
RATE = 30
ENCODES_PER_SOURCE = 3
# One file in ten has its tables at the start.
FASTSTART_EVERY = 10


@dataclass(frozen=True)
class File:
    path: Path
    num_frames: int


def make(sources: list[Path], num_files: int, folder: Path, seed: int = 0) -> list[File]:
    """`num_files` files in `folder`, created if they do not exist. Sizes alternate, lengths are random."""
    folder.mkdir(parents=True, exist_ok=True)
    # At most as many encodes as files: a trial with a few files creates a few.
    masters = list(islice(encodes(sources, folder / "masters"), num_files))
    files = []
    for number in range(num_files):
        generator = random.Random(f"{seed} {number}")
        master = masters[number % len(masters)]
        most = generator.randint(SHORTEST_SECONDS * RATE, LONGEST_SECONDS * RATE)
        num_frames = max(n for n in whole_prefixes(master) if n <= most)
        target = folder / f"{number:04}.mp4"
        if not target.exists():
            cut(master, num_frames, target, faststart=number % FASTSTART_EVERY == 0)
        files.append(File(target, num_frames))
    return files


def encodes(sources: list[Path], folder: Path) -> Iterator[Path]:
    folder.mkdir(exist_ok=True)
    for part in range(ENCODES_PER_SOURCE):
        for source in sources:
            for width, height in SIZES:
                target = folder / f"{source.stem}_{width}x{height}_{part}.mp4"
                if not target.exists():
                    encode(source, width, height, part, target)
                yield target


def encode(source: Path, width: int, height: int, part: int, target: Path) -> None:
    unfinished = target.with_suffix(".part")
    with av.open(str(source)) as reading, av.open(str(unfinished), "w", format="mp4") as writing:
        pictures = reading.streams.video[0]
        stream = writing.add_stream("libx264", rate=RATE, options=OPTIONS)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        frames = [
            frame.reformat(width=width, height=height, format="yuv420p")
            for frame in islice(reading.decode(pictures), LONGEST_SECONDS * RATE)
        ]
        offset = part * len(frames) // ENCODES_PER_SOURCE
        for frame in islice(retimed(to_and_fro(frames, offset), Fraction(1, RATE)), LONGEST_SECONDS * RATE):
            frame.pict_type = 0
            writing.mux(stream.encode(frame))
        writing.mux(stream.encode())
    unfinished.rename(target)


@cache
def whole_prefixes(master: Path) -> tuple[int, ...]:
    """Number of leading packets after which no earlier frame in presentation order is missing."""
    with av.open(str(master)) as reading:
        shown = [packet.pts for packet in reading.demux(video=0) if packet.pts is not None]
    latest = accumulate(shown, max)
    return tuple(n for n, (last, wanted) in enumerate(zip(latest, sorted(shown), strict=True), 1) if last == wanted)


def cut(master: Path, num_packets: int, target: Path, faststart: bool) -> None:
    unfinished = target.with_suffix(".part")
    options = {"movflags": "faststart"} if faststart else {}
    with av.open(str(master)) as reading, av.open(str(unfinished), "w", format="mp4", options=options) as writing:
        stream = reading.streams.video[0]
        copy = writing.add_stream_from_template(stream)
        writing.metadata["title"] = target.stem
        for packet in islice(reading.demux(stream), num_packets):
            packet.stream = copy
            writing.mux(packet)
    unfinished.rename(target)
