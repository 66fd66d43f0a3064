"""Frames of long videos at 1 per second, as scripts for embeddings read them: with torchcodec, or with PyAV."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import torch
from torchcodec.decoders import VideoDecoder
from torchvision.transforms import v2

#: Frames per second, frames of a chunk, and the height and width of frames.
FPS, CHUNK_SIZE, SIZE = 1, 64, (224, 224)
RESIZE = v2.Resize(SIZE)


def read_with_torchcodec(video: Path, num_threads: int) -> Iterator[dict[str, Any]]:
    """Yields chunks of the frames that are shown 0, 1, 2, ... seconds after the first one."""
    decoder = VideoDecoder(video, num_ffmpeg_threads=num_threads)
    begin, end = decoder.metadata.begin_stream_seconds, decoder.metadata.end_stream_seconds
    # Rounded, since a video of 4 seconds may end at 4.000000000000001.
    seconds = [begin + k / FPS for k in range(math.ceil(round((end - begin) * FPS, 6)))]
    for first in range(0, len(seconds), CHUNK_SIZE):
        frames = decoder.get_frames_played_at(seconds[first : first + CHUNK_SIZE])
        yield {"frames": RESIZE(frames.data), "pts_seconds": frames.pts_seconds.tolist()}


def read_with_av(video: Path, num_threads: int) -> Iterator[dict[str, Any]]:
    """Yields the same chunks: PyAV decodes every frame, and converts those that are needed to RGB."""
    frames: list[torch.Tensor] = []
    pts_seconds: list[float] = []
    for frame in frames_at_rate(video, num_threads):
        frames.append(RESIZE(torch.from_numpy(frame.to_ndarray(format="rgb24")).permute(2, 0, 1)))
        pts_seconds.append(frame.time)
        if len(frames) == CHUNK_SIZE:
            yield {"frames": torch.stack(frames), "pts_seconds": pts_seconds}
            frames, pts_seconds = [], []
    if frames:
        yield {"frames": torch.stack(frames), "pts_seconds": pts_seconds}


def frames_at_rate(video: Path, num_threads: int) -> Iterator[av.VideoFrame]:
    """Yields the frames that are shown 0, 1, 2, ... seconds after the first one."""
    with av.open(str(video)) as container:
        stream = container.streams.video[0]
        stream.thread_type, stream.codec_context.thread_count = "AUTO", num_threads
        shown, count, begin = None, 0, 0
        for frame in container.decode(stream):
            begin = frame.pts if shown is None else begin
            while shown is not None and Fraction(count, FPS) < (frame.pts - begin) * frame.time_base:
                yield shown
                count += 1
            shown = frame
        # The last frame is shown for its duration.
        while shown is not None and Fraction(count, FPS) < (shown.pts + shown.duration - begin) * shown.time_base:
            yield shown
            count += 1


#: Readers by name.
READERS = {"torchcodec": read_with_torchcodec, "av": read_with_av}
