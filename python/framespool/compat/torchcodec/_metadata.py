"""What is known of a stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

from framespool._video import Video
from framespool.errors import Error


@dataclass
class StreamMetadata:
    """Facts of a stream, under torchcodec's names. Times and durations are in seconds.

    What comes from the file's headers alone (``*_from_header``, ``bit_rate``, colors, ``pixel_format``,
    ``pixel_aspect_ratio``) is read when the first of it is asked for; opening a video needs none of it.
    """

    duration_seconds_from_header: float | None
    begin_stream_seconds_from_header: float | None
    bit_rate: float | None
    codec: str | None
    stream_index: int
    media_type: str

    def __getattr__(self, name: str) -> Any:
        # Reached for what is not set: fields of the header, before they are read.
        read: Callable[[], dict[str, Any]] | None = self.__dict__.get("_read_header")
        if read is None or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        for field, value in read().items():
            self.__dict__.setdefault(field, value)
        self.__dict__.pop("_read_header", None)
        return getattr(self, name)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __repr__(self) -> str:
        rows = (f"  {field.name}: {_shown(field.name, getattr(self, field.name))}" for field in fields(self))
        return "\n".join([f"{type(self).__name__}:", *rows]) + "\n"


@dataclass(repr=False)
class VideoStreamMetadata(StreamMetadata):
    """Facts of a video stream.

    ``width``, ``height``: pixels, as shown (rotation applied). ``rotation``: degrees, counter-clockwise, -180 to 180;
    ``None`` without. ``*_from_header``: what the container states, which may be wrong. ``*_from_content``: taken from
    the packets; ``None`` with ``seek_mode="approximate"``. The others are exact in both modes.
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


def metadata(video: Video, stream_index: int, times: tuple[float, float, int], *, scanned: bool) -> VideoStreamMetadata:
    """Of framespool's facts. ``times``: begin and end of the frames in seconds, and how many there are."""
    info = video.info
    begin, end, num_frames = times
    # Exactly half a turn is -180 there, and framespool counts clockwise.
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


def _header(video: Video) -> dict[str, Any]:
    """The fields of the header; all ``None`` where libavformat cannot read it."""
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
    """As torchcodec prints it: whole numbers of seconds and frames a second without a fraction."""
    text = str(value)
    return text.removesuffix(".0") if isinstance(value, float) and name != "rotation" else text
