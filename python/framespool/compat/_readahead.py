"""Single frames, as code asks for them that knows no clips: those that follow each other are decoded together."""

from __future__ import annotations

import bisect
import os
import threading
from collections.abc import Iterator
from typing import Any

from framespool._framespool import Tensor
from framespool._video import Dtype, FrameBatch, Video, is_file_object
from framespool.datasets import ArchiveMember
from framespool.errors import DecodeError, LimitError
from framespool.transforms import Transform

#: Most memory for frames that were decoded ahead of their turn.
MAX_READAHEAD_BYTES = 64 << 20
_BYTES_EACH = {"uint8": 1, "float32": 4}


def readable(source: Any) -> Any:
    """``source`` as :class:`~framespool.Video` takes it; ``None`` for what it does not take."""
    if isinstance(source, (bytearray, memoryview)):
        return bytes(source)
    return source if isinstance(source, (str, bytes, os.PathLike, ArchiveMember)) or is_file_object(source) else None


class ReadaheadReader:
    """A video whose frames are asked for one by one.

    Frames from the first one on come out of one pass over the video. Where frames are asked for in order from another
    place, those up to the next key frame are decoded together, :data:`MAX_READAHEAD_BYTES` at most. Nothing is decoded ahead
    for frames in no order. May be used from several threads.
    """

    def __init__(self, video: Video, transforms: list[Transform], dtype: Dtype = "uint8") -> None:
        self.video = video
        self.transforms = transforms
        self.dtype = dtype
        self.pts = video.pts_seconds
        self._lock = threading.Lock()
        self._pass: Iterator[Tensor] | None = None
        self._ready: Tensor | None = None
        self._ready_from = 0
        # What a next frame would be.
        self._expected = 0

    def frames(self, indices: list[int]) -> FrameBatch:
        """Frames by display index, (T, H, W, 3)."""
        return self.video.frames(indices, transforms=self.transforms, dtype=self.dtype)

    def one(self, index: int) -> tuple[Tensor, bool]:
        """Frame ``index``, (H, W, 3), and whether its memory is part of a larger piece."""
        with self._lock:
            in_order = index == self._expected
            self._expected = index + 1
            try:
                return self._one(index, in_order)
            except BaseException:
                self._pass = None  # interrupted, it still owes this frame, which may never be asked for again
                raise

    def _one(self, index: int, in_order: bool) -> tuple[Tensor, bool]:
        if index == 0 and not self.transforms and self.dtype == "uint8":
            self._pass, self._ready = iter(self.video), None
        if self._pass is not None:
            if index == 0 or in_order:
                try:
                    return next(self._pass), False
                except (DecodeError, StopIteration):
                    pass  # the road below says what is wrong, or gives what is behind the damage
            self._pass = None
        if self._ready is not None and not (in_order and index < self._ready_from + len(self._ready)):
            self._ready = None
        if self._ready is None and in_order and index > 0:
            self._ready, self._ready_from = self._decode_from(index), index
        if self._ready is not None:
            return self._ready[index - self._ready_from], True
        return self.frames([index]).data[0], False

    def _decode_from(self, index: int) -> Tensor | None:
        info = self.video.info
        place = bisect.bisect_right(info.keyframes, index)
        until = info.keyframes[place] if place < len(info.keyframes) else info.num_frames
        until = min(until, index + self.at_once)
        try:
            return self.frames(list(range(index, until))).data if until > index + 1 else None
        except (DecodeError, LimitError):
            return None  # the damage may be behind the frame that was asked for

    @property
    def at_once(self) -> int:
        """How many frames may be held besides those that were asked for."""
        height, width = self.shape
        return max(1, MAX_READAHEAD_BYTES // (height * width * 3 * _BYTES_EACH[self.dtype]))

    @property
    def shape(self) -> tuple[int, int]:
        """(height, width) of the frames."""
        height, width = self.video.info.height, self.video.info.width
        for transform in self.transforms:
            size = getattr(transform, "size", None)
            if isinstance(size, tuple) and len(size) == 2:
                height, width = size
        return height, width

    def playing(self, seconds: float) -> int:
        """The frame on screen at this time, which must not be before the first one appears."""
        return bisect.bisect_right(self.pts, seconds) - 1
