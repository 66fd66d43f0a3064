"""Random access to one video."""

from __future__ import annotations

import itertools
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeGuard, overload

from framespool import _framespool
from framespool._common.index_cache import cache_location
from framespool._common.validate_args import (
    ClipLayout,
    Dtype,
    batch_layout,
    check_dtype,
    choice,
    current_gpu,
    device_number,
    integer,
    rounding,
    stream_index,
)
from framespool._framespool import Tensor
from framespool.errors import ArgumentError
from framespool.transforms import Transform
from framespool.transforms._compose import split
from framespool.transforms._functions import apply_functions
from framespool.video._audio import checked_span
from framespool.video._info import StreamInfo, VideoInfo
from framespool.video._sources import ArchiveMember, ImageSequence, TableCell


class FileObject(Protocol):
    """A file object opened for reading bytes."""

    def read(self, size: int, /) -> bytes:
        """Reads up to `size` bytes.

        Args:
            size: Number of bytes.

        Returns:
            The bytes; fewer than `size` are allowed, none only at the end of the file.
        """

    def seek(self, offset: int, whence: int, /) -> int:
        """Moves to a position.

        Args:
            offset: Bytes.
            whence: As for `io.IOBase.seek`.

        Returns:
            The new position.
        """


def is_file_object(source: object) -> TypeGuard[FileObject]:
    """Whether this is a file object rather than a stored file (a path may have the methods of both).

    Args:
        source: Any object.

    Returns:
        Whether it has `read` and `seek` and is no path.
    """
    return not isinstance(source, (str, bytes, os.PathLike)) and hasattr(source, "read") and hasattr(source, "seek")


@dataclass(frozen=True, eq=False)
class FrameBatch:
    """Frames of one video.

    Attributes:
        frames: Tensor (T, C, H, W), uint8 RGB by default; see `layout` of `Video`. If the last transform is a callable,
            its result.
        indices: Index of each frame in presentation order, never negative.
        pts_seconds: Presentation time of each frame in seconds.
        duration_seconds: Duration of each frame in seconds.

    Example:
        >>> import framespool as fsp
        >>> batch = fsp.Video("a.mp4").frames([0, 10])
        >>> batch.frames.shape, batch.indices, batch.duration_seconds
        ((2, 3, 360, 640), [0, 10], [0.041666666666666664, 0.041666666666666664])
    """

    frames: Tensor
    indices: list[int]
    pts_seconds: list[float]
    duration_seconds: list[float]

    def __len__(self) -> int:
        return len(self.indices)


class Video:
    """Random access to the frames of one video, exact to the frame.

    Frame *i* is the *i*-th frame in presentation order, however it is accessed. It is shown during
    `[pts_i, pts_{i+1})`. Frames that an edit list hides do not count. See docs/concepts/frames.md.

    A `Video` may be used from several threads. It does not survive `os.fork()`. It can be pickled if it was opened
    from a path.

    An index of the video (its table of packets and frames) is stored in the index cache, so that any process can open
    the video again at almost no cost. It is used only while the file is unchanged. Indexes of archive members and file
    objects are not stored.

    Video with a PQ or HLG transfer function is converted to RGB without tone mapping, unless
    `transforms.ToneMap` is among the transforms.

    Args:
        source: A path or URL, the bytes of a file, a file object opened for bytes, a `datasets.ArchiveMember`, a
            `datasets.TableCell` or a `datasets.ImageSequence`. Of a file object only the needed ranges are read, by
            `seek(offset, whence)` and `read(size)`; it must stay open, and no other code may move its position.
        device: Where frames are placed, `"cpu"` or `"cuda:0"`.
        decoder: `"auto"` (with a GPU device, NVDEC if it decodes the video exactly), `"cpu"` or `"nvdec"`. The
            frames are the same.
        num_threads: Threads that decode the frames of one call. `None`: one per available core. Use 1 if many videos
            are read at the same time, as in workers of a DataLoader.
        index: The index cache: a folder, `False` for none, or `None` or `"auto"` for the default
            (`FRAMESPOOL_INDEX`, else a folder in the user's cache).
        stream: Index of the video stream among all streams of the file (`info.streams`). `None`: the stream that
            FFmpeg's `av_find_best_stream` selects. Cover art is never selected.
        hdr: `"warn"` gives an `HdrWarning` for PQ or HLG video, once per process. `"ignore"` gives none.
        deinterlace: What becomes of the two fields of interlaced video (`info.field_order` is not `"progressive"`).

            - `"weave"`: frames as stored, with the lines of both fields.
            - `"bob"`: each line of the field that is shown second is replaced by the adjacent line of the other field.
            - `"linear"`: it is replaced by the mean of the lines above and below it.
        layout: Dimensions of frames: `"TCHW"`, `"THWC"` (as plots and OpenCV take them) or `"CTHW"`. A single frame has
            no T.

    Raises:
        NotFoundError: If the file does not exist.
        NoVideoError: If there is no video stream, or `stream` is not one; the message lists the streams.
        UnsupportedError: If the codec or format is not supported.
        InvalidDataError: If the file is not a valid video.
        ArgumentError: If an argument is invalid.

    Example:
        >>> import framespool as fsp
        >>> video = fsp.Video("a.mp4")
        >>> video
        Video('a.mp4', 72 frames, 640x360, h264)
        >>> video[7].shape
        (3, 360, 640)
        >>> clip = video.frames([0, 10, -1])
        >>> clip.frames.shape, clip.indices
        ((3, 3, 360, 640), [0, 10, 71])
    """

    #: Implements `chunks()`; set by the module of the loaders, which use videos.
    _iterate_chunks: ClassVar[Callable[..., Iterator[FrameBatch]]]

    def __init__(
        self,
        source: str | os.PathLike[str] | bytes | ImageSequence | ArchiveMember | TableCell | FileObject,
        *,
        device: Any = "cpu",
        decoder: Literal["auto", "cpu", "nvdec"] = "auto",
        num_threads: int | None = None,
        index: str | os.PathLike[str] | Literal[False] | None = None,
        stream: int | None = None,
        hdr: Literal["warn", "ignore"] = "warn",
        deinterlace: Literal["weave", "bob", "linear"] = "weave",
        layout: ClipLayout = "TCHW",
    ) -> None:
        number = device_number(device)
        choice("decoder", decoder, ("auto", "cpu", "nvdec"))
        choice("hdr", hdr, ("warn", "ignore"))
        choice("deinterlace", deinterlace, ("weave", "bob", "linear"))
        stored = isinstance(source, (str, bytes, os.PathLike, ImageSequence, ArchiveMember, TableCell))
        if not stored and not is_file_object(source):
            raise ArgumentError(
                "source must be a path, bytes, a file object, datasets.ArchiveMember, datasets.TableCell or "
                f"datasets.ImageSequence, got {type(source).__name__}"
            )
        self._source = source
        self.device = "cpu" if number is None else f"cuda:{number}"
        self.decoder = decoder
        self._asked_threads = num_threads
        self.num_threads = (
            _framespool.cores() if num_threads is None else integer("num_threads", num_threads, least=1, most=256)
        )
        self._index = cache_location(index)
        self._stream = stream_index(stream)
        self._hdr = hdr
        self._deinterlace = deinterlace
        choice("layout", layout, ("TCHW", "THWC", "CTHW"))
        self.layout = layout
        # The GPU that decodes for the host.
        decode_device = current_gpu() if number is None and decoder == "nvdec" else 0
        settings = (self.num_threads, self._index, number, decoder, self._stream, hdr == "ignore", deinterlace)
        self._video = _framespool.Video(source, "bytes", *settings, decode_device)
        self._info: VideoInfo | None = None

    @property
    def info(self) -> VideoInfo:
        """Metadata of the video."""
        if self._info is None:
            metadata = self._video.info()
            metadata["keyframes"] = tuple(metadata["keyframes"])
            metadata["streams"] = tuple(
                StreamInfo(index, kind, codec, width, height, num_frames, default)
                for index, (kind, codec, (width, height), num_frames, default) in enumerate(metadata["streams"])
            )
            self._info = VideoInfo(**metadata)
            self._info.__dict__["_video"] = self._video  # not a field, so copies made by dataclasses omit it
        return self._info

    @property
    def pts_seconds(self) -> list[float]:
        """Presentation time of each frame in seconds."""
        return self._video.all_pts_seconds()

    def __getattr__(self, name: str) -> Any:
        hint = f"; use {_OTHER_NAMES[name]}" if name in _OTHER_NAMES else ""
        raise AttributeError(f"framespool.Video has no attribute {name!r}{hint}", name=name, obj=self)

    def __len__(self) -> int:
        return len(self._video)

    def __repr__(self) -> str:
        i = self.info
        return f"Video({i.path!r}, {i.num_frames} frames, {i.width}x{i.height}, {i.codec})"

    def __reduce__(self) -> tuple[Callable[..., Video], tuple[object, ...]]:
        if isinstance(self._source, bytes):
            raise TypeError("a Video opened from bytes cannot be pickled; pickle the bytes and open them again")
        if is_file_object(self._source):
            raise TypeError("a Video opened from a file object cannot be pickled; open it from a path")
        asked = (self.device, self.decoder, self._asked_threads, self._index, self._stream, self._hdr)
        return (_reopen, (self._source, *asked, self._deinterlace, self.layout))

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> Tensor: ...
    def __getitem__(self, index: int | slice) -> Tensor:
        """Returns one frame or a slice.

        `video[7]` is a Tensor (C, H, W) uint8, `video[10:100:5]` a Tensor (T, C, H, W) uint8, or as `layout` says.
        """
        if isinstance(index, slice):
            selected = range(*index.indices(len(self)))
            if not selected:
                raise ArgumentError(f"{index} selects none of the {len(self)} frames")
            return self.frames(selected).frames
        frames = self.frames([index]).frames
        return frames[:, 0] if self.layout == "CTHW" else frames[0]

    def __iter__(self) -> Iterator[Tensor]:
        """Iterates over all frames in order; the video is decoded once.

        Each frame is a Tensor (C, H, W) uint8, or (H, W, C) with `layout="THWC"`, with its own memory. Damage raises an
        error when the iteration reaches it, after the frames before it.
        """
        return self._video.iterate("NTHWC" if self.layout == "THWC" else "NTCHW")

    def chunks(
        self,
        *,
        fps: float | None = None,
        stride: int | None = None,
        start_seconds: float | None = None,
        end_seconds: float | None = None,
        chunk_size: int = 64,
        transforms: Sequence[Transform | Callable[[Any], Any]] | None = None,
        dtype: Dtype = "uint8",
        seed: int = 0,
        num_threads: int | None = None,
    ) -> Iterator[FrameBatch]:
        """Iterates over a video, or its frames at a rate, in chunks: for embeddings of long videos.

        Threads decode the next chunks meanwhile, each GOP of up to 1024 frames once. The memory does not depend on the
        length of the video: at most 1 GiB of chunks that wait, and one decoder per thread. The video is opened again,
        so a file object cannot be iterated.

        Args:
            fps: Frames per second: frame *k* is the one that is shown `k / fps` seconds after the first one.
            stride: Distance between frames, in frames, instead of `fps`. `None` without `fps`: every frame.
            start_seconds: Start in seconds of the video's own timestamps; `None`: the first frame.
            end_seconds: End in seconds, exclusive; `None`: the end of the video.
            chunk_size: Frames of a chunk; the last one may have fewer.
            transforms: As for `frames()`. Random ones draw the same numbers for all frames of a chunk.
            dtype: As for `frames()`.
            seed: Seed of random transforms.
            num_threads: Threads that decode. `None`: one per available core.

        Returns:
            An iterator over the chunks.

        Raises:
            DecodeError: If damage in the file affects a frame, when the iteration reaches its chunk.
            ArgumentError: If an argument is invalid.

        Example:
            >>> import framespool as fsp
            >>> video = fsp.Video("a.mp4")
            >>> [chunk.indices for chunk in video.chunks(fps=6, chunk_size=5, transforms=[fsp.transforms.Resize(64)])]
            [[0, 4, 8, 12, 16], [20, 24, 28, 32, 36], [40, 44, 48, 52, 56], [60, 64, 68]]
        """
        return self._iterate_chunks(
            self,
            fps=fps,
            stride=stride,
            chunk_size=chunk_size,
            bounds=(start_seconds, end_seconds),
            num_threads=self._asked_threads if num_threads is None else num_threads,
            transforms=transforms,
            options={"dtype": dtype, "seed": seed},
        )

    def audio(
        self,
        start: float | None = None,
        seconds: float | None = None,
        *,
        sample_rate: int | None = None,
        channels: int | None = None,
        stream: int | None = None,
    ) -> Tensor:
        """Returns the audio of a time span, exact to the sample.

        Args:
            start: Time of the first sample in seconds, on the clock of `pts_seconds`; the nearest sample counts.
                `None`: the begin of the audio.
            seconds: Length. `None`: up to the end of the audio.
            sample_rate: Samples per second of the result. `None`: those of the file. Samples are resampled on a grid
                that begins with the audio, so that any span equals the cut of the whole.
            channels: Number of channels of the result, 1 or 2, mixed as by FFmpeg's `-ac`. `None`: those of the file.
            stream: Index of the audio stream among all streams. `None`: the one that FFmpeg selects.

        Returns:
            Tensor (C, S) float32, from -1 to 1; zeros where the file has no audio.

        Raises:
            NoAudioError: If there is no audio stream, or `stream` is not one.
            DecodeError: If a packet of the span is damaged.
            ClipSamplingError: If the file's channels or rate cannot be converted.
            ArgumentError: If an argument is invalid.

        Example:
            >>> import framespool as fsp
            >>> video = fsp.Video("talk.mp4")
            >>> video.audio(start=0.5, seconds=1.5, sample_rate=16000).shape
            (1, 24000)
        """
        span = checked_span(start, seconds, sample_rate, channels)
        return self._video.audio(*span, stream_index(stream))[0]

    def frames(
        self,
        indices: Iterable[int],
        *,
        transforms: Sequence[Transform | Callable[[Any], Any]] | None = None,
        dtype: Dtype = "uint8",
        seed: int = 0,
    ) -> FrameBatch:
        """Returns frames by their index in presentation order.

        Each GOP is decoded once, up to its last requested frame.

        Args:
            indices: Frame indices in any order. Repeats are allowed; negative indices count from the end.
            transforms: List of `framespool.transforms`. Random ones draw the same numbers for all frames of the
                call. The last entry may be a callable.
            dtype: `"uint8"`; `"uint16"`, 0 to 65535 for every depth of the video; or a float type with values in
                0..1 unless normalized. For video of more than 8 bits all but `"uint8"` keep the depth; for 8-bit
                video floats are those of the uint8 result.
            seed: Seed of random transforms.

        Returns:
            The frames in the order of `indices`.

        Raises:
            FrameIndexError: If a frame does not exist.
            DecodeError: If damage in the file affects a frame.
            ArgumentError: If an argument is invalid.

        Example:
            >>> import framespool as fsp
            >>> video = fsp.Video("a.mp4")
            >>> video.frames([3, 5], transforms=[fsp.transforms.Resize(128)]).frames.shape
            (2, 3, 128, 227)
        """
        steps, functions = split(transforms, dtype)
        clip = self._video.frames(
            _numbers(indices, len(self)), steps, check_dtype(dtype), batch_layout(self.layout), _seed(seed)
        )
        frames = apply_functions(functions, clip.frames, self.layout, [(seed, 0, 0)])
        return FrameBatch(frames, clip.indices, clip.pts_seconds, clip.duration_seconds)

    def frames_at(
        self,
        seconds: Iterable[float],
        *,
        transforms: Sequence[Transform | Callable[[Any], Any]] | None = None,
        dtype: Dtype = "uint8",
        seed: int = 0,
    ) -> FrameBatch:
        """Returns the frames that are shown at given times.

        Args:
            seconds: Times in seconds of the video's own timestamps (see `info.begin_seconds`), in any order. Numbers of
                type float32 or less stand for all times that are rounded to them: the latest of these counts.
            transforms: As for `frames()`.
            dtype: As for `frames()`.
            seed: Seed of random transforms.

        Returns:
            The frames in the order of `seconds`.

        Raises:
            FrameTimeError: If a time is before the first frame, or at or after `info.end_seconds`.
            DecodeError: If damage in the file affects a frame.
            ArgumentError: If an argument is invalid.
        """
        steps, functions = split(transforms, dtype)
        clip = self._video.frames_at(
            _moments(seconds, self.info), steps, check_dtype(dtype), batch_layout(self.layout), _seed(seed)
        )
        frames = apply_functions(functions, clip.frames, self.layout, [(seed, 0, 0)])
        return FrameBatch(frames, clip.indices, clip.pts_seconds, clip.duration_seconds)

    def clip(
        self,
        *,
        start: int,
        sequence_length: int,
        stride: int = 1,
        transforms: Sequence[Transform | Callable[[Any], Any]] | None = None,
        dtype: Dtype = "uint8",
        seed: int = 0,
    ) -> FrameBatch:
        """Returns evenly spaced frames: `start, start + stride, …`.

        Args:
            start: Index of the first frame; negative indices count from the end.
            sequence_length: Number of frames; all must exist.
            stride: Distance between frames, in frames.
            transforms: As for `frames()`.
            dtype: As for `frames()`.
            seed: Seed of random transforms.

        Returns:
            The frames.

        Raises:
            FrameIndexError: If a frame does not exist.
            DecodeError: If damage in the file affects a frame.
            ArgumentError: If an argument is invalid.
        """
        sequence_length = integer("sequence_length", sequence_length, least=1)
        stride = integer("stride", stride, least=1)
        first = start + len(self) if start < 0 else start
        if first < 0:
            self.frames([start])  # raises, with the index and the number of frames
        selected = range(first, first + sequence_length * stride, stride)
        return self.frames(selected, transforms=transforms, dtype=dtype, seed=seed)


#: Names of other libraries, and what a `Video` has instead.
_OTHER_NAMES = {
    **dict.fromkeys(("get_batch", "get_frames_at", "get_frame_at"), "frames(indices)"),
    **dict.fromkeys(("get_frames_played_at", "get_frame_played_at"), "frames_at(seconds)"),
    **dict.fromkeys(("get_frames_in_range", "get_clip"), "clip(start=, sequence_length=, stride=)"),
    "iter": "chunks()",
    **dict.fromkeys(("metadata", "get_metadata"), "info"),
    "get_avg_fps": "info.average_fps",
}

#: Frame indices or times that are read at once.
_CHUNK_NUMBERS = 1 << 16


def _numbers(indices: Iterable[Any], frames: int) -> list[int]:
    """Frame indices as ints (also NumPy's), or only the first one that a video with this many frames does not have.

    There may be millions, or an endless iterator: it is read in chunks, and not beyond the first invalid index.
    """
    numbers: list[int] = []
    rest = iter(indices)
    while given := list(itertools.islice(rest, _CHUNK_NUMBERS)):
        piece = _as_ints(given)
        if min(piece) < -frames or max(piece) >= frames:
            return [next(number for number in piece if not -frames <= number < frames)]
        numbers += piece
    return numbers


def _as_ints(given: list[Any]) -> list[int]:
    """Converts to ints; one by one only if an entry is invalid."""
    most = 2**63
    try:
        numbers = list(map(operator.index, given))
        if bool not in set(map(type, given)) and -most <= min(numbers) and max(numbers) < most:
            return numbers
    except TypeError:
        pass
    return [integer("indices", value, least=-most, most=most - 1) for value in given]


def _moments(seconds: Iterable[Any], info: VideoInfo) -> list[float]:
    """Times as floats, or only the first one at which the video shows no frame; read like frame indices."""
    moments: list[float] = []
    rest = iter(seconds)
    while given := list(itertools.islice(rest, _CHUNK_NUMBERS)):
        for value in given:
            at = _moment(value)
            # The latest time that is rounded to this one: the frame that begins then is meant.
            latest = at + rounding(value)
            if not (info.begin_seconds <= latest and at < info.end_seconds):
                return [at]
            moments.append(latest if latest < info.end_seconds else at)
    return moments


def _moment(value: Any) -> float:
    """A time in seconds. The video checks whether it shows a frame then, also for NaN."""
    try:
        if isinstance(value, (bool, str, bytes)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(f"seconds must be numbers, got {value!r}") from None


def _reopen(
    source: str | os.PathLike[str],
    device: str,
    decoder: Literal["auto", "cpu", "nvdec"],
    num_threads: int | None,
    index: str | Literal[False] | None,
    stream: int | None,
    hdr: Literal["warn", "ignore"],
    deinterlace: Literal["weave", "bob", "linear"],
    layout: ClipLayout,
) -> Video:
    """Reopens a pickled video."""
    return Video(
        source,
        device=device,
        decoder=decoder,
        num_threads=num_threads,
        index=index,
        stream=stream,
        hdr=hdr,
        deinterlace=deinterlace,
        layout=layout,
    )


def _seed(seed: int) -> int:
    return integer("seed", seed, most=2**64 - 1)
