#!/usr/bin/env python3
"""Runs loaders for hours as training jobs do, with faults, in one process, and checks for leaks, hangs and errors.

    python tests/python/soak.py --minutes 60
    python tests/python/soak.py --minutes 2 --interval 10 --workers 1 --seed 7

Loaders of clips and of images and single videos are created, used, left early and dropped, with varying threads,
budgets and policies; files are damaged, replaced and truncated while they are read; indices are written to a full
disk; states go through JSON and the following batches are compared. At the end of each interval all work stops and
memory, file descriptors and threads are measured. The last lines show the trend of each, and the exit status is 1 if
one grew, an error other than framespool's was raised, or a scenario hung.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import gc
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

from soak_scenarios import SCENARIOS, SoakFiles

MIB = 1 << 20
#: A scenario takes seconds. One that takes this long hangs: every thread's stack is printed and the process ends.
HANG_TIMEOUT_SECONDS = 300
#: Memory kept between intervals becomes constant in the first part of the run.
WARM_UP = 0.25
#: Fitted growth over the measured part of the run up to which a quantity counts as flat: allocators are not exact.
GROWTH_LIMITS = {"rss": 12.0, "heap": 3.0, "fds": 0.9, "threads": 0.9}


class Mallinfo(ctypes.Structure):
    """glibc's heap statistics (``mallinfo2``)."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in [
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        ]
    ]


def heap_bytes() -> int:
    """Allocated bytes of everything that uses malloc: Rust, FFmpeg, libjpeg and SQLite."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        return 0
    libc.mallinfo2.restype = Mallinfo
    info = libc.mallinfo2()
    return info.uordblks + info.hblkhd


def trim_heap() -> None:
    """Makes glibc return freed memory, as it does before it adapts to a program.

    After large blocks have been freed it keeps up to 64 MiB at the end of each of its arenas, of which there are up to
    eight for each core; ``malloc_trim`` does not reach them. Without trimming, memory in use could not be measured.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        trim_threshold, mmap_threshold = -1, -3
        libc.mallopt(trim_threshold, 128 << 10)
        libc.mallopt(mmap_threshold, 128 << 10)


def measure() -> dict[str, float]:
    """Memory in MiB, file descriptors and threads of this process, while idle."""
    gc.collect()
    if hasattr(ctypes.CDLL(None), "malloc_trim"):
        # Freed memory goes back to the system, so the remaining memory is in use.
        ctypes.CDLL(None).malloc_trim(0)
    status = Path("/proc/self/status").read_text()
    rss = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return {
        "rss": rss / 1024,
        "heap": heap_bytes() / MIB,
        "fds": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
    }


def measure_idle(seconds: float = 10.0) -> dict[str, float]:
    """Measures after threads have ended: a loader dropped by the garbage collector ends them slightly later."""
    deadline = time.monotonic() + seconds
    found = measure()
    while time.monotonic() < deadline:
        time.sleep(0.25)
        again = measure()
        if again["threads"] == found["threads"] and again["fds"] == found["fds"]:
            return again
        found = again
    return found


class Peak(threading.Thread):
    """The peak of resident memory since the last call."""

    def __init__(self) -> None:
        super().__init__(name="soak-peak", daemon=True)
        self._most = 0
        self._page = os.sysconf("SC_PAGE_SIZE")

    def run(self) -> None:
        while True:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            self._most = max(self._most, pages * self._page)
            time.sleep(0.05)

    def take(self) -> float:
        """The peak in MiB; resets it."""
        most, self._most = self._most, 0
        return most / MIB


def slope(values: list[float]) -> float:
    """Least squares: growth from one value to the next."""
    middle = (len(values) - 1) / 2
    mean = sum(values) / len(values)
    across = sum((x - middle) ** 2 for x in range(len(values)))
    return sum((x - middle) * (y - mean) for x, y in enumerate(values)) / across if across else 0.0


class Soak:
    """The run: workers that execute scenarios until stopped."""

    def __init__(self, soak_files: SoakFiles, seed: int, workers: int) -> None:
        self.soak_files = soak_files
        self.seed = seed
        self.workers = workers
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._lock = threading.Lock()
        self._numbers = iter(range(1 << 62))

    def _play(self, until: float) -> None:
        while time.monotonic() < until and not self.wrong:
            with self._lock:
                number = next(self._numbers)
            draw = Random(f"{self.seed}/{number}")
            name = draw.choice(list(SCENARIOS))
            counts: Counter[str] = Counter(scenarios=1)
            try:
                SCENARIOS[name](self.soak_files, draw, counts)
            except Exception:
                self.wrong.append(f"scenario {number} ({name}) of seed {self.seed}: {traceback.format_exc()}")
            with self._lock:
                self.counts += counts

    def interval(self, seconds: float) -> None:
        """Runs scenarios for a while; returns when all have finished."""
        until = time.monotonic() + seconds
        faulthandler.dump_traceback_later(seconds + HANG_TIMEOUT_SECONDS, exit=True)
        threads = [threading.Thread(target=self._play, args=(until,), name=f"soak-{n}") for n in range(self.workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        faulthandler.cancel_dump_traceback_later()


def report(rows: list[dict[str, float]], interval: float) -> bool:
    """Prints the trend of each quantity after the warm-up. Returns whether all were flat."""
    measured = rows[max(1, int(len(rows) * WARM_UP)) :]
    flat = True
    print(f"\nafter the warm-up, {len(measured)} intervals of {interval:.0f} s:")
    for name, limit in GROWTH_LIMITS.items():
        values = [row[name] for row in measured]
        each = slope(values)
        grew = each * (len(values) - 1)
        flat &= grew <= limit
        unit = "MiB" if name in ("rss", "heap") else ""
        trend = "flat" if grew <= limit else f"GROWS (more than {limit})"
        print(
            f"  {name:8} {min(values):9.1f} to {max(values):9.1f} {unit:3}  "
            f"slope {each * 60 / interval:+8.3f} a minute, {grew:+8.2f} in total: {trend}"
        )
    return flat


def full_disk(folder: Path, size: str) -> bool:
    """Mounts a small file system at the path, if that is permitted."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    return shutil.which("mount") is not None and subprocess.run(command, capture_output=True).returncode == 0


def main() -> int:
    """Command line entry point; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--interval", type=float, default=60.0, help="seconds between two lines of the table")
    parser.add_argument("--workers", type=int, default=2, help="number of concurrent scenarios")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep-memory", action="store_true", help="do not change glibc's allocator settings")
    media = os.environ.get("FRAMESPOOL_MEDIA") or Path(__file__).resolve().parents[2] / "target" / "media"
    parser.add_argument("--media", type=Path, default=media, help="the test media, or a corpus of the same layout")
    options = parser.parse_args()
    if not (options.media / "manifest.json").is_file():
        print(
            f"no test media at {options.media}; generate them with tests/media/make.py, or pass --media",
            file=sys.stderr,
        )
        return 2
    faulthandler.enable()
    if not options.keep_memory:
        trim_heap()
    work = Path(tempfile.mkdtemp(prefix="framespool-soak-"))
    mounted = full_disk(work / "full", "192k")
    try:
        soak_files = SoakFiles.of(options.media, work, full_disk=mounted)
        print(f"seed {options.seed}, {options.workers} workers, full disk: {'tmpfs of 192 KiB' if mounted else 'none'}")
        print(f"{'minute':>7} {'scenarios':>9} {'batches':>8} {'errors':>7} {'RSS MiB':>8} ", end="")
        print(f"{'peak':>7} {'heap':>7} fds threads")
        soak, rows, peak = Soak(soak_files, options.seed, options.workers), [], Peak()
        peak.start()
        began = time.monotonic()
        while time.monotonic() - began < options.minutes * 60 and not soak.wrong:
            soak.interval(options.interval)
            row = measure_idle()
            rows.append(row)
            errors = sum(count for name, count in soak.counts.items() if name.endswith("Error"))
            print(
                f"{(time.monotonic() - began) / 60:7.1f} {soak.counts['scenarios']:9} {soak.counts['batches']:8} "
                f"{errors:7} {row['rss']:8.1f} {peak.take():7.1f} {row['heap']:7.2f} "
                f"{row['fds']:3.0f} {row['threads']:7.0f}",
                flush=True,
            )
        print("\ncounts:", ", ".join(f"{name} {count}" for name, count in sorted(soak.counts.items())))
        flat = report(rows, options.interval)
        for wrong in soak.wrong:
            print(f"\nWRONG: {wrong}")
        print("\nresult:", "flat and correct" if flat and not soak.wrong else "WRONG OUTPUT" if soak.wrong else "GROWS")
        return 0 if flat and not soak.wrong else 1
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(work / "full")], capture_output=True)
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
