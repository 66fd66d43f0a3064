"""What making videos anew would gain and cost, before it is done: by the packets of a few, and by encoding a little."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from framespool._analyze_access import AccessReport, analyze_access
from framespool._format import bytes_text
from framespool._transcode import _output_paths
from framespool._transcode._encode import encode
from framespool._transcode._ffmpeg import CancelToken
from framespool._transcode._job import TranscodeJob, Video
from framespool._transcode._options import Options
from framespool._validate_args import integer
from framespool.errors import Error

#: Videos whose packets are looked at, and of these the ones of which the beginning is encoded: evenly over the dataset.
_MAX_SAMPLED_VIDEOS = 32
_TRIAL_ENCODES = 3
_TRIAL_FRAMES = 64
#: Fewer pictures by less than this share are not worth a copy of the dataset.
_MIN_USEFUL_GAIN = 0.2


@dataclass(frozen=True)
class TranscodeEstimate:
    """What :func:`transcode` would do, about.

    ``videos``: to be made, of which ``sampled_videos`` were looked at; the rest is taken to be alike. ``frames``: of all.
    ``clip_frames``, ``clip_stride``: the clip whose cost follows. ``frames_decoded_now``, ``frames_decoded_after``: pictures
    decoded for a random one alone, in the mean; ``None`` where all videos are shorter. ``pixels_now``,
    ``pixels_after``: of a picture. ``bytes_now``, ``bytes_after``: on disk. ``seconds``: how long it would take, with
    ``jobs`` videos at a time; ``None`` where not one could be encoded, ``bytes_after`` too. ``unreadable``: those of
    the ones looked at that cannot be read.
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
        """For JSON."""
        return asdict(self)

    @property
    def gain(self) -> float | None:
        """How many times as many pixels are decoded for a random clip now; ``None`` where no clip fits."""
        if self.frames_decoded_now is None or self.frames_decoded_after is None:
            return None
        return self.frames_decoded_now * self.pixels_now / (self.frames_decoded_after * self.pixels_after)

    def summary_lines(self) -> list[str]:
        """The same in words, with advice."""
        told = [f"{self.videos} videos to make, some {self.frames} frames (by {self.sampled_videos} of them)"]
        if self.unreadable:
            told[0] += f"; {self.unreadable} of these cannot be read, which framespool validate explains"
        clip = f"{self.clip_frames} frames, {self.clip_stride} apart"
        if self.frames_decoded_now is None or self.frames_decoded_after is None:
            told.append(f"no video that was looked at is as long as a clip of {clip}: nothing can be said of the gain")
        else:
            fewer = self.frames_decoded_now / self.frames_decoded_after
            ratio = f"{fewer:.1f} times fewer" if fewer >= 1.05 else f"{1 / fewer:.1f} times as many"
            told.append(
                f"a random clip of {clip}: {self.frames_decoded_now:.0f} pictures decoded now, "
                f"about {self.frames_decoded_after:.0f} afterwards ({ratio})"
            )
        if self.pixels_after < 0.99 * self.pixels_now:
            told.append(f"each picture has {self.pixels_now / self.pixels_after:.1f} times fewer pixels afterwards")
        after = "unknown" if self.bytes_after is None else f"about {bytes_text(self.bytes_after)}"
        takes = "unknown" if self.seconds is None else f"about {_duration(self.seconds)} with {self.jobs} at a time"
        told.append(f"on disk: {bytes_text(self.bytes_now)} now, {after} for the new files; time: {takes}")
        gain = self.gain
        smaller = self.pixels_after < 0.99 * self.pixels_now
        if gain is not None and gain < 1 + _MIN_USEFUL_GAIN:
            told.append("not worth it for such clips: random access to these videos is cheap as it is")
        told.append(
            "epochs that go through whole videos (windows side by side, check, many clips of each video at once) "
            "decode each picture once as it is: for them "
            + ("only the smaller pictures count" if smaller else "nothing is gained, and larger files cost reading")
        )
        return told


def estimate(plan: TranscodeJob, sequence_length: int, stride: int) -> TranscodeEstimate:
    """Looks at some of what is to be made, and encodes the beginning of a few into a folder that is removed."""
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
    """Seconds, bytes and frames of the beginnings of a few. One that cannot be decoded tells nothing."""
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
    """Bytes of a video's file, or of its pictures where it is inside another."""
    path = "" if isinstance(video.source, bytes) else _output_paths.file_of(video.source)
    with contextlib.suppress(OSError):
        if path == (os.fspath(video.source) if isinstance(video.source, (str, os.PathLike)) else None):
            return os.stat(path).st_size
    return found.bits_per_second * found.info.duration_seconds / 8


def frames_decoded_per_clip(frames: int, stride: int, gop: int, b_frames: int) -> float:
    """Pictures decoded for a clip alone, in the mean over all places of its first frame in a closed group of ``gop``
    pictures, of which after each ``b_frames`` that nobody needs one follows on which others depend."""
    total = 0
    for first in range(gop):
        wanted = [first + number * stride for number in range(frames)]
        last_of = {place // gop: place % gop for place in wanted}
        for last in last_of.values():
            # Up to the next picture that others depend on; the last of a group is one, too.
            total += -(-last // (b_frames + 1)) + 1
        total += sum(1 for place in wanted if b_frames and place % gop % (b_frames + 1) and place % gop != gop - 1)
    return total / gop


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(1, len(values))


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
