"""Times warm loaders after verifying their first batches, with CPU time and engine utilization."""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import framespool as fsp
from dmon import Dmon
from items import FAILED, OK, Row

#: Typical transforms of a training script.
SIZE = 224
CHECKED_BATCHES = 3


@dataclass
class Run:
    """Measurements of one epoch, or of a part of it."""

    seconds: float
    cpu_seconds: float
    clips: int
    frames: int
    pictures: int
    skipped: int
    first_batch_seconds: float

    @property
    def figures(self) -> dict[str, float]:
        return {
            "pictures_per_s": self.pictures / self.seconds,
            "frames_per_s": self.frames / self.seconds,
            "clips_per_s": self.clips / self.seconds,
            "cores": self.cpu_seconds / self.seconds,
            "first_batch_ms": self.first_batch_seconds * 1e3,
            "skipped_share": self.skipped / max(self.skipped + self.pictures, 1),
            "seconds": self.seconds,
        }


def digest(batch: fsp.Batch) -> str:
    frames = batch.frames if isinstance(batch.frames, list) else [batch.frames]
    seen = hashlib.blake2b(batch.indices.tobytes(), digest_size=16)
    for tensor in frames:
        seen.update(tensor.tobytes())
    return seen.hexdigest()


def find_difference(make: Callable[..., fsp.ClipLoader], count: int = CHECKED_BATCHES, **options: Any) -> str:
    """Compares the first batches with the CPU's; "" if they are equal."""
    ours, theirs = iter(make(**options)), iter(make(device="cpu"))
    for number, (a, b) in enumerate(zip(range(count), theirs, strict=False)):
        if digest(next(ours)) != digest(b):
            return f"batch {number} (of {a + 1} compared) differs from the CPU's"
    return ""


def synchronize(batch: fsp.Batch) -> None:
    """Waits for a batch's last bytes, which may still be in flight in a stream."""
    frames = batch.frames if isinstance(batch.frames, list) else [batch.frames]
    last = frames[-1]
    while len(last.shape) > 1:
        last = last[-1]
    last.tobytes()


def epoch(loader: fsp.ClipLoader, number: int, most_seconds: float) -> Run:
    """Delivers an epoch, or as much of it as fits into the time; does nothing with the batches."""
    before = loader.stats()
    loader.set_epoch(number)
    begin, cpu = time.perf_counter(), time.process_time()
    clips, first, batch = 0, 0.0, None
    for batch in loader:
        clips += len(batch)
        first = first or time.perf_counter() - begin
        if time.perf_counter() - begin > most_seconds:
            break
    if batch is not None:
        synchronize(batch)
    seconds = time.perf_counter() - begin
    after = loader.stats()
    counted = {key: after[key] - before[key] for key in ("frames", "frames_decoded", "packets_skipped")}
    return Run(
        seconds,
        time.process_time() - cpu,
        clips,
        counted["frames"],
        counted["frames_decoded"],
        counted["packets_skipped"],
        first,
    )


def medians(runs: Sequence[Run]) -> dict[str, float]:
    """Each figure over the runs."""
    return {key: statistics.median(run.figures[key] for run in runs) for key in runs[0].figures}


def measure(
    name: str,
    asked: str,
    make: Callable[..., fsp.ClipLoader],
    *,
    seconds: float,
    ceiling: float | None,
    repeats: int = 3,
    **options: Any,
) -> Row:
    """Verification first, then a warm-up, then `repeats` timed epochs with dmon running."""
    if problem := find_difference(make, **options):
        return Row(name, asked, FAILED, problem)
    loader = make(**options)
    epoch(loader, 0, seconds / 2)
    with Dmon() as dmon:
        runs = [epoch(loader, 1 + number, seconds) for number in range(repeats)]
    figures = {**medians(runs), **dmon.figures()}
    if ceiling:
        figures["percent_of_ceiling"] = 100 * figures["pictures_per_s"] / ceiling
    stats = loader.stats()
    if stats["cpu_fallbacks"]:
        figures["by_gpu_share"] = stats["frames_decoded_by_gpu"] / max(stats["frames_decoded"], 1)
    why = "; ".join(stats["cpu_fallbacks"])[:200]
    return Row(name, asked, OK, why, {**figures, "workers": stats["nvdec_threads"], "repeats": repeats})
