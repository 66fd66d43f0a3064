"""Measures the disk cache: random clips and other libraries, validation epochs, and a folder of many clips.

    benches/peers/.venv/bin/python benches/disk_cache.py --json out.json
    benches/peers/.venv/bin/python benches/disk_cache.py --parts 340x256 --videos 120 --epochs 4,8,16 --rounds 5
    benches/peers/.venv/bin/python benches/disk_cache.py --parts validation,many --rounds 5

The environment of benches/peers has the peers. The videos are links to encodes of 300 frames, as in
benches/peers/dataset_size.py. Each side runs in a process of its own, in turn.

340x256, 1920x1080: one random clip of each video per epoch, with a random resized crop. The peers read the same clips
and crops, and open a file for each clip; JPEG frames are extracted before, with a shorter side of 256 pixels. A loader
with a disk cache runs 32 epochs; those that fill the cache are counted only in the column of all epochs.
validation: the same clips in every epoch, in turn with reading the stored bytes and copying them once more.
many: a loader opens a folder in which another process has stored many clips.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
sys.path.append(str(ROOT / "peers"))

import long_gop  # noqa: E402
import oneshot  # noqa: E402
from dataset_size import extract_frames  # noqa: E402
from disk_cache_worker import BATCH, CHECKED_CLIPS, CHECKED_EPOCHS, FRAMES, SIZE, STRIDE  # noqa: E402
from harness.folders import corpus, default_work_folder  # noqa: E402

VIDEO_FRAMES, GOP, MASTERS, EPOCHS = 300, 250, 4, 32
#: Size of the frames; number of videos, epochs of the disk cache, epochs of the peers.
SIZES = {"340x256": (64, (8, 16), 2), "1920x1080": (32, (16,), 1)}
PARTS = (*SIZES, "validation", "many")
PEERS = ("torchcodec", "decord", "spdl", "jpeg")
#: Largest mean difference of the pixels of a peer that decodes video from those of the loader, which have another
#: resizer and another color conversion. Crops that a filter rounds to even positions differ by up to 22.
MAX_DIFFERENCE = 2.5


def ask(request: dict[str, Any]) -> dict[str, Any]:
    return oneshot.ask("disk_cache_worker.py", request)


def expected_frames(clips: int, draws: int = 500) -> float:
    """Frames decoded per clip if a video is decoded once for this many of its random clips.

    In each group of pictures these are all reference pictures up to the last requested frame, and the requested ones of
    the others, which are every second picture.
    """
    rng, frames = random.Random(0), 0
    for _ in range(draws):
        starts = [rng.randrange(VIDEO_FRAMES - (FRAMES - 1) * STRIDE) for _ in range(clips)]
        requested = {start + STRIDE * at for start in starts for at in range(FRAMES)}
        for begin in range(0, VIDEO_FRAMES, GOP):
            own = [frame - begin for frame in requested if begin <= frame < begin + GOP]
            frames += len({*range(0, max(own, default=-1) + 1, 2), *own})
    return frames / draws / clips


def first_epoch_frames(epochs: int) -> float:
    """Frames decoded per video in the first epoch, in which videos are decoded for one to all of the epochs."""
    return statistics.mean(expected_frames(clips) * clips for clips in range(1, epochs + 1))


def masters(size: str, folder: Path) -> list[Path]:
    """The encodes, made from the corpus if they do not exist."""
    sources = sorted((corpus() / "video" / "1080p").glob("*.m*"))
    width, height = map(int, size.split("x"))
    options = {"g": str(GOP)}
    place = folder / f"{size}-g{GOP}"
    return long_gop.dataset(sources, MASTERS, VIDEO_FRAMES, place, size=(width, height), options=options)


def measure_random(size: str, options: argparse.Namespace, place: Path) -> dict[str, Any]:
    """The runs of every side."""
    encodes = masters(size, options.work)
    jpeg = statistics.mean(extract_frames(str(path))["bytes"] for path in encodes)
    videos, epochs_of_disk, peer_epochs = SIZES[size]
    files = [str(place / f"{number:06}.mp4") for number in range(options.videos or videos)]
    for number, path in enumerate(files):
        os.symlink(encodes[number % MASTERS], path)
    common = {"files": files, "masters": list(map(str, encodes)), "threads": options.threads}
    common |= {"saved": str(place / "frames.npy"), "folder": str(place / "cache")}
    planned = ask({**common, "side": "plan"})
    sides = [*PEERS, "0", *map(str, options.epochs or epochs_of_disk)]
    runs: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
    for number in range(options.rounds):
        for side in sides:
            if side in PEERS:
                # JPEG frames are fast: more epochs, so that the start of the workers does not matter.
                counted = peer_epochs * (8 if side == "jpeg" else 1)
                request = {**common, **planned, "side": side, "counted": counted}
            else:
                epochs = int(side)
                counted = EPOCHS - epochs if epochs else peer_epochs
                request = {**common, "side": "framespool", "epochs": epochs, "counted": counted}
            answer = ask(request)
            shutil.rmtree(common["folder"], ignore_errors=True)
            if side != "jpeg" and answer.get("difference", 0) > MAX_DIFFERENCE:
                raise oneshot.WorkerError(f"{side}: pixels differ from framespool's by {answer['difference']:.1f}")
            runs[side].append(answer)
            print(f"{size}, round {number}, {side}: {answer['cpu_ms']:.1f} ms", file=sys.stderr)
    sums = {run["checksum"] for side in sides if side not in PEERS for run in runs[side]}
    if len(sums) != 1:
        raise oneshot.WorkerError(f"the frames of the loaders differ: {sums}")
    video = statistics.mean(path.stat().st_size for path in encodes)
    expected = {
        side: [expected_frames(int(side) or 1), first_epoch_frames(int(side) or 1)] for side in sides[len(PEERS) :]
    }
    return {
        "size": size,
        "videos": len(files),
        "threads": options.threads,
        "version": planned["version"],
        "video_bytes": video,
        "jpeg_bytes": jpeg,
        "expected": expected,
        "runs": runs,
    }


def print_random(found: dict[str, Any]) -> None:
    """The table of all sides."""
    runs = found["runs"]

    def middle(side: str, name: str) -> float:
        return statistics.median(run.get(name, float("nan")) for run in runs[side])

    def ratio(side: str, other: str) -> float:
        pairs = zip(runs[side], runs[other], strict=True)
        return statistics.median(b["cpu_ms"] / a["cpu_ms"] for a, b in pairs)

    fastest = min((side for side in PEERS if side != "jpeg"), key=lambda side: middle(side, "cpu_ms"))
    print(
        f"{found['videos']} videos of {VIDEO_FRAMES} frames, {found['size']}, H.264, GOP of {GOP}, "
        f"{found['video_bytes'] / 1e6:.2f} MB each; clips of {FRAMES} frames, stride {STRIDE}, crops to {SIZE}"
    )
    print(
        f"{found['threads']} threads or workers; batches of {BATCH}; median of {len(runs['0'])} rounds; the first "
        f"{CHECKED_EPOCHS} epochs of all loaders are equal"
    )
    columns = ("CPU ms", "all epochs", "clips/s", f"{fastest} x", "jpeg x", "decoded", "expected")
    columns += ("1st epoch", "expected", "1st batch ms", "MB/video", "difference")
    print(f"{'side':24}" + "".join(f"{name:>13}" for name in columns))
    for side in runs:
        cells = [middle(side, name) for name in ("cpu_ms", "all_cpu_ms", "clips_per_second")]
        cells += [ratio(side, fastest), ratio(side, "jpeg")]
        if side in PEERS:
            stored = found["jpeg_bytes"] if side == "jpeg" else 0
            cells += [float("nan")] * 5 + [stored / 1e6, middle(side, "difference")]
            name = "JPEG frames" if side == "jpeg" else side
        else:
            steady, first = found["expected"][side]
            cells += [middle(side, "frames_decoded"), steady]
            cells += [middle(side, "first_epoch_frames"), first, middle(side, "first_batch_ms")]
            cells += [middle(side, "disk_bytes_per_video") / 1e6, float("nan")]
            name = "framespool" if side == "0" else f"framespool, {side} epochs"
        print(f"{name:24}" + "".join(f"{'-' if cell != cell else f'{cell:.2f}':>13}" for cell in cells))


def measure_validation(options: argparse.Namespace, place: Path) -> dict[str, Any]:
    """The loader's epochs and the copies."""
    encodes = masters("340x256", options.work)
    files = [str(place / f"{number:06}.mp4") for number in range(options.videos or 120)]
    for number, path in enumerate(files):
        # Copies: equal clips of links to one file are stored once.
        shutil.copyfile(encodes[number % MASTERS], path)
    # An epoch takes a tenth of a second.
    counted = 4 * options.rounds
    request = {"files": files, "threads": options.threads, "folder": str(place / "cache"), "counted": counted}
    return {"videos": len(files), "threads": options.threads, **ask({**request, "side": "validation"})}


def print_validation(found: dict[str, Any]) -> None:
    """The table of the loader and the copies."""
    print(f"{found['videos']} videos, one fixed clip of {FRAMES} frames at {SIZE} each; {found['threads']} threads")
    print(
        f"{len(found['runs']['loader'])} epochs after the first, in turn; {found['frames_decoded']} frames decoded, "
        f"{found['clips_read']} of {found['clips']} clips read from disk"
    )
    print(f"{'side':24}{'CPU ms':>10}{'wall ms':>10}{'CPU ratio':>11}{'wall ratio':>11}")
    runs = found["runs"]
    for side, own in runs.items():
        cells = [statistics.median(run[name] for run in own) for name in ("cpu_ms", "wall_ms")]
        for name in ("cpu_ms", "wall_ms"):
            pairs = zip(runs["loader"], own, strict=True)
            cells.append(statistics.median(a[name] / b[name] for a, b in pairs))
        print(f"{side:24}{cells[0]:>10.3f}{cells[1]:>10.3f}{cells[2]:>11.2f}{cells[3]:>11.2f}")


def measure_many(options: argparse.Namespace, place: Path) -> dict[str, Any]:
    """An empty folder and one with many clips."""
    file = str(masters("340x256", options.work)[0])
    request = {"files": [file] * BATCH, "threads": options.threads, "side": "many clips", "clips": 0}
    folders = {"folder": str(place / "empty"), "other_folder": str(place / "other")}
    empty = ask({**request, **folders})
    folders["folder"] = str(place / "many")
    ask({**request, **folders, "side": "write log", "clips": options.clips})
    runs = [ask({**request, **folders}) for _ in range(options.rounds)]
    return {"clips": options.clips, "empty": empty, "runs": runs}


def print_many(found: dict[str, Any]) -> None:
    """The times and the memory."""
    rounds = len(found["runs"])
    print(f"a folder with {found['clips']:,} clips in the log of another process; median of {rounds} rounds")
    print(f"{'folder':24}{'open CPU s':>12}{'open s':>10}{'1st batch s':>13}{'bytes/clip':>12}{'peak':>8}")
    rows = {"empty": [found["empty"]], "with the clips": found["runs"]}
    for name, runs in rows.items():
        cells = [statistics.median(run[key] for run in runs) for key in ("open_cpu_s", "open_s", "first_batch_s")]
        print(f"{name:24}{cells[0]:>12.2f}{cells[1]:>10.2f}{cells[2]:>13.2f}", end="")
        if name != "empty":
            for key in ("memory_bytes", "peak_bytes"):
                own = statistics.median(run[key] - found["empty"][key] for run in runs) / found["clips"]
                print(f"{own:>{12 if key == 'memory_bytes' else 8}.1f}", end="")
        print()


def measure(part: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measures a part and prints its table."""
    with tempfile.TemporaryDirectory(prefix="clips-", dir=options.work) as folder:
        place = Path(folder)
        if part in SIZES:
            found = measure_random(part, options, place)
            print_random(found)
        elif part == "validation":
            found = measure_validation(options, place)
            print_validation(found)
        else:
            found = measure_many(options, place)
            print_many(found)
    return found


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS), help="comma-separated (default: all)")
    parser.add_argument("--videos", type=int, help="in place of each part's own number")
    parser.add_argument("--epochs", type=lambda text: text.split(","), help="of the disk cache, in place of the part's")
    parser.add_argument("--clips", type=int, default=10_000_000, help="of `many` (default 10000000)")
    parser.add_argument("--threads", type=int, default=2, help="threads, and workers of the DataLoader (default 2)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=Path, default=default_work_folder() / "disk_cache", help="folder of the encodes")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    options = parser.parse_args()
    options.parts = options.parts.split(",")
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"unknown {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    if options.videos and (options.videos < CHECKED_CLIPS or options.videos % BATCH):
        parser.error(f"--videos must be a multiple of {BATCH}, at least {CHECKED_CLIPS}")
    return options


def main() -> None:
    options = parse_arguments()
    options.work.mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = {"python": platform.python_version()}
    for number, part in enumerate(options.parts):
        print("\n" if number else "", end="", flush=True)
        report[part] = measure(part, options)
        if options.json:
            options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
