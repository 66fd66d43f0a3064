"""Transcodes one video: encodes its frames, writes their times, and compares the result with the source."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from framespool.datasets import Dataset
from framespool.errors import DecodeError, InternalError
from framespool.loaders._clips import QuietClipLoader
from framespool.options import Index
from framespool.samplers import Windows
from framespool.tools._transcode import _ffmpeg, _mp4
from framespool.tools._transcode._ffmpeg import CancelToken
from framespool.tools._transcode._mp4 import Clock
from framespool.tools._transcode._options import Options
from framespool.video._info import VideoInfo
from framespool.video._sources import VideoSegment
from framespool.video._video import Video

#: Approximate bytes of frames written at once, and of prefetched frames.
_AT_A_TIME = 8 << 20
_MAX_QUEUED_BYTES = 128 << 20
_MAX_FRAMES = 32
#: Frames per second for the encoder if the rate of the video is unknown.
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
    """Transcodes a video to `target` and compares the result with the source.

    The encoder writes to `target` plus ".raw".

    Args:
        source: The video.
        target: The file to write.
        options: Options of the encoder.
        program: The ffmpeg program.
        threads: Threads for decoding and encoding.
        stop: Cancels the work.
        index: The index cache.
        most_frames: Encode only this many frames from the start. `None`: all.
        stream: As for `Video`.

    Returns:
        Number of frames.

    Raises:
        ReadError: If the encoder failed.
        InternalError: If the result differs from the source.
        TranscodeCancelled: If the work was canceled.
        Error: If opening or decoding the source fails.
    """
    stop.check()
    video = Video(source, num_threads=1, index=index, stream=stream)
    info = video.info
    name = info.path
    frames = min(len(video), most_frames or len(video))
    if not frames:
        raise DecodeError(f"{name}: no frames to encode; exclude it from the dataset")
    clock = clock_of(video, frames)
    color = video._video.color()[:3]
    size = options.size_of(info)
    seconds = Fraction(clock.end - clock.times[0], clock.scale)
    rate = Fraction(frames / seconds).limit_denominator(1001) if seconds > 0 else _RATE
    rate = min(max(rate, Fraction(1, 1000)), Fraction(1000))
    raw = f"{target}.raw"
    aspect = info.sample_aspect
    if aspect is not None and info.rotation % 180:
        aspect = aspect[::-1]  # the aspect is that of the stored frame; the output is rotated
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
    """The presentation times of the first frames, in ticks of the video's own time base.

    Args:
        video: The video.
        frames: Number of frames.

    Returns:
        The times.
    """
    num, den = video.info.time_base
    seconds = video._video.all_pts_seconds()
    ends = [*seconds[1:], video.info.end_seconds]
    # Seconds were computed from ticks by one product and one quotient, so rounding restores the ticks.
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
    """RGB data of the frames in order, several frames at a time."""
    each = size[0] * size[1] * 3
    some = max(1, min(_MAX_FRAMES, _AT_A_TIME // each, frames))
    loader = QuietClipLoader(  # the result keeps the color tags of the source
        Dataset([(VideoSegment(source, start_frame=0, end_frame=frames), 0)], stream=stream),
        Windows(sequence_length=some, step=some, padding="edge"),
        batch_size=1,
        transforms=options.transforms(info),
        num_threads=threads,
        prefetch_batches=1,
        cache=_MAX_QUEUED_BYTES,
        layout="NTHWC",
        index=Index(index, progress=False),
    )
    given = 0
    for batch in loader:
        real = sum(batch.mask.tolist()[0])
        if batch.indices.tolist()[0][:real] != list(range(given, given + real)):
            raise InternalError(f"{info.path}: frames out of order at frame {given}")
        given += real
        yield memoryview(batch.frames.tobytes())[: real * each]  # type: ignore[union-attr]
    if given != frames:
        raise InternalError(f"{info.path}: {given} of {frames} frames were decoded")


def compare(made: str, name: str, clock: Clock, size: tuple[int, int], options: Options) -> None:
    """Compares a result with its source.

    Args:
        made: The file that was made.
        name: Name of the source for messages.
        clock: Times of the source's frames.
        size: (width, height) that the result must have.
        options: Options of the encoder.

    Raises:
        InternalError: If number of frames, times, size or GOP length differ.
    """

    def refuse(what: str) -> InternalError:
        return InternalError(f"{name}: the encoded file differs from the source: {what}; it was deleted")

    video = Video(made, num_threads=1, index=False)
    info = video.info
    found = clock_of(video, len(video)) if len(video) else Clock(clock.scale, [], 0)
    if len(found.times) != len(clock.times):
        raise refuse(f"{len(found.times)} frames instead of {len(clock.times)}")
    ours, theirs = ([Fraction(t, c.scale) for t in (*c.times, c.end)] for c in (found, clock))
    for frame, (our, their) in enumerate(zip(ours, theirs, strict=True)):
        # If the duration of a single frame is unknown, a reader chooses one.
        if our != their and not (frame == len(clock.times) == 1):
            what = f"frame {frame}" if frame < len(clock.times) else "the end"
            raise refuse(f"{what} is at {float(our):.6f} s instead of {float(their):.6f} s")
    if (info.width, info.height) != size or info.rotation or info.mirrored:
        raise refuse(f"{info.width}x{info.height} rotated by {info.rotation} instead of {size[0]}x{size[1]}")
    starts = [*info.keyframes, len(video)]
    longest = max(b - a for a, b in zip(starts, starts[1:], strict=False)) if info.keyframes else len(video)
    if starts[0] or longest > options.gop:
        raise refuse(f"a GOP of {longest} frames instead of {options.gop}")
