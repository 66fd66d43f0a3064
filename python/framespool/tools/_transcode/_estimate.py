"""Estimates the benefit and the cost of transcoding, from the packets of some videos and short trial encodes."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from framespool._common.format import bytes_text
from framespool._common.validate_args import integer
from framespool.errors import Error
from framespool.tools._probe._read_files import spread
from framespool.tools._transcode import _output_paths
from framespool.tools._transcode._encode import encode
from framespool.tools._transcode._ffmpeg import CancelToken
from framespool.tools._transcode._job import TranscodeJob, Video
from framespool.video._info import VideoInfo
from framespool.video._video import Video as OpenVideo

#: Videos whose packets are examined, and trial encodes among them, evenly spread over the dataset.
_MAX_SAMPLED_VIDEOS = 32
_TRIAL_ENCODES = 3
_TRIAL_FRAMES = 64
#: A smaller relative gain is not worth a copy of the dataset.
_MIN_USEFUL_GAIN = 0.2


def estimate(plan: TranscodeJob, sequence_length: int, stride: int) -> dict[str, Any] | None:
    """Examines a sample of the videos, and encodes the start of a few into a temporary folder.

    Args:
        plan: The job.
        sequence_length: Frames of the clip that the costs apply to.
        stride: Distance between its frames.

    Returns:
        `TranscodeReport.estimate`; `None` if all videos are already transcoded.
    """
    frames, apart = integer("sequence_length", sequence_length, least=1), integer("stride", stride, least=1)
    if not plan.todo:
        return None
    found: list[tuple[Video, VideoInfo, dict[str, Any]]] = []
    sampled_videos = spread(plan.todo, _MAX_SAMPLED_VIDEOS)
    for video in sampled_videos:
        with contextlib.suppress(Error):
            opened = OpenVideo(video.source, num_threads=1, stream=plan.dataset.stream, index=plan.index)
            found.append((video, opened.info, opened._video.analyze_access(frames, apart)))
    share = len(plan.todo) / len(found) if found else 0.0
    costs = [counts["clip"][0] for _, _, counts in found if counts["clip"] is not None]
    shapes = [(info.width * info.height, plan.options.size_of(info)) for _, info, _ in found]
    total = sum(info.num_frames for _, info, _ in found)
    seconds, written, encoded = _encoded(plan, [video for video, _, _ in found])
    after = frames_decoded_per_clip(frames, apart, plan.options.gop, plan.options.b_frames)
    values: dict[str, Any] = {
        "videos": len(plan.todo),
        "sampled_videos": len(sampled_videos),
        "unreadable": len(sampled_videos) - len(found),
        "frames": round(total * share),
        "sequence_length": frames,
        "stride": apart,
        "frames_decoded_now": _mean(costs) if costs else None,
        "frames_decoded_after": after if costs else None,
        "pixels_now": _mean([float(now) for now, _ in shapes]),
        "pixels_after": _mean([float(width * height) for _, (width, height) in shapes]),
        "bytes_now": round(sum(_size(video, counts["packet_bytes"]) for video, _, counts in found) * share),
        "bytes_after": round(written / encoded * total * share) if encoded else None,
        "seconds": seconds / encoded * total * share / plan.jobs if encoded else None,
        "jobs": plan.jobs,
        "options": asdict(plan.options),
    }
    values["gain"] = (
        values["frames_decoded_now"] * values["pixels_now"] / (after * values["pixels_after"]) if costs else None
    )
    return values | {"summary": _summary(values)}


def _summary(values: dict[str, Any]) -> list[str]:
    """An estimate as sentences, with advice."""
    lines = [
        f"{values['videos']} videos to transcode, about {values['frames']} frames (estimated from "
        f"{values['sampled_videos']})"
    ]
    if values["unreadable"]:
        lines[0] += f"; {values['unreadable']} of these cannot be read; run framespool validate"
    clip = f"{values['sequence_length']} frames, {values['stride']} apart"
    gain, now, after = values["gain"], values["frames_decoded_now"], values["frames_decoded_after"]
    if gain is None:
        lines.append(f"no examined video is as long as a clip of {clip}: the gain is unknown")
    else:
        ratio = f"{now / after:.1f} times fewer" if now >= 1.05 * after else f"{after / now:.1f} times as many"
        lines.append(f"a random clip of {clip}: {now:.0f} frames decoded now, about {after:.0f} afterwards ({ratio})")
    fewer_pixels = values["pixels_now"] / max(1.0, values["pixels_after"])
    smaller = values["pixels_after"] < 0.99 * values["pixels_now"]
    if smaller:
        lines.append(f"each frame has {fewer_pixels:.1f} times fewer pixels afterwards")
    size = "unknown" if values["bytes_after"] is None else f"about {bytes_text(values['bytes_after'])}"
    takes = (
        "unknown"
        if values["seconds"] is None
        else f"about {_duration(values['seconds'])} with {values['jobs']} at a time"
    )
    lines.append(f"on disk: {bytes_text(values['bytes_now'])} now, {size} for the new files; time: {takes}")
    if gain is not None and gain < 1 + _MIN_USEFUL_GAIN:
        lines.append("not recommended for such clips: random access to these videos is already cheap")
    lines.append(
        "epochs over complete videos (adjacent windows, validate, many clips per video) already decode each frame "
        "once: for them "
        + ("only the smaller frames help" if smaller else "nothing is gained, and larger files are slower to read")
    )
    return lines


def _encoded(plan: TranscodeJob, videos: Sequence[Video]) -> tuple[float, int, int]:
    """Seconds, bytes and frames of the trial encodes. Videos that cannot be decoded are skipped."""
    began = time.monotonic()
    written = frames = 0
    stop = CancelToken()
    try:
        with tempfile.TemporaryDirectory(prefix="framespool-") as folder:
            for number, video in enumerate(spread(videos, _TRIAL_ENCODES)):
                made = os.path.join(folder, f"{number}.mp4")
                with contextlib.suppress(Error):
                    frames += encode(
                        video.source,
                        made,
                        plan.options,
                        plan.program,
                        plan.threads,
                        stop,
                        plan.index,
                        _TRIAL_FRAMES,
                        plan.dataset.stream,
                    )
                    written += os.stat(made).st_size
    finally:
        stop.cancel()
    return time.monotonic() - began, written, frames


def _size(video: Video, packet_bytes: int) -> int:
    """Bytes of a video's file, or of its packets if the video is inside another file."""
    path = "" if isinstance(video.source, bytes) else _output_paths.file_of(video.source)
    with contextlib.suppress(OSError):
        if path == (os.fspath(video.source) if isinstance(video.source, (str, os.PathLike)) else None):
            return os.stat(path).st_size
    return packet_bytes


def frames_decoded_per_clip(frames: int, stride: int, gop: int, b_frames: int) -> float:
    """Mean frames decoded for a clip alone, over all positions of its first frame in a closed GOP.

    After each `b_frames` disposable frames one follows on which others depend.

    Args:
        frames: Frames of the clip.
        stride: Distance between its frames.
        gop: Frames of the GOP.
        b_frames: Disposable frames between two others.

    Returns:
        The mean.
    """
    total = 0
    for first in range(gop):
        wanted = [first + number * stride for number in range(frames)]
        last_of = {place // gop: place % gop for place in wanted}
        for last in last_of.values():
            # Up to the next frame that others depend on, which the last one of a GOP is.
            total += -(-last // (b_frames + 1)) + 1
        total += sum(1 for place in wanted if b_frames and place % gop % (b_frames + 1) and place % gop != gop - 1)
    return total / gop


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(1, len(values))


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
