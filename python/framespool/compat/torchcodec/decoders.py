"""torchcodec's decoders of videos, audio and images."""

from __future__ import annotations

import bisect
import contextlib
import math
from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any, Literal

from framespool.compat._readahead import ReadaheadReader
from framespool.compat.torchcodec._audio import AudioDecoder
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
from framespool.compat.torchcodec._metadata import (
    AudioStreamMetadata,
    CpuFallbackStatus,
    StreamMetadata,
    VideoStreamMetadata,
    metadata,
)
from framespool.compat.torchcodec._open import open_video
from framespool.compat.torchcodec._torch import copied, needed
from framespool.compat.torchcodec.transforms import decoded_size, translate
from framespool.errors import Error

__all__ = [
    "AudioDecoder",
    "AudioStreamMetadata",
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
    "get_nvdec_cache_capacity",
    "set_cuda_backend",
    "set_nvdec_cache_capacity",
]

#: Value of :func:`set_nvdec_cache_capacity`; torchcodec's default.
_nvdec_cache_capacity = 20


@contextlib.contextmanager
def set_cuda_backend(backend: str) -> Iterator[None]:
    """Accepts torchcodec's backends; framespool decodes on a GPU with NVDEC in both cases.

    Args:
        backend: "nvdec" or "ffmpeg".

    Yields:
        Nothing.

    Raises:
        ValueError: If the name is unknown.
    """
    if backend.lower() not in ("nvdec", "beta", "ffmpeg"):
        raise ValueError(f"Invalid CUDA backend ({backend}): give 'nvdec' or 'ffmpeg'")
    yield


def set_nvdec_cache_capacity(capacity: int) -> None:
    """Sets the value that :func:`get_nvdec_cache_capacity` returns; it has no other effect.

    framespool limits its own cache of NVDEC decoders by GPU memory, not by their number.

    Args:
        capacity: Number of decoders per GPU, from 0.

    Raises:
        RuntimeError: If it is negative, or not an int.
    """
    global _nvdec_cache_capacity
    if not isinstance(capacity, Integral):
        raise RuntimeError(f"NVDEC cache capacity must be an int, got {capacity!r}")
    if capacity < 0:
        raise RuntimeError(f"NVDEC cache capacity must be non-negative, got {capacity}")
    _nvdec_cache_capacity = int(capacity)


def get_nvdec_cache_capacity() -> int:
    """Returns the capacity that was set last.

    Returns:
        Number of decoders per GPU; 20 by default, as in torchcodec.
    """
    return _nvdec_cache_capacity


class VideoDecoder:
    """Decodes the frames of one video as torch tensors, by index and by time.

    Frame *i* is the *i*-th in presentation order. A decoder may be used from several threads.

    Args:
        source: A path, the bytes of a file, a uint8 tensor of them, a :class:`framespool.datasets.ArchiveMember`, or a
            file object opened for bytes, of which only the needed ranges are read, with ``seek(offset, whence)`` and
            ``read(size)``.
        stream_index: Stream, counted over streams of all types. By default FFmpeg's best stream.
        dimension_order: ``"NCHW"`` or ``"NHWC"``.
        num_ffmpeg_threads: Threads that decode the frames of one call; 0 for all cores.
        device: ``"cpu"`` or ``"cuda:0"``. By default torch's default device.
        seek_mode: ``"exact"`` or ``"approximate"``; the frames are exact in both.
        transforms: Transforms of :mod:`framespool.compat.torchcodec.transforms`, those of torchvision v2 with these
            names, or framespool's own.
        output_dtype: ``torch.uint8``; ``torch.float32`` for values in 0..1; ``"auto"`` for float32 if the video has
            more than 8 bits per component, else uint8. By default ``torch.uint8``.
        custom_frame_mappings: The frames that the decoder has, each of which must be a frame of the video: JSON (text,
            bytes or a file object) as ``ffprobe -show_frames`` writes it, with ``pts``, ``duration`` and ``key_frame``
            of each frame, in ticks.

    Attributes:
        metadata: A :class:`VideoStreamMetadata`.
        stream_index: Index of the stream.
        cpu_fallback: A :class:`CpuFallbackStatus`.

    Raises:
        RuntimeError: If the video cannot be opened or decoded.
        TypeError: If the source has another type.
        ValueError: If an option has an invalid value.
        ImportError: If PyTorch is not installed.

    Example:
        >>> from framespool.compat.torchcodec.decoders import VideoDecoder
        >>> decoder = VideoDecoder("a.mp4")  # doctest: +SKIP
        >>> decoder.get_frames_at([0, 7, -1]).data.shape  # doctest: +SKIP
        torch.Size([3, 3, 360, 640])
        >>> decoder.get_frame_played_at(1.5).pts_seconds  # doctest: +SKIP
        1.5
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
            raise ValueError("custom_frame_mappings cannot be combined with seek_mode='approximate'; remove seek_mode")
        _one_of("dimension order", dimension_order, ("NCHW", "NHWC"))
        if not isinstance(num_ffmpeg_threads, int):
            raise ValueError(f"num_ffmpeg_threads should be an int, got {num_ffmpeg_threads!r}")
        if output_dtype not in (None, "auto", torch.uint8, torch.float32):
            raise ValueError(f"Invalid output_dtype ({output_dtype!r}): give torch.uint8, torch.float32 or 'auto'")
        self._channels_first = dimension_order == "NCHW"
        device = torch.get_default_device() if device is None else device
        threads = min(num_ffmpeg_threads, 256) if num_ffmpeg_threads > 0 else None
        try:
            video = open_video(source, stream_index, str(device), threads)
            made = translate(() if transforms is None else transforms, video)
            if output_dtype == "auto":
                deep = (video._video.header()["bit_depth"] or 8) > 8
            else:
                deep = output_dtype == torch.float32
            self._frames = ReadaheadReader(video, made.steps, "float32" if deep else "uint8")
            self._transforms = made
        except Error as reason:
            raise RuntimeError(str(reason)) from reason
        info = video.info
        #: When each frame appears, and when the last one ends, in seconds; and the frame indices in the video.
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
        """Whether the CPU decodes frames that are on a GPU; a frame is decoded to determine it.

        Raises:
            RuntimeError: If the frame cannot be decoded.
        """
        status, video = self._cpu_fallback, self._frames.video
        if not status.status_known:
            try:
                video.frames([self._places[0]])
            except Error as reason:
                raise RuntimeError(str(reason)) from reason
            status.status_known = True
        if status._backend != "CPU":
            # NVDEC may refuse a later part of the file.
            reason_of_gpu = video._video.cpu_fallback()
            status._is_fallback, status._reason = reason_of_gpu is not None, reason_of_gpu or ""
        return status

    def __getitem__(self, key: int | slice) -> Any:
        """``decoder[7]``: torch.Tensor (C, H, W). ``decoder[10:100:5]``: torch.Tensor (N, C, H, W), N may be 0.

        Raises IndexError for a frame that does not exist, TypeError for another key.
        """
        if isinstance(key, slice):
            return self._batch(range(len(self))[key]).data
        if isinstance(key, Integral):
            return self._single(self._exists(key))
        raise TypeError(f"Unsupported key type {type(key).__name__}: a frame index must be an int or a slice")

    def __iter__(self) -> Iterator[Any]:
        """Yields every frame, torch.Tensor (C, H, W) each; access to other frames meanwhile does not slow it down."""
        frames = ReadaheadReader(self._frames.video, self._frames.transforms, self._frames.dtype)
        return (self._single(place, frames) for place in range(len(self)))

    def _get_key_frame_indices(self) -> Any:
        """Returns the frames at which decoding can start: torch.Tensor (N,) int64."""
        keys = set(self._frames.video.info.keyframes)
        found = [number for number, place in enumerate(self._places) if place in keys]
        return needed().tensor(found, dtype=needed().int64)

    def get_frame_at(self, index: int) -> Frame:
        """Decodes a frame.

        Args:
            index: Frame index; negative ones count from the end.

        Returns:
            The frame.

        Raises:
            IndexError: If the frame does not exist.
        """
        place = self._exists(index)
        return Frame(self._single(place), *self._times(place))

    def get_frames_at(self, indices: Any) -> FrameBatch:
        """Decodes frames in the given order.

        Args:
            indices: List or tensor of frame indices. A tensor of floats is rounded towards zero, as in torchcodec.

        Returns:
            The frames.

        Raises:
            IndexError: If a frame does not exist.
            RuntimeError: If it is a list of floats.
        """
        torch = needed()
        if isinstance(indices, torch.Tensor):
            numbers = indices.to(torch.int64)
        else:
            numbers = torch.as_tensor(indices)
            if numbers.is_floating_point() and numbers.numel():
                raise RuntimeError(
                    f"indices: expected scalar type Long but found {str(numbers.dtype)[6:].capitalize()}; "
                    f"frame indices must be ints, got {indices!r}"
                )
        numbers = torch.atleast_1d(numbers)
        if numbers.ndim != 1:
            raise ValueError(f"indices must have one dimension, got shape {tuple(numbers.shape)}")
        return self._batch([self._exists(int(index)) for index in numbers.tolist()])

    def get_frames_in_range(self, start: int, stop: int, step: int = 1) -> FrameBatch:
        """Decodes frames ``start, start + step, …`` before ``stop``, with the indices of a slice.

        Args:
            start: First frame.
            stop: Frame before which the range ends.
            step: Distance of the frames.

        Returns:
            The frames.

        Raises:
            ValueError: If ``step`` is 0.
            RuntimeError: If ``step`` is negative.
        """
        if step < 0:
            raise RuntimeError(f"step must be 1 or more, got {step}")
        return self._batch(range(len(self))[start:stop:step])

    def get_frame_played_at(self, seconds: float) -> Frame:
        """Decodes the frame on screen at a time.

        Args:
            seconds: Time in seconds.

        Returns:
            The frame.

        Raises:
            IndexError: If the time is before the first frame or after the last one.
        """
        if not self._pts[0] <= seconds < self._end:
            raise IndexError(
                f"Invalid pts in seconds: {seconds}. It must be greater than or equal to {self._pts[0]} and less than "
                f"{self._end}, when frames are on screen"
            )
        return self.get_frame_at(self._playing(seconds))

    def get_frames_played_at(self, seconds: Any) -> FrameBatch:
        """Decodes the frames on screen at several times.

        Args:
            seconds: List or tensor of times in seconds.

        Returns:
            The frames.

        Raises:
            RuntimeError: If there is no frame at a time.
        """
        torch = needed()
        try:
            wanted = torch.as_tensor(seconds, dtype=torch.float64)
        except Exception as reason:
            raise ValueError(
                f"Couldn't convert timestamps input to a tensor: give a list or tensor of seconds, got {seconds!r}"
            ) from reason
        # Lists of Python floats: a float32 tensor is converted to float64 without rounding.
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
        """Decodes the frames on screen from ``start_seconds`` up to but not including ``stop_seconds``.

        Args:
            start_seconds: Start of the range in seconds.
            stop_seconds: End of the range in seconds; no frame if it is ``start_seconds``.
            fps: If set, the frames on screen every ``1 / fps`` seconds from ``start_seconds`` on; their number is the
                length of the range times ``fps``, rounded, and ``pts_seconds`` are these times.

        Returns:
            The frames.

        Raises:
            ValueError: If the range is not within the video's times, or ends before it starts.
            RuntimeError: If ``fps`` is not positive.
        """
        begin, end = self._pts[0], self._end
        if not start_seconds <= stop_seconds:
            raise ValueError(
                f"Invalid start seconds: {start_seconds} must not be greater than stop_seconds {stop_seconds}"
            )
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
        """Decodes all frames of the video.

        Args:
            fps: As for :meth:`get_frames_played_in_range`.

        Returns:
            The frames.
        """
        return self.get_frames_played_in_range(self._pts[0], self._end, fps)

    def _exists(self, index: Any) -> int:
        """Returns a non-negative frame index; IndexError if the frame does not exist."""
        if not isinstance(index, Integral):
            raise RuntimeError(f"a frame index must be an int, got {index!r}")
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
        """Returns the frame on screen at a time, which must not be before the first frame."""
        return bisect.bisect_right(self._pts, seconds) - 1

    def _times(self, place: int) -> tuple[float, float]:
        """Returns when a frame appears, and how long it stays."""
        pts = self._pts[place]
        if self._durations is not None:
            return pts, self._durations[place]
        until = self._pts[place + 1] if place + 1 < len(self._pts) else self._end
        # In ticks: a difference of two rounded times would be rounded twice.
        num, den = self._time_base
        ticks = round(until * den / num) - round(pts * den / num)
        return pts, ticks * num / den

    def _single(self, place: int, frames: ReadaheadReader | None = None) -> Any:
        try:
            tensor, shared = (frames or self._frames).one(self._places[place])
        except Error as reason:
            raise RuntimeError(str(reason)) from reason
        data = tensor.torch()
        if self._transforms.after:
            data = self._transforms.finish(data[None])[0]
        elif shared:
            # A stored frame must not keep its neighbors in memory.
            data = copied(data)
        return data.permute(2, 0, 1) if self._channels_first else data

    def _batch(self, places: Sequence[int]) -> FrameBatch:
        torch = needed()
        wanted = [self._places[place] for place in places]
        # Frames that are resized here have full size before, so they are decoded in chunks.
        each = self._frames.at_once if self._transforms.after else len(wanted)
        try:
            parts = [
                self._transforms.finish(self._frames.frames(wanted[first : first + each]).frames.torch())
                for first in range(0, len(wanted), max(1, each))
            ]
            size = self._transforms.size
            if not parts and size is None:
                size = decoded_size(self._frames.video, self._transforms.steps)
        except Error as reason:
            raise RuntimeError(str(reason)) from reason
        if len(parts) == 1:
            data = parts[0]
        else:
            dtype = torch.float32 if self._frames.dtype == "float32" else torch.uint8
            empty = torch.empty((0, *(size or ()), 3), dtype=dtype, device=self._frames.video.device)
            data = torch.cat(parts) if parts else empty
        times = torch.tensor([self._times(place) for place in places], dtype=torch.float64).reshape(-1, 2)
        return FrameBatch(data.permute(0, 3, 1, 2) if self._channels_first else data, times[:, 0], times[:, 1])


SimpleVideoDecoder = VideoDecoder


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"Invalid {name} ({value!r}): give {' or '.join(map(repr, choices))}")
