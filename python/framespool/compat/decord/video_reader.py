"""decord's reader of one video."""

from __future__ import annotations

from typing import Any

import numpy as np

from framespool import transforms as ours
from framespool._video import Video
from framespool.compat._readahead import ReadaheadReader, readable
from framespool.compat.decord.base import DECORDError
from framespool.compat.decord.bridge import bridge_out
from framespool.compat.decord.ndarray import DECORDContext, NDArray, cpu
from framespool.errors import ArgumentError, Error, GpuError
from framespool.transforms import Transform

__all__ = ["VideoReader"]


class VideoReader:
    """The frames of one video: (H, W, 3) uint8 RGB each, as an NDArray or what the bridge makes of it.

    ``uri``: a path, a file object opened for bytes (of which only the wanted ranges are read), and also the bytes of a
    file, a ``pathlib.Path`` or a :class:`framespool.datasets.ArchiveMember`. ``ctx``: where frames land, ``cpu(0)`` or
    ``gpu(i)``.
    ``width``, ``height``: size of the frames in pixels; the video's own where not positive. ``num_threads``: threads
    that decode one call's frames; all cores where not positive. ``fault_tol`` changes nothing: a frame that the file's
    damage has reached is an error.

    Raises RuntimeError for what cannot be opened, DECORDError for frames that cannot be decoded and for arguments of a
    wrong type, AssertionError for a ``ctx`` that is not a context.
    """

    def __init__(
        self,
        uri: Any,
        ctx: DECORDContext = cpu(0),  # noqa: B008  # it cannot be changed
        width: int = -1,
        height: int = -1,
        num_threads: int = 0,
        fault_tol: int = -1,
    ) -> None:
        if not isinstance(ctx, DECORDContext):
            raise AssertionError(f"ctx must be cpu(i) or gpu(i), got {ctx!r}")
        for name, value in (("width", width), ("height", height), ("num_threads", num_threads)):
            if not isinstance(value, (int, np.integer)):
                raise DECORDError(f"{name} must be an int, got {value!r}")
        source = readable(uri)
        if source is None:
            raise DECORDError(f"uri must be a path or a file object, got {type(uri).__name__}")
        device = "cpu" if ctx == cpu(ctx.device_id) else f"cuda:{ctx.device_id}"
        try:
            threads = min(int(num_threads), 256) if num_threads > 0 else None
            video = Video(source, device=device, num_threads=threads, hdr="ignore")  # decord does not warn either
            size = (height if height > 0 else video.info.height, width if width > 0 else video.info.width)
            resized = size != (video.info.height, video.info.width)
            steps: list[Transform] = [ours.Resize((int(size[0]), int(size[1])))] if resized else []
            self._frames = ReadaheadReader(video, steps)
        except (GpuError, ArgumentError) as reason:
            raise DECORDError(str(reason)) from reason
        except Error as reason:
            raise RuntimeError(f"Error reading {uri if isinstance(uri, str) else 'the video'}: {reason}") from reason
        # The frame that next() gives.
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
            raise DECORDError(f"a frame is chosen by an int or a slice, got {idx!r}")
        self._next = int(place)
        return self.next()

    def next(self) -> Any:
        """The frame behind the last one given: (H, W, 3) uint8. StopIteration at the end."""
        if self._next >= len(self):
            raise StopIteration
        try:
            tensor, shared = self._frames.one(self._next)
        except Error as reason:
            raise DECORDError(str(reason)) from reason
        self._next += 1
        # A frame that is kept must not keep those around it.
        return bridge_out(NDArray(tensor.numpy().copy() if shared and tensor.device == "cpu" else tensor))

    def get_batch(self, indices: Any) -> Any:
        """Frames by number, in the order given, repeats and negative ones too: (N, H, W, 3) uint8.

        ``indices``: a list, or anything that NumPy takes for one. IndexError for a frame that does not exist.
        """
        wanted = self._exist(indices)
        if wanted:
            try:
                frames = NDArray(self._frames.frames(wanted).data)
            except Error as reason:
                raise DECORDError(str(reason)) from reason
            self._next = wanted[-1] + 1
        else:
            frames = NDArray(np.empty((0, *self._frames.shape, 3), np.uint8))
        return bridge_out(frames)

    def get_frame_timestamp(self, idx: Any) -> np.ndarray[Any, Any]:
        """When a frame appears and when it leaves, in seconds from the first one on: (2,) float32, or (N, 2)."""
        one = np.ndim(idx) == 0
        edges = [*self._frames.pts, self._frames.video.info.end_seconds]
        times = [(edges[i] - edges[0], edges[i + 1] - edges[0]) for i in self._exist([idx] if one else idx)]
        found = np.array(times, np.float32).reshape(-1, 2)
        return found[0] if one else found

    def get_key_indices(self) -> list[int]:
        """The frames at which decoding can start."""
        return list(self._frames.video.info.keyframes)

    def get_avg_fps(self) -> float:
        """Frames per second over the whole video.

        The usual rate that its times are a rounding of, if there is one: 30.0 for 77 frames in 2.567 s of milliseconds.
        """
        info = self._frames.video.info
        fps = info.average_fps
        usual = min((round(fps), round(fps * 1.001) / 1.001), key=lambda rate: abs(rate - fps))
        rounding = info.time_base[0] / info.time_base[1]
        duration = info.duration_seconds
        return float(usual) if usual > 0 and abs(info.num_frames / usual - duration) <= rounding else fps

    def seek(self, pos: int) -> None:
        """:meth:`next` gives the key frame at or before frame ``pos``. AssertionError if there is no such frame."""
        self.seek_accurate(pos)
        self._next = max((key for key in self.get_key_indices() if key <= pos), default=0)

    def seek_accurate(self, pos: int) -> None:
        """:meth:`next` gives frame ``pos``. AssertionError if there is no such frame."""
        if not 0 <= pos < len(self):
            raise AssertionError(f"there is no frame {pos}: the video has {len(self)}")
        if not isinstance(pos, (int, np.integer)):
            raise DECORDError(f"a frame's number is an int, got {pos!r}")
        self._next = int(pos)

    def skip_frames(self, num: int = 1) -> None:
        """:meth:`next` leaves out this many frames. AssertionError unless it is positive."""
        if not num > 0:
            raise AssertionError(f"num must be positive, got {num}")
        self._next += int(num)

    def _exist(self, indices: Any) -> list[int]:
        """Frame numbers from the beginning; IndexError where one does not exist."""
        numbers = np.array(indices, dtype=np.int64)
        if numbers.ndim != 1:
            raise TypeError(f"indices must be a list of frame numbers, got {indices!r}")
        numbers = np.where(numbers < 0, numbers + len(self), numbers)
        wrong = numbers[(numbers < 0) | (numbers >= len(self))]
        if wrong.size:
            raise IndexError(f"Out of bound indices: {wrong.tolist()} of {len(self)} frames")
        return [int(number) for number in numbers]
