"""torchcodec's decoder of videos."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any, Literal

from framespool._video import Video
from framespool.compat._ahead import Ahead, readable
from framespool.compat.torchcodec._frame import Frame, FrameBatch
from framespool.compat.torchcodec._metadata import VideoStreamMetadata, metadata
from framespool.compat.torchcodec._torch import needed
from framespool.compat.torchcodec.transforms import translate
from framespool.datasets import Member
from framespool.errors import Error

__all__ = ["VideoDecoder", "VideoStreamMetadata"]


class VideoDecoder:
    """The frames of one video as torch tensors, by number and by time. Frame *i* is the *i*-th shown.

    ``source``: a path, the bytes of a file, a uint8 tensor of them, a file object opened for bytes (which is read to
    its end), or a :class:`framespool.datasets.Member`. ``dimension_order``: ``"NCHW"`` or ``"NHWC"``.
    ``num_ffmpeg_threads``: threads that decode one call's frames; 0 for all cores. ``device``: ``"cpu"`` or
    ``"cuda:0"``. ``seek_mode``: ``"exact"`` or ``"approximate"``; the frames are exact in both. ``transforms``: see
    :mod:`framespool.compat.torchcodec.transforms`; those of torchvision v2 with these names, and framespool's own,
    will do. ``output_dtype``: ``torch.uint8``, or ``torch.float32`` for values in 0..1.

    ``stream_index`` must be ``None``: framespool chooses the stream. ``custom_frame_mappings`` is not needed: indices
    are kept in framespool's own (see :class:`framespool.Video`).

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
        custom_frame_mappings: None = None,
    ) -> None:
        torch = needed()
        _one_of("dimension_order", dimension_order, ("NCHW", "NHWC"))
        _one_of("seek_mode", seek_mode, ("exact", "approximate"))
        if stream_index is not None:
            raise ValueError(f"stream_index={stream_index!r}: framespool chooses the stream itself; leave it out")
        if custom_frame_mappings is not None:
            raise ValueError("custom_frame_mappings: framespool makes and keeps its own index; leave it out")
        if not isinstance(num_ffmpeg_threads, int):
            raise ValueError(f"num_ffmpeg_threads must be an int, got {num_ffmpeg_threads!r}")
        if output_dtype not in (None, torch.uint8, torch.float32):
            raise ValueError(f"output_dtype must be torch.uint8 or torch.float32, got {output_dtype!r}")
        if isinstance(source, torch.Tensor):
            source = source.contiguous().numpy().tobytes()
        source = readable(source)
        if not isinstance(source, (str, bytes, os.PathLike, Member)):
            raise TypeError(
                f"source must be a path, bytes, a uint8 tensor or a file object with read and seek, "
                f"got {type(source).__name__}"
            )
        try:
            threads = min(num_ffmpeg_threads, 256) if num_ffmpeg_threads > 0 else None
            video = Video(source, device="cpu" if device is None else str(device), num_threads=threads)
            steps = translate(() if transforms is None else transforms, video.info.height, video.info.width)
            self._frames = Ahead(video, steps, "float32" if output_dtype == torch.float32 else "uint8")
        except Error as reason:
            raise RuntimeError(str(reason)) from reason
        self._channels_first = dimension_order == "NCHW"
        self.stream_index = stream_index
        self.metadata: VideoStreamMetadata = metadata(video.info)
        self._end = video.info.end_seconds

    def __len__(self) -> int:
        return len(self._frames.pts)

    def __getitem__(self, key: int | slice) -> Any:
        """``decoder[7]``: torch.Tensor (C, H, W). ``decoder[10:100:5]``: torch.Tensor (N, C, H, W), N may be 0.

        Raises IndexError for a frame that does not exist, TypeError for another key.
        """
        if isinstance(key, slice):
            return self._batch(range(len(self))[key]).data
        if isinstance(key, Integral):
            return self._single(self._exists(key))
        raise TypeError(f"a frame is chosen by an int or a slice, got {type(key).__name__}")

    def __iter__(self) -> Iterator[Any]:
        """Every frame, torch.Tensor (C, H, W) each."""
        return (self._single(place) for place in range(len(self)))

    def get_frame_at(self, index: int) -> Frame:
        """Frame ``index``, from the end where negative. IndexError if there is none."""
        place = self._exists(index)
        return Frame(self._single(place), *self._times(place))

    def get_frames_at(self, indices: Any) -> FrameBatch:
        """Frames by number, a list or tensor of them, in the order given. IndexError if one does not exist."""
        torch = needed()
        wanted = torch.atleast_1d(torch.as_tensor(indices))
        if wanted.ndim != 1:
            raise ValueError(f"indices must have one dimension, got shape {tuple(wanted.shape)}")
        return self._batch([self._exists(int(index)) for index in wanted.tolist()])

    def get_frames_in_range(self, start: int, stop: int, step: int = 1) -> FrameBatch:
        """Frames ``start, start + step, …`` before ``stop``; numbers as in a slice.

        Raises ValueError for a step of 0, RuntimeError for a negative one.
        """
        if step < 0:
            raise RuntimeError(f"step must be 1 or more, got {step}")
        return self._batch(range(len(self))[start:stop:step])

    def get_frame_played_at(self, seconds: float) -> Frame:
        """The frame on screen at ``seconds``. IndexError before the first one appears and when the last has gone."""
        if not self._frames.pts[0] <= seconds < self._end:
            raise IndexError(f"no frame is on screen at {seconds} s, only in {self._frames.pts[0]} <= s < {self._end}")
        return self.get_frame_at(self._frames.playing(seconds))

    def get_frames_played_at(self, seconds: Any) -> FrameBatch:
        """The frames on screen at these times, a list or tensor of seconds. RuntimeError where there is none."""
        torch = needed()
        try:
            # Through lists, since tensors of float32 are as good as any: the times are theirs.
            wanted = torch.atleast_1d(torch.as_tensor(seconds, dtype=torch.float64)).flatten().tolist()
        except Exception as reason:
            raise ValueError(f"seconds must be a list or tensor of numbers, got {seconds!r}") from reason
        for moment in wanted:
            if not self._frames.pts[0] <= moment < self._end:
                raise RuntimeError(
                    f"no frame is on screen at {moment} s, only in {self._frames.pts[0]} <= s < {self._end}"
                )
        return self._batch([self._frames.playing(moment) for moment in wanted])

    def get_frames_played_in_range(
        self, start_seconds: float, stop_seconds: float, fps: float | None = None
    ) -> FrameBatch:
        """The frames on screen from ``start_seconds`` on, before ``stop_seconds``: none if the two are equal.

        With ``fps`` those on screen every ``1 / fps`` seconds from ``start_seconds`` on, as many as the length of the
        range times ``fps``, rounded; their ``pts_seconds`` are these moments. ValueError for a range that is not
        within the video's times, or that ends before it begins; RuntimeError for an ``fps`` that is not positive.
        """
        begin, end = self._frames.pts[0], self._end
        if not start_seconds <= stop_seconds:
            raise ValueError(f"start_seconds {start_seconds} must not be behind stop_seconds {stop_seconds}")
        if not begin <= start_seconds < end:
            raise ValueError(f"start_seconds {start_seconds} is not within the video, {begin} <= s < {end}")
        if not stop_seconds <= end:
            raise ValueError(f"stop_seconds {stop_seconds} must be at most {end}, the end of the video")
        if fps is None:
            if start_seconds == stop_seconds:
                return self._batch([])
            first, stop = self._frames.playing(start_seconds), self._frames.playing(math.nextafter(stop_seconds, -1e9))
            return self._batch(range(first, stop + 1))
        if not fps > 0:
            raise RuntimeError(f"fps must be positive, got {fps}")
        torch = needed()
        count = math.floor((stop_seconds - start_seconds) * fps + 0.5)
        moments = [start_seconds + place * (1 / fps) for place in range(count)]
        batch = self._batch([self._frames.playing(moment) for moment in moments])
        batch.pts_seconds = torch.tensor(moments, dtype=torch.float64)
        batch.duration_seconds = torch.full((count,), 1 / fps, dtype=torch.float64)
        return batch

    def get_all_frames(self, fps: float | None = None) -> FrameBatch:
        """Every frame of the video, or with ``fps`` as :meth:`get_frames_played_in_range` of all of it."""
        return self.get_frames_played_in_range(self._frames.pts[0], self._end, fps)

    def _exists(self, index: Any) -> int:
        """``index`` from the beginning; IndexError where there is no such frame."""
        if not isinstance(index, Integral):
            raise RuntimeError(f"a frame's index is an int, got {index!r}")
        place = int(index) + (len(self) if index < 0 else 0)
        if not 0 <= place < len(self):
            raise IndexError(f"there is no frame {index}: the video has {len(self)}, 0 to {len(self) - 1}")
        return place

    def _times(self, place: int) -> tuple[float, float]:
        pts = self._frames.pts
        return pts[place], (pts[place + 1] if place + 1 < len(pts) else self._end) - pts[place]

    def _single(self, place: int) -> Any:
        try:
            tensor, shared = self._frames.one(place)
        except Error as reason:
            raise RuntimeError(str(reason)) from reason
        data = tensor.torch()
        if shared:
            # A frame that is kept must not keep those around it.
            data = data.clone()
        return data.permute(2, 0, 1) if self._channels_first else data

    def _batch(self, places: Sequence[int]) -> FrameBatch:
        torch = needed()
        if places:
            try:
                data = self._frames.frames(list(places)).data.torch()
            except Error as reason:
                raise RuntimeError(str(reason)) from reason
        else:
            dtype = torch.float32 if self._frames.dtype == "float32" else torch.uint8
            data = torch.empty((0, *self._frames.shape, 3), dtype=dtype, device=self._frames.video.device)
        times = torch.tensor([self._times(place) for place in places], dtype=torch.float64).reshape(-1, 2)
        return FrameBatch(data.permute(0, 3, 1, 2) if self._channels_first else data, times[:, 0], times[:, 1])


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
