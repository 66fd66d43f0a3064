#!/usr/bin/env python3
"""Draws the figures of README.md and docs/ as SVG, from results of framespool on files of the corpus.

    scripts/docs_figures.py                  draws all figures into docs/figures
    scripts/docs_figures.py --only exact     draws the figures that depend on nothing but the files
    scripts/docs_figures.py --out FOLDER     draws into another folder

All data come from the library: GOPs from ``Video.info``, clips from a loader, counts from its ``stats()``. The
environment variable FRAMESPOOL_CORPUS names the folder of the corpus.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import framespool as fsp

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "benches"))

from suite.svg import BLUE, GREEN, INK, ORANGE, RED, SKY, Drawing  # noqa: E402

if not os.environ.get("FRAMESPOOL_CORPUS"):
    raise SystemExit("docs_figures: FRAMESPOOL_CORPUS is not set; set it to the folder of the corpus")
CORPUS = Path(os.environ["FRAMESPOOL_CORPUS"])

LIGHT = "#eef3f7"


def flow() -> Drawing:
    """The data flow from files to batches, from left to right."""
    d = Drawing(860, 250, "Data flow: files, index, plan, decoders, transforms, batches")
    steps = [
        ("videos", "paths, archives,", "tables, URLs", LIGHT),
        ("video index", "packets, frames,", "keyframes; cached", LIGHT),
        ("scheduler", "lookahead, groups", "clips by GOP", "#dcefe7"),
        ("decode", "each GOP once, only", "required frames", "#dcefe7"),
        ("transforms", "crop, resize, color", "in one pass", "#dcefe7"),
        ("batches", "complete, in order,", "as DLPack tensors", LIGHT),
    ]
    width, gap, left, top = 124, 17, 15, 92
    for number, (name, first, second, fill) in enumerate(steps):
        x = left + number * (width + gap)
        d.box(x, top, width, 76, fill, edge="#b8c4cc", rx=6)
        d.text(x + width / 2, top + 24, name, size=15, at="middle", bold=True)
        d.text(x + width / 2, top + 46, first, size=11.5, at="middle")
        d.text(x + width / 2, top + 62, second, size=11.5, at="middle")
        if number:
            d.arrow(x - gap + 1, top + 38, x - 1, top + 38)
    middle = left + 2 * (width + gap) + width / 2
    d.box(middle - 170, 18, 340, 42, "#fbf0dc", edge="#dcc28b", rx=6)
    d.text(middle, 35, "clip sampler and batch sampler", size=13, at="middle", bold=True)
    d.text(middle, 51, "select the frames of each clip and the order of clips", size=11.5, at="middle")
    d.arrow(middle, 60, middle, top - 1)
    cache = left + 4 * (width + gap) + width / 2
    d.box(middle - 62, 194, cache - middle + 124, 38, "#f4f4f4", edge="#cccccc", rx=6)
    d.text((middle + cache) / 2, 210, "clip cache: finished clips wait for delivery,", size=11.5, at="middle")
    d.text((middle + cache) / 2, 225, "limited by the memory of cache=", size=11.5, at="middle")
    d.arrow(cache, top + 76, cache, 193)
    d.text(15, 245, "The pixels of a clip do not depend on threads, memory or other clips.", size=11, color="#666666")
    return d


def clip_counters() -> Drawing:
    """The steps from a clip request to its delivery, each with the keys of ``stats()`` that count it."""
    d = Drawing(860, 852, "From a clip request to a delivered clip, with the counters of stats()")
    d.text(20, 28, "From a clip request to a delivered clip, and what stats() counts", size=15, bold=True)
    left, middle, right, height = 70, 300, 560, 44

    def box(y: float, name: str, note: str, *, x: float = middle - 150, width: float = 300, fill: str = LIGHT) -> None:
        d.box(x, y, width, height, fill, edge="#b8c4cc", rx=6)
        d.text(x + width / 2, y + 18, name, size=13.5, at="middle", bold=True)
        d.text(x + width / 2, y + 35, note, size=11.5, at="middle")

    def arrow(x: float, y: float, to: float, *lines: str) -> None:
        """An arrow with lines of text at its right; those that begin with a dot describe a step, others are keys."""
        d.arrow(x, y, x, to - 1)
        for number, line in enumerate(lines):
            is_step = line.startswith(".")
            color = "#555555" if is_step else INK
            d.text(x + 14, y + 18 + 15 * number, line.lstrip("."), size=11.5, color=color, code=not is_step)

    box(44, "clip request", "in the lookahead window")
    arrow(middle, 88, 144, ".open, index, sample", "index_hits videos_indexed planning_seconds")
    box(144, "plan", "the clips of one video that share packets")
    arrow(middle, 188, 244, ".join ranges that overlap", "decode_ranges gops_shared")
    box(244, "decode range", "from a random access point to the last picture")
    arrow(
        middle,
        288,
        374,
        ".read, skip, decode",
        "bytes_read remote_bytes reading_seconds packets_skipped",
        "frames_decoded frames_decoded_by_gpu decoding_seconds",
        "decoders_opened decode_ranges_repeated cpu_fallbacks",
    )
    box(374, "frames", "exactly the requested ones", fill="#dcefe7")
    arrow(middle, 418, 474, ".given to the clips that contain them", "frames_used transform_seconds")
    box(474, "transforms", "write each clip to where it waits for delivery", x=20, width=820, fill="#dcefe7")
    arrow(left, 518, 584, ".batch is not open", "clip_cache_peak_bytes")
    arrow(middle, 518, 724, ".batch is open")
    arrow(right, 518, 584, ".clip of a later epoch", "disk_clips_stored disk_bytes_written", "disk_clips_not_stored")
    box(584, "clip cache", "in memory, cache=", x=20, width=250, fill="#fbf0dc")
    box(584, "disk cache", "in a folder, Cache(disk=...)", x=500, width=340, fill="#fbf0dc")
    arrow(
        left,
        628,
        724,
        ".a worker copies the clip",
        "clip_cache_hits",
        ".or evicted, and made again",
        "clips_evicted",
        "clips_decoded_again",
    )
    arrow(
        right,
        628,
        724,
        ".a worker reads the clip",
        "disk_clips_read disk_bytes_read",
        ".or evicted or damaged, and made again",
        "disk_clips_evicted disk_clips_damaged",
    )
    box(724, "slot of an open batch", "a part of the memory that the training loop gets", x=20, width=820)
    arrow(
        middle,
        768,
        824,
        ".all its clips are finished, and all earlier batches are delivered",
        "batches clips frames consumer_wait_seconds",
        "errors clips_skipped clips_replaced",
    )
    d.text(middle, 840, "delivered", size=13.5, at="middle", bold=True)
    return d


def clips_of_one_video() -> Drawing:
    """Six random clips of one video: each decoded independently, and all by one plan."""
    file = CORPUS / "video" / "action" / "robot_sink_960x540.mp4"
    info = fsp.Video(file, index=False).info
    keys, frames = list(info.keyframes), info.num_frames
    sampler = fsp.samplers.RandomClips(sequence_length=16, stride=4, clips_per_video=6)
    small = [fsp.transforms.Resize((16, 16))]
    loader = fsp.ClipLoader([str(file)], sampler, batch_size=6, transforms=small, num_threads=1, index=False, seed=1)
    clips = [loader.describe_clip(clip, epoch=0)["indices"] for clip in range(loader.num_clips)]
    shared = _counted(loader)
    alone = []
    for clip in clips:
        sampler = fsp.samplers.Indices(clip)
        one = fsp.ClipLoader([str(file)], sampler, batch_size=1, transforms=small, num_threads=1, index=False)
        alone.append(_counted(one)["frames_decoded"])

    left, right, row, top = 84, 720, 30, 76
    height = top + row * (len(clips) + 2) + 70
    d = Drawing(860, height, "Six random clips of one video, decoded independently and by one plan")
    d.text(left, 26, f"{file.name}: {frames} frames, {len(keys)} keyframes", size=15, bold=True)
    d.text(
        left,
        46,
        f"{len(clips)} random clips of 16 frames, every 4th, from a loader",
        size=12,
        color="#555555",
    )

    def x_at(frame: float) -> float:
        return left + (right - left) * frame / frames

    bottom = top + row * len(clips) + 56
    d.boxes([(x_at(key) - 0.6, top - 10, 1.2, bottom - top + 10) for key in keys], RED)
    frame_width = max(1.6, x_at(1) - left)
    for number, (clip, count) in enumerate(zip(clips, alone, strict=True)):
        y = top + number * row
        d.text(left - 8, y + 15, f"clip {number}", size=11.5, at="end")
        d.boxes([(x_at(a), y + 3, x_at(b + 1) - x_at(a), 16) for a, b in _spans([clip], keys)], "#cfe3f1")
        d.boxes([(x_at(frame), y + 3, frame_width, 16) for frame in clip], BLUE)
        d.text(right + 12, y + 15, f"{count} decoded", size=12)
    y = top + len(clips) * row + 14
    d.line(left, y - 8, right, y - 8, "#cccccc")
    d.text(left - 8, y + 19, "one plan", size=11.5, at="end", bold=True)
    d.boxes([(x_at(a), y + 5, x_at(b + 1) - x_at(a), 20) for a, b in _spans(clips, keys)], "#cdebdf")
    d.boxes([(x_at(f), y + 5, frame_width, 20) for f in sorted({f for clip in clips for f in clip})], GREEN)
    d.text(right + 12, y + 20, f"{shared['frames_decoded']} decoded", size=12, bold=True)
    y = bottom + 22
    notes = [
        (RED, "keyframe"),
        ("#cfe3f1", "between keyframe and requested frames, decoded if needed"),
        (BLUE, "requested"),
    ]
    x = left
    for color, words in notes:
        d.box(x, y - 10, 12, 12, color)
        d.text(x + 18, y, words, size=11.5)
        x += 40 + 6.1 * len(words)
    total = sum(alone)
    d.text(
        left,
        y + 24,
        f"Independently: {total} frames decoded for {16 * len(clips)}. By one plan: {shared['frames_decoded']}, "
        f"and {shared['packets_skipped']} packets skipped.",
        size=12.5,
    )
    return d


def _counted(loader: fsp.ClipLoader) -> dict[str, Any]:
    """The counts of an epoch. A decode task is counted when it ends, possibly after delivery of its last clip."""
    for _ in loader:
        pass
    counts = loader.stats()
    while True:
        time.sleep(0.3)
        before, counts = counts, loader.stats()
        if before["frames_decoded"] == counts["frames_decoded"] > 0:
            return counts


def _spans(clips: list[list[int]], keys: list[int]) -> list[tuple[int, int]]:
    """The range from the keyframe to the last requested frame, for each GOP with a requested frame."""
    spans: dict[int, int] = {}
    for frame in (frame for clip in clips for frame in clip):
        start = max(key for key in keys if key <= frame)
        spans[start] = max(frame, spans.get(start, 0))
    return sorted(spans.items())


def frame_times() -> Drawing:
    """Frames with a variable frame rate, and those on screen at evenly spaced times."""
    file = CORPUS / "video" / "derived" / "vfr_60_15_30_640x360.mp4"
    video = fsp.Video(file, index=False, layout="THWC")
    pts, end = video.pts_seconds, video.info.end_seconds
    count = 8
    times = [pts[0] + number * (end - pts[0]) / count for number in range(count)]
    shown = video.frames_at(times, transforms=[fsp.transforms.Resize((8, 8))]).indices
    spread = [round(number * len(pts) / count) for number in range(count)]
    left, right = 40, 820

    def x_at(seconds: float) -> float:
        return left + (right - left) * (seconds - pts[0]) / (end - pts[0])

    d = Drawing(860, 236, "Frames with a variable frame rate on a time axis")
    d.text(left, 26, f"{file.name}: {len(pts)} frames in {end - pts[0]:.2f} s, variable frame rate", size=15, bold=True)
    d.text(
        left,
        62,
        "each frame is on screen from its presentation time to that of the next frame",
        size=12,
        color="#555555",
    )
    shown_until = [*pts[1:], end]
    frame_boxes = [(x_at(a), 72, max(0.8, x_at(b) - x_at(a) - 0.6), 26) for a, b in zip(pts, shown_until, strict=True)]
    d.boxes(frame_boxes[::2], BLUE)
    d.boxes(frame_boxes[1::2], SKY)
    for name, frames, color, y in (
        ("frames_at(…), fps=…: frames on screen at evenly spaced times", shown, GREEN, 118),
        ("every n-th frame: not evenly spaced in time", spread, ORANGE, 174),
    ):
        d.text(left, y, name, size=12, color="#555555")
        d.line(left, y + 20, right, y + 20, "#cccccc")
        for frame in frames:
            d.dot(x_at(pts[frame]), y + 20, 5, color)
            d.text(x_at(pts[frame]) + 6, y + 34, str(frame), size=10.5, color="#444444")
    d.text(
        right, 226, "numbers: presentation index of the frame; x: presentation time", size=11, color="#666666", at="end"
    )
    return d


def shuffles() -> Drawing:
    """The clip at each position of an epoch, for each kind of shuffle."""
    clips, clips_per_video = 1800, 18
    shuffles_shown: list[tuple[str, dict[str, Any]]] = [
        ("shuffle=False", {"shuffle": False}),
        ("buffer, initial_fill=64", {"shuffle": fsp.BufferShuffle(64)}),
        ("buffer, initial_fill=512", {"shuffle": fsp.BufferShuffle(512)}),
        ('shuffle="full"', {"shuffle": "full"}),
    ]
    side, gap, top = 180, 26, 62
    d = Drawing(30 + len(shuffles_shown) * (side + gap), top + side + 66, "How far each shuffle moves clips")
    d.text(30, 26, f"{clips} clips, one epoch: the clip at each position", size=15, bold=True)
    for number, (name, keywords) in enumerate(shuffles_shown):
        order = fsp.order.BatchSampler(num_clips=clips, batch_size=32, seed=0, **keywords)
        delivered = [clip for batch in order.epoch(0) for clip in batch]
        x = 30 + number * (side + gap)
        d.box(x, top, side, side, "#fafafa", edge="#cccccc")
        d.dots(
            [
                (x + side * position / clips, top + side * (1 - delivered[position] / clips))
                for position in range(0, clips, 3)
            ]
        )
        mixed = order.quality(clips_per_video=clips_per_video)["videos_per_batch"]
        d.text(x + side / 2, top - 10, name, size=12.5, at="middle", bold=True)
        d.text(x + side / 2, top + side + 18, f"{mixed:.1f} videos per batch of 32", size=11.5, at="middle")
    d.text(
        30,
        top + side + 46,
        "x: position in the epoch; y: index of the clip; 18 clips per video",
        size=11,
        color="#666666",
    )
    return d


def shards() -> Drawing:
    """The batches of an epoch on one, two and four ranks."""
    clips = 22
    cell, left, top = 30, 150, 66
    colors = [SKY, ORANGE, "#79c9ae", "#e8a37c"]
    d = Drawing(left + 24 * cell + 60, 240, "The same global batches on one, two and four ranks")
    d.text(20, 26, f"{clips} clips, 8 per global batch: the same order on any number of ranks", size=15, bold=True)
    for row, ranks in enumerate((1, 2, 4)):
        size, y = 8 // ranks, top + row * 48
        d.text(20, y + 19, f"{ranks} rank{'s' if ranks > 1 else ''} of batch_size {size}", size=11.5)
        orders = [
            fsp.order.BatchSampler(
                num_clips=clips,
                batch_size=size,
                shuffle="full",
                seed=0,
                last_batch="fill",
                shard_id=r,
                num_shards=ranks,
            )
            for r in range(ranks)
        ]
        x = left + 10
        cells: dict[tuple[str, str], list[tuple[float, float, float, float]]] = {}
        labels = []
        for batch in range(len(orders[0])):
            for rank, order in enumerate(orders):
                for clip, filled in zip(order.batch(batch), order.padding(batch), strict=True):
                    colors_of_cell = ("#ffffff" if filled else colors[rank], colors[rank])
                    cells.setdefault(colors_of_cell, []).append((x, y, cell, 28))
                    labels.append((x + cell / 2, y + 19, str(clip)))
                    x += cell
            x += 8
        for (fill, edge), boxes in cells.items():
            d.boxes(boxes, fill, edge=edge)
        d.labels(labels, size=11.5)
    x = 20
    for rank in range(4):
        d.box(x, 212, 12, 12, colors[rank])
        d.text(x + 17, 222, f"rank {rank}", size=11)
        x += 72
    d.box(x, 212, 12, 12, "#ffffff", edge=INK)
    d.text(x + 17, 222, "padding of the last batch, marked in batch.padding", size=11)
    return d


def crops() -> Drawing:
    """The random crop of one clip in eight epochs."""
    file = CORPUS / "video" / "derived" / "base_640x360.mp4"
    info = fsp.Video(file, index=False).info
    loader = fsp.ClipLoader(
        [str(file)],
        fsp.samplers.RandomClips(sequence_length=8, stride=4),
        batch_size=1,
        transforms=[fsp.transforms.RandomResizedCrop(112), fsp.transforms.RandomHorizontalFlip()],
        index=False,
    )
    width, height, gap = 188, 188 * info.height / info.width, 18
    d = Drawing(30 + 4 * (width + gap), 84 + 2 * (height + 46), "One clip's random crop in eight epochs")
    d.text(
        30, 26, f"RandomResizedCrop(112) of one clip of {info.width}x{info.height}, epoch by epoch", size=15, bold=True
    )
    d.text(30, 46, "from loader.describe_clip(0, epoch=e), without decoding", size=12, color="#555555")
    for epoch in range(8):
        properties = loader.describe_clip(0, epoch=epoch)
        crop, flip = properties["transforms"][0], properties["transforms"][1]
        x, y = 30 + epoch % 4 * (width + gap), 84 + epoch // 4 * (height + 46)
        d.text(x, y - 7, f"epoch {epoch}", size=12, bold=True)
        d.box(x, y, width, height, "#fafafa", edge="#bbbbbb")
        scale = width / info.width
        box = [crop[name] * scale for name in ("left", "top", "width", "height")]
        d.box(x + box[0], y + box[1], box[2], box[3], "#cfe3f1", edge=BLUE)
        frames = f"frames {properties['indices'][0]} to {properties['indices'][-1]}"
        d.text(x, y + height + 16, frames + (", flipped" if flip["applied"] else ""), size=11)
    return d


def counts() -> Drawing:
    """Frames decoded in an epoch, with and without a clip cache."""
    folder = CORPUS / "video" / "action"
    names = (
        "arm_wrestling_k400_340x256.mp4",
        "basketball_426x240.mp4",
        "pool_k400_340x256.mp4",
        "robot_sink_960x540.mp4",
    )
    files = [str(folder / name) for name in names]
    tasks: list[tuple[str, Any]] = [
        ("all windows of 16 frames", fsp.samplers.Windows(sequence_length=16)),
        ("8 random clips of 16, every 4th", fsp.samplers.RandomClips(sequence_length=16, stride=4, clips_per_video=8)),
        ("1 random clip of each video", fsp.samplers.RandomClips(sequence_length=16, stride=4)),
    ]
    budgets = [
        ("no clip cache", {"cache": fsp.Cache(0, lookahead=0), "prefetch_batches": 0}),
        ("256 MiB clip cache", {"cache": "256MiB"}),
    ]
    rows = []
    for name, sampler in tasks:
        for budget, keywords in budgets:
            loader = fsp.ClipLoader(
                files,
                sampler,
                batch_size=4,
                transforms=[fsp.transforms.Resize((112, 112))],
                shuffle="full",
                num_threads=1,
                index=False,
                **keywords,
            )
            rows.append((name, budget, _counted(loader)["frames_decoded_per_frame_delivered"], loader.num_clips))
    largest = max(value for _, _, value, _ in rows)
    left, right, top = 250, 690, 74
    d = Drawing(860, top + 74 * len(tasks) + 34, "Frames decoded per frame delivered")
    d.text(20, 26, "Frames decoded per frame delivered, one shuffled epoch", size=15, bold=True)
    d.text(
        20,
        46,
        f"{len(files)} H.264 videos with long GOPs; lower is better; from loader.stats()",
        size=12,
        color="#555555",
    )
    for number, (name, budget, value, clips) in enumerate(rows):
        y = top + number // 2 * 74 + number % 2 * 26
        if number % 2 == 0:
            d.text(20, y + 16, name, size=12, bold=True)
            d.text(20, y + 33, f"{clips} clips", size=11, color="#555555")
        d.box(left, y, (right - left) * value / largest, 20, GREEN if number % 2 else ORANGE)
        d.text(left + (right - left) * value / largest + 8, y + 15, f"{value:.2f}, {budget}", size=11.5)
    return d


EXACT: dict[str, Callable[[], Drawing]] = {
    "flow": flow,
    "stats": clip_counters,
    "clips": clips_of_one_video,
    "times": frame_times,
    "shuffles": shuffles,
    "shards": shards,
    "crops": crops,
}
#: Figures that depend slightly on timing.
OTHERS: dict[str, Callable[[], Drawing]] = {"counts": counts}


def main() -> None:
    """Draws the selected figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "figures")
    parser.add_argument("--only", choices=("exact", *EXACT, *OTHERS))
    options = parser.parse_args()
    selected = EXACT | ({} if options.only == "exact" else OTHERS)
    if options.only not in (None, "exact"):
        selected = {options.only: selected[options.only]}
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FRAMESPOOL_INDEX"] = folder
        for name, draw in selected.items():
            (options.out / f"{name}.svg").write_text(str(draw()))


if __name__ == "__main__":
    main()
