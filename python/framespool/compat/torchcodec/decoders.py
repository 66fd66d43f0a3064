"""torchcodec's decoders of videos and images."""

from __future__ import annotations

import bisect
import contextlib
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Literal

from framespool._video import Video
from framespool.compat._readahead import ReadaheadReader, readable
from framespool.compat.torchcodec._frame import Frame, FrameBatch
from framespool.compat.torchcodec._images import (
    ImageReadMode,
    decode_avif,
    decode_gif,
    decode_heic,
    decode_image,
    decode_jpeg,
    decode_png,
    decode_webp,
)
from framespool.compat.torchcodec._mappings import mapped_frames
from framespool.compat.torchcodec._metadata import StreamMetadata, VideoStreamMetadata, metadata
from framespool.compat.torchcodec._torch import needed
from framespool.compat.torchcodec.transforms import translate
from framespool.errors import Error, NoVideoError

__all__ = [
    "CpuFallbackStatus",
    "ImageReadMode",
    "SimpleVideoDecoder",
    "StreamMetadata",
    "VideoDecoder",
    "VideoStreamMetadata",
    "decode_avif",
    "decode_gif",
    "decode_heic",
    "decode_image",
    "decode_jpeg",
    "decode_png",
    "decode_webp",
    "set_cuda_backend",
]


@dataclass
class CpuFallbackStatus:
    """Whether a video whose frames land on a GPU is decoded on the CPU all the same: true if it is.

    ``str()`` of it says why. Get it from :attr:`VideoDecoder.cpu_fallback`.
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


@contextlib.contextmanager
def set_cuda_backend(backend: str) -> Iterator[None]:
    """Accepts torchcodec's names, "nvdec" and "ffmpeg". framespool has one way to decode on a GPU, NVDEC, for both.

    Raises ValueError for another name.
    """
    if backend.lower() not in ("nvdec", "beta", "ffmpeg"):
        raise ValueError(f"Invalid CUDA backend ({backend}): give 'nvdec' or 'ffmpeg'")
    yield


class VideoDecoder:
    """The frames of one video as torch tensors, by number and by time. Frame *i* is the *i*-th shown.

    ``source``: a path, the bytes of a file, a uint8 tensor of them, a file object opened for bytes (of which only the
    wanted ranges are read, by ``seek(offset, whence)`` and ``read(size)``), or a
    :class:`framespool.datasets.ArchiveMember`. ``stream_index``: which stream, counted over streams of all kinds; by default
    the one that FFmpeg takes for the best. ``dimension_order``: ``"NCHW"`` or ``"NHWC"``. ``num_ffmpeg_threads``:
    threads that decode one call's frames; 0 for all cores. ``device``: ``"cpu"`` or ``"cuda:0"``; torch's default
    device if ``None``. ``seek_mode``: ``"exact"`` or ``"approximate"``; the frames are exact in both. ``transforms``:
    see :mod:`framespool.compat.torchcodec.transforms`; those of torchvision v2 with these names, and framespool's own,
    will do. ``output_dtype``: ``torch.uint8``; ``torch.float32`` for values in 0..1; ``"auto"`` for float32 where the
    video has more than 8 bits per component, else uint8. ``custom_frame_mappings``: JSON (text, bytes or a file object)
    as ``ffprobe -show_frames`` writes it, with ``pts``, ``duration`` and ``key_frame`` of each frame in ticks: the
    frames that the decoder has, of which each must be a frame of the video.

    Attributes: ``metadata`` (:class:`VideoStreamMetadata`), ``stream_index`` (int), ``cpu_fallback``
    (:class:`CpuFallbackStatus`).

    Raises RuntimeError for what cannot be opened or decoded, TypeError for a source of another type, ValueError for an
    option with a value it cannot have, and ImportError without PyTorch. May be used from several threads.
    """

    def __init__(
        self,
        source: Any,
        *,
        stream_index: int | None = None,
        dimension_order: Literal["NCHW", "NHWC"] = "NCHW",
        num_ffmpeg_threads: int = 1,
        device: Any = None,
        seek_mode: Literal["exact", "approximate"] = "exact",
        transforms: Sequence[Any] | None = None,
        output_dtype: Any = None,
        custom_frame_mappings: Any = None,
    ) -> None:
        torch = needed()
        _one_of("seek mode", seek_mode, ("exact", "approximate"))
        if custom_frame_mappings is not None and seek_mode == "approximate":
            raise ValueError("custom_frame_mappings do not go with seek_mode='approximate'; leave seek_mode out")
        _one_of("dimension order", dimension_order, ("NCHW", "NHWC"))
        if not isinstance(num_ffmpeg_threads, int):
            raise ValueError(f"num_ffmpeg_threads should be an int, got {num_ffmpeg_threads!r}")
        if output_dtype not in (None, "auto", torch.uint8, torch.float32):
            raise ValueError(f"Invalid output_dtype ({output_dtype!r}): give torch.uint8, torch.float32 or 'auto'")
        self._channels_first = dimension_order == "NCHW"
        device = torch.get_default_device() if device is None else device
        threads = min(num_ffmpeg_threads, 256) if num_ffmpeg_threads > 0 else None
        try:
            video = _open(_source(source), stream_index, str(device), threads)
            made = translate(() if transforms is None else transforms, video.info.height, video.info.width)
            if output_dtype == "auto":
                deep = (video._video.header()["bit_depth"] or 8) > 8
            else:
                deep = output_dtype == torch.float32
            self._frames = ReadaheadReader(video, made.steps, "float32" if deep else "uint8")
            self._transforms = made
        except Error as reason:
            raise RuntimeError(str(reason)) from reason
        info = video.info
        #: When each frame appears, and when the last one leaves, in seconds; and which frames of the video they are.
        self._pts, self._end = self._frames.pts, info.end_seconds
        self._places: Sequence[int] = range(info.num_frames)
        self._durations: Sequence[float] | None = None
        if custom_frame_mappings is not None:
            mapped = mapped_frames(custom_frame_mappings, self._pts, info.time_base)
            self._places, self._pts, self._durations = mapped.places, mapped.pts, mapped.durations
            self._end = mapped.end
        self._num_frames = len(self._places)
        self._time_base = info.time_base
        self.stream_index: int = info.stream
        scanned = seek_mode == "exact"
        times = (self._pts[0], self._end, self._num_frames)
        self.metadata: VideoStreamMetadata = metadata(video, self.stream_index, times, scanned=scanned)
        self._cpu_fallback = CpuFallbackStatus(status_known=video.device == "cpu")
        self._cpu_fallback._backend = "CPU" if video.device == "cpu" else "CUDA"

    def __len__(self) -> int:
        return self._num_frames

    @property
    def cpu_fallback(self) -> CpuFallbackStatus:
        """Whether frames that land on a GPU are decoded on the CPU; a frame is decoded to find out."""
        status = self._cpu_fallback
        if not status.status_known:
            video = self._frames.video
            try:
                video.frames([self._places[0]])
            except Error as reason:
                raise RuntimeError(str(reason)) from reason
            reason_of_gpu = video._video.cpu_fallback()
            status.status_known, status._is_fallback = True, reason_of_gpu is not None
            status._reason = reason_of_gpu or ""
        return status

    def __getitem__(self, key: int | slice) -> Any:
        """``decoder[7]``: torch.Tensor (C, H, W). ``decoder[10:100:5]``: torch.Tensor (N, C, H, W), N may be 0.

        Raises IndexError for a frame that does not exist, TypeError for another key.
        """
        if isinstance(key, slice):
            return self._batch(range(len(self))[key]).data
        if isinstance(key, Integral):
            return self._single(self._exists(key))
        raise TypeError(f"Unsupported key type {type(key).__name__}: a frame is chosen by an int or a slice")

    def __iter__(self) -> Iterator[Any]:
        """Every frame, torch.Tensor (C, H, W) each."""
        return (self._single(place) for place in range(len(self)))

    def _get_key_frame_indices(self) -> Any:
        """The frames at which decoding can start: torch.Tensor (N,) int64."""
        keys = set(self._frames.video.info.keyframes)
        found = [number for number, place in enumerate(self._places) if place in keys]
        return needed().tensor(found, dtype=needed().int64)

    def get_frame_at(self, index: int) -> Frame:
        """Frame ``index``, from the end where negative. IndexError if there is none."""
        place = self._exists(index)
        return Frame(self._single(place), *self._times(place))

    def get_frames_at(self, indices: Any) -> FrameBatch:
        """Frames by number, a list or tensor of them, in the order given. IndexError if one does not exist.

        A tensor of floats is rounded towards zero, as in torchcodec; RuntimeError for a list of floats.
        """
        torch = needed()
        if isinstance(indices, torch.Tensor):
            numbers = indices.to(torch.int64)
        else:
            numbers = torch.as_tensor(indices)
            if numbers.is_floating_point() and numbers.numel():
                raise RuntimeError(
                    f"indices: expected scalar type Long but found {str(numbers.dtype)[6:].capitalize()}; "
                    f"frame numbers are ints, got {indices!r}"
                )
        numbers = torch.atleast_1d(numbers)
        if numbers.ndim != 1:
            raise ValueError(f"indices must have one dimension, got shape {tuple(numbers.shape)}")
        return self._batch([self._exists(int(index)) for index in numbers.tolist()])

    def get_frames_in_range(self, start: int, stop: int, step: int = 1) -> FrameBatch:
        """Frames ``start, start + step, …`` before ``stop``; numbers as in a slice.

        Raises ValueError for a step of 0, RuntimeError for a negative one.
        """
        if step < 0:
            raise RuntimeError(f"step must be 1 or more, got {step}")
        return self._batch(range(len(self))[start:stop:step])

    def get_frame_played_at(self, seconds: float) -> Frame:
        """The frame on screen at ``seconds``. IndexError before the first one appears and when the last has gone."""
        if not self._pts[0] <= seconds < self._end:
            raise IndexError(
                f"Invalid pts in seconds: {seconds}. It must be greater than or equal to {self._pts[0]} and less than "
                f"{self._end}, when frames are on screen"
            )
        return self.get_frame_at(self._playing(seconds))

    def get_frames_played_at(self, seconds: Any) -> FrameBatch:
        """The frames on screen at these times, a list or tensor of seconds. RuntimeError where there is none."""
        torch = needed()
        try:
            wanted = torch.as_tensor(seconds, dtype=torch.float64)
        except Exception as reason:
            raise ValueError(
                f"Couldn't convert timestamps input to a tensor: give a list or tensor of seconds, got {seconds!r}"
            ) from reason
        # Through lists, since tensors of float32 are as good as any: the times are theirs.
        moments = torch.atleast_1d(wanted).flatten().tolist()
        for moment in moments:
            if not self._pts[0] <= moment < self._end:
                raise RuntimeError(
                    f"no frame is on screen at {moment} s: times must be greater than or equal to {self._pts[0]} and "
                    f"must be less than {self._end}"
                )
        return self._batch([self._playing(moment) for moment in moments])

    def get_frames_played_in_range(
        self, start_seconds: float, stop_seconds: float, fps: float | None = None
    ) -> FrameBatch:
        """The frames on screen from ``start_seconds`` on, before ``stop_seconds``: none if the two are equal.

        With ``fps`` those on screen every ``1 / fps`` seconds from ``start_seconds`` on, as many as the length of the
        range times ``fps``, rounded; their ``pts_seconds`` are these moments. ValueError for a range that is not
        within the video's times, or that ends before it begins; RuntimeError for an ``fps`` that is not positive.
        """
        begin, end = self._pts[0], self._end
        if not start_seconds <= stop_seconds:
            raise ValueError(f"Invalid start seconds: {start_seconds} must not be behind stop_seconds {stop_seconds}")
        if not begin <= start_seconds < end:
            raise ValueError(f"Invalid start seconds: {start_seconds} is not within the video, {begin} <= s < {end}")
        if not stop_seconds <= end:
            raise ValueError(f"Invalid stop seconds: {stop_seconds} must be at most {end}, the end of the video")
        if fps is None:
            if start_seconds == stop_seconds:
                return self._batch([])
            first, last = self._playing(start_seconds), self._playing(math.nextafter(stop_seconds, -math.inf))
            return self._batch(range(first, last + 1))
        if not fps > 0:
            raise RuntimeError(f"fps must be positive, got {fps}")
        torch = needed()
        count = math.floor((stop_seconds - start_seconds) * fps + 0.5)
        moments = [start_seconds + place * (1 / fps) for place in range(count)]
        batch = self._batch([self._playing(moment) for moment in moments])
        batch.pts_seconds = torch.tensor(moments, dtype=torch.float64)
        batch.duration_seconds = torch.full((count,), 1 / fps, dtype=torch.float64)
        return batch

    def get_all_frames(self, fps: float | None = None) -> FrameBatch:
        """Every frame of the video, or with ``fps`` as :meth:`get_frames_played_in_range` of all of it."""
        return self.get_frames_played_in_range(self._pts[0], self._end, fps)

    def _exists(self, index: Any) -> int:
        """``index`` from the beginning; IndexError where there is no such frame."""
        if not isinstance(index, Integral):
            raise RuntimeError(f"a frame's index is an int, got {index!r}")
        count = len(self)
        place = int(index) + (count if index < 0 else 0)
        if place < 0:
            raise IndexError(
                f"Invalid frame index={index}; negative indices must have an absolute value less than the number of "
                f"frames, or equal to it, which is {count}"
            )
        if place >= count:
            raise IndexError(f"Invalid frame index={index}; must be less than {count}, the number of frames")
        return place

    def _playing(self, seconds: float) -> int:
        """The frame on screen at this time, which must not be before the first one appears."""
        return bisect.bisect_right(self._pts, seconds) - 1

    def _times(self, place: int) -> tuple[float, float]:
        """When a frame appears, and how long it stays."""
        pts = self._pts[place]
        if self._durations is not None:
            return pts, self._durations[place]
        until = self._pts[place + 1] if place + 1 < len(self._pts) else self._end
        # In ticks: the difference of two rounded times is rounded twice.
        num, den = self._time_base
        ticks = round(until * den / num) - round(pts * den / num)
        return pts, ticks * num / den

    def _single(self, place: int) -> Any:
        try:
            tensor, shared = self._frames.one(self._places[place])
        except Error as reason:
            raise RuntimeError(str(reason)) from reason
        data = tensor.torch()
        if self._transforms.after:
            data = self._transforms.finish(data[None])[0]
        elif shared:
            # A frame that is kept must not keep those around it.
            data = data.clone()
        return data.permute(2, 0, 1) if self._channels_first else data

    def _batch(self, places: Sequence[int]) -> FrameBatch:
        torch = needed()
        wanted = [self._places[place] for place in places]
        # Frames that are resized here are whole before, so a few at a time.
        each = self._frames.at_once if self._transforms.after else len(wanted)
        try:
            parts = [
                self._transforms.finish(self._frames.frames(wanted[first : first + each]).data.torch())
                for first in range(0, len(wanted), max(1, each))
            ]
        except Error as reason:
            raise RuntimeError(str(reason)) from reason
        if len(parts) == 1:
            data = parts[0]
        else:
            dtype = torch.float32 if self._frames.dtype == "float32" else torch.uint8
            empty = torch.empty((0, *self._transforms.size, 3), dtype=dtype, device=self._frames.video.device)
            data = torch.cat(parts) if parts else empty
        times = torch.tensor([self._times(place) for place in places], dtype=torch.float64).reshape(-1, 2)
        return FrameBatch(data.permute(0, 3, 1, 2) if self._channels_first else data, times[:, 0], times[:, 1])


SimpleVideoDecoder = VideoDecoder


def _source(source: Any) -> Any:
    """``source`` as :class:`framespool.Video` takes it."""
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


def _open(source: Any, stream_index: int | None, device: str, threads: int | None) -> Video:
    if stream_index is not None and (not isinstance(stream_index, Integral) or stream_index < 0):
        raise ValueError(f"{stream_index!r} is not a valid stream: stream_index is an int from 0 on, or None")
    try:
        return Video(source, device=device, num_threads=threads, stream=stream_index, hdr="ignore")
    except NoVideoError as reason:
        if stream_index is None:
            raise
        exists = int(stream_index) < len(Video(source, num_threads=threads).info.streams)
        what = "a video stream" if exists else "a valid stream"
        raise ValueError(f"The stream at index {stream_index} is not {what}: {reason}") from reason


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"Invalid {name} ({value!r}): give {' or '.join(map(repr, choices))}")
