"""Drops loaders over mutated files at any point and checks that they leak nothing.

    python tests/adversarial/leaks.py --loaders 1000 --seed 1

Each loader reads a few generated cases, with varying numbers of threads and error policies, and is
dropped after zero to three batches. File descriptors, threads and memory are measured while idle, after a tenth of the
loaders and at the end; the exit status is 1 if one of them grew.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random

os.environ["FRAMESPOOL_INDEX"] = "off"
sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[1] / "python")]
import framespool as fsp  # noqa: E402
from soak import GROWTH_LIMITS, measure_idle, trim_heap  # noqa: E402

from adversarial import bases, cases  # noqa: E402

#: Generated files, of which each loader reads some.
FILES = 60


def abandon(files: list[str], rng: Random, counts: Counter[str]) -> None:
    """Creates a loader, reads some batches and drops it."""
    chosen = [(path, label) for label, path in enumerate(rng.sample(files, 4))]
    rule = rng.choice(
        [
            fsp.samplers.RandomClips(sequence_length=4, stride=2, clips_per_video=3),
            fsp.samplers.Windows(sequence_length=2, step=3),
        ]
    )
    keywords = {
        "batch_size": rng.choice([1, 3]),
        "num_threads": rng.choice([1, 2, 4]),
        "on_error": rng.choice(["raise", "skip", "replace"]),
        "prefetch_batches": rng.choice([0, 2]),
        "transforms": [fsp.transforms.Resize((32, 32))],
    }
    with contextlib.suppress(fsp.Error):
        loader = fsp.ClipLoader(chosen, rule, seed=rng.randrange(1 << 32), index=False, **keywords)
        batches = iter(loader)
        for _ in range(rng.randrange(4)):
            try:
                next(batches)
                counts["batches"] += 1
            except StopIteration:
                break
            except fsp.Error as error:
                counts[type(error).__name__] += 1


def main() -> int:
    """Command line entry point; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loaders", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    trim_heap()
    rng, counts = Random(options.seed), Counter()
    with tempfile.TemporaryDirectory(prefix="leaks-") as folder:
        files = []
        for number in range(FILES):
            case = cases.draw(f"{options.seed}/{number}", bases.folder())
            files.append(str(Path(folder) / f"{number}{case.suffix}"))
            Path(files[-1]).write_bytes(case.data)
        warm = options.loaders // 10
        for _ in range(warm):
            abandon(files, rng, counts)
        before = measure_idle()
        for _ in range(options.loaders - warm):
            abandon(files, rng, counts)
        after = measure_idle()
    print(f"{options.loaders} loaders dropped:", ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    grown = [name for name, limit in GROWTH_LIMITS.items() if after[name] - before[name] > limit]
    for name in GROWTH_LIMITS:
        print(f"  {name:8} {before[name]:9.1f} -> {after[name]:9.1f}{'  GROWS' if name in grown else ''}")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
