"""Generates typical test videos: x264 with its defaults, one keyframe in 250 frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import count, islice
from pathlib import Path
from types import MappingProxyType

import av

OPTIONS = {"preset": "medium", "crf": "23", "g": "250", "bf": "3"}
# Offset between two videos of a dataset that have the same source.
OFFSET = 37


def encode(source: Path, folder: Path) -> Path:
    """The long-GOP H.264 encode of `source` in `folder`; created if it does not exist."""
    target = folder / f"{source.stem}_x264_g250.mp4"
    if not target.exists():
        with av.open(str(source)) as reading:
            pictures = reading.streams.video[0]
            write(target, pictures, reading.decode(pictures), pictures.average_rate, pictures.time_base)
    return target


def dataset(
    sources: list[Path],
    num_videos: int,
    num_frames: int,
    folder: Path,
    *,
    size: tuple[int, int] | None = None,
    options: Mapping[str, str] = MappingProxyType({}),
) -> list[Path]:
    """`num_videos` videos of exactly `num_frames` frames, created from `sources` in turn if they do not exist.

    A source is played to its end, backward to its start, and so on: there is no cut at which x264 would insert a
    keyframe. Videos of one source start at different frames of it. `size` scales the frames; `options` of x264 replace
    those of OPTIONS.
    """
    targets = []
    for number in range(num_videos):
        source = sources[number % len(sources)]
        offset = number // len(sources) * OFFSET
        target = folder / f"{source.stem}_from{offset}_{num_frames}_x264_g{options.get('g', 250)}.mp4"
        if not target.exists():
            with av.open(str(source)) as reading:
                pictures = reading.streams.video[0]
                rate = round(pictures.average_rate)
                frames = retimed(to_and_fro(list(reading.decode(pictures)), offset), Fraction(1, rate))
                write(target, pictures, islice(frames, num_frames), rate, Fraction(1, rate), size, options)
        targets.append(target)
    return targets


def to_and_fro(frames: list[av.VideoFrame], offset: int) -> Iterator[av.VideoFrame]:
    last = len(frames) - 1
    for place in count(offset):
        # 0, 1, ... last, last - 1, ... 1, 0, 1, ...
        yield frames[last - abs(last - place % (2 * last))]


def retimed(frames: Iterable[av.VideoFrame], time_base: Fraction) -> Iterator[av.VideoFrame]:
    for pts, frame in enumerate(frames):
        frame.pts, frame.time_base = pts, time_base
        yield frame


def write(
    target: Path,
    like: av.VideoStream,
    frames: Iterable[av.VideoFrame],
    rate: Fraction | int,
    time_base: Fraction,
    size: tuple[int, int] | None = None,
    options: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Encodes `frames` with the colors of the stream `like`, and its size unless `size` is another."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # Under a temporary name until it is complete, so that an interrupted run leaves no partial file.
    unfinished = target.with_suffix(".part")
    with av.open(str(unfinished), "w", format="mp4") as writing:
        stream = writing.add_stream("libx264", rate=rate, options={**OPTIONS, **options})
        stream.width, stream.height = (like.width, like.height) if size is None else size
        stream.pix_fmt = "yuv420p"
        stream.time_base = stream.codec_context.time_base = time_base
        for tag in ("color_primaries", "color_trc", "colorspace", "color_range"):
            setattr(stream.codec_context, tag, getattr(like.codec_context, tag))
        for frame in frames:
            # The encoder must choose its own picture types, not copy the source's.
            if size is not None:
                scaled = frame.reformat(*size, "yuv420p")
                scaled.pts, scaled.time_base = frame.pts, frame.time_base
                frame = scaled
            frame.pict_type = 0
            writing.mux(stream.encode(frame))
        writing.mux(stream.encode())
    unfinished.rename(target)
