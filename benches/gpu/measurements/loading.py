"""Loaders as training scripts use them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import framespool as fsp
from bench_videos import BenchVideo, full_hd
from common import TRY, timed
from items import FAILED, IMPOSSIBLE, OK, Context, Row, item
from timing import SIZE, epoch, find_difference, measure

from measurements.measured_ceilings import ceiling_of

PUBLISHED = (4, 48) if TRY else (173, 300)
#: Frames of a dataset that repeats one file.
MANY = 500 if TRY else 40_000
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


@item("dense", seconds=200, checklist="3")
def dense(context: Context) -> Iterator[Row]:
    """Every frame of 1080p, in order, compared with the ceiling."""
    videos = full_hd()
    each = context.budget_seconds / max(len(videos), 1) / 6
    for video in videos:
        make = maker(repeated(video, MANY), fsp.samplers.Windows(sequence_length=16))
        yield measure(video.name, f"every frame, {SIZE}x{SIZE}", make, seconds=each, ceiling=ceiling_of(video.path))


@item("strided", seconds=120, checklist="4")
def strided(context: Context) -> Iterator[Row]:
    """Windows of 16 frames at stride 4 and 8: disposable pictures are skipped."""
    videos = full_hd()[:4]
    for video in videos:
        for stride in (4, 8):
            sampling = fsp.samplers.Windows(sequence_length=16, stride=stride, padding="edge")
            make = maker(repeated(video, MANY), sampling)
            each = context.budget_seconds / len(videos) / 12
            asked = f"windows of 16, stride {stride}"
            yield measure(video.name, asked, make, seconds=each, ceiling=ceiling_of(video.path))


@item("random", seconds=200)
def random_clips(context: Context) -> Iterator[Row]:
    """Random clips of 16 frames, stride 4, shuffled, by GOP length."""
    kinds: dict[tuple[str, str], list[BenchVideo]] = {}
    for video in full_hd():
        kinds.setdefault((video.kind, video.codec), []).append(video)
    for missing in [kind for kind in ("GOP 30", "GOP 250") if kind not in {k for k, _ in kinds}]:
        yield Row(missing, "random clips", IMPOSSIBLE, f"no 1080p video with {missing}; see README.md, encode.py")
    for (kind, codec), videos in kinds.items():
        dataset = [video.path for video in videos for _ in range(max(60 // len(videos), 1))]
        sampling = fsp.samplers.RandomClips(sequence_length=16, stride=4, clips_per_video=1, padding="loop")
        make = maker(dataset, sampling, shuffle="full", seed=3)
        known = [rate for video in videos if (rate := ceiling_of(video.path))]
        ceiling = sum(known) / len(known) if known else None
        asked = f"random clips of 16, stride 4, of {len(videos)} videos, each file {len(dataset) // len(videos)} times"
        each = context.budget_seconds / len(kinds) / 5
        yield measure(f"{kind}, {codec}", asked, make, seconds=each, ceiling=ceiling)


@item("shuffled-epochs", seconds=90)
def shuffled(context: Context) -> Iterator[Row]:
    """All windows of all videos in random order: GOPs are shared, finished clips are cached."""
    videos = full_hd("h264")
    # Few enough for whole epochs: at the start of one, pictures are decoded for clips that are delivered later.
    dataset = [video.path for video in videos for _ in range(2 if TRY else 4)]
    for budget in ("2GiB", 0):
        make = maker(dataset, fsp.samplers.Windows(sequence_length=16), shuffle="full", seed=1, cache=budget)
        row = measure(
            f"cache {budget}",
            f"all windows of 16, shuffled, of {len(videos)} videos, each file {len(dataset) // len(videos)} times",
            make,
            seconds=context.budget_seconds,
            ceiling=None,
            repeats=1 if TRY else 2,
        )
        if row.figures.get("seconds", 0) >= context.budget_seconds:
            row.result, row.why = IMPOSSIBLE, "no complete epoch within the time; raise --seconds"
        yield row


@item("hybrid", seconds=120)
def hybrid(context: Context) -> Iterator[Row]:
    """NVDEC alone, NVDEC and the CPU, the CPU alone; the batches are on the GPU."""
    video = next(iter(full_hd("h264")), None)
    if video is None:
        yield Row("hybrid", "every frame", IMPOSSIBLE, "no 1080p H.264 here")
        return
    make = maker(repeated(video, MANY), fsp.samplers.Windows(sequence_length=16))
    for decoder in ("nvdec", "auto", "cpu"):
        each = context.budget_seconds / 20
        yield measure(
            f'decoder="{decoder}"',
            video.name,
            make,
            seconds=each,
            ceiling=ceiling_of(video.path),
            device=fsp.Gpu(0, decoder=decoder),
        )


@item("short-clips", seconds=90)
def short_clips(context: Context) -> Iterator[Row]:
    """One random clip of each of many short videos, as in loaders of Kinetics and Something-Something."""
    files = [clip.path for clip in timed("short")]
    dataset = [files[number % len(files)] for number in range(ENTRIES)]
    for stride in (1, 4):
        sampling = fsp.samplers.RandomClips(sequence_length=8, stride=stride, padding="loop")
        make = maker(dataset, sampling, shuffle="full", seed=2, batch_size=16)
        asked = f"{ENTRIES} entries of {len(files)} short files, clips of 8, stride {stride}"
        yield measure(f"stride {stride}", asked, make, seconds=context.budget_seconds / 10, ceiling=None)


@item("workers", seconds=150, checklist="3")
def workers(context: Context) -> Iterator[Row]:
    """Clips per second by number of workers."""
    videos = [video for video in full_hd("h264") if video.kind == "GOP 250"] or full_hd("h264")
    dataset = [video.path for video in videos for _ in range(max(200 // len(videos), 1))]
    sampling = fsp.samplers.RandomClips(sequence_length=16, stride=4, padding="loop")
    make = maker(dataset, sampling, shuffle="full", seed=3)
    counts = (1, 2, 4, 7, 14, 21, 28)
    for count in counts:
        yield measure(
            f"{count} workers",
            f"random clips of 16, stride 4, of {len(videos)} files",
            make,
            seconds=context.budget_seconds / len(counts) / 4,
            ceiling=None,
            repeats=2,
            device=fsp.Gpu(0, threads=count, output="cpu"),
        )


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
    full = {"transforms": [], "cache": "32GiB"}
    for name, keywords in (("full size, budget 32 GiB", full), (f"{SIZE}x{SIZE}, budget 2 GiB", {})):
        make = maker(dataset, sampling, **keywords)
        if problem := find_difference(make, count=1):
            yield Row(name, asked, FAILED, problem)
            continue
        for attempt in ("first epoch of a process, creates decoders", "again"):
            run = epoch(make(), 0, context.left())
            done = run.frames >= count * length
            why = "" if done else f"stopped after {run.frames} of {count * length} frames, for time"
            figures = {**run.figures, "files": files, "scaled_seconds": run.seconds * count * length / run.frames}
            yield Row(f"{name}, {attempt}", asked, OK, why, figures)
            if context.left() < run.seconds:
                break
