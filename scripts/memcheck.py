#!/usr/bin/env python3
"""Runs a short Python loop under valgrind's memcheck twice: with few passes over the files, then with more.

    scripts/dynamic_analysis.sh valgrind

Errors count if framespool's module is on the stack. Lost memory counts if it grows with the number of passes: leaks
once per process, from Python and others, are ignored, leaks per batch are not.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as Xml
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODULE = "_framespool"
PASSES = (1, 3)
#: Blocks that the longer run may lose in addition: those of a thread that ends while the process does.
SLACK_BLOCKS = 2

#: The program under valgrind: two decoding threads, prefetched clips, damage, an early stop, images, single videos.
LOOP = """
import sys
import framespool as fsp
passes, damaged, picture, *videos = sys.argv[1:]
rule = fsp.samplers.RandomClips(sequence_length=2, stride=2, clips_per_video=2)
small = [fsp.transforms.RandomResizedCrop(24)]
batches = 0
for _ in range(int(passes)):
    loader = fsp.ClipLoader([*videos, damaged], rule, batch_size=2, transforms=small, shuffle="full", on_error="skip",
                            num_threads=2, prefetch_batches=1, cache="1MiB")
    for batch in loader:
        batch.frames.numpy().sum(), batch.labels.tolist()
        batches += 1
    loader.stats(), loader.failures(), loader.state_dict()
    epoch = iter(loader)
    next(epoch)
    del loader, epoch, batch
    for batch in fsp.ImageLoader([picture] * 4, batch_size=2, transforms=small, num_threads=2):
        batches += 1
    video = fsp.Video(videos[0])
    video.frames([0, 3], transforms=small).frames.tobytes()
    for frame in video:
        break
    try:
        fsp.Video(damaged).frames([0])
    except fsp.Error:
        pass
print(batches, "batches")
"""


def memcheck(passes: int, files: list[Path], report: Path) -> list[Xml.Element]:
    """The errors that memcheck reports for a run, leaks included."""
    command = ["valgrind", "--leak-check=full", "--show-leak-kinds=definite", "--num-callers=40", "--xml=yes"]
    # Long basic blocks of vector instructions exceed valgrind's default translation size.
    command += ["--vex-guest-max-insns=20"]
    command += [f"--xml-file={report}", "--child-silent-after-fork=yes", sys.executable, "-c", LOOP, str(passes)]
    # Python's own allocator would hide lost memory in its blocks.
    environment = {**os.environ, "PYTHONMALLOC": "malloc"}
    subprocess.run([*command, *map(str, files)], env=environment, check=True)
    return Xml.parse(report).getroot().findall("error")


def is_ours(error: Xml.Element) -> bool:
    """Whether framespool's module is on the stack."""
    return any(MODULE in (frame.findtext("obj") or "") for frame in error.iter("frame"))


def text(error: Xml.Element) -> str:
    """An error as a few lines."""
    frames = [
        f"    {frame.findtext('fn') or frame.findtext('ip')} ({frame.findtext('obj')})" for frame in error.iter("frame")
    ]
    return "\n".join(
        [f"{error.findtext('kind')}: {error.findtext('what') or error.findtext('xwhat/text')}", *frames[:16]]
    )


def leaks(errors: list[Xml.Element]) -> Counter[str]:
    """Lost blocks by allocation site: the stack's functions, or their module if they have no names."""
    found: Counter[str] = Counter()
    for error in errors:
        if (error.findtext("kind") or "").startswith("Leak_"):
            frames = [frame.findtext("fn") or Path(frame.findtext("obj") or "?").name for frame in error.iter("frame")]
            found[" < ".join(frames[:8])] += int(error.findtext("xwhat/leakedblocks") or 0)
    return found


def main() -> int:
    """Runs the loop twice and compares; returns the exit status."""
    media = Path(os.environ.get("FRAMESPOOL_MEDIA") or ROOT / "target" / "media")
    videos = [media / "video" / name for name in ("derived/tiny_34x26_h264.mp4", "odd/vp9_odd_161x121.webm")]
    files = [media / "video/corrupt/broken.mp4", media / "images/odd/grey_128x128.jpg", *videos]
    missing = [str(file) for file in files if not file.is_file()]
    if missing:
        print(f"no {', '.join(missing)}: run scripts/setup.sh tests, which generates the test media", file=sys.stderr)
        return 2
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        for passes in PASSES:
            print(f"valgrind, {passes} passes:", flush=True)
            runs.append(memcheck(passes, files, Path(folder) / f"{passes}.xml"))
    wrong = 0
    for error in runs[-1]:
        if not (error.findtext("kind") or "").startswith("Leak_") and is_ours(error):
            wrong += 1
            print(text(error))
    others = Counter(
        f"{error.findtext('kind')} in {Path(next(error.iter('frame')).findtext('obj') or '?').name}"
        for error in runs[-1]
        if not (error.findtext("kind") or "").startswith("Leak_") and not is_ours(error)
    )
    few, many = (leaks(errors) for errors in runs)
    grown = {place: (few[place], count) for place, count in many.items() if count > few[place]}
    for place, (before, after) in grown.items():
        print(
            f"lost {before} blocks after {PASSES[0]} passes and {after} after {PASSES[1]}:",
            *place.split(" < "),
            sep="\n    ",
        )
    growth = sum(after - before for before, after in grown.values())
    print(f"errors with {MODULE} on the stack: {wrong}; others: {dict(others)}")
    print(f"blocks lost: {few.total()} after {PASSES[0]} passes, {many.total()} after {PASSES[1]}")
    return 1 if wrong or growth > SLACK_BLOCKS else 0


if __name__ == "__main__":
    sys.exit(main())
