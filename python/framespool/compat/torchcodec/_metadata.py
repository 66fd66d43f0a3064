"""What is known of a stream."""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction

from framespool._video import VideoInfo


@dataclass
class VideoStreamMetadata:
    """Facts of the video, under torchcodec's names; ``None`` where framespool does not tell.

    ``width``, ``height``: pixels, as shown (rotation applied). ``rotation``: degrees, counter-clockwise, -180 to 180;
    ``None`` without. All times are in seconds and taken from the packets, so what torchcodec calls "from header" and
    "from content" is the same here.
    """

    duration_seconds_from_header: float | None = None
    begin_stream_seconds_from_header: float | None = None
    bit_rate: float | None = None
    codec: str | None = None
    stream_index: int | None = None
    media_type: str | None = None
    width: int | None = None
    height: int | None = None
    num_frames_from_header: int | None = None
    average_fps_from_header: float | None = None
    pixel_aspect_ratio: Fraction | None = None
    rotation: float | None = None
    color_primaries: str | None = None
    color_space: str | None = None
    color_transfer_characteristic: str | None = None
    pixel_format: str | None = None
    begin_stream_seconds_from_content: float | None = None
    end_stream_seconds_from_content: float | None = None
    num_frames_from_content: int | None = None
    duration_seconds: float | None = None
    begin_stream_seconds: float | None = None
    end_stream_seconds: float | None = None
    num_frames: int | None = None
    average_fps: float | None = None

    def __repr__(self) -> str:
        rows = (f"  {field.name}: {getattr(self, field.name)}" for field in fields(self))
        return "\n".join([f"{type(self).__name__}:", *rows]) + "\n"


def metadata(info: VideoInfo) -> VideoStreamMetadata:
    """Of framespool's facts."""
    # Exactly half a turn is -180 there, and framespool counts clockwise.
    rotation = None if info.rotation == 0 else float(-info.rotation if info.rotation <= 180 else 360 - info.rotation)
    duration = info.duration_seconds
    fps = info.num_frames / duration if duration > 0 else info.average_fps
    return VideoStreamMetadata(
        duration_seconds_from_header=duration,
        begin_stream_seconds_from_header=info.begin_seconds,
        codec=info.codec,
        media_type="video",
        width=info.width,
        height=info.height,
        num_frames_from_header=info.num_frames,
        average_fps_from_header=fps,
        pixel_aspect_ratio=None if info.sample_aspect is None else Fraction(*info.sample_aspect),
        rotation=rotation,
        begin_stream_seconds_from_content=info.begin_seconds,
        end_stream_seconds_from_content=info.end_seconds,
        num_frames_from_content=info.num_frames,
        duration_seconds=duration,
        begin_stream_seconds=info.begin_seconds,
        end_stream_seconds=info.end_seconds,
        num_frames=info.num_frames,
        average_fps=fps,
    )
