"""What a video file contains: its streams, sizes, times and colors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from framespool import _framespool
from framespool.errors import ArgumentError
from framespool.video._audio import AudioInfo


@dataclass(frozen=True)
class StreamInfo:
    """One of the streams of a file, as its container describes it.

    Attributes:
        index: Index among all streams of the file, from 0, as FFmpeg counts them; the value for `stream=`.
        kind: `"video"`, `"attached_picture"` (cover art), `"audio"`, `"subtitle"`, `"attachment"` or `"data"`.
        codec: FFmpeg's name of the codec, `"none"` if there is none.
        width: Pixels of a video stream, before rotation, else 0.
        height: Pixels of a video stream, before rotation, else 0.
        num_frames: Frames of a video stream that the container states, else `None`.
        default: Whether the container marks the stream as the default.

    Example:
        >>> import framespool as fsp
        >>> [(stream.index, stream.kind, stream.codec) for stream in fsp.Video("a.mp4").info.streams]
        [(0, 'video', 'h264')]
    """

    index: int
    kind: str
    codec: str
    width: int
    height: int
    num_frames: int | None
    default: bool


@dataclass(frozen=True)
class VideoInfo:
    """Metadata of a video, from its container. Only the color metadata requires decoding a frame.

    The names of colors are FFmpeg's names of the values of ITU-T H.273, such as `"bt2020"`, `"smpte2084"` (PQ),
    `"arib-std-b67"` (HLG) and `"bt2020nc"`. They are `None` if neither the stream nor the container states them.
    Most streams state them only in the coded pictures, so reading one decodes the first frame and may raise as decoding
    does.

    Attributes:
        path: As it was given.
        container: FFmpeg's name of the container.
        codec: FFmpeg's name of the codec.
        num_frames: Number of displayable frames.
        width: Pixels, after rotation.
        height: Pixels, after rotation.
        average_fps: Frames per second over the duration.
        begin_seconds: Presentation time of the first frame, not always 0.
        end_seconds: End of the last frame.
        rotation: Clockwise rotation in degrees that is applied to all frames.
        mirrored: Whether frames are flipped left to right before the rotation.
        time_base: (num, den), seconds per tick of the file's timestamps.
        sample_aspect: (num, den), width / height of a stored pixel, before rotation, if the container or the stream
            states it. Frames have the stored size.
        display_width: Width at which a player shows frames, in square pixels, after rotation: the stored width times
            `sample_aspect`, rounded half to even. After a rotation by 90 or 270 degrees it is the stored height.
        display_height: Height, likewise: the stored height, or after such a rotation the stored width times
            `sample_aspect`.
        keyframes: Presentation indices of the frames at which decoding can start.
        damaged_units: Units of the container that are unreadable or incomplete; frames may be missing there. 0 for a
            valid file.
        num_packets: Packets of the video stream; may be more than the frames.
        direct: Whether packets are read by their offsets in the file, without a demuxer.
        stream: Index of the video stream that is read.
        streams: All streams of the file.

    Example:
        >>> import framespool as fsp
        >>> info = fsp.Video("phone.mp4").info
        >>> info.width, info.height, info.rotation, info.num_frames, info.codec
        (360, 640, 90, 72, 'h264')
    """

    path: str
    container: str
    codec: str
    num_frames: int
    width: int
    height: int
    average_fps: float
    begin_seconds: float
    end_seconds: float
    rotation: int
    mirrored: bool
    time_base: tuple[int, int]
    sample_aspect: tuple[int, int] | None
    display_width: int
    display_height: int
    keyframes: tuple[int, ...]
    damaged_units: int
    num_packets: int
    direct: bool
    stream: int
    streams: tuple[StreamInfo, ...]

    @property
    def duration_seconds(self) -> float:
        """`end_seconds - begin_seconds`."""
        return self.end_seconds - self.begin_seconds

    @cached_property
    def _color(self) -> tuple[str | None, str | None, str | None, str | None, str | None]:
        video: _framespool.Video | None = self.__dict__.get("_video")
        if video is None:
            raise ArgumentError(
                f"{self.path}: this VideoInfo is a copy without the video; read the color from Video.info"
            )
        return video.color_names()

    @property
    def color_primaries(self) -> str | None:
        """Name of the color primaries."""
        return self._color[0]

    @property
    def color_transfer(self) -> str | None:
        """Name of the transfer function."""
        return self._color[1]

    @property
    def color_matrix(self) -> str | None:
        """Name of the matrix between YUV and RGB."""
        return self._color[2]

    @property
    def color_range(self) -> str | None:
        """`"limited"` or `"full"`."""
        return self._color[3]

    @cached_property
    def field_order(self) -> str | None:
        """Order of the fields: `"progressive"`, or of interlaced video `"tt"`, `"bb"`, `"tb"` or `"bt"`.

        These are FFmpeg's names: which field is coded first, and which one is shown first. `None` if the container and
        the first packets do not state it. Reading it opens the file again. Frames of interlaced video are delivered as
        stored, with the lines of both fields, unless the option `deinterlace` of `Video` or of a loader is set.

        Raises:
            ArgumentError: For a copy of the metadata without the video.
        """
        video: _framespool.Video | None = self.__dict__.get("_video")
        if video is None:
            raise ArgumentError(
                f"{self.path}: this VideoInfo is a copy without the video; read the field order from Video.info"
            )
        return video.header().get("field_order")

    @cached_property
    def audio_streams(self) -> tuple[AudioInfo, ...]:
        """The audio streams. Reading it the first time reads the audio packets of the file, unless they are cached.

        Raises:
            ArgumentError: For a copy of the metadata without the video.
        """
        listed = [stream.index for stream in self.streams if stream.kind == "audio"]
        video: _framespool.Video | None = self.__dict__.get("_video")
        if video is None:
            raise ArgumentError(
                f"{self.path}: this VideoInfo is a copy without the video; read the audio streams from Video.info"
            )
        return tuple(AudioInfo(*video.audio_info(index)) for index in listed)

    @property
    def hdr(self) -> str | None:
        """`"PQ"` or `"HLG"` for high dynamic range, else `None`."""
        return self._color[4]

    def __getstate__(self) -> dict[str, Any]:
        """The metadata with those of color and fields, without the video."""
        state = {**self.__dict__, "_color": self._color, "field_order": self.field_order}
        state.pop("_video", None)
        return state


class VideoColumns(NamedTuple):
    """The videos of the clips of a batch. If a sample is a segment of a video, the video is the segment.

    Attributes:
        num_frames: (N,) int64, number of frames.
        average_fps: (N,) float64, average frames per second of the file.
        duration_seconds: (N,) float64.
        sizes: (N, 2) int64, height and width as displayed.
        first_frame: (N,) int64, index of the first frame within the file.

    Example:
        >>> import framespool as fsp
        >>> loader = fsp.ClipLoader(["a.mp4"], fsp.samplers.RandomClips(sequence_length=4), batch_size=1)
        >>> video = next(iter(loader)).video
        >>> video.num_frames.tolist(), video.sizes.tolist()
        ([72], [[360, 640]])
    """

    num_frames: Any
    average_fps: Any
    duration_seconds: Any
    sizes: Any
    first_frame: Any


def _new_columns(cls: type[VideoColumns], first: Any, *others: Any) -> VideoColumns:
    """Creates the columns from one each, or from an iterable of them, as Hugging Face's `Trainer` creates any tuple."""
    return cls._make((first, *others) if others else first)


VideoColumns.__new__ = _new_columns  # type: ignore[method-assign, assignment]
