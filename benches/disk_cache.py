"""Measures one random clip per video and epoch, with and without a disk cache, and torchcodec in a DataLoader.

    python benches/disk_cache.py MASTER... --videos 300 --epochs 4 8 16 --rounds 3

The dataset is links to the given videos. Each side runs in a process of its own, in turn. The epochs that fill the
cache are not counted. In the first four of them, the frames of all sides with framespool are compared by checksum. The
peer needs torchcodec, torchvision and PyTorch.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

FRAMES, STRIDE, SIZE, BATCH, THREADS = 16, 4, 224, 8, 2
#: Epochs whose frames are compared; they are not measured.
CHECKED_EPOCHS = 4


def cpu_seconds() -> float:
    """CPU time of this process and of its finished children, in seconds."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def by_framespool(files: list[str], epochs: int, folder: str, counted: int) -> dict[str, Any]:
    """Runs the loader; `epochs` is that of the disk cache, 0 for none."""
    import framespool as fsp
    import numpy as np

    loader = fsp.ClipLoader(
        files,
        fsp.samplers.random(sequence_length=FRAMES, stride=STRIDE),
        batch_size=BATCH,
        shuffle="full",
        transforms=[fsp.transforms.RandomResizedCrop(SIZE), fsp.transforms.RandomHorizontalFlip()],
        num_threads=THREADS,
        cache=fsp.Cache(disk=folder, disk_size="200GiB", epochs=epochs) if epochs else fsp.Cache(),
    )
    began = time.perf_counter()
    first_batch, first_epoch, checksum, most = 0.0, 0, 0, 0
    warm_up = max(CHECKED_EPOCHS, epochs)
    for epoch in range(warm_up + counted):
        if epoch == warm_up:
            before, cpu, wall = loader.stats(), cpu_seconds(), time.perf_counter()
        for batch in loader:
            first_batch = first_batch or time.perf_counter() - began
            if epoch < CHECKED_EPOCHS:
                checksum = zlib.crc32(np.from_dlpack(batch.frames), checksum)
        first_epoch = first_epoch or loader.stats()["frames_decoded"]
        most = max(most, sum(path.stat().st_size for path in Path(folder).rglob("*.clips")))
    after = loader.stats()
    clips = after["clips"] - before["clips"]
    return {
        "cpu_ms": (cpu_seconds() - cpu) / clips * 1000,
        "clips_per_second": clips / (time.perf_counter() - wall),
        "frames_decoded": (after["frames_decoded"] - before["frames_decoded"]) / clips,
        "first_epoch": first_epoch / len(files),
        "first_batch_ms": first_batch * 1000,
        "disk_mb_per_video": most / len(files) / 1e6,
        "checksum": checksum,
    }


def by_torchcodec(files: list[str], counted: int) -> dict[str, Any]:
    """Runs a DataLoader with two workers, each with one decoder per clip."""
    import random

    import torch
    from torch.utils.data import DataLoader, Dataset
    from torchcodec.decoders import VideoDecoder
    from torchvision.transforms import v2

    crop = v2.Compose([v2.RandomResizedCrop(SIZE, antialias=True), v2.RandomHorizontalFlip()])

    class Clips(Dataset):
        def __len__(self) -> int:
            return len(files)

        def __getitem__(self, at: int) -> torch.Tensor:
            torch.set_num_threads(1)
            decoder = VideoDecoder(files[at], seek_mode="approximate", num_ffmpeg_threads=1)
            start = random.randrange(len(decoder) - (FRAMES - 1) * STRIDE)
            return crop(decoder.get_frames_at(list(range(start, start + FRAMES * STRIDE, STRIDE))).data)

    clips, cpu, wall = 0, cpu_seconds(), time.perf_counter()
    for _ in range(counted):
        # New workers in each epoch, so that their CPU time is counted.
        for batch in DataLoader(Clips(), batch_size=BATCH, shuffle=True, num_workers=THREADS):
            clips += len(batch)
    return {
        "cpu_ms": (cpu_seconds() - cpu) / clips * 1000,
        "clips_per_second": clips / (time.perf_counter() - wall),
    }


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("masters", nargs="+", type=Path)
    parser.add_argument("--videos", type=int, default=300)
    parser.add_argument("--epochs", type=int, nargs="+", default=[4, 8, 16])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="disk-cache-") as place:
        if options.side:
            files = json.loads(sys.stdin.read())
            if options.side == "torchcodec":
                answer = by_torchcodec(files, 2)
            else:
                epochs = int(options.side)
                answer = by_framespool(files, epochs, place, max(4, epochs))
            print(json.dumps(answer))
            return
        files = []
        for number in range(options.videos):
            files.append(f"{place}/{number:06}.mp4")
            os.symlink(options.masters[number % len(options.masters)].resolve(strict=True), files[-1])
        sides = ["torchcodec", "0", *map(str, options.epochs)]
        found: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
        for _ in range(options.rounds):
            for side in sides:
                command = [sys.executable, __file__, *map(str, options.masters[:1]), "--side", side]
                done = subprocess.run(command, input=json.dumps(files), capture_output=True, text=True)
                if done.returncode:
                    sys.exit(done.stderr)
                found[side].append(json.loads(done.stdout.splitlines()[-1]))
        sums = {run["checksum"] for side, runs in found.items() if side != "torchcodec" for run in runs}
        if len(sums) != 1:
            sys.exit(f"the frames differ: {sums}")
        print(f"{options.videos} videos, clips of {FRAMES} frames, stride {STRIDE}, crops to {SIZE}; {THREADS} threads")
        print(f"median of {options.rounds} rounds; {CHECKED_EPOCHS} epochs of framespool are equal on all sides")
        names = ("CPU ms", "clips/s", "ratio", "decoded", "1st epoch", "1st batch ms", "MB/video")
        print(f"{'side':24}" + "".join(f"{name:>14}" for name in names))
        for side, runs in found.items():
            ratios = [run["cpu_ms"] / peer["cpu_ms"] for run, peer in zip(runs, found["torchcodec"], strict=True)]
            name = side if side == "torchcodec" else "framespool" if side == "0" else f"disk cache, {side} epochs"

            def middle(key: str, runs: list[dict[str, Any]] = runs) -> float:
                return statistics.median(run.get(key, float("nan")) for run in runs)

            cells = [middle("cpu_ms"), middle("clips_per_second"), 1 / statistics.median(ratios)]
            cells += [middle(key) for key in ("frames_decoded", "first_epoch", "first_batch_ms", "disk_mb_per_video")]
            print(f"{name:24}" + "".join(f"{cell:14.2f}" for cell in cells))


if __name__ == "__main__":
    main()
