"""Iterates over the frames of a long video in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from framespool._cache import Cache
from framespool._validate_args import batch_layout, integer
from framespool.datasets import VideoSegment
from framespool.errors import ArgumentError
from framespool.samplers import windows

if TYPE_CHECKING:
    from framespool._clip_loader import ClipLoader
    from framespool._video import FrameBatch, Video

#: Layouts of a clip, and those of a batch of clips.
#: Frames that are planned ahead, so that a GOP that spans many chunks is decoded once.
_FRAMES_AHEAD = 1024
#: Memory of chunks that are finished before the consumer needs them.
_CACHE_MEMORY = "1GiB"


def chunks(
    video: Video,
    *,
    fps: float | None,
    stride: int | None,
    chunk_size: int,
    bounds: tuple[float | None, float | None],
    layout: str,
    num_threads: int | None,
    options: dict[str, Any],
) -> Iterator[FrameBatch]:
    """Implements `Video.iter()`.

    Args:
        video: The video.
        fps: Frames per second.
        stride: Distance between frames.
        chunk_size: Frames of a chunk.
        bounds: Start and end in seconds.
        layout: Layout of a chunk.
        num_threads: Threads.
        options: Further arguments of the loader.

    Returns:
        An iterator over the chunks.

    Raises:
        ArgumentError: If an argument is invalid.
    """
    from framespool._clip_loader import ClipLoader
    from framespool._video import is_file_object

    chunk_size = integer("chunk_size", chunk_size, least=1)
    source: Any = video._source
    if is_file_object(source):
        raise ArgumentError(
            "iter() opens the video again for its threads, which needs a path or bytes, not a file object"
        )
    if bounds != (None, None):
        source = VideoSegment(source, start_seconds=bounds[0], end_seconds=bounds[1])
    loader = ClipLoader(
        [source],
        windows(sequence_length=chunk_size, stride=stride, fps=fps, pad_mode="edge"),
        batch_size=1,
        device=video.device,
        decoder=video.decoder,
        num_threads=num_threads,
        cache=Cache(_CACHE_MEMORY, lookahead=16 + _FRAMES_AHEAD // chunk_size),
        layout=batch_layout(layout),
        index=video._index,
        stream=video._stream,
        hdr=video._hdr,
        deinterlace=video._deinterlace,
        index_progress=False,
        **options,
    )
    return _each(video, loader, chunk_size, layout)


def _each(video: Video, loader: ClipLoader, chunk_size: int, layout: str) -> Iterator[FrameBatch]:
    from framespool._video import FrameBatch

    times = video.pts_seconds
    end = video.info.end_seconds
    for batch in loader:
        valid = int(batch.mask.numpy()[0].sum())
        indices = batch.indices.numpy()[0, :valid].tolist()
        frames = batch.frames[0]
        if valid < chunk_size:
            frames = frames[:, :valid] if layout == "CTHW" else frames[:valid]
        # A frame is shown until the next one of the video appears.
        until = [times[index + 1] if index + 1 < len(times) else end for index in indices]
        pts = [times[index] for index in indices]
        durations = [after - at for at, after in zip(pts, until, strict=True)]
        yield FrameBatch(frames, indices, pts, durations)
