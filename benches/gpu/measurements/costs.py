"""Fixed cost of a clip, and of a loader before its first batch."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import framespool as fsp
from bench_videos import BenchVideo, full_hd, inspect_video
from common import TRY, timed
from items import FAILED, IMPOSSIBLE, OK, Context, Row, item, python
from timing import CHECKED_BATCHES, find_difference

LENGTHS = (1, 2, 4, 8, 16, 32)
AT_ONCE = 8 if TRY else 100


def line(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Least squares fit: intercept and slope."""
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    return mean_y - slope * mean_x, slope


@item("fixed-cost", seconds=120)
def fixed_cost(context: Context) -> Iterator[Row]:
    """Seconds per clip of 1 to 32 frames from a keyframe, as a straight line.

    Its intercept is the fixed cost of a clip: planning, reading, a parser, delivery.
    """
    small = [inspect_video(clip.path, False) for clip in timed("short")[:2]]
    for video in [*small, *full_hd("h264")[:1]]:
        for workers in (1, 21):
            yield cost(video, workers, context)


def cost(video: BenchVideo, workers: int, context: Context) -> Row:
    asked = f"fixed cost per clip, {workers} workers"
    points = []
    for length in [n for n in LENGTHS if n <= video.frames and not (n > 2 and context.left() < 0)]:

        def make(length: int = length, **options: object) -> fsp.ClipLoader:
            keywords = {"device": fsp.Gpu("cuda:0", decoder="nvdec", threads=workers), **options}
            sampling = fsp.samplers.Indices(list(range(length)))
            transforms = [fsp.transforms.Resize((64, 64))]
            # Repeated files: a loader decodes each entry separately.
            return fsp.ClipLoader([video.path] * AT_ONCE, sampling, batch_size=20, transforms=transforms, **keywords)

        if not points and (problem := find_difference(make, count=CHECKED_BATCHES)):
            return Row(video.name, asked, FAILED, problem)
        loader = make()
        for _ in loader:
            pass
        times = []
        for _ in range(3):
            begin = time.perf_counter()
            for _ in loader:
                pass
            times.append(time.perf_counter() - begin)
        points.append((length, statistics.median(times) / AT_ONCE))
    begin, slope = line(points)
    figures = {"fixed_ms": begin * 1e3, "picture_ms": slope * 1e3, "one_frame_ms": points[0][1] * 1e3}
    return Row(video.name, asked, OK, "", figures)


FIRST = """
import time
begin = time.perf_counter()
import framespool as fsp
imported = time.perf_counter()
loader = fsp.ClipLoader({paths!r}, fsp.samplers.RandomClips(sequence_length=16, stride=4, padding="loop"), batch_size=8,
    transforms=[fsp.transforms.Resize((224, 224))], shuffle="full", device={device!r}, index=False)
made = time.perf_counter()
batch = next(iter(loader))
batch.frames[0][0][0].tobytes()
print(imported - begin, made - imported, time.perf_counter() - made)
"""


@item("first-batch", seconds=90)
def first_batch(context: Context) -> Iterator[Row]:
    """From the creation of the loader to its first batch, each time in a new process."""
    paths = [str(video.path) for video in full_hd("h264")] * (2 if TRY else 40)
    if not paths:
        yield Row("first batch", "a fresh process", IMPOSSIBLE, "no 1080p H.264 here")
        return
    for device in ("cuda:0", "cpu"):
        times = []
        for _ in range(5):
            run = python(FIRST.format(paths=paths, device=device))
            if run.returncode:
                yield Row(device, "a fresh process", FAILED, run.stderr.strip()[-400:])
                return
            times.append([float(word) for word in run.stdout.split()])
        names = ("import_s", "creation_s", "first_batch_s")
        figures = dict(zip(names, (statistics.median(column) for column in zip(*times, strict=True)), strict=True))
        figures["creation_to_first_batch_s"] = statistics.median(a + b for _, a, b in times)
        yield Row(device, f"a fresh process, {len(paths)} entries of {len({*map(Path, paths)})} files", OK, "", figures)
