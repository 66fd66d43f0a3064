"""Measures decoder creation, kernel compilation and contexts, in milliseconds and megabytes.

Only one thing is checked: an idle decoder is reused.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

import framespool as fsp
from common import Clip, clips, extra, nvidia_smi, timed
from framespool import gpu
from items import FAILED, IMPOSSIBLE, OK, Context, Row, item, python

ROUNDS = 7


def key_pictures(path: Path) -> tuple[float, int]:
    """Milliseconds for passes of one keyframe each, and their number.

    A pass is a parser, a decoder from the pool, the frame, and finally the wait for it.
    """
    run = gpu.decode_throughput(path, sessions=1, seconds=0.05, map_every=0, max_packets=1)
    return run.seconds * 1e3, run.frames


def delta(before: dict[str, int]) -> dict[str, int]:
    after = gpu.decoder_cache_stats()
    return {key: after[key] - before[key] for key in ("created", "reused", "reconfigured")}


@item("sessions", seconds=120, checklist="2")
def sessions(context: Context) -> Iterator[Row]:
    """Creation, reuse and reconfiguration, as reported by the statistics of the decoder pool."""
    tuning = [clip for clip in clips("tuning") if clip.properties.get("codec") == "h264"]
    key_pictures(tuning[0].path)  # opens the driver's library
    for clip in tuning:
        created, reused, memory = [], [], []
        for _ in range(ROUNDS):
            gpu.clear_decoder_cache()
            free = gpu.devices()[0].free_bytes
            before = gpu.decoder_cache_stats()
            first, first_passes = key_pictures(clip.path)
            made = delta(before)["created"] == 1
            used = (free - gpu.devices()[0].free_bytes) / 1e6
            before = gpu.decoder_cache_stats()
            again, passes = key_pictures(clip.path)
            if made and passes and delta(before)["reused"] == 1:
                reused.append(again / passes)
                created.append(first - first_passes * again / passes)
                memory.append(used)
        name = f"{size(clip)} {clip.properties.get('codec')}"
        if not created or not reused:
            yield Row(name, "a decoder is created, then reused", FAILED, f"pool: {gpu.decoder_cache_stats()}")
            continue
        figures = {
            "create_ms": statistics.median(created),
            "pass_of_a_key_picture_ms": statistics.median(reused),
            "decoder_MB": statistics.median(memory),
            "estimated_MB": gpu.decoder_cache_stats()["bytes_estimated"] / 1e6,
        }
        yield Row(name, "a decoder is created, then reused", OK, "", figures)
    yield reconfigured(tuning)


def reconfigured(tuning: list[Clip]) -> Row:
    """Two sizes of one bucket in turn: the one decoder must be reconfigured between them."""
    asked = "two sizes in turn on one decoder"
    for first in tuning:
        for second in tuning:
            if first is second:
                continue
            gpu.clear_decoder_cache()
            key_pictures(first.path)
            before = gpu.decoder_cache_stats()
            pairs = [key_pictures(clip.path) for _ in range(ROUNDS) for clip in (second, first)]
            if delta(before)["reconfigured"] == len(pairs):
                steady = []
                for clip in (second, first):
                    key_pictures(clip.path)  # reconfigures; the next one does not
                    milliseconds, passes = key_pictures(clip.path)
                    steady.append(milliseconds / max(passes, 1))
                extra = [ms - passes * one for (ms, passes), one in zip(pairs, steady * ROUNDS, strict=True)]
                figures = {"reconfigure_ms": statistics.median(extra)}
                return Row(f"{size(first)} and {size(second)}", asked, OK, "", figures)
    return Row("reconfigure", asked, IMPOSSIBLE, f"no two of {[size(clip) for clip in tuning]} share a size bucket")


def size(clip: Clip) -> str:
    return f"{clip.properties.get('width')}x{clip.properties.get('height')}"


@item("parser", seconds=60, checklist="2")
def parser(context: Context) -> Iterator[Row]:
    """Cost of a new parser for each pass of one keyframe, derived from the pass rate."""
    for clip in timed("tuning"):
        gpu.decode_throughput(clip.path, sessions=1, seconds=0.2, map_every=0, max_packets=1)
        run = gpu.decode_throughput(clip.path, sessions=1, seconds=2.0, map_every=0, max_packets=1)
        figures = {"ms": 1e3 / run.frames_per_second, "passes": run.frames}
        yield Row(f"{size(clip)}", "new parser + one keyframe: an upper bound of both", OK, "", figures)


@item("maps", seconds=90, checklist="8")
def maps(context: Context) -> Iterator[Row]:
    """Cost of mapping every surface compared with mapping none. The kernel itself needs a profiler."""
    for clip in timed("bench", "1080p"):
        seconds = 3.0
        gpu.decode_throughput(clip.path, sessions=4, seconds=0.5, map_every=1, max_packets=200)
        rates = {
            f"map_every_{every}": gpu.decode_throughput(
                clip.path, sessions=4, seconds=seconds, map_every=every, max_packets=200
            ).frames_per_second
            for every in (1, 16, 0)
        }
        yield Row(clip.name, "pictures per second, four sessions", OK, "", rates)
        if context.left() < 4 * seconds:
            return


@item("session-memory", seconds=90, checklist="2")
def session_memory(context: Context) -> Iterator[Row]:
    """Device memory with this number of concurrent sessions."""
    (clip, *_) = timed("bench", "1080p")
    for path in (clip.path, *(path for path in extra() if path.name.startswith("large"))):
        gpu.clear_decoder_cache()
        info = fsp.Video(path, index=False).info
        base = gpu.devices()[0].free_bytes
        for count in context.arguments.get("sessions", (1, 7, 21)):
            gpu.decode_throughput(path, sessions=count, seconds=0.5, map_every=1, max_packets=100)
            used = (base - gpu.devices()[0].free_bytes) / 1e6
            stats = gpu.decoder_cache_stats()
            decoders = stats["idle"]
            figures = {"MB": used, "decoders": decoders, "MB_each": used / max(decoders, 1)}
            figures["estimated_MB"] = stats["bytes_estimated"] / 1e6
            name = f"{info.codec}, {info.width}x{info.height}, {count} sessions"
            yield Row(name, "memory of the decoders", OK, "", {**figures, **nvidia_smi("memory.used")})


OPEN = """
import time
begin = time.perf_counter()
import framespool
from framespool import gpu
imported = time.perf_counter()
context, kernels = gpu.startup_seconds()
print(imported - begin, context, kernels)
"""


@item("open", seconds=90, checklist="9")
def opening(context: Context) -> Iterator[Row]:
    """The driver compiles the kernels once per machine, and caches the result."""
    with tempfile.TemporaryDirectory() as cache:
        cold: list[float] = []
        warm: list[list[float]] = []
        for number in range(5):
            run = python(OPEN, env={"CUDA_CACHE_PATH": cache})
            if run.returncode:
                yield Row("opening", "a process opens the GPU", FAILED, run.stderr.strip()[-400:])
                return
            times = [float(word) * 1e3 for word in run.stdout.split()]
            if number == 0:
                cold = times
            else:
                warm.append(times)
        kept = sum(file.stat().st_size for file in Path(cache).rglob("*") if file.is_file())
    names = ("import_ms", "context_ms", "kernels_ms")
    yield Row("cold", "kernels compiled by the driver", OK, "", dict(zip(names, cold, strict=True)))
    medians = [statistics.median(column) for column in zip(*warm, strict=True)]
    figures = {**dict(zip(names, medians, strict=True)), "cache_bytes": kept}
    yield Row("warm", "kernels from the driver's cache", OK, "", figures)
