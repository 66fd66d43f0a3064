"""Decodes single frames for code without clips: consecutive frames are decoded together."""

from __future__ import annotations

import bisect
import os
import threading
from collections.abc import Iterator
from typing import Any

from framespool._common.validate_args import Dtype
from framespool._framespool import Tensor
from framespool.errors import DecodeError, LimitError
from framespool.transforms import Transform
from framespool.video._sources import ArchiveMember
from framespool.video._video import FrameBatch, Video, is_file_object

#: Maximum size of the frames decoded ahead, in bytes.
MAX_READAHEAD_BYTES = 64 << 20
_BYTES_EACH = {"uint8": 1, "float32": 4}


def readable(source: Any) -> Any:
    """Converts a source for :class:`~framespool.Video`.

    Args:
        source: Any object.

    Returns:
        The source, or ``None`` if its type is not supported.
    """
    if isinstance(source, (bytearray, memoryview)):
        return bytes(source)
    return source if isinstance(source, (str, bytes, os.PathLike, ArchiveMember)) or is_file_object(source) else None


class ReadaheadReader:
    """Reads the frames of a video one by one.

    Frames from the first one on come from one pass over the video. If consecutive frames are requested from another
    position, the frames up to the next keyframe are decoded together, at most :data:`MAX_READAHEAD_BYTES`. For random
    access nothing is decoded ahead. It may be used from several threads.

    Args:
        video: The video, with `layout="THWC"`.
        transforms: Transforms of each frame.
        dtype: ``"uint8"`` or ``"float32"``.
    """

    def __init__(self, video: Video, transforms: list[Transform], dtype: Dtype = "uint8") -> None:
        self.video = video
        self.transforms = transforms
        self.dtype = dtype
        self.pts = video.pts_seconds
        self._lock = threading.Lock()
        self._made_in = os.getpid()
        self._pass: Iterator[Tensor] | None = None
        self._ready: Tensor | None = None
        self._ready_from = 0
        # The next frame of consecutive access.
        self._expected = 0

    def frames(self, indices: list[int]) -> FrameBatch:
        """Decodes frames.

        Args:
            indices: Frame indices in presentation order.

        Returns:
            The frames, (T, H, W, 3).
        """
        return self.video.frames(indices, transforms=self.transforms, dtype=self.dtype)

    def one(self, index: int) -> tuple[Tensor, bool]:
        """Decodes one frame.

        Args:
            index: Frame index in presentation order.

        Returns:
            The frame, (H, W, 3), and whether it shares the memory of other frames.

        Raises:
            ForkedError: If the video was opened before ``os.fork()``, which its threads do not survive.
        """
        if os.getpid() != self._made_in:
            # Another thread of the parent may have held the lock when it forked.
            self._lock, self._pass, self._ready, self._made_in = threading.Lock(), None, None, os.getpid()
        with self._lock:
            in_order = index == self._expected
            self._expected = index + 1
            try:
                return self._one(index, in_order)
            except BaseException:
                self._pass = None  # after an interruption the pass still has this frame pending
                raise

    def _one(self, index: int, in_order: bool) -> tuple[Tensor, bool]:
        if index == 0 and not self.transforms and self.dtype == "uint8":
            self._pass, self._ready = iter(self.video), None
        if self._pass is not None:
            if index == 0 or in_order:
                try:
                    return next(self._pass), False
                except (DecodeError, StopIteration):
                    pass  # the code below reports the error, or returns frames after the damage
            self._pass = None
        if self._ready is not None and not (in_order and index < self._ready_from + len(self._ready)):
            self._ready = None
        if self._ready is None and in_order and index > 0:
            self._ready, self._ready_from = self._decode_from(index), index
        if self._ready is not None:
            return self._ready[index - self._ready_from], True
        return self.frames([index]).frames[0], False

    def _decode_from(self, index: int) -> Tensor | None:
        info = self.video.info
        place = bisect.bisect_right(info.keyframes, index)
        until = info.keyframes[place] if place < len(info.keyframes) else info.num_frames
        until = min(until, index + self.at_once)
        try:
            return self.frames(list(range(index, until))).frames if until > index + 1 else None
        except (DecodeError, LimitError):
            return None  # the damage may be after the requested frame

    @property
    def at_once(self) -> int:
        """Maximum number of frames decoded ahead."""
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
        """Returns the frame on screen at a time.

        Args:
            seconds: Time in seconds, not before the first frame.

        Returns:
            The frame index.
        """
        return bisect.bisect_right(self.pts, seconds) - 1
