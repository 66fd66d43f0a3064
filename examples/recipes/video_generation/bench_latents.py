"""Measures epochs that read stored latents, in turn: with a FeatureLoader, with decoding, with a disk cache of frames.

python examples/recipes/video_generation/bench_latents.py --rounds 5 VIDEO...
"""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import framespool as fsp  # noqa: E402
import ported  # noqa: E402
from common import bench_arguments, write_samples  # noqa: E402
from framespool.torch import FeatureCache, FeatureLoader  # noqa: E402
from latents import Autoencoder  # noqa: E402


def measure(run: Callable[[], Iterable[int]], loader: fsp.ClipLoader) -> tuple[int, float, float, float]:
    """Clips, frames decoded per clip, and wall and CPU milliseconds per clip of an epoch."""

    def now() -> tuple[float, float, float]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return loader.stats()["frames_decoded"], time.perf_counter() * 1e3, (usage.ru_utime + usage.ru_stime) * 1e3

    before = now()
    clips = sum(run())
    return clips, *((after - start) / clips for after, start in zip(now(), before, strict=True))


def main() -> None:
    """Prints the table."""
    arguments = bench_arguments(
        __doc__, batch_size=(2, "clips per batch"), divisor=(1, "divides the sizes of the buckets")
    )
    sizes = [(height // arguments.divisor, width // arguments.divisor) for height, width in ported.SIZES]
    encode = Autoencoder().encode
    with tempfile.TemporaryDirectory() as folder:
        path = write_samples(Path(folder) / "train.jsonl", arguments.videos)
        more = {"dtype": "float32", "shuffle": True}

        def make(**keywords: object) -> fsp.ClipLoader:
            return ported.make_loader(path, arguments.workers, False, arguments.batch_size, sizes, **more, **keywords)

        def open_cache(name: str) -> FeatureCache:
            return FeatureCache(Path(folder) / name, name="VAE", version=1, size="100GiB")

        def features(loader: fsp.ClipLoader, cache: FeatureCache) -> Callable[[], Iterable[int]]:
            batches = FeatureLoader(loader, cache, encode)
            return lambda: (len(batch["features"]["mean"]) for batch in batches)

        def frames(loader: fsp.ClipLoader, cache: FeatureCache) -> Callable[[], Iterable[int]]:
            return lambda: (len(cache.get_or_compute(batch, encode)["mean"]) for batch in loader)

        disk = fsp.Cache(disk=Path(folder) / "frames", disk_size="100GiB")
        kept, decoding, stored = make(), make(), make(cache=disk)
        runs = {
            "stored latents": (features(kept, open_cache("kept")), kept),
            "frames decoded": (frames(decoding, open_cache("kept")), decoding),
            "frames of a disk cache": (frames(stored, open_cache("kept")), stored),
        }
        first = make()
        found = {"first epoch": [measure(features(first, open_cache("first")), first)]}
        for run, loader in runs.values():
            measure(run, loader)
        for number in range(arguments.rounds):
            first = make()
            found["first epoch"].append(measure(features(first, open_cache(f"first {number}")), first))
            for name, (run, loader) in runs.items():
                found.setdefault(name, []).append(measure(run, loader))
        print(f"{found['first epoch'][0][0]} clips; medians of {arguments.rounds} epochs in turn")
        print(f"{'epoch':24}{'frames decoded per clip':>24}{'wall ms':>10}{'CPU ms':>10}")
        for name, epochs in found.items():
            _, decoded, wall, cpu = (
                statistics.median(column) for column in zip(*epochs[-arguments.rounds :], strict=True)
            )
            print(f"{name:24}{decoded:24.1f}{wall:10.1f}{cpu:10.1f}")


if __name__ == "__main__":
    main()
