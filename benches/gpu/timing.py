"""Times loaders by what they deliver, and verifies it: complete epochs, or a steady state."""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import framespool as fsp
from common import TRY
from dmon import Dmon
from items import FAILED, OK, Row

#: Typical transforms of a training script.
SIZE = 224
CHECKED_BATCHES = 3
#: Clips of the first batch that are compared with the CPU's.
CHECKED_CLIPS = 2 if TRY else 8
#: Batches before the steady state: the first ones fill the engines and the clip cache.
WARM_UP = 3


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


@dataclass
class Delivered:
    """What a loader delivered in a steady state, and when."""

    begin: float
    end: float
    figures: dict[str, Any]
    #: Hashes of the first clips of epoch 0.
    first_clips: list[str]
    why: str


def hashes(batch: fsp.Batch) -> list[str]:
    """One for each of the first clips of a batch."""
    clips = range(min(len(batch), CHECKED_CLIPS))
    return [hashlib.blake2b(batch.frames[n].tobytes(), digest_size=16).hexdigest() for n in clips]


def deliver(loader: fsp.ClipLoader, seconds: float) -> Delivered:
    """Counts the batches delivered within `seconds` after the first `WARM_UP`, epoch after epoch.

    The window ends with a complete batch. Pictures that are decoded for later batches count in `pictures_per_s` alone.
    """
    created = time.perf_counter()
    first_clips: list[str] = []
    first = begin = last = slowest = cpu = 0.0
    number = clips = 0
    before: dict[str, Any] = {}
    done = False
    with Dmon() as dmon:
        for epoch_number in itertools.count():
            loader.set_epoch(epoch_number)
            for batch in loader:
                now = time.perf_counter()
                number += 1
                if number == 1:
                    first, first_clips = now - created, hashes(batch)
                if number == WARM_UP:
                    begin = last = now
                    cpu, before = time.process_time(), loader.stats()
                elif number > WARM_UP:
                    clips += len(batch)
                    slowest, last = max(slowest, now - last), now
                    done = now - begin >= seconds
                if done:
                    synchronize(batch)
                    break
            if done:
                break
    end, used, after = time.perf_counter(), time.process_time() - cpu, loader.stats()
    counted = {key: after[key] - before[key] for key in ("frames_decoded", "frames_decoded_by_gpu", "packets_skipped")}
    decoded, wall = counted["frames_decoded"], end - begin
    figures = {
        "clips_per_s": clips / wall,
        "frames_per_s": clips * batch.indices.shape[-1] / wall,
        "pictures_per_s": decoded / wall,
        "cores": used / wall,
        "cpu_s_per_clip": used / clips,
        "first_batch_ms": first * 1e3,
        "slowest_batch_ms": slowest * 1e3,
        "seconds": wall,
        "clips": clips,
        "by_gpu_share": counted["frames_decoded_by_gpu"] / max(decoded, 1),
        "skipped_share": counted["packets_skipped"] / max(counted["packets_skipped"] + decoded, 1),
        "workers": after["nvdec_threads"],
        **dmon.figures(),
    }
    return Delivered(begin, end, figures, first_clips, "; ".join(after["cpu_fallbacks"])[:200])


def find_wrong_clip(delivered: Delivered, make: Callable[..., fsp.ClipLoader]) -> str:
    """Compares the first clips of a loader with the CPU's; "" if they are equal."""
    right = hashes(next(iter(make(device="cpu", batch_size=CHECKED_CLIPS))))
    for number, (a, b) in enumerate(zip(delivered.first_clips, right, strict=False)):
        if a != b:
            return f"clip {number} of the first batch differs from the CPU's"
    return ""


def measure(
    name: str,
    asked: str,
    make: Callable[..., fsp.ClipLoader],
    *,
    seconds: float,
    ceiling: float | None = None,
    share: str = "pictures_per_s",
    **options: Any,
) -> Row:
    """The steady state of a loader, and its first clips; `share` is the figure that is divided by the ceiling."""
    delivered = deliver(make(**options), seconds)
    if ceiling:
        delivered.figures["percent_of_ceiling"] = 100 * delivered.figures[share] / ceiling
    if problem := find_wrong_clip(delivered, make):
        return Row(name, asked, FAILED, problem, delivered.figures)
    return Row(name, asked, OK, delivered.why, delivered.figures)
