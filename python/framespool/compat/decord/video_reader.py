"""decord's reader of one video."""

from __future__ import annotations

from typing import Any

import numpy as np

from framespool import transforms as ours
from framespool.compat._image_files import open_video
from framespool.compat._readahead import ReadaheadReader
from framespool.compat.decord.base import DECORDError, source_of
from framespool.compat.decord.bridge import bridge_out
from framespool.compat.decord.ndarray import DECORDContext, NDArray, cpu
from framespool.errors import ArgumentError, Error, GpuError
from framespool.transforms import Transform

__all__ = ["VideoReader"]


class VideoReader:
    """Reads the frames of one video: (H, W, 3) uint8 RGB each, as an NDArray or the bridge's type.

    Args:
        uri: A path, or a file object opened for bytes, which is read completely. Also the bytes of a file, a
            ``pathlib.Path`` or a :class:`framespool.datasets.ArchiveMember`.
        ctx: Device of the frames, ``cpu(0)`` or ``gpu(i)``.
        width: Width of the frames in pixels; the video's own if not positive.
        height: Height of the frames in pixels; the video's own if not positive.
        num_threads: Threads that decode the frames of one call; all cores if not positive.
        fault_tol: No effect: a damaged frame is an error.
        stream: Index of the video stream, counted over streams of all types, which decord does not have. By default
            FFmpeg's best stream, as in decord.

    Raises:
        RuntimeError: If the video cannot be opened, or has no such video stream; for an animated PNG or WebP, and for
            any PNG or WebP at a URL.
        DECORDError: If frames cannot be decoded, or an argument has a wrong type.
        AssertionError: If ``ctx`` is not a context.

    Example:
        >>> from framespool.compat import decord
        >>> reader = decord.VideoReader("a.mp4", ctx=decord.cpu(0))
        >>> len(reader), reader[7].shape
        (72, (360, 640, 3))
        >>> reader.get_batch([0, 7, -1]).asnumpy().shape
        (3, 360, 640, 3)
    """

    def __init__(
        self,
        uri: Any,
        ctx: DECORDContext = cpu(0),  # noqa: B008  # it cannot be changed
        width: int = -1,
        height: int = -1,
        num_threads: int = 0,
        fault_tol: int = -1,
        *,
        stream: int | None = None,
    ) -> None:
        if not isinstance(ctx, DECORDContext):
            raise AssertionError(f"ctx must be cpu(i) or gpu(i), got {ctx!r}")
        for name, value in (("width", width), ("height", height), ("num_threads", num_threads)):
            if not isinstance(value, (int, np.integer)):
                raise DECORDError(f"{name} must be an int, got {value!r}")
        source = source_of(uri)
        device = "cpu" if ctx == cpu(ctx.device_id) else f"cuda:{ctx.device_id}"
        try:
            threads = min(int(num_threads), 256) if num_threads > 0 else None
            # decord does not warn of HDR either
            video = open_video(source, device=device, num_threads=threads, stream=stream, hdr="ignore", layout="THWC")
            size = (height if height > 0 else video.info.height, width if width > 0 else video.info.width)
            resized = size != (video.info.height, video.info.width)
            steps: list[Transform] = [ours.Resize((int(size[0]), int(size[1])))] if resized else []
            self._frames = ReadaheadReader(video, steps)
        except (GpuError, ArgumentError) as reason:
            raise DECORDError(str(reason)) from reason
        except Error as reason:
            raise RuntimeError(f"Error reading {uri if isinstance(uri, str) else 'the video'}: {reason}") from reason
        # The frame that next() returns.
        self._next = 0

    def __len__(self) -> int:
        return len(self._frames.pts)

    def __getitem__(self, idx: int | slice) -> Any:
        """``reader[7]``: (H, W, 3) uint8. ``reader[10:100:5]``: (N, H, W, 3), N may be 0. IndexError past the end."""
        if isinstance(idx, slice):
            return self.get_batch(range(len(self))[idx])
        if not idx < len(self):
            raise IndexError(f"Index: {idx} out of bound: {len(self)}")
        place = idx + len(self) if idx < 0 else idx
        if place < 0:
            raise IndexError(f"Index: {idx} out of bound: {len(self)}")
        if not isinstance(place, (int, np.integer)):
            raise DECORDError(f"a frame index must be an int or a slice, got {idx!r}")
        return self._frame(int(place))

    def next(self) -> Any:
        """Returns the frame after the last returned one.

        Returns:
            The frame, (H, W, 3) uint8.

        Raises:
            StopIteration: At the end of the video.
            DECORDError: If the frame cannot be decoded.
        """
        if self._next >= len(self):
            raise StopIteration
        return self._frame(self._next)

    def _frame(self, place: int) -> Any:
        """Returns a frame, after which :meth:`next` continues; other threads may request others meanwhile."""
        try:
            tensor, shared = self._frames.one(place)
        except Error as reason:
            self._next = place
            raise DECORDError(str(reason)) from reason
        self._next = place + 1
        # A stored frame must not keep its neighbors in memory.
        return bridge_out(NDArray(tensor.numpy().copy() if shared and tensor.device == "cpu" else tensor))

    def get_batch(self, indices: Any) -> Any:
        """Decodes frames in the given order.

        Args:
            indices: List of frame indices, or anything that NumPy converts to one; may repeat, and negative ones count
                from the end.

        Returns:
            The frames, (N, H, W, 3) uint8.

        Raises:
            IndexError: If a frame does not exist.
            DECORDError: If a frame cannot be decoded.
        """
        wanted = self._exist(indices)
        if wanted:
            try:
                frames = NDArray(self._frames.frames(wanted).frames)
            except Error as reason:
                raise DECORDError(str(reason)) from reason
            self._next = wanted[-1] + 1
        else:
            frames = NDArray(np.empty((0, *self._frames.shape, 3), np.uint8))
        return bridge_out(frames)

    def get_frame_timestamp(self, idx: Any) -> np.ndarray[Any, Any]:
        """Returns the times at which frames appear and disappear, in seconds since the first frame.

        Args:
            idx: A frame index, or a list of them.

        Returns:
            (2,) float32, or (N, 2) for a list.

        Raises:
            IndexError: If a frame does not exist.
        """
        one = np.ndim(idx) == 0
        edges = [*self._frames.pts, self._frames.video.info.end_seconds]
        times = [(edges[i] - edges[0], edges[i + 1] - edges[0]) for i in self._exist([idx] if one else idx)]
        found = np.array(times, np.float32).reshape(-1, 2)
        return found[0] if one else found

    def get_key_indices(self) -> list[int]:
        """Returns the frames at which decoding can start.

        Returns:
            Frame indices, ascending.
        """
        return list(self._frames.video.info.keyframes)

    def get_avg_fps(self) -> float:
        """Returns the frame rate over the complete video.

        If the times are roundings of a usual rate, it is that rate: 30.0 for 77 frames in 2.567 s with millisecond
        timestamps.

        Returns:
            Frames per second.
        """
        info = self._frames.video.info
        fps = info.average_fps
        usual = min((round(fps), round(fps * 1.001) / 1.001), key=lambda rate: abs(rate - fps))
        rounding = info.time_base[0] / info.time_base[1]
        duration = info.duration_seconds
        return float(usual) if usual > 0 and abs(info.num_frames / usual - duration) <= rounding else fps

    def seek(self, pos: int) -> None:
        """Positions :meth:`next` at the keyframe at or before a frame.

        Args:
            pos: Frame index, from 0.

        Raises:
            AssertionError: If the frame does not exist.
        """
        self.seek_accurate(pos)
        self._next = max((key for key in self.get_key_indices() if key <= pos), default=0)

    def seek_accurate(self, pos: int) -> None:
        """Positions :meth:`next` at a frame.

        Args:
            pos: Frame index, from 0.

        Raises:
            AssertionError: If the frame does not exist.
        """
        if not 0 <= pos < len(self):
            raise AssertionError(f"frame {pos} does not exist: the video has {len(self)} frames")
        if not isinstance(pos, (int, np.integer)):
            raise DECORDError(f"a frame index must be an int, got {pos!r}")
        self._next = int(pos)

    def skip_frames(self, num: int = 1) -> None:
        """Skips frames of :meth:`next`.

        Args:
            num: Number of frames to skip.

        Raises:
            AssertionError: If ``num`` is not positive.
        """
        if not num > 0:
            raise AssertionError(f"num must be positive, got {num}")
        self._next += int(num)

    def _exist(self, indices: Any) -> list[int]:
        """Returns non-negative frame indices; IndexError if one does not exist."""
        numbers = np.array(indices, dtype=np.int64)
        if numbers.ndim != 1:
            raise TypeError(f"indices must be a list of frame numbers, got {indices!r}")
        numbers = np.where(numbers < 0, numbers + len(self), numbers)
        wrong = numbers[(numbers < 0) | (numbers >= len(self))]
        if wrong.size:
            raise IndexError(f"Out of bound indices: {wrong.tolist()} of {len(self)} frames")
        return [int(number) for number in numbers]
