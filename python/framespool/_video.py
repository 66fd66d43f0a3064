"""Random access to one video."""

from __future__ import annotations

import itertools
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol, TypeGuard, overload

from framespool import _framespool
from framespool._framespool import Tensor
from framespool._index_cache import cache_location
from framespool._validate_args import choice, device_number, integer, stream_index
from framespool.datasets import ArchiveMember, ImageSequence, TableCell
from framespool.errors import ArgumentError
from framespool.transforms import Transform
from framespool.transforms._compose import finish, split

Dtype = Literal["uint8", "uint16", "float16", "bfloat16", "float32"]
ClipLayout = Literal["THWC", "TCHW", "CTHW"]


class FileObject(Protocol):
    """A file object opened for reading bytes. ``seek`` returns the new position; ``read`` may return less than ``size``
    bytes, and none only at the end."""

    def read(self, size: int, /) -> bytes: ...
    def seek(self, offset: int, whence: int, /) -> int: ...


def is_file_object(source: object) -> TypeGuard[FileObject]:
    """Whether this is a file object rather than something that is stored (a path may be both)."""
    return not isinstance(source, (str, bytes, os.PathLike)) and hasattr(source, "read") and hasattr(source, "seek")


@dataclass(frozen=True)
class StreamInfo:
    """One of the streams of a file, as its container describes it.

    ``index``: its number among all streams of the file, from 0, as FFmpeg counts them; what ``stream=`` takes.
    ``kind``: ``"video"``, ``"attached_picture"`` (cover art), ``"audio"``, ``"subtitle"``, ``"attachment"`` or
    ``"data"``. ``codec``: FFmpeg's name of it, ``"none"`` where it has none. ``width``, ``height``: pixels of a video
    stream, before rotation, else 0. ``num_frames``: frames of a video stream that the container states, else ``None``.
    ``default``: whether the container marks it as one to be played by default.
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
    """Facts of a video, from its container; nothing is decoded for them but the color's.

    ``path``: as it was given. ``container``, ``codec``: FFmpeg's names of them. ``num_frames``: frames that are shown.
    ``num_packets``: packets of the video stream, which may be more. ``average_fps``: shown frames per second.
    ``time_base``: (num, den), seconds of a tick of the file's clock. ``width``, ``height``: pixels, as shown (rotation
    applied). ``rotation``: clockwise turn that display needs, in degrees; it is applied to all frames (after mirroring
    left-right where ``mirrored``). ``keyframes``: display indices at which decoding can start. ``begin_seconds``: when
    the first frame appears (not always 0); ``end_seconds``: when the last one leaves. ``damaged_units``: pieces of the
    container that could not be read or are incomplete; frames may be missing where they were (0 for a sound file).
    ``sample_aspect``: (num, den) of a pixel's width / height, if stated. ``direct``: packets are read at their place in
    the file, without a demuxer. ``stream``: index of the video stream that is read; ``streams``: all streams of the
    file, a :class:`StreamInfo` each.

    ``color_primaries``, ``color_transfer``, ``color_matrix``: FFmpeg's names of what ITU-T H.273 numbers, such as
    ``"bt2020"``, ``"smpte2084"`` (PQ), ``"arib-std-b67"`` (HLG) and ``"bt2020nc"``; ``color_range``: ``"limited"`` or
    ``"full"``; each ``None`` where neither the stream nor the container states it. ``hdr``: ``"PQ"`` or ``"HLG"``,
    else ``None``. Most streams state these in their pictures only: the first frame is decoded when one of them is read,
    which raises as decoding does.
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
    keyframes: tuple[int, ...]
    damaged_units: int
    num_packets: int
    direct: bool
    stream: int
    streams: tuple[StreamInfo, ...]

    @property
    def duration_seconds(self) -> float:
        """``end_seconds - begin_seconds``."""
        return self.end_seconds - self.begin_seconds

    @cached_property
    def _color(self) -> tuple[str | None, str | None, str | None, str | None, str | None]:
        video: _framespool.Video | None = self.__dict__.get("_video")
        if video is None:
            raise ArgumentError(
                f"{self.path}: these facts are a copy without the video; read its color from Video.info"
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
        """``"limited"`` or ``"full"``."""
        return self._color[3]

    @property
    def hdr(self) -> str | None:
        """``"PQ"`` or ``"HLG"`` for video of high dynamic range."""
        return self._color[4]

    def __getstate__(self) -> dict[str, Any]:
        """The facts with the color's, without the video."""
        state = {**self.__dict__, "_color": self._color}
        state.pop("_video", None)
        return state


@dataclass(frozen=True, eq=False)
class FrameBatch:
    """Frames of one video.

    ``data``: Tensor, ``(T, H, W, C)`` uint8 RGB unless asked otherwise, or what a callable at the end of the transforms
    made of it. ``indices``: display index of each, none negative. ``pts_seconds``, ``duration_seconds``: when each
    appears and how long it stays, in seconds.
    """

    data: Tensor
    indices: list[int]
    pts_seconds: list[float]
    duration_seconds: list[float]

    def __len__(self) -> int:
        return len(self.indices)


class Video:
    """A video whose frames can be had in any order, exactly.

    ``source``: a path or URL, the bytes of a file, a file object opened for bytes, a
    :class:`framespool.datasets.ArchiveMember` of an archive, a :class:`framespool.datasets.TableCell` of a table, or a
    :class:`framespool.datasets.ImageSequence`. Of a file object only the wanted ranges are read, by ``seek(offset,
    whence)`` and ``read(size)``; it must stay open, and nobody else may move it meanwhile. ``device``: where frames
    land, ``"cpu"`` or ``"cuda:0"``. ``decoder``: ``"auto"`` (NVDEC for frames that land on a GPU, as far as it can
    decode the video exactly), ``"cpu"`` or ``"nvdec"``; the frames are the same. ``num_threads``: threads that decode
    the frames of one call; all cores by default. Give 1 where many videos are read at once, as in workers of a
    DataLoader.

    ``index``: where the video's index (its table of packets and frames) is looked for and kept, so that opening it
    again, by any process, costs next to nothing: ``None`` or ``"auto"`` for the default place (``FRAMESPOOL_INDEX``,
    else a folder in the user's cache), a folder, or ``False`` for nowhere. An index is used only while the file stays
    as it was. Those of members of archives and of file objects are not kept.

    ``stream``: which video stream of a file that has several, by its index among all streams (``info.streams``). By
    default the one that FFmpeg's ``av_find_best_stream`` takes, as other libraries do; cover art is never taken. Raises
    :class:`~framespool.NoVideoError`, which lists the streams, for an index that is no video stream.

    ``hdr``: video whose transfer function is PQ or HLG is converted to RGB without tone mapping unless
    :class:`~framespool.transforms.ToneMap` is among the transforms; ``"warn"`` gives a
    :class:`~framespool.HdrWarning` the first time in a process, ``"ignore"`` none.

    Frame *i* is the *i*-th frame shown; it plays during ``[pts_i, pts_{i+1})``. Frames hidden by an edit list do not
    count. Raises a subclass of :class:`framespool.Error` that names the file and the reason.

    One object may be used from several threads. It does not survive ``os.fork()``. It can be pickled if it was made
    from a path.
    """

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
    ) -> None:
        number = device_number(device)
        choice("decoder", decoder, ("auto", "cpu", "nvdec"))
        choice("hdr", hdr, ("warn", "ignore"))
        stored = isinstance(source, (str, bytes, os.PathLike, ImageSequence, ArchiveMember, TableCell))
        if not stored and not is_file_object(source):
            raise ArgumentError(
                "source must be a path, bytes, a file object, datasets.ArchiveMember, datasets.TableCell or datasets.ImageSequence, "
                f"got {type(source).__name__}"
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
        self._video = _framespool.Video(
            source, "bytes", self.num_threads, self._index, number, decoder, self._stream, hdr == "ignore"
        )
        self._info: VideoInfo | None = None

    @property
    def info(self) -> VideoInfo:
        """Facts of the video."""
        if self._info is None:
            facts = self._video.facts()
            facts["keyframes"] = tuple(facts["keyframes"])
            facts["streams"] = tuple(
                StreamInfo(index, kind, codec, width, height, num_frames, default)
                for index, (kind, codec, (width, height), num_frames, default) in enumerate(facts["streams"])
            )
            self._info = VideoInfo(**facts)
            self._info.__dict__["_video"] = self._video  # no field, so that copies made by dataclasses leave it out
        return self._info

    @property
    def pts_seconds(self) -> list[float]:
        """When each frame appears, in seconds."""
        return self._video.all_pts_seconds()

    def __len__(self) -> int:
        return len(self._video)

    def __repr__(self) -> str:
        i = self.info
        return f"Video({i.path!r}, {i.num_frames} frames, {i.width}x{i.height}, {i.codec})"

    def __reduce__(self) -> tuple[Callable[..., Video], tuple[object, ...]]:
        if isinstance(self._source, bytes):
            raise TypeError("a Video made from bytes is not pickled; pickle the bytes and open them again")
        if is_file_object(self._source):
            raise TypeError("a Video made from a file object is not pickled; open it again from a path")
        made_from = (self._source, self.device, self.decoder, self._asked_threads, self._index, self._stream, self._hdr)
        return (_reopen, made_from)

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> Tensor: ...
    def __getitem__(self, index: int | slice) -> Tensor:
        """``video[7]``: Tensor (H, W, C) uint8. ``video[10:100:5]``: Tensor (T, H, W, C) uint8."""
        if isinstance(index, slice):
            wanted = range(*index.indices(len(self)))
            if not wanted:
                raise ArgumentError(f"{index} selects none of the {len(self)} frames")
            return self.frames(wanted).data
        return self.frames([index]).data[0]

    def __iter__(self) -> Iterator[Tensor]:
        """Every frame in order, as Tensor (H, W, C) uint8, each with memory of its own; the video is decoded once.

        Damage raises when its place is reached; the frames before it have been delivered.
        """
        return iter(self._video)

    def frames(
        self,
        indices: Iterable[int],
        *,
        transforms: Sequence[Transform | Callable[[Any], Any]] | None = None,
        dtype: Dtype = "uint8",
        layout: ClipLayout = "THWC",
        seed: int = 0,
    ) -> FrameBatch:
        """Frames by display index, in the order given; repeats and negative numbers (from the end) are fine.

        Each group of pictures is decoded once, up to the last wanted frame. Raises
        :class:`~framespool.FrameIndexError` for a frame that does not exist and :class:`~framespool.DecodeError` for
        one that the file's damage has reached. ``transforms``: see :mod:`framespool.transforms`; random ones draw by
        ``seed``, alike for all frames of one call. ``dtype``: ``"uint8"``; ``"uint16"``, 0 to 65535 whatever the
        video's depth; float dtypes have values in 0..1 unless normalised. Of video of more than 8 bits a sample all but
        ``"uint8"`` keep its depth; of 8-bit video floats are those of the uint8 result.
        """
        steps, function = split(transforms)
        clip = self._video.frames(_numbers(indices, len(self)), steps, _dtype(dtype), _layout(layout), _seed(seed))
        return FrameBatch(finish(function, clip.data), clip.indices, clip.pts_seconds, clip.duration_seconds)

    def get_frames_played_at(
        self,
        seconds: Iterable[float],
        *,
        transforms: Sequence[Transform | Callable[[Any], Any]] | None = None,
        dtype: Dtype = "uint8",
        layout: ClipLayout = "THWC",
        seed: int = 0,
    ) -> FrameBatch:
        """The frames on screen at these times, in seconds of the video's own clock (see ``info.begin_seconds``).

        Raises :class:`~framespool.FrameTimeError` before the first frame appears and from ``info.end_seconds`` on.
        """
        steps, function = split(transforms)
        clip = self._video.get_frames_played_at(
            [_moment(s) for s in seconds], steps, _dtype(dtype), _layout(layout), _seed(seed)
        )
        return FrameBatch(finish(function, clip.data), clip.indices, clip.pts_seconds, clip.duration_seconds)

    def get_clip(
        self,
        *,
        start: int,
        sequence_length: int,
        stride: int = 1,
        transforms: Sequence[Transform | Callable[[Any], Any]] | None = None,
        dtype: Dtype = "uint8",
        layout: ClipLayout = "THWC",
        seed: int = 0,
    ) -> FrameBatch:
        """Frames ``start, start + stride, …``, ``sequence_length`` of them; all must exist."""
        sequence_length = integer("sequence_length", sequence_length, least=1)
        stride = integer("stride", stride, least=1)
        first = start + len(self) if start < 0 else start
        if first < 0:
            self.frames([start])  # raises, with the number and the count
        wanted = range(first, first + sequence_length * stride, stride)
        return self.frames(wanted, transforms=transforms, dtype=dtype, layout=layout, seed=seed)


def _numbers(indices: Iterable[Any], frames: int) -> list[int]:
    """Frame numbers as ints, NumPy's too; of a video of so many frames, or else the first number that it does not have.

    There may be millions, or no end of them: read a piece at a time, and no further than they exist.
    """
    numbers: list[int] = []
    rest = iter(indices)
    while given := list(itertools.islice(rest, 1 << 16)):
        piece = _whole_numbers(given)
        if min(piece) < -frames or max(piece) >= frames:
            return [next(number for number in piece if not -frames <= number < frames)]
        numbers += piece
    return numbers


def _whole_numbers(given: list[Any]) -> list[int]:
    """As ints; one by one only where something is wrong."""
    most = 2**63
    try:
        numbers = list(map(operator.index, given))
        if bool not in set(map(type, given)) and -most <= min(numbers) and max(numbers) < most:
            return numbers
    except TypeError:
        pass
    return [integer("indices", value, least=-most, most=most - 1) for value in given]


def _moment(value: Any) -> float:
    """A time in seconds. Whether the video plays then is for the video to say, also of NaN."""
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
) -> Video:
    """A pickled video, opened where it arrived."""
    return Video(source, device=device, decoder=decoder, num_threads=num_threads, index=index, stream=stream, hdr=hdr)


def _layout(layout: str) -> str:
    return "N" + choice("layout", layout, ("THWC", "TCHW", "CTHW"))


def _dtype(dtype: str) -> str:
    return choice("dtype", dtype, ("uint8", "uint16", "float16", "bfloat16", "float32"))


def _seed(seed: int) -> int:
    return integer("seed", seed, most=2**64 - 1)
