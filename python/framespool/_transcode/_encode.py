"""One video: its frames through the encoder, the result's times, and the comparison of both."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from framespool._clip_loader import ClipLoader
from framespool._transcode import _ffmpeg, _mp4
from framespool._transcode._ffmpeg import CancelToken
from framespool._transcode._mp4 import Clock
from framespool._transcode._options import Options
from framespool._video import Video, VideoInfo
from framespool.datasets import VideoSegment
from framespool.errors import DecodeError, InternalError
from framespool.samplers import windows

#: Bytes of frames that are handed over at a time, about; and of those made ahead.
_AT_A_TIME = 8 << 20
_MAX_QUEUED_BYTES = 128 << 20
_MAX_FRAMES = 32
#: Frames a second for the encoder where the video does not tell.
_RATE = Fraction(25)


def encode(
    source: Any,
    target: str,
    options: Options,
    program: str,
    threads: int,
    stop: CancelToken,
    index: Any,
    most_frames: int | None = None,
    stream: int | None = None,
) -> int:
    """Writes a video anew to ``target`` and holds the result against it; returns how many frames it has. ``target``
    plus ".raw" is what the encoder writes. ``most_frames``: only the first ones. ``stream``: as for
    :class:`Video`.

    Raises what opening and decoding do, :class:`~framespool.ReadError` where the encoder failed,
    :class:`~framespool.InternalError` where the result is not the source, and ``Stopped``.
    """
    stop.check()
    video = Video(source, num_threads=1, index=index, stream=stream)
    info = video.info
    name = info.path
    frames = min(len(video), most_frames or len(video))
    if not frames:
        raise DecodeError(f"{name}: there are no frames to encode; leave it out")
    clock = clock_of(video, frames)
    color = video._video.color()[:3]
    size = options.size_of(info)
    seconds = Fraction(clock.end - clock.times[0], clock.scale)
    rate = Fraction(frames / seconds).limit_denominator(1001) if seconds > 0 else _RATE
    rate = min(max(rate, Fraction(1, 1000)), Fraction(1000))
    raw = f"{target}.raw"
    aspect = info.sample_aspect
    if aspect is not None and info.rotation % 180:
        aspect = aspect[::-1]  # it is that of the stored picture, and what comes is turned
    asked = _ffmpeg.command(program, options, size, (rate.numerator, rate.denominator), color, aspect, threads, raw)
    with _ffmpeg.EncoderProcess(asked, name, stop) as encoding:
        for data in _frames(source, info, options, size, frames, threads, index, stream):
            encoding.write(data)
        encoding.finish()
    stop.check()
    _mp4.retime(raw, target, clock)
    os.remove(raw)
    compare(target, name, clock, size, options)
    return frames


def clock_of(video: Video, frames: int) -> Clock:
    """When the first ``frames`` frames are shown, in whole ticks of the video's own clock."""
    num, den = video.info.time_base
    seconds = video._video.all_pts_seconds()
    ends = [*seconds[1:], video.info.end_seconds]
    # Seconds were made of these ticks by one product and one quotient: the nearest whole number is the one they were.
    ticks = [round(second * den / num) * num for second in [*seconds[:frames], ends[frames - 1]]]
    return Clock(den, ticks[:-1], ticks[-1])


def _frames(
    source: Any,
    info: VideoInfo,
    options: Options,
    size: tuple[int, int],
    frames: int,
    threads: int,
    index: Any,
    stream: int | None,
) -> Iterator[memoryview]:
    """RGB of the frames, one after another, some at a time."""
    each = size[0] * size[1] * 3
    some = max(1, min(_MAX_FRAMES, _AT_A_TIME // each, frames))
    loader = ClipLoader(
        [VideoSegment(source, start_frame=0, end_frame=frames)],
        windows(sequence_length=some, step=some, pad_mode="edge"),
        batch_size=1,
        transforms=options.transforms(info),
        num_threads=threads,
        prefetch_batches=1,
        memory_budget=_MAX_QUEUED_BYTES,
        index=index,
        stream=stream,
        hdr="ignore",  # the copy is tagged as the source is
    )
    given = 0
    for batch in loader:
        real = sum(batch.mask.tolist()[0])
        if batch.indices.tolist()[0][:real] != list(range(given, given + real)):
            raise InternalError(f"{info.path}: frames came out of turn at frame {given}")
        given += real
        yield memoryview(batch.frames.tobytes())[: real * each]  # type: ignore[union-attr]
    if given != frames:
        raise InternalError(f"{info.path}: {given} of {frames} frames were decoded")


def compare(made: str, name: str, clock: Clock, size: tuple[int, int], options: Options) -> None:
    """Raises :class:`~framespool.InternalError` unless the file has as many frames, of this size, at the same times, in
    groups no longer than asked for."""

    def refuse(what: str) -> InternalError:
        return InternalError(f"{name}: what was encoded is not the source: {what}; nothing of it was kept")

    video = Video(made, num_threads=1, index=False)
    info = video.info
    found = clock_of(video, len(video)) if len(video) else Clock(clock.scale, [], 0)
    if len(found.times) != len(clock.times):
        raise refuse(f"{len(found.times)} frames instead of {len(clock.times)}")
    ours, theirs = ([Fraction(t, c.scale) for t in (*c.times, c.end)] for c in (found, clock))
    for frame, (our, their) in enumerate(zip(ours, theirs, strict=True)):
        # Where a single frame's length is not known, a reader makes one up.
        if our != their and not (frame == len(clock.times) == 1):
            what = f"frame {frame}" if frame < len(clock.times) else "the end"
            raise refuse(f"{what} is at {float(our):.6f} s instead of {float(their):.6f} s")
    if (info.width, info.height) != size or info.rotation or info.mirrored:
        raise refuse(f"{info.width}x{info.height} turned by {info.rotation} instead of {size[0]}x{size[1]}")
    starts = [*info.keyframes, len(video)]
    longest = max(b - a for a, b in zip(starts, starts[1:], strict=False)) if info.keyframes else len(video)
    if starts[0] or longest > options.gop:
        raise refuse(f"a group of {longest} pictures instead of {options.gop}")
