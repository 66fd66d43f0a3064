"""Metadata of a stream, and whether the CPU decodes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any

from framespool.errors import Error
from framespool.video._audio import AudioInfo
from framespool.video._video import Video


@dataclass
class StreamMetadata:
    """Metadata of a stream, under torchcodec's names.

    Values that come from the file's headers alone (``*_from_header``, ``bit_rate``, colors, ``pixel_format``,
    ``pixel_aspect_ratio``) are read when one of them is accessed; opening a video does not need them.

    Attributes:
        duration_seconds_from_header: Duration in seconds.
        begin_stream_seconds_from_header: Time of the first frame in seconds.
        bit_rate: Bits per second.
        codec: Name of the codec.
        stream_index: Index of the stream among all streams.
        media_type: Type of the stream, such as ``"video"``.
    """

    duration_seconds_from_header: float | None
    begin_stream_seconds_from_header: float | None
    bit_rate: float | None
    codec: str | None
    stream_index: int
    media_type: str

    def __getattr__(self, name: str) -> Any:
        # Called for attributes that are not set: values of the header, before they are read.
        read: Callable[[], dict[str, Any]] | None = self.__dict__.get("_read_header")
        if read is None or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        for key, value in read().items():
            self.__dict__.setdefault(key, value)
        self.__dict__.pop("_read_header", None)
        return getattr(self, name)

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __repr__(self) -> str:
        rows = (f"  {each.name}: {_shown(each.name, getattr(self, each.name))}" for each in fields(self))
        return "\n".join([f"{type(self).__name__}:", *rows]) + "\n"


@dataclass(repr=False)
class VideoStreamMetadata(StreamMetadata):
    """Metadata of a video stream, under torchcodec's names.

    ``*_from_header`` is what the container states, which may be wrong. ``*_from_content`` comes from the packets, and
    is ``None`` with ``seek_mode="approximate"``. The other values are exact in both modes. Times are in seconds.

    Attributes:
        width: Width in pixels, after rotation.
        height: Height in pixels, after rotation.
        num_frames_from_header: Number of frames.
        average_fps_from_header: Frames per second.
        pixel_aspect_ratio: Width of a pixel divided by its height.
        rotation: Degrees, counterclockwise, -180 to 180; ``None`` without rotation.
        color_primaries: FFmpeg's name of the color primaries.
        color_space: FFmpeg's name of the color matrix.
        color_transfer_characteristic: FFmpeg's name of the transfer characteristic.
        pixel_format: FFmpeg's name of the pixel format.
        begin_stream_seconds_from_content: Time of the first frame.
        end_stream_seconds_from_content: Time at which the last frame ends.
        num_frames_from_content: Number of frames.
        duration_seconds: Duration.
        begin_stream_seconds: Time of the first frame.
        end_stream_seconds: Time at which the last frame ends.
        num_frames: Number of frames.
        average_fps: Frames per second.
    """

    width: int | None
    height: int | None
    num_frames_from_header: int | None
    average_fps_from_header: float | None
    pixel_aspect_ratio: Fraction | None
    rotation: float | None
    color_primaries: str | None
    color_space: str | None
    color_transfer_characteristic: str | None
    pixel_format: str | None
    begin_stream_seconds_from_content: float | None
    end_stream_seconds_from_content: float | None
    num_frames_from_content: int | None
    duration_seconds: float | None
    begin_stream_seconds: float | None
    end_stream_seconds: float | None
    num_frames: int | None
    average_fps: float | None


@dataclass(repr=False)
class AudioStreamMetadata(StreamMetadata):
    """Metadata of an audio stream, under torchcodec's names.

    Times are exact, also those ``*_from_header``. ``bit_rate`` and ``sample_format`` are ``None``.

    Attributes:
        sample_rate: Samples per second of the stream.
        num_channels: Number of channels of the stream.
        sample_format: ``None``; samples are always float32.
        duration_seconds: Duration.
        begin_stream_seconds: Time of the first sample.
    """

    sample_rate: int | None
    num_channels: int | None
    sample_format: str | None
    duration_seconds: float | None
    begin_stream_seconds: float | None


@dataclass
class CpuFallbackStatus:
    """Whether the CPU decodes a video whose frames are on a GPU; true if it does.

    ``str()`` of it gives the reason. Get it from :attr:`VideoDecoder.cpu_fallback`.

    Attributes:
        status_known: Whether the status has been determined.
    """

    status_known: bool = False
    _is_fallback: bool = field(default=False, init=False)
    _reason: str = field(default="", init=False)
    _backend: str = field(default="CPU", init=False)

    def __bool__(self) -> bool:
        return self.status_known and self._is_fallback

    def __str__(self) -> str:
        if not self.status_known:
            status = "Unknown"
        elif self._is_fallback:
            status = f"Falling back due to: Video not supported ({self._reason})"
        else:
            status = "No fallback required"
        return f"[{self._backend}] Fallback status: {status}"


def metadata(video: Video, stream_index: int, times: tuple[float, float, int], *, scanned: bool) -> VideoStreamMetadata:
    """Converts framespool's metadata of a video.

    Args:
        video: The video.
        stream_index: Index of the stream.
        times: Start and end of the frames in seconds, and their number.
        scanned: Whether ``*_from_content`` is set.

    Returns:
        The metadata under torchcodec's names.
    """
    info = video.info
    begin, end, num_frames = times
    # torchcodec reports 180 degrees as -180, and framespool's rotation is clockwise.
    rotation = None if info.rotation == 0 else float(-info.rotation if info.rotation <= 180 else 360 - info.rotation)
    duration = end - begin
    found = VideoStreamMetadata.__new__(VideoStreamMetadata)
    found.__dict__.update(
        codec=info.codec,
        stream_index=stream_index,
        media_type="video",
        width=info.width,
        height=info.height,
        rotation=rotation,
        begin_stream_seconds_from_content=begin if scanned else None,
        end_stream_seconds_from_content=end if scanned else None,
        num_frames_from_content=num_frames if scanned else None,
        duration_seconds=duration,
        begin_stream_seconds=begin,
        end_stream_seconds=end,
        num_frames=num_frames,
        average_fps=num_frames / duration if duration > 0 else info.average_fps,
        _read_header=lambda: _header(video),
    )
    return found


def audio_metadata(info: AudioInfo) -> AudioStreamMetadata:
    """Converts framespool's metadata of audio.

    Args:
        info: The metadata.

    Returns:
        The metadata under torchcodec's names.
    """
    return AudioStreamMetadata(
        duration_seconds_from_header=info.duration_seconds,
        begin_stream_seconds_from_header=info.begin_seconds,
        bit_rate=None,
        codec=info.codec,
        stream_index=info.stream,
        media_type="audio",
        sample_rate=info.sample_rate,
        num_channels=info.channels,
        sample_format=None,
        duration_seconds=info.duration_seconds,
        begin_stream_seconds=info.begin_seconds,
    )


def _header(video: Video) -> dict[str, Any]:
    """Returns the values of the header; all ``None`` if libavformat cannot read it."""
    try:
        header = video._video.header()
    except Error:
        header = {}
    rate, (num, den) = header.get("frame_rate"), header.get("sample_aspect", (0, 0))
    return {
        "duration_seconds_from_header": header.get("duration_seconds"),
        "begin_stream_seconds_from_header": header.get("start_seconds"),
        "bit_rate": header.get("bit_rate"),
        "num_frames_from_header": header.get("num_frames"),
        "average_fps_from_header": None if rate is None else rate[0] / rate[1],
        "pixel_aspect_ratio": Fraction(num, den) if den > 0 else None,
        "color_primaries": header.get("color_primaries"),
        "color_space": header.get("color_space"),
        "color_transfer_characteristic": header.get("color_transfer"),
        "pixel_format": header.get("pixel_format"),
    }


def _shown(name: str, value: Any) -> str:
    """Formats a value as torchcodec does: integral seconds and frame rates without a fraction."""
    text = str(value)
    return text.removesuffix(".0") if isinstance(value, float) and name != "rotation" else text
