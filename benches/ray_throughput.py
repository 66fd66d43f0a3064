"""Clips per second of framespool.ray and of the local loader on one machine, and the limit of Ray's object store.

    python benches/ray_throughput.py --repeats 5 [--videos FOLDER] [--json out.json]

All variants deliver the same batches, which is verified by hash before timing. Variants take turns within a repeat,
and the order rotates; medians are printed. The limit is an actor that returns the same arrays repeatedly, consumed in
the same way: get, and copy into writable memory. One machine says nothing about a network.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import framespool as fsp
import numpy as np
import ray
from framespool.ray._tensor import BufferPool

SUFFIXES = {".mp4", ".mkv", ".webm", ".avi", ".mov"}


def default_videos() -> Path:
    if not (corpus := os.environ.get("FRAMESPOOL_CORPUS")):
        raise SystemExit("no corpus: set FRAMESPOOL_CORPUS to its folder, or give --videos one")
    return Path(corpus) / "video" / "action" / "asl"


class Store:
    """An actor that returns a prepared batch."""

    def __init__(self, batch: dict[str, Any]) -> None:
        # Arguments are in the store already, read-only: a returned value must be written to it again.
        self._batch = {name: array.copy() for name, array in batch.items()}

    def make(self) -> dict[str, Any]:
        return self._batch


class Contender:
    """A loader, or a substitute."""

    def __init__(self, name: str, cores: int, batches: Callable[[], Iterable[Any]], loader: Any = None) -> None:
        self.name = name
        self.cores = cores
        self.batches = batches
        self.loader = loader
        self.seconds: list[float] = []
        self.clips = 0

    def run(self) -> None:
        began = time.perf_counter()
        self.clips = sum(len(batch) for batch in self.batches())
        self.seconds.append(time.perf_counter() - began)

    def rate(self) -> float:
        return self.clips / statistics.median(self.seconds)


def digest(batch: Any) -> str:
    md5 = hashlib.md5()
    for name in ("frames", "labels", "indices", "pts_seconds", "clip_ids"):
        md5.update(getattr(batch, name).tobytes())
    return md5.hexdigest()


def from_store(actors: list[Any], count: int, in_flight: int) -> Iterable[Any]:
    """``count`` batches of the actors in turn, consumed as framespool.ray does."""
    pool = BufferPool()
    calls = [actors[at % len(actors)].make.remote() for at in range(min(count, in_flight * len(actors)))]
    for at in range(count):
        arrays = ray.get(calls.pop(0))
        if at + in_flight * len(actors) < count:
            calls.append(actors[at % len(actors)].make.remote())
        yield {name: pool.copy(array) for name, array in arrays.items()}["labels"]


def loaders(args: argparse.Namespace, dataset: list[tuple[str, int]]) -> list[Contender]:
    sampling = fsp.samplers.RandomClips(sequence_length=args.frames, stride=2)
    keywords: dict[str, Any] = {
        "batch_size": args.batch_size,
        "transforms": [fsp.transforms.RandomResizedCrop(args.size)],
        "shuffle": "full",
        "last_batch": "drop",
        "seed": 1,
    }

    def epoch(loader: Any) -> Callable[[], Iterable[Any]]:
        def batches() -> Iterable[Any]:
            loader.set_epoch(0)
            return loader

        return batches

    sides = []
    for cores in args.cores:
        local = fsp.ClipLoader(dataset, sampling, num_threads=cores, **keywords)
        sides.append(Contender("local", cores, epoch(local), local))
        there = fsp.ray.ClipLoader(dataset, sampling, num_workers=cores, in_flight=args.in_flight, **keywords)
        sides.append(Contender("ray", cores, epoch(there), there))
    return sides


def measure(sides: list[Contender], repeats: int) -> None:
    order = list(sides)
    for repeat in range(repeats):
        for side in order:
            side.run()
        order.append(order.pop(0))
        print(f"repeat {repeat + 1} of {repeats}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--videos", type=Path, help="a folder; searched to any depth (default: of the corpus)")
    parser.add_argument("--times", type=int, default=4, help="repetitions of each video in the dataset")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--frames", type=int, default=16)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--in-flight", type=int, default=2)
    parser.add_argument("--cores", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    folder = args.videos or default_videos()
    files = sorted(str(path) for path in folder.rglob("*") if path.suffix in SUFFIXES)
    if not files:
        parser.error(f"no videos in {folder}")
    load = os.getloadavg()[0]
    ray.init(address="local", num_cpus=2 * sum(args.cores), include_dashboard=False, log_to_driver=False)
    sides = loaders(args, [(path, label) for label, path in enumerate(files)] * args.times)

    # The first pass verifies the batches; it also creates indices, opens files and warms up the store.
    answers = {}
    for side in sides:
        batches = list(side.batches())
        answers[f"{side.name} {side.cores}"] = [digest(batch) for batch in batches]
    if len({tuple(answer) for answer in answers.values()}) != 1:
        raise SystemExit(f"the variants deliver different batches: {answers}")
    sample = {name: np.array(value) for name, value in vars(batches[0]).items()}
    num_bytes = sum(array.nbytes for array in sample.values())
    kept = ray.put(sample)
    for cores in args.cores:
        actors = [ray.remote(num_cpus=1)(Store).remote(kept) for _ in range(cores)]
        count = max(len(batches), 32)
        sides.append(Contender("store alone", cores, lambda a=actors, c=count: from_store(a, c, args.in_flight)))
        sides[-1].run()
        sides[-1].seconds.clear()
    measure(sides, args.repeats)

    per_clip = num_bytes / args.batch_size
    versions = {"framespool": fsp.__version__, "Ray": ray.__version__, "NumPy": np.__version__}
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    print(f"{listed}, Python {platform.python_version()}; {os.cpu_count()} cores; load before {load:.1f}")
    data = (
        f"{len(files)} videos x {args.times}, random clips of {args.frames} frames (stride 2) at "
        f"{args.size}x{args.size}, batches of {args.batch_size}: {num_bytes / 1e6:.1f} MB each, "
        f"{per_clip / 1e6:.2f} MB a clip"
    )
    print(data)
    print(
        f"{len(batches)} batches per epoch, equal for all variants by hash; medians of {args.repeats}, variants "
        "alternating\n"
    )
    print(
        f"{'side':<12} {'cores':>5} {'clips/s':>9} {'of local':>9} {'MB/s':>8} {'decoded/frame':>14}"
        "   epoch s, minimum to maximum"
    )
    rows = []
    for side in sides:
        base = next((other for other in sides if other.name == "local" and other.cores == side.cores), side)
        ratios = [b / a for a, b in zip(side.seconds, base.seconds, strict=True)]
        share = statistics.median(ratios) if side.loader is not None else side.rate() / base.rate()
        decoded = f"{side.loader.stats()['frames_decoded_per_frame_delivered']:.2f}" if side.loader is not None else "-"
        row = {"side": side.name, "cores": side.cores, "clips_per_second": side.rate(), "of_local": share}
        rows.append({**row, "seconds": side.seconds, "clips": side.clips, "bytes_per_clip": per_clip})
        spread = f"{min(side.seconds):.2f} to {max(side.seconds):.2f}"
        print(
            f"{side.name:<12} {side.cores:>5} {side.rate():>9.1f} {share:>8.2f}x {side.rate() * per_clip / 1e6:>8.0f} "
            f"{decoded:>14}   {spread}"
        )
    for side in sides:
        if side.name == "ray":
            stats = side.loader.stats()
            took = 1000 * stats["receiving_seconds"] / stats["batches"]
            print(f"\nray, {side.cores} workers: {took:.1f} ms per batch on the trainer's thread to get and copy it")
            side.loader.close()
    if args.json:
        args.json.write_text(json.dumps({"versions": versions, "data": data, "rows": rows}, indent=1) + "\n")
    ray.shutdown()


if __name__ == "__main__":
    main()
