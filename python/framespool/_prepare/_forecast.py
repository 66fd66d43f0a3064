"""What making videos anew would gain and cost, before it is done: by the packets of a few, and by encoding a little."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from framespool._check import whole
from framespool._prepare import _names
from framespool._prepare._encode import encode
from framespool._prepare._options import Options
from framespool._prepare._program import Stop
from framespool._prepare._run import Plan, Video
from framespool._probe import Probe, probe
from framespool._words import bytes_text
from framespool.errors import Error

#: Videos whose packets are looked at, and of these the ones of which the beginning is encoded: evenly over the dataset.
_LOOKED_AT = 32
_ENCODED = 3
_FRAMES = 64
#: Fewer pictures by less than this share are not worth a copy of the dataset.
_WORTH = 0.2


@dataclass(frozen=True)
class PrepareForecast:
    """What :func:`prepare` would do, about.

    ``videos``: to be made, of which ``looked_at`` were looked at; the rest is taken to be alike. ``frames``: of all.
    ``clip_frames``, ``clip_stride``: the clip whose cost follows. ``pictures_now``, ``pictures_after``: pictures
    decoded for a random one alone, in the mean; ``None`` where all videos are shorter. ``pixels_now``,
    ``pixels_after``: of a picture. ``bytes_now``, ``bytes_after``: on disk. ``seconds``: how long it would take, with
    ``jobs`` videos at a time; ``None`` where not one could be encoded, ``bytes_after`` too. ``unreadable``: those of
    the ones looked at that cannot be read.
    """

    videos: int
    looked_at: int
    unreadable: int
    frames: int
    clip_frames: int
    clip_stride: int
    pictures_now: float | None
    pictures_after: float | None
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
        if self.pictures_now is None or self.pictures_after is None:
            return None
        return self.pictures_now * self.pixels_now / (self.pictures_after * self.pixels_after)

    def sentences(self) -> list[str]:
        """The same in words, with advice."""
        told = [f"{self.videos} videos to make, some {self.frames} frames (by {self.looked_at} of them)"]
        if self.unreadable:
            told[0] += f"; {self.unreadable} of these cannot be read, which framespool check explains"
        clip = f"{self.clip_frames} frames, {self.clip_stride} apart"
        if self.pictures_now is None or self.pictures_after is None:
            told.append(f"no video that was looked at is as long as a clip of {clip}: nothing can be said of the gain")
        else:
            fewer = self.pictures_now / self.pictures_after
            ratio = f"{fewer:.1f} times fewer" if fewer >= 1.05 else f"{1 / fewer:.1f} times as many"
            told.append(
                f"a random clip of {clip}: {self.pictures_now:.0f} pictures decoded now, "
                f"about {self.pictures_after:.0f} afterwards ({ratio})"
            )
        if self.pixels_after < 0.99 * self.pixels_now:
            told.append(f"each picture has {self.pixels_now / self.pixels_after:.1f} times fewer pixels afterwards")
        after = "unknown" if self.bytes_after is None else f"about {bytes_text(self.bytes_after)}"
        takes = "unknown" if self.seconds is None else f"about {_duration(self.seconds)} with {self.jobs} at a time"
        told.append(f"on disk: {bytes_text(self.bytes_now)} now, {after} for the new files; time: {takes}")
        gain = self.gain
        smaller = self.pixels_after < 0.99 * self.pixels_now
        if gain is not None and gain < 1 + _WORTH:
            told.append("not worth it for such clips: random access to these videos is cheap as it is")
        told.append(
            "epochs that go through whole videos (windows side by side, check, many clips of each video at once) "
            "decode each picture once as it is: for them "
            + ("only the smaller pictures count" if smaller else "nothing is gained, and larger files cost reading")
        )
        return told


def forecast(plan: Plan, sequence_length: int, stride: int) -> PrepareForecast:
    """Looks at some of what is to be made, and encodes the beginning of a few into a folder that is removed."""
    frames, apart = whole("sequence_length", sequence_length, least=1), whole("stride", stride, least=1)
    unreadable = 0
    found: list[tuple[Video, Probe]] = []
    looked_at = _some(plan.todo, _LOOKED_AT)
    for video in looked_at:
        try:
            found.append((video, probe(video.source, sequence_length=frames, stride=apart)))
        except Error:
            unreadable += 1
    share = len(plan.todo) / len(found) if found else 0.0
    costs = [each.clip_pictures for _, each in found if each.clip_pictures is not None]
    shapes = [(each.info.width * each.info.height, plan.options.size_of(each.info)) for _, each in found]
    total = sum(each.info.num_frames for _, each in found)
    seconds, written, encoded = _encoded(plan, [video for video, _ in found])
    return PrepareForecast(
        videos=len(plan.todo),
        looked_at=len(looked_at),
        unreadable=unreadable,
        frames=round(total * share),
        clip_frames=frames,
        clip_stride=apart,
        pictures_now=_mean(costs) if costs else None,
        pictures_after=pictures_of(frames, apart, plan.options.gop, plan.options.b_frames) if costs else None,
        pixels_now=_mean([float(now) for now, _ in shapes]),
        pixels_after=_mean([float(width * height) for _, (width, height) in shapes]),
        bytes_now=round(sum(_size(video, each) for video, each in found) * share),
        bytes_after=round(written / encoded * total * share) if encoded else None,
        seconds=seconds / encoded * total * share / plan.jobs if encoded else None,
        jobs=plan.jobs,
        options=plan.options,
    )


def _encoded(plan: Plan, videos: Sequence[Video]) -> tuple[float, int, int]:
    """Seconds, bytes and frames of the beginnings of a few. One that cannot be decoded tells nothing."""
    began = time.monotonic()
    written = frames = 0
    stop = Stop()
    try:
        with tempfile.TemporaryDirectory(prefix="framespool-") as folder:
            for number, video in enumerate(_some(videos, _ENCODED)):
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
                        _FRAMES,
                        plan.dataset.stream,
                    )
                    written += os.stat(made).st_size
    finally:
        stop.now()
    return time.monotonic() - began, written, frames


def _some(videos: Sequence[Video], most: int) -> list[Video]:
    count = min(most, len(videos))
    return [videos[number * len(videos) // count] for number in range(count)]


def _size(video: Video, found: Probe) -> float:
    """Bytes of a video's file, or of its pictures where it is inside another."""
    path = "" if isinstance(video.source, bytes) else _names.file_of(video.source)
    with contextlib.suppress(OSError):
        if path == (os.fspath(video.source) if isinstance(video.source, (str, os.PathLike)) else None):
            return os.stat(path).st_size
    return found.bits_per_second * found.info.duration_seconds / 8


def pictures_of(frames: int, stride: int, gop: int, b_frames: int) -> float:
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
