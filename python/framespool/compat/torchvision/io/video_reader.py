"""torchvision's reader of single frames."""

from __future__ import annotations

import bisect
import math
from typing import Any

from framespool.compat._readahead import ReadaheadReader
from framespool.compat.torchcodec._torch import copied, needed
from framespool.compat.torchvision._open import frame_rate, open_video, ticks, video_streams
from framespool.errors import Error

__all__ = ["VideoReader"]

#: Part of a tick by which a time may be after a frame that is still found, for rounding errors of seconds.
_TICK_TOLERANCE = 1e-3


class VideoReader:
    """Iterates over the frames of a video stream, from the start or from a time.

    The memory does not depend on the length of the video. Frames after a ``seek`` are decoded up to the next keyframe
    together, at most 64 MiB.

    Args:
        src: A path, the bytes of a file, a 1-D uint8 tensor of them, an archive member or a file object.
        stream: ``"video"`` for the first video stream, ``"video:1"`` for the second one.
        num_threads: Threads that decode frames; 0 for all cores, and for one in a DataLoader worker.

    Raises:
        ValueError: If ``src`` has another type or is empty, or ``stream`` is malformed.
        RuntimeError: If the video cannot be opened, or has no such stream.
        ImportError: If PyTorch is not installed.

    Example:
        >>> from itertools import takewhile
        >>> from framespool.compat.torchvision.io import VideoReader
        >>> reader = VideoReader("a.mp4", "video")
        >>> frame = next(reader.seek(2.0))
        >>> frame["data"].shape, frame["pts"]
        (torch.Size([3, 360, 640]), 2.0)
        >>> len([frame["data"] for frame in takewhile(lambda frame: frame["pts"] <= 2.5, reader)])
        12
    """

    def __init__(self, src: Any, stream: str = "video", num_threads: int = 0) -> None:
        self._torch = needed("torchvision")
        self._source = src
        self._num_threads = num_threads
        try:
            self._open(stream)
        except Error as reason:
            raise RuntimeError(str(reason)) from reason

    def __iter__(self) -> VideoReader:
        return self

    def __next__(self) -> dict[str, Any]:
        """Returns the next frame: ``data``, torch.Tensor (3, H, W) uint8, and ``pts``, float seconds.

        Raises StopIteration at the end of the stream, RuntimeError if the frame cannot be decoded.
        """
        if self._next >= len(self._frames.pts):
            raise StopIteration
        try:
            tensor, shared = self._frames.one(self._next)
        except Error as reason:
            raise RuntimeError(str(reason)) from reason
        # A stored frame must not keep its neighbors in memory.
        data = copied(tensor.torch()) if shared else tensor.torch()
        frame = {"data": data.permute(2, 0, 1), "pts": self._frames.pts[self._next]}
        self._next += 1
        return frame

    def seek(self, time_s: float, keyframes_only: bool = False) -> VideoReader:
        """Moves to a time.

        Args:
            time_s: Time in seconds; negative ones are 0.
            keyframes_only: Whether the next frame is the last keyframe at or before the time, where decoding is
                cheapest, instead of the first frame at or after it.

        Returns:
            This reader.
        """
        info = self._frames.video.info
        num, den = info.time_base
        tick = max(0.0, time_s) * den / num
        if keyframes_only:
            playing = bisect.bisect_right(self._ticks, tick + _TICK_TOLERANCE) - 1
            place = bisect.bisect_right(info.keyframes, playing) - 1
            self._next = info.keyframes[place] if place >= 0 else 0
        else:
            self._next = bisect.bisect_left(self._ticks, math.ceil(tick - _TICK_TOLERANCE))
        return self

    def get_metadata(self) -> dict[str, Any]:
        """Returns the metadata of the video streams.

        Returns:
            ``{"video": {"fps": [...], "duration": [...]}}`` with frames per second and seconds of each video stream.
            Streams of audio are omitted.

        Raises:
            RuntimeError: If a video stream cannot be read.
        """
        rates: list[float] = []
        durations: list[float] = []
        try:
            current = self._frames.video
            for number, stream in enumerate(video_streams(current)):
                video = current if stream == current.info.stream else self._opened(number)
                rates.append(frame_rate(video))
                durations.append(video.info.duration_seconds)
        except Error as reason:
            raise RuntimeError(str(reason)) from reason
        return {"video": {"fps": rates, "duration": durations}}

    def set_current_stream(self, stream: str) -> bool:
        """Selects a stream, from its start on.

        Args:
            stream: ``"video"`` or ``"video:1"``.

        Returns:
            Whether there is such a video stream. If not, the reader does not change.

        Raises:
            ValueError: If ``stream`` is malformed.
        """
        try:
            self._open(stream)
        except (Error, RuntimeError):
            return False
        return True

    def _open(self, stream: str) -> None:
        kind, _, number = stream.partition(":")
        if number and not number.isdecimal():
            raise ValueError(f"stream must be 'video' or 'video:0', with the number of the stream, got {stream!r}")
        if kind != "video":
            raise RuntimeError(f"stream {stream!r} cannot be read: framespool decodes video streams only")
        video = self._opened(int(number or 0))
        self._frames = ReadaheadReader(video, [])
        self._ticks = ticks(video)
        self._next = 0

    def _opened(self, number: int) -> Any:
        return open_video(self._source, video_stream=number, num_threads=self._num_threads)
