"""Estimates the benefit and the cost of transcoding, from the packets of some videos and short trial encodes."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from framespool._common.format import bytes_text
from framespool._common.validate_args import integer
from framespool.errors import Error
from framespool.tools._analyze_access import AccessReport, analyze_access
from framespool.tools._transcode import _output_paths
from framespool.tools._transcode._encode import encode
from framespool.tools._transcode._ffmpeg import CancelToken
from framespool.tools._transcode._job import TranscodeJob, Video
from framespool.tools._transcode._options import Options

#: Videos whose packets are examined, and trial encodes among them, evenly spread over the dataset.
_MAX_SAMPLED_VIDEOS = 32
_TRIAL_ENCODES = 3
_TRIAL_FRAMES = 64
#: A smaller relative gain is not worth a copy of the dataset.
_MIN_USEFUL_GAIN = 0.2


@dataclass(frozen=True)
class TranscodeEstimate:
    """An estimate of what `transcode()` would do.

    Attributes:
        videos: Videos to be transcoded.
        sampled_videos: Videos that were examined; the others are assumed to be similar.
        unreadable: Examined videos that cannot be read.
        frames: Frames of all videos.
        clip_frames: Frames of the clip that the costs apply to.
        clip_stride: Distance between its frames.
        frames_decoded_now: Mean frames decoded for a random clip alone. `None` if all videos are shorter than the clip.
        frames_decoded_after: The same after transcoding.
        pixels_now: Mean pixels of a frame.
        pixels_after: The same after transcoding.
        bytes_now: Bytes on disk.
        bytes_after: Bytes of the new files. `None` if no trial encode succeeded.
        seconds: Duration with `jobs` videos at the same time. `None` if no trial encode succeeded.
        jobs: Videos at the same time.
        options: Options of the encoder.

    Example:
        >>> import framespool as fsp
        >>> dataset = fsp.datasets.folder("videos/")
        >>> estimate = fsp.tools.estimate_transcode(dataset, "short/")
        >>> estimate.videos, estimate.frames_decoded_after <= estimate.frames_decoded_now
        (3, True)
    """

    videos: int
    sampled_videos: int
    unreadable: int
    frames: int
    clip_frames: int
    clip_stride: int
    frames_decoded_now: float | None
    frames_decoded_after: float | None
    pixels_now: float
    pixels_after: float
    bytes_now: int
    bytes_after: int | None
    seconds: float | None
    jobs: int
    options: Options = field(repr=False)

    def as_dict(self) -> dict[str, Any]:
        """The estimate for JSON.

        Returns:
            The values by name.
        """
        return asdict(self)

    @property
    def gain(self) -> float | None:
        """Factor by which the pixels decoded for a random clip decrease; `None` if no clip fits."""
        if self.frames_decoded_now is None or self.frames_decoded_after is None:
            return None
        return self.frames_decoded_now * self.pixels_now / (self.frames_decoded_after * self.pixels_after)

    def summary_lines(self) -> list[str]:
        """The estimate as sentences, with advice.

        Returns:
            The sentences.
        """
        lines = [
            f"{self.videos} videos to transcode, about {self.frames} frames (estimated from {self.sampled_videos})"
        ]
        if self.unreadable:
            lines[0] += f"; {self.unreadable} of these cannot be read; run framespool validate"
        clip = f"{self.clip_frames} frames, {self.clip_stride} apart"
        if self.frames_decoded_now is None or self.frames_decoded_after is None:
            lines.append(f"no examined video is as long as a clip of {clip}: the gain is unknown")
        else:
            fewer = self.frames_decoded_now / self.frames_decoded_after
            ratio = f"{fewer:.1f} times fewer" if fewer >= 1.05 else f"{1 / fewer:.1f} times as many"
            lines.append(
                f"a random clip of {clip}: {self.frames_decoded_now:.0f} frames decoded now, "
                f"about {self.frames_decoded_after:.0f} afterwards ({ratio})"
            )
        if self.pixels_after < 0.99 * self.pixels_now:
            lines.append(f"each frame has {self.pixels_now / self.pixels_after:.1f} times fewer pixels afterwards")
        after = "unknown" if self.bytes_after is None else f"about {bytes_text(self.bytes_after)}"
        takes = "unknown" if self.seconds is None else f"about {_duration(self.seconds)} with {self.jobs} at a time"
        lines.append(f"on disk: {bytes_text(self.bytes_now)} now, {after} for the new files; time: {takes}")
        gain = self.gain
        smaller = self.pixels_after < 0.99 * self.pixels_now
        if gain is not None and gain < 1 + _MIN_USEFUL_GAIN:
            lines.append("not recommended for such clips: random access to these videos is already cheap")
        lines.append(
            "epochs over complete videos (adjacent windows, validate, many clips per video) already decode each frame "
            "once: for them "
            + ("only the smaller frames help" if smaller else "nothing is gained, and larger files are slower to read")
        )
        return lines


def estimate(plan: TranscodeJob, sequence_length: int, stride: int) -> TranscodeEstimate:
    """Examines a sample of the videos, and encodes the start of a few into a temporary folder.

    Args:
        plan: The job.
        sequence_length: Frames of the clip that the costs apply to.
        stride: Distance between its frames.

    Returns:
        The estimate.
    """
    frames, apart = integer("sequence_length", sequence_length, least=1), integer("stride", stride, least=1)
    unreadable = 0
    found: list[tuple[Video, AccessReport]] = []
    sampled_videos = _some(plan.todo, _MAX_SAMPLED_VIDEOS)
    for video in sampled_videos:
        try:
            found.append((video, analyze_access(video.source, sequence_length=frames, stride=apart)))
        except Error:
            unreadable += 1
    share = len(plan.todo) / len(found) if found else 0.0
    costs = [each.frames_decoded_per_clip for _, each in found if each.frames_decoded_per_clip is not None]
    shapes = [(each.info.width * each.info.height, plan.options.size_of(each.info)) for _, each in found]
    total = sum(each.info.num_frames for _, each in found)
    seconds, written, encoded = _encoded(plan, [video for video, _ in found])
    return TranscodeEstimate(
        videos=len(plan.todo),
        sampled_videos=len(sampled_videos),
        unreadable=unreadable,
        frames=round(total * share),
        clip_frames=frames,
        clip_stride=apart,
        frames_decoded_now=_mean(costs) if costs else None,
        frames_decoded_after=frames_decoded_per_clip(frames, apart, plan.options.gop, plan.options.b_frames)
        if costs
        else None,
        pixels_now=_mean([float(now) for now, _ in shapes]),
        pixels_after=_mean([float(width * height) for _, (width, height) in shapes]),
        bytes_now=round(sum(_size(video, each) for video, each in found) * share),
        bytes_after=round(written / encoded * total * share) if encoded else None,
        seconds=seconds / encoded * total * share / plan.jobs if encoded else None,
        jobs=plan.jobs,
        options=plan.options,
    )


def _encoded(plan: TranscodeJob, videos: Sequence[Video]) -> tuple[float, int, int]:
    """Seconds, bytes and frames of the trial encodes. Videos that cannot be decoded are skipped."""
    began = time.monotonic()
    written = frames = 0
    stop = CancelToken()
    try:
        with tempfile.TemporaryDirectory(prefix="framespool-") as folder:
            for number, video in enumerate(_some(videos, _TRIAL_ENCODES)):
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


def _some(videos: Sequence[Video], most: int) -> list[Video]:
    count = min(most, len(videos))
    return [videos[number * len(videos) // count] for number in range(count)]


def _size(video: Video, found: AccessReport) -> float:
    """Bytes of a video's file, or of its stream if the video is inside another file."""
    path = "" if isinstance(video.source, bytes) else _output_paths.file_of(video.source)
    with contextlib.suppress(OSError):
        if path == (os.fspath(video.source) if isinstance(video.source, (str, os.PathLike)) else None):
            return os.stat(path).st_size
    return found.bits_per_second * found.info.duration_seconds / 8


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
