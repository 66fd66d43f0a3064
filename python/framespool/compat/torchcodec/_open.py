"""Opens videos and audio from the sources that torchcodec accepts."""

from __future__ import annotations

import io
from numbers import Integral
from typing import Any

from framespool.compat import _image_files
from framespool.compat._readahead import readable
from framespool.compat.torchcodec._torch import needed
from framespool.errors import NoAudioError, NoVideoError
from framespool.video._audio import AudioFile
from framespool.video._video import Video


def _source(source: Any) -> Any:
    """Converts a source for :class:`framespool.Video`."""
    torch = needed()
    if isinstance(source, torch.Tensor):
        if source.dtype != torch.uint8 or source.ndim != 1:
            raise ValueError(f"a tensor as source must be 1-D uint8, got {tuple(source.shape)} {source.dtype}")
        return source.contiguous().numpy().tobytes()
    if isinstance(source, io.TextIOBase):
        raise TypeError("source was opened for reading text; did you mean open(..., 'rb'), for binary reading?")
    found = readable(source)
    if found is None:
        raise TypeError(
            f"Unknown source type {type(source).__name__}: give a path, bytes, a uint8 tensor or a file object with "
            "read(size) and seek(offset, whence)"
        )
    return found


def open_video(source: Any, stream_index: int | None, device: str, threads: int | None) -> Video:
    """Opens a video with torchcodec's arguments.

    Args:
        source: A path, bytes, a uint8 tensor of them, an archive member or a file object.
        stream_index: Index of the video stream; ``None`` for FFmpeg's best stream.
        device: Where frames are placed.
        threads: Threads that decode the frames of one call; ``None`` for one per core.

    Returns:
        The video.

    Raises:
        TypeError: If the source has another type.
        ValueError: If the source is another tensor, or there is no such video stream.
        UnsupportedError: If it is, or may be, an animated PNG or WebP, of which framespool reads the first frame only.
    """
    source = _source(source)
    _check_stream(stream_index)
    try:
        return _image_files.open_video(
            source, device=device, num_threads=threads, stream=stream_index, hdr="ignore", layout="THWC"
        )
    except NoVideoError as reason:
        if stream_index is None:
            raise
        exists = int(stream_index) < len(Video(source, num_threads=threads).info.streams)
        what = "a video stream" if exists else "a valid stream"
        raise ValueError(f"The stream at index {stream_index} is not {what}: {reason}") from reason


def open_audio(source: Any, stream_index: int | None) -> AudioFile:
    """Opens the audio of a file with torchcodec's arguments.

    Args:
        source: As for :func:`open_video`.
        stream_index: Index of the audio stream; ``None`` for FFmpeg's best stream.

    Returns:
        The audio.

    Raises:
        TypeError: If the source has another type.
        ValueError: If the source is another tensor, or there is no such audio stream.
    """
    source = _source(source)
    _check_stream(stream_index)
    try:
        return AudioFile(source, stream=stream_index)
    except NoAudioError as reason:
        if stream_index is None:
            raise ValueError(f"The best audio stream is unknown and there is no specified stream: {reason}") from reason
        raise ValueError(
            f"The stream at index {stream_index} is not a valid stream, or not an audio stream: {reason}"
        ) from reason


def _check_stream(stream_index: Any) -> None:
    if stream_index is not None and (not isinstance(stream_index, Integral) or stream_index < 0):
        raise ValueError(f"{stream_index!r} is not a valid stream: stream_index is an int from 0 on, or None")
