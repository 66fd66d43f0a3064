"""Fixed cost of a clip, and of a loader before its first batch."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import framespool as fsp
from bench_videos import BenchVideo, full_hd, inspect_video
from common import TRY, missing, timed
from framespool import gpu
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


ACCESSES = 8 if TRY else 200


@item("video-latency", seconds=12)
def video_latency(context: Context) -> Iterator[Row]:
    """`Video(...)[i]` at random positions: warm, and cold with a new Video and no idle decoder; each frame complete."""
    gop, side = context.arguments.get("gop", 250), context.arguments.get("side", "cuda")
    video = next((each for each in full_hd("h264") if TRY or each.kind == f"GOP {gop}"), None)
    name, asked = f"{side}, GOP {gop}", "one frame of 1080p at a random position"
    why = f"no 1080p H.264 with GOP {gop}" if video is None else missing("torchcodec") if side == "torchcodec" else None
    if video is None or why:
        yield Row(name, asked, IMPOSSIBLE, why or "")
        return
    numbers = random.Random(5)
    access = ACCESS[side](str(video.path))
    first = milliseconds(lambda: access(0))
    warm = []
    while len(warm) < ACCESSES and context.left() > context.budget_seconds / 4:
        warm.append(milliseconds(lambda: access(numbers.randrange(video.frames))))
    cold = []
    while len(cold) < ACCESSES // 4 and context.left() > 0:
        gpu.clear_decoder_cache()
        cold.append(milliseconds(lambda: ACCESS[side](str(video.path))(numbers.randrange(video.frames))))
    if side != "torchcodec":
        right = fsp.Video(video.path, index=False)
        wrong = [i for i in (0, video.frames // 2, video.frames - 1) if access(i).tobytes() != right[i].tobytes()]
        if wrong:
            yield Row(name, asked, FAILED, f"frames {wrong} differ from the CPU's")
            return
    figures: dict[str, float] = {"first_ms": first}
    for kind, times in (("warm", warm), ("cold", cold)):
        if times:
            ordered = sorted(times)
            figures[f"{kind}_p50_ms"] = ordered[len(ordered) // 2]
            figures[f"{kind}_p99_ms"] = ordered[min(len(ordered) * 99 // 100, len(ordered) - 1)]
            figures[f"{kind}_accesses"] = len(ordered)
    yield Row(name, asked, OK, video.name, figures)


def milliseconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) * 1e3


def of_framespool(device: str) -> Callable[[str], Callable[[int], fsp.Tensor]]:
    def opened(path: str) -> Callable[[int], fsp.Tensor]:
        video = fsp.Video(path, device=device, index=False)

        def access(index: int) -> fsp.Tensor:
            frame = video[index]
            frame[-1][-1].tobytes()  # waits for the last row
            return frame

        return access

    return opened


def of_torchcodec(path: str) -> Callable[[int], object]:
    import torch
    from peers import TorchCodec

    reader = TorchCodec(1, 224).open(path)

    def access(index: int) -> object:
        frame = reader[index]
        torch.cuda.synchronize()
        return frame

    return access


#: How a side opens a file; what that gives returns a complete frame.
ACCESS: dict[str, Callable[[str], Callable[[int], Any]]] = {
    "cuda": of_framespool("cuda:0"),
    "cpu": of_framespool("cpu"),
    "torchcodec": of_torchcodec,
}
