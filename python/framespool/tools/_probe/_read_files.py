"""Reads the metadata of the files of a dataset, several at a time."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from framespool._common.validate_args import is_url
from framespool._common.worker_threads import completed
from framespool.datasets import Dataset
from framespool.datasets._failures import failure_record
from framespool.errors import BY_KIND, Error
from framespool.loaders._images import ImageLoader
from framespool.tools._validate import delivered, file_state
from framespool.transforms import Resize
from framespool.video._info import StreamInfo
from framespool.video._sources import ArchiveMember, ImageSequence, TableCell, VideoSegment
from framespool.video._video import Video

#: Files that are read between two calls of the progress function, for videos and for images.
_IMAGES_AT_A_TIME = 256
#: Videos of which all packets are read, and bytes of their files together; the first may be larger.
_EXAMINED_VIDEOS, _EXAMINED_BYTES = 32, 256 << 20
#: Positions at which the cost of a clip is determined, and frames of all of them, at most.
_MEASURED_CLIPS, _MEASURED_FRAMES = 64, 4096


@dataclass(frozen=True)
class Access:
    """The mean cost of a clip by itself, `None` if the video is shorter, and disposable pictures among all."""

    frames_per_clip: float | None
    bytes_per_clip: float | None
    skippable: int
    num_packets: int


@dataclass(frozen=True)
class VideoRecord:
    """What the summary needs of a video."""

    path: str
    begin_seconds: float
    end_seconds: float
    num_frames: int
    size: tuple[int, int]
    #: In square pixels.
    display_size: tuple[int, int]
    field_order: str | None
    fps: float
    codec: str
    container: str
    pixel_format: str | None
    bit_depth: int | None
    #: How many GOPs have each length, in frames.
    gops: Counter[int]
    #: Mean packets for a clip by itself; `None` if the video is shorter.
    packets_per_clip: float | None
    #: What all packets show; `None` if they were not read.
    access: Access | None
    #: FFmpeg's names of primaries, transfer function and matrix.
    color: tuple[str | None, str | None, str | None]
    #: The streams of a file with several video streams.
    streams: list[str]
    #: NVIDIA's name of the codec, or `None` and the reason.
    nvdec: tuple[str | None, str | None]
    direct: bool
    damaged_units: int
    num_bytes: int | None

    @property
    def seconds(self) -> float:
        """The duration."""
        return self.end_seconds - self.begin_seconds


@dataclass(frozen=True)
class ImageRecord:
    """What the summary needs of an image."""

    size: tuple[int, int]
    format: str
    num_bytes: int | None


@dataclass(frozen=True)
class Examples:
    """Some files of a dataset for a contact sheet, and how to open the videos."""

    videos: list[Any]
    images: list[Any]
    stream: int | None
    index: Any


def whole(source: Any) -> Any:
    """The file of a sample.

    Args:
        source: A source of a dataset.

    Returns:
        The source without the bounds of a segment; equal files are equal objects.
    """
    source = source.source if isinstance(source, VideoSegment) else source
    return os.fspath(source) if isinstance(source, os.PathLike) else source


def read_videos(
    sources: Sequence[Any],
    clip: tuple[int, int],
    stream: int | None,
    index: Any,
    num_threads: int,
    progress: Callable[[int, int], object],
) -> list[VideoRecord | Error]:
    """Opens videos and decodes nothing. Of some, all packets are read, but not of URLs and table cells.

    Args:
        sources: The files.
        clip: Frames of the clip whose cost is determined, and the distance between them.
        stream: As for `Video`.
        index: As for `Video`.
        num_threads: Threads.
        progress: Called with the numbers of files and of failures since the last call.

    Returns:
        A record or the error of each file.
    """

    examined = _examined(sources)

    def read(number: int) -> VideoRecord | Error:
        try:
            return _video(sources[number], clip, stream, index, number in examined)
        except Error as error:
            return error

    found: dict[int, VideoRecord | Error] = {}
    for number, future in completed(read, range(len(sources)), num_threads):
        found[number] = future.result()
        progress(1, isinstance(found[number], Error))
    return [found[number] for number in range(len(sources))]


def _examined(sources: Sequence[Any]) -> set[int]:
    """Videos of which all packets are read, evenly spread."""
    sizes = {number: size for number, source in enumerate(sources) if (size := _num_bytes(source)) is not None}
    numbers, total = spread(list(sizes), _EXAMINED_VIDEOS), 0
    found: set[int] = set()
    for number in numbers:
        total += sizes[number]
        if not found or total <= _EXAMINED_BYTES:
            found.add(number)
    return found


def spread(entries: Sequence[Any], most: int) -> list[Any]:
    """Some of a list, evenly spread.

    Args:
        entries: The list.
        most: The largest number of them.

    Returns:
        The entries, in order.
    """
    count = min(most, len(entries))
    return [entries[place * len(entries) // count] for place in range(count)]


def _video(source: Any, clip: tuple[int, int], stream: int | None, index: Any, examines: bool) -> VideoRecord:
    video = Video(source, index=index, stream=stream, num_threads=1)
    info = video.info
    try:
        header = video._video.header()
    except Error:
        header = {}  # an index in the cache is enough for the rest
    access = None
    if examines:
        counts = video._video.analyze_access(*clip)
        frames, read = counts["clip"] or (None, None)
        access = Access(frames, read, counts["skippable"], info.num_packets)
    edges = [*info.keyframes, info.num_frames]
    several_videos = sum(each.kind == "video" for each in info.streams) > 1
    return VideoRecord(
        path=info.path,
        begin_seconds=info.begin_seconds,
        end_seconds=info.end_seconds,
        num_frames=info.num_frames,
        size=(info.width, info.height),
        display_size=(info.display_width, info.display_height),
        field_order=header.get("field_order"),
        fps=info.average_fps,
        codec=info.codec,
        container=info.container,
        pixel_format=header.get("pixel_format"),
        bit_depth=header.get("bit_depth"),
        gops=Counter(after - before for before, after in zip(edges, edges[1:], strict=False)),
        packets_per_clip=packets_per_clip(info.keyframes, info.num_frames, *clip),
        access=access,
        color=(header.get("color_primaries"), header.get("color_transfer"), header.get("color_space")),
        streams=[_stream(each, info.stream) for each in info.streams] if several_videos else [],
        nvdec=video._video.nvdec(),
        direct=info.direct,
        damaged_units=info.damaged_units,
        num_bytes=_num_bytes(source),
    )


def _stream(stream: StreamInfo, chosen: int) -> str:
    size = f" {stream.width}x{stream.height}" if stream.width else ""
    return f"{stream.index}: {stream.kind} {stream.codec}{size}{' (read)' if stream.index == chosen else ''}"


def clip_span(sequence_length: int, stride: int) -> int:
    """Frames from the first to the last one of a clip.

    Args:
        sequence_length: Frames of the clip.
        stride: Distance between its frames.

    Returns:
        The number of frames.
    """
    return (sequence_length - 1) * stride + 1


def packets_per_clip(keyframes: Sequence[int], num_frames: int, sequence_length: int, stride: int) -> float | None:
    """Packets for a clip by itself, from each keyframe to the last frame that is needed before the next one.

    Args:
        keyframes: Indices of the keyframes.
        num_frames: Frames of the video.
        sequence_length: Frames of the clip.
        stride: Distance between its frames.

    Returns:
        The mean over positions that are evenly spread. `None` if the video is shorter than the clip.
    """
    span = clip_span(sequence_length, stride)
    starts = num_frames - span + 1
    if starts < 1 or not keyframes:
        return None
    measured = max(1, min(starts, _MEASURED_CLIPS, _MEASURED_FRAMES // sequence_length))
    packets = 0
    for clip in range(measured):
        before, first = -1, clip * starts // measured
        for frame in range(first, first + span, stride):
            keyframe = keyframes[max(0, bisect_right(keyframes, frame) - 1)]
            packets += max(1, frame - max(before, keyframe - 1))
            before = frame
    return packets / measured


def read_images(
    sources: Sequence[Any], num_threads: int, progress: Callable[[int, int], object]
) -> list[ImageRecord | dict[str, Any]]:
    """Decodes images at a small size.

    Args:
        sources: The files.
        num_threads: Threads.
        progress: As for `read_videos()`.

    Returns:
        A record or the failure, as from `ImageLoader.failures()`, of each file.
    """
    found: dict[int, ImageRecord | dict[str, Any]] = {}
    for begin in range(0, len(sources), _IMAGES_AT_A_TIME):
        some = Dataset([(source, 0) for source in sources[begin : begin + _IMAGES_AT_A_TIME]])
        loader = ImageLoader(
            some, batch_size=64, transforms=[Resize((16, 16))], on_error="skip", num_threads=num_threads
        )
        for batch in delivered(loader):
            for place, (height, width), pads in zip(
                batch.image_ids.tolist(), batch.sizes.tolist(), batch.padding.tolist(), strict=True
            ):
                if not pads:
                    source = some[place][0]
                    found[begin + place] = ImageRecord((width, height), _format(source), _num_bytes(source))
        failed = loader.failures()
        found |= {begin + int(failure["video_id"]): failure for failure in failed}
        progress(len(some), len(failed))
    return [found[place] for place in range(len(sources))]


def _format(source: Any) -> str:
    """Format of an image that was decoded, by its first bytes, or by its name if it is on a server or in a table."""
    first = b""
    if isinstance(source, bytes):
        first = source[:4]
    elif not isinstance(source, TableCell) and not is_url(source if isinstance(source, str) else ""):
        member = isinstance(source, ArchiveMember)
        with open(source.file if member else source, "rb") as file:
            file.seek(source.offset_bytes if member else 0)
            first = file.read(4)
    if first:
        return "png" if first == b"\x89PNG" else "jpeg"
    extension = "" if isinstance(source, TableCell) else source.rpartition(".")[2].lower()
    return {"png": "png", "jpg": "jpeg", "jpeg": "jpeg"}.get(extension, "unknown")


def _num_bytes(source: Any) -> int | None:
    if isinstance(source, bytes):
        return len(source)
    if isinstance(source, ArchiveMember):
        return source.num_bytes
    if isinstance(source, TableCell):
        return None
    state = file_state(source)
    return None if state is None else state[1 if isinstance(source, ImageSequence) else 0]


def failure(sample: int, source: Any, error: Error) -> dict[str, Any]:
    """A failure as `ClipLoader.failures()` lists it.

    Args:
        sample: Index of the first sample of the file.
        source: The file.
        error: Its error.

    Returns:
        The failure.
    """
    kind = next((kind for kind, cls in BY_KIND.items() if cls is type(error)), "internal")
    fields = {"video_id": sample, "kind": kind, "message": str(error), "clips": 0}
    return fields | failure_record(source, kind)


def segment_seconds(segment: VideoSegment, video: VideoRecord) -> float:
    """Duration of a segment.

    Args:
        segment: The segment.
        video: Its file.

    Returns:
        Seconds; bounds past the end of the video count as its end.
    """
    start, end = segment.start_seconds, segment.end_seconds
    if segment.start_frame is not None or segment.end_frame is not None:
        rate = video.fps or 1.0
        start = video.begin_seconds + (segment.start_frame or 0) / rate
        end = None if segment.end_frame is None else video.begin_seconds + segment.end_frame / rate
    begin = video.begin_seconds if start is None else max(start, video.begin_seconds)
    return max(0.0, (video.end_seconds if end is None else min(end, video.end_seconds)) - begin)
