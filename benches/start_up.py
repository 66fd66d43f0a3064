"""Time and memory per entry of a large dataset before the first clip.

Covers listing, a loader, the fingerprint, and sending it to another process.

    python benches/start_up.py [--entries 10000000] [--json FILE]

The listed files do not exist: nothing is opened. Samples drawn from the complete table are compared with the list.
"""

from __future__ import annotations

import argparse
import json
import pickle
import random
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import framespool as fsp

T = TypeVar("T")
ROWS: list[tuple[str, float]] = []


def timed(what: str, work: Callable[[], T]) -> T:
    began = time.perf_counter()
    result = work()
    ROWS.append((what, time.perf_counter() - began))
    return result


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def name(number: int) -> str:
    return f"/data/kinetics700/train/class number {number // 1000:05}/vid{number:08}_000010_000020.mp4"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=10_000_000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    count = arguments.entries
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "list.txt"
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{name(number)} {number // 1000}\n" for number in range(count))
        list_bytes = path.stat().st_size
        print(f"{count:,} entries, a list of {list_bytes / 1e6:,.0f} MB")
        before = peak_bytes()
        dataset = timed("annotation_file", lambda: fsp.datasets.annotation_file(path))
        listed = peak_bytes()
    draws = random.Random(0)
    for number in [0, count - 1, *(draws.randrange(count) for _ in range(1000))]:
        assert dataset[number] == (name(number), number // 1000), number

    def loader() -> fsp.ClipLoader:
        return fsp.ClipLoader(
            dataset, fsp.samplers.RandomClips(sequence_length=16, stride=4), batch_size=8, shuffle="full"
        )

    first = timed("ClipLoader", loader)
    timed("a second ClipLoader over the same dataset", loader)
    timed("state_dict (the dataset's fingerprint)", first.state_dict)
    sent = timed("pickle", lambda: pickle.dumps(dataset))
    assert timed("and back", lambda: pickle.loads(sent)) == dataset
    half = timed("subset of every second entry", lambda: dataset.subset(range(0, count, 2)))
    assert len(half) == (count + 1) // 2 and half[1] == dataset[2]
    table = dataset.samples.table  # type: ignore[attr-defined]
    print(f"{'':48}{'seconds':>9}{'µs each':>9}")
    for what, seconds in ROWS:
        print(f"{what:48}{seconds:9.3f}{seconds / count * 1e6:9.3f}")
    sizes = {
        "kept": table.memory_bytes / count,
        "at the peak of listing": (listed - before) / count,
        "pickled": len(sent) / count,
    }
    print(f"bytes per entry: {sizes['kept']:.1f} kept, names of {len(name(0))} among them;")
    print(f"    {sizes['at the peak of listing']:.0f} at the peak of listing, {sizes['pickled']:.1f} pickled")
    if arguments.json:
        report = {
            "versions": {"framespool": fsp.__version__},
            "entries": count,
            "list_bytes": list_bytes,
            "seconds": dict(ROWS),
            "bytes_per_entry": sizes,
        }
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
