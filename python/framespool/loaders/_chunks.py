"""Iterates over the frames of a long video in chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from framespool._common.validate_args import batch_layout, integer
from framespool.datasets import Dataset, VideoSegment
from framespool.errors import ArgumentError
from framespool.loaders._clips import ClipLoader, QuietClipLoader
from framespool.options import Cache, Gpu, Index
from framespool.samplers import Windows
from framespool.transforms import Deinterlace
from framespool.video._video import FrameBatch, Video, is_file_object

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
    num_threads: int | None,
    transforms: Sequence[Any] | None,
    options: dict[str, Any],
) -> Iterator[FrameBatch]:
    """Implements `Video.chunks()`.

    Args:
        video: The video.
        fps: Frames per second.
        stride: Distance between frames.
        chunk_size: Frames of a chunk.
        bounds: Start and end in seconds.
        num_threads: Threads.
        transforms: Transforms of the frames.
        options: Further arguments of the loader.

    Returns:
        An iterator over the chunks.

    Raises:
        ArgumentError: If an argument is invalid.
    """
    chunk_size = integer("chunk_size", chunk_size, least=1)
    source: Any = video._source
    if is_file_object(source):
        raise ArgumentError(
            "chunks() opens the video again for its threads, which needs a path or bytes, not a file object"
        )
    if bounds != (None, None):
        source = VideoSegment(source, start_seconds=bounds[0], end_seconds=bounds[1])
    device: Any = video.device
    if video.device != "cpu" or video.decoder == "nvdec":
        output: Any = "cpu" if video.device == "cpu" else "gpu"
        device = Gpu(0 if video.device == "cpu" else video.device, decoder=video.decoder, output=output)
    method: Any = video._deinterlace
    before = [] if method == "weave" else [Deinterlace(method)]
    loader = (QuietClipLoader if video._hdr == "ignore" else ClipLoader)(
        Dataset([(source, 0)], stream=video._stream),
        Windows(sequence_length=chunk_size, stride=stride, fps=fps, padding="edge"),
        batch_size=1,
        device=device,
        num_threads=num_threads,
        cache=Cache(_CACHE_MEMORY, lookahead=16 + _FRAMES_AHEAD // chunk_size),
        layout=batch_layout(video.layout),
        index=Index(video._index, progress=False),
        transforms=[*before, *(transforms or ())] if before else transforms,
        **options,
    )
    return _each(video, loader, chunk_size)


def _each(video: Video, loader: ClipLoader, chunk_size: int) -> Iterator[FrameBatch]:
    times = video.pts_seconds
    end = video.info.end_seconds
    for batch in loader:
        valid = sum(batch.mask.tolist()[0])
        indices = batch.indices.tolist()[0][:valid]
        frames = batch.frames[0]
        if valid < chunk_size:
            frames = frames[:, :valid] if video.layout == "CTHW" else frames[:valid]
        # A frame is shown until the next one of the video appears.
        until = [times[index + 1] if index + 1 < len(times) else end for index in indices]
        pts = [times[index] for index in indices]
        durations = [after - at for at, after in zip(pts, until, strict=True)]
        yield FrameBatch(frames, indices, pts, durations)


Video._iterate_chunks = staticmethod(chunks)
