"""The ceiling: raw sessions decode a video from memory repeatedly and do nothing with the pictures."""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench_videos import full_hd, typical
from dmon import Dmon
from framespool import gpu
from items import IMPOSSIBLE, OK, Context, Row, item

SESSIONS = (1, 2, 4, 7, 14, 21, 28)


@item("ceiling", seconds=150, checklist="3")
def ceiling(context: Context) -> Iterator[Row]:
    """Throughput by number of sessions, for one H.264 and one HEVC video."""
    codec, sessions = context.arguments.get("codec"), context.arguments.get("sessions")
    videos = {each: typical(each) for each in ([codec] if codec else ("h264", "hevc"))}
    counts = [sessions] if sessions else SESSIONS
    each = context.budget_seconds / (len(videos) * len(counts)) * 0.8
    for codec, video in videos.items():
        if video is None:
            yield Row(codec, "raw sessions", IMPOSSIBLE, "no 1080p video of this codec")
            continue
        for count in counts:
            yield rate(video.path, video.name, count, each)


def rate(path, name: str, sessions: int, seconds: float) -> Row:
    # Sessions are created and warmed up first: another item measures their creation.
    gpu.decode_throughput(path, sessions=sessions, seconds=0.3, map_every=0)
    cpu, begin = time.process_time(), time.monotonic()
    with Dmon() as dmon:
        run = gpu.decode_throughput(path, sessions=sessions, seconds=seconds, map_every=0)
    cores = (time.process_time() - cpu) / (time.monotonic() - begin)
    mapped = gpu.decode_throughput(path, sessions=sessions, seconds=min(seconds, 3.0), map_every=1)
    figures = {
        "file": path.name,
        "ceiling_per_s": run.frames_per_second,
        "mapping_all_per_s": mapped.frames_per_second,
        "cores": cores,
        **dmon.figures(),
    }
    return Row(f"{sessions} sessions", f"raw decoding of {name}", OK, "", figures)


@item("ceilings", seconds=90, checklist="3")
def ceilings(context: Context) -> Iterator[Row]:
    """One figure per video that the other items use, with framespool's default number of sessions."""
    videos = full_hd()
    each = max(context.budget_seconds / max(len(videos), 1) * 0.5, 1.0)
    for video in videos:
        yield rate(video.path, video.name, 3 * max(context.device.engines, 1), each)
