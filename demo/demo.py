"""Reads a folder of labeled videos and delivers shuffled batches of clips.

    python demo/demo.py                      makes a small set of videos first
    python demo/demo.py --videos FOLDER      uses your videos: one sub-folder per class, or one flat folder

Prints a progress bar, a summary table and the throughput; writes a contact sheet of the first clips.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections import Counter
from pathlib import Path

import framespool as fsp
import numpy as np
from contact_sheet import contact_sheet
from make_videos import make_videos


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--videos", type=Path, help="folder of videos (default: generate some)")
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="output folder (default: demo-out)")
    parser.add_argument("--epochs", type=int, default=2, help="number of epochs (default: 2)")
    parser.add_argument("--batch-size", type=int, default=8, help="clips per batch (default: 8)")
    parser.add_argument("--threads", type=int, default=None, help="decoding threads (default: all cores)")
    return parser.parse_args()


class Progress:
    """A progress bar on a terminal, otherwise an occasional line."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.began = what, max(1, total), time.monotonic()
        self.live = sys.stdout.isatty()
        self.shown = -1

    def step(self, done: int, note: str = "") -> None:
        percent = 100 * done // self.total
        if self.live:
            bar = "#" * (percent * 30 // 100)
            print(f"\r{self.what} [{bar:<30}] {done}/{self.total} {note:<28}", end="", flush=True)
            if done >= self.total:
                print()
        elif percent // 25 > self.shown:
            self.shown = percent // 25
            print(f"{self.what} {done}/{self.total} {note}")


def resident_mib() -> float:
    """Resident memory of this process."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() / 2**20


def table(rows: list[tuple[str, str]]) -> None:
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"  {name:<{width}}  {value}")


def main() -> int:
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    folder = options.videos or make_videos(options.out / "videos", Progress)

    dataset = fsp.datasets.folder(folder)
    print(f"{len(dataset)} videos in {folder}, {len(dataset.classes)} classes")
    loader = fsp.ClipLoader(
        dataset,
        fsp.samplers.RandomClips(sequence_length=16, stride=2, clips_per_video=2),
        batch_size=options.batch_size,
        transforms=[fsp.transforms.Resize(128), fsp.transforms.CenterCrop(112)],
        shuffle="full",
        seed=0,
        on_error="skip",
        num_threads=options.threads,
        layout="NTHWC",
    )

    labels: Counter[int] = Counter()
    shapes: Counter[tuple[int, ...]] = Counter()
    first = None
    memory = []
    began = time.monotonic()
    for epoch in range(options.epochs):
        loader.set_epoch(epoch)
        progress = Progress(f"epoch {epoch}", len(loader))
        for done, batch in enumerate(loader, start=1):
            if first is None:
                first = batch
            labels.update(batch.labels.tolist())
            shapes[batch.frames.shape] += 1
            seconds = time.monotonic() - began
            progress.step(done, f"{sum(labels.values()) / seconds:7.1f} clips/s")
        memory.append(resident_mib())
    seconds = time.monotonic() - began

    stats = loader.stats()
    names = dataset.classes or ["unlabeled"]
    per_class = ", ".join(f"{names[max(0, label)]} {count}" for label, count in sorted(labels.items()))
    print("\nWhat came out")
    table(
        [
            ("batches", f"{stats['batches']} of " + ", ".join(f"{shape} x{n}" for shape, n in shapes.items())),
            ("clips per class", per_class),
            ("throughput", f"{stats['clips'] / seconds:.1f} clips/s, {stats['frames'] / seconds:.0f} frames/s"),
            ("decoded per delivered frame", f"{stats['frames_decoded_per_frame_delivered']:.2f} frames"),
            ("waiting for batches", f"{stats['consumer_wait_seconds']:.2f} of {seconds:.2f} s"),
            ("read", f"{stats['bytes_read'] / 2**20:.1f} MiB, {stats['videos_indexed']} videos indexed"),
            ("errors", ", ".join(f"{n} {kind}" for kind, n in stats["errors"].items()) or "none"),
            ("memory after each epoch", " ".join(f"{mib:.0f}" for mib in memory) + " MiB"),
            ("peak memory", f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB"),
        ]
    )
    if first is None:
        print("no clip could be decoded; see the errors above")
        return 1
    sheet = options.out / "contact_sheet.png"
    rows = [names[max(0, label)] for label in first.labels.tolist()]
    contact_sheet(sheet, np.from_dlpack(first.frames), rows)
    print(f"\nThe first batch, one clip per row: {os.path.relpath(sheet)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
