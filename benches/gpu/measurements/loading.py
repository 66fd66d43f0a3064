"""Loaders as training scripts use them."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import framespool as fsp
from bench_videos import BenchVideo, full_hd
from common import HERE, TRY, timed
from cuda import busy
from items import FAILED, IMPOSSIBLE, OK, Context, Row, item
from timing import SIZE, deliver, epoch, find_difference, find_wrong_clip, measure

from measurements.measured_ceilings import ceiling_of

PUBLISHED = (4, 48) if TRY else (173, 300)
#: Frames of a dataset that repeats one file: more than a steady state delivers.
MANY = 500 if TRY else 100_000
ENTRIES = 24 if TRY else 2000


def maker(dataset: list[Any], sampling: Any, **keywords: Any) -> Any:
    """Creates the same loader with different options. The dataset may repeat a file: each entry is decoded."""

    def make(**options: Any) -> fsp.ClipLoader:
        common = {"batch_size": 8, "transforms": [fsp.transforms.Resize((SIZE, SIZE))], **keywords}
        return fsp.ClipLoader(dataset, sampling, **{**common, "device": fsp.Gpu(0, decoder="nvdec"), **options})

    return make


def repeated(video: BenchVideo, frames: int) -> list[Path]:
    """A file, repeated to about this number of frames."""
    return [video.path] * max(frames // video.frames, 1)


@item("dense", seconds=100, checklist="3")
def dense(context: Context) -> Iterator[Row]:
    """Every frame of 1080p, in order; the frames that are delivered, compared with the ceiling."""
    videos = full_hd()
    for video in videos:
        yield measure(
            video.name,
            f"every frame, {SIZE}x{SIZE}",
            maker(repeated(video, MANY), fsp.samplers.Windows(sequence_length=16)),
            seconds=context.budget_seconds / len(videos) / 2,
            ceiling=ceiling_of(video.path),
            share="frames_per_s",
        )


@item("strided", seconds=120, checklist="4")
def strided(context: Context) -> Iterator[Row]:
    """Windows of 16 frames at stride 4 and 8: disposable pictures are skipped."""
    videos = full_hd()[:4]
    for video in videos:
        for stride in (4, 8):
            sampling = fsp.samplers.Windows(sequence_length=16, stride=stride, padding="edge")
            make = maker(repeated(video, MANY), sampling)
            each = context.budget_seconds / len(videos) / 4
            asked = f"windows of 16, stride {stride}"
            yield measure(video.name, asked, make, seconds=each, ceiling=ceiling_of(video.path))


def by_kind(gop: int | None, codec: str | None) -> dict[tuple[str, str], list[BenchVideo]]:
    """The 1080p videos by GOP length and codec; of one kind only if it is given."""
    kinds: dict[tuple[str, str], list[BenchVideo]] = {}
    for video in full_hd(codec):
        kinds.setdefault((video.kind, video.codec), []).append(video)
    wanted = {key: videos for key, videos in kinds.items() if gop is None or key[0] == f"GOP {gop}"}
    return dict([next(iter(kinds.items()))]) if TRY and kinds and not wanted else wanted


def random_maker(videos: list[BenchVideo], clips_per_video: int = 1, **keywords: Any) -> Callable[..., fsp.ClipLoader]:
    """A loader of random clips of 16 frames, stride 4, fully shuffled; with one clip per video each has an entry."""
    dataset = [video.path for video in videos]
    if clips_per_video == 1:
        dataset = [dataset[number % len(dataset)] for number in range(ENTRIES)]
    sampling = fsp.samplers.RandomClips(sequence_length=16, stride=4, clips_per_video=clips_per_video, padding="loop")
    return maker(dataset, sampling, shuffle="full", seed=3, **keywords)


@item("random", seconds=80)
def random_clips(context: Context) -> Iterator[Row]:
    """Random clips of 16 frames, stride 4, shuffled, by decoder, batch size, threads, GOP length, and videos."""
    arguments = context.arguments
    gop, decoder, batch = arguments.get("gop"), arguments.get("decoder", "nvdec"), arguments.get("batch", 8)
    threads, files = arguments.get("threads"), arguments.get("files")
    kinds = by_kind(gop, arguments.get("codec"))
    if not kinds:
        yield Row(f"GOP {gop}", "random clips", IMPOSSIBLE, "no such 1080p video; see README.md, encode.py")
    for (kind, codec), videos in kinds.items():
        used = videos[:files]
        many = (2 if TRY else 64) if files else 1
        make = random_maker(used, clips_per_video=many, batch_size=max(batch // 8, 1) if TRY else batch)
        known = [rate for video in used if (rate := ceiling_of(video.path))]
        asked = f"random clips of 16, stride 4, of {len(used)} videos, {many} per video and epoch"
        yield measure(
            f"{kind}, {codec}, {decoder}, batch {batch}" + (f", {threads} NVDEC threads" if threads else ""),
            asked,
            make,
            seconds=context.budget_seconds / len(kinds),
            ceiling=sum(known) / len(known) if known and decoder == "nvdec" else None,
            device=fsp.Gpu(0, decoder=decoder, threads=threads),
        )


@item("during-training", seconds=10)
def during_training(context: Context) -> Iterator[Row]:
    """A load like a training step alone, and while a loader runs: the rates of both."""
    work, priority = context.arguments.get("work", "random"), context.arguments.get("priority", "least")
    videos = full_hd("hevc") if work == "dense" else full_hd("h264")
    name = f"{work}, {priority} priority"
    asked = "a load that saturates the GPU, alone and with a loader"
    if not videos:
        yield Row(name, asked, IMPOSSIBLE, "no 1080p video of this codec")
        return
    windows = fsp.samplers.Windows(sequence_length=16)
    make = maker(repeated(videos[0], MANY), windows) if work == "dense" else random_maker(videos)
    loader = make()
    with busy() as load:
        alone = time.perf_counter()
        time.sleep(context.budget_seconds / 4)
        begun = time.perf_counter()
        delivered = deliver(loader, context.budget_seconds * 3 / 4)
    first = [took for ended, took in load.steps if alone < ended < begun]
    during = [took for ended, took in load.steps if delivered.begin < ended < delivered.end]
    figures = {"load": load.name, "steps": len(during), **delivered.figures}
    if first and during:
        figures["step_alone_ms"], figures["step_ms"] = statistics.median(first), statistics.median(during)
        figures["step_over_alone"] = figures["step_ms"] / figures["step_alone_ms"]
        figures["slowest_step_ms"] = max(during)
    problem = find_wrong_clip(delivered, make)
    yield Row(name, asked, FAILED if problem else OK, problem or delivered.why, figures)


@item("two-processes", seconds=10)
def two_processes(context: Context) -> Iterator[Row]:
    """Two processes with a loader each, at the same time."""
    asked = "random clips in two processes at the same time"
    with tempfile.TemporaryDirectory() as folder:
        into = [Path(folder) / str(number) for number in range(2)]
        command = [sys.executable, str(HERE / "bench.py"), "--child", "random", "--budget", str(context.budget_seconds)]
        command += ["--arguments", json.dumps({"gop": 250, "codec": "h264"})]
        running = [subprocess.Popen([*command, "--into", str(file)], stdout=subprocess.DEVNULL) for file in into]
        codes = [child.wait() for child in running]
        rows = [json.loads(line) for file in into if file.exists() for line in file.read_text().splitlines()]
    wrong = "; ".join(row["why"] for row in rows if row["result"] != OK)
    if any(codes) or len(rows) < 2 or wrong:
        yield Row("two processes", asked, FAILED, wrong or f"exit codes {codes}, {len(rows)} rows")
        return
    keys = ("clips_per_s", "cores", "first_batch_ms", "workers")
    figures: dict[str, Any] = {f"{key}_each": [row["figures"][key] for row in rows] for key in keys}
    yield Row("two processes", asked, OK, "", {"clips_per_s": sum(figures["clips_per_s_each"]), **figures})


@item("shuffled-epochs", seconds=90)
def shuffled(context: Context) -> Iterator[Row]:
    """All windows of all videos in random order: GOPs are shared, finished clips are cached."""
    videos = full_hd("h264")
    # Few enough for whole epochs: at the start of one, pictures are decoded for clips that are delivered later.
    dataset = [video.path for video in videos for _ in range(2 if TRY else 4)]
    asked = (
        f"all windows of 16, shuffled, of {len(videos)} videos, each file {len(dataset) // max(len(videos), 1)} times"
    )
    for budget in ("2GiB", 0):
        make = maker(dataset, fsp.samplers.Windows(sequence_length=16), shuffle="full", seed=1, cache=budget)
        if problem := find_difference(make):
            yield Row(f"cache {budget}", asked, FAILED, problem)
            continue
        loader = make()
        epoch(loader, 0, context.budget_seconds / 2)
        run = epoch(loader, 1, context.budget_seconds)
        stopped = run.seconds >= context.budget_seconds
        why = "no complete epoch within the time; raise --seconds" if stopped else ""
        yield Row(f"cache {budget}", asked, IMPOSSIBLE if stopped else OK, why, run.figures)


@item("short-clips", seconds=40)
def short_clips(context: Context) -> Iterator[Row]:
    """One random clip of each of many short videos, as in loaders of Kinetics and Something-Something."""
    files = [clip.path for clip in timed("short")]
    dataset = [files[number % len(files)] for number in range(ENTRIES)]
    for stride in (1, 4):
        sampling = fsp.samplers.RandomClips(sequence_length=8, stride=stride, padding="loop")
        make = maker(dataset, sampling, shuffle="full", seed=2, batch_size=16)
        asked = f"{ENTRIES} entries of {len(files)} short files, clips of 8, stride {stride}"
        yield measure(f"stride {stride}", asked, make, seconds=context.budget_seconds / 4)


@item("published-shape", seconds=170)
def published(context: Context) -> Iterator[Row]:
    """173 videos of 300 frames at 1080p, sequence_length 16, batch 8, as in a published comparison of DALI and PyTorch.

    The videos differ from the published ones: local files, repeated. On one V100, DALI took 97.5 s, decord with eight
    CPU workers 59.0 s.
    """
    count, length = PUBLISHED
    videos = [video for video in full_hd("h264") if video.frames >= length]
    if not videos:
        why = f"no 1080p H.264 of {length} frames; see README.md, encode.py"
        yield Row("published", f"{count} x {length} frames", IMPOSSIBLE, why)
        return
    with tempfile.TemporaryDirectory() as folder:
        # A file of its own for each sample: segments of one file would be decoded once for all of them.
        dataset = []
        for number in range(count):
            video = videos[number % len(videos)]
            link = Path(folder) / f"{number:03}{video.path.suffix}"
            link.symlink_to(video.path.resolve())
            dataset.append(fsp.datasets.VideoSegment(str(link), start_frame=0, end_frame=length))
        yield from published_rows(dataset, len(videos), context)


def published_rows(dataset: list[Any], files: int, context: Context) -> Iterator[Row]:
    count, length = PUBLISHED
    asked = f"{count} x {length} frames, batch 8, sequence_length 16"
    # 16 does not divide 300: the last window of each video is padded, so that all frames are decoded.
    sampling = fsp.samplers.Windows(sequence_length=16, padding="edge")
    # In full size a clip takes 100 MB, and each session works on a group of 150 pictures.
    shapes = {
        "full": ("full size, budget 32 GiB", {"transforms": [], "cache": "32GiB"}),
        "small": (f"{SIZE}x{SIZE}, budget 2 GiB", {}),
    }
    only = context.arguments.get("shape")
    for name, keywords in [shapes[only]] if only else shapes.values():
        make = maker(dataset, sampling, **keywords)
        if problem := find_difference(make, count=1):
            yield Row(name, asked, FAILED, problem)
            continue
        for attempt in ("first epoch of a process, creates decoders", "again"):
            run = epoch(make(), 0, context.left())
            # With the padding of each video's last window.
            frames = count * -(-length // 16) * 16
            why = "" if run.frames >= frames else f"stopped after {run.frames} of {frames} frames, for time"
            figures = {**run.figures, "files": files, "scaled_seconds": run.seconds * frames / run.frames}
            yield Row(f"{name}, {attempt}", asked, OK, why, figures)
            if context.left() < run.seconds:
                break
