"""Creates 1080p encodes of 300 frames with GOPs of 30 and 250, and two of 4K and 8K, for the bundle (--extra FILE).

    benches/peers/.venv/bin/python benches/gpu/encode.py --out target/gpu-extra

The sources are files of the corpus if FRAMESPOOL_CORPUS is set, else generated ones. The corpus' 1080p files have
irregular keyframes (GOPs of 70 to 250), and the generated ones are shorter than 300 frames. x264 and x265 with their
defaults create the GOP lengths that the benchmarks name. Run it on the machine that creates the bundle, in the peers'
environment, whose PyAV has the encoders; framespool itself has none.
"""

from __future__ import annotations

import argparse
import sys
from fractions import Fraction
from itertools import islice
from pathlib import Path

import av
from common import ROOT, corpus, media

sys.path.insert(0, str(ROOT / "benches" / "peers"))

from long_gop import retimed, to_and_fro  # noqa: E402

FRAMES = 300
#: Sources: a file of 60 and one of 25 frames per second. Small files, since the bundle must contain the result.
OF_CORPUS = ("robot_bag_60p.mp4", "desk_drawing_25p.mp4")
OF_MEDIA = ("bunny_60p.mp4", "bunny_25p.mp4")
#: Encoder, GOP, and index of the source.
WANTED = (("libx264", 250, 0), ("libx264", 250, 1), ("libx264", 30, 0), ("libx265", 250, 1))


#: Sizes of the files whose decoders are measured, and their frames.
LARGE, LARGE_FRAMES = ((3840, 2160), (7680, 4320)), 12


def encode(encoder: str, gop: int, source: Path, target: Path, size: tuple[int, int] | None = None) -> None:
    """300 frames, played forward and backward so that no cut causes a keyframe; few if they are enlarged."""
    count = LARGE_FRAMES if size else FRAMES
    unfinished = target.with_suffix(".part")
    with av.open(str(source)) as reading, av.open(str(unfinished), "w", format="mp4") as writing:
        like = reading.streams.video[0]
        rate = round(like.average_rate)
        kept = list(islice(reading.decode(like), count))
        options = {"g": str(gop), "crf": "23" if encoder == "libx264" else "28", "preset": "medium"}
        if encoder == "libx265":
            options["x265-params"] = f"keyint={gop}:log-level=error"
        stream = writing.add_stream(encoder, rate=rate, options=options)
        stream.width, stream.height = size or (like.width, like.height)
        stream.pix_fmt = "yuv420p"
        stream.time_base = stream.codec_context.time_base = Fraction(1, rate)
        if size:
            kept = [frame.reformat(*size, format="yuv420p") for frame in kept]
        for frame in islice(retimed(to_and_fro(kept, 0), Fraction(1, rate)), count):
            frame.pict_type = 0  # the encoder would use the source's picture types
            writing.mux(stream.encode(frame))
        writing.mux(stream.encode())
    unfinished.rename(target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "target" / "gpu-extra")
    arguments = parser.parse_args()
    place = corpus()
    folder, names = (place, OF_CORPUS) if place else (media(), OF_MEDIA)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for encoder, gop, which in WANTED:
        source = folder / "video" / "1080p" / names[which]
        target = arguments.out / f"{source.stem}_{encoder.removeprefix('lib')}_g{gop}.mp4"
        if not target.exists():
            encode(encoder, gop, source, target)
        print(f"{target}: {target.stat().st_size} bytes")
    for width, height in LARGE:
        target = arguments.out / f"large_{width}x{height}_x265.mp4"
        if not target.exists():
            encode("libx265", 250, folder / "video" / "1080p" / names[1], target, (width, height))
        print(f"{target}: {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
