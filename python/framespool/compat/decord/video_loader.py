"""decord's loader of batches from several videos."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from framespool.compat.decord.base import DECORDError
from framespool.compat.decord.bridge import bridge_out
from framespool.compat.decord.ndarray import DECORDContext, NDArray
from framespool.compat.decord.video_reader import VideoReader

__all__ = ["VideoLoader"]


class VideoLoader:
    """Batches of frames that follow each other in a video, from one video after the other.

    ``uris``: sources as :class:`VideoReader` takes them. ``ctx``: a context or a list of them; the first is used.
    ``shape``: (frames in a batch, height, width, 3). ``interval``: frames left out between two of a batch. ``skip``:
    frames left out after a batch. A video ends where no batch fits any more with one frame behind it.

    ``shuffle``: 0 for the videos' order; 1 for batches of videos drawn at random, each video's own in their order; 2
    for all batches at random. An epoch ends with StopIteration, also in a ``for`` loop, and :meth:`reset` begins the
    next one, in another order. :class:`framespool.ClipLoader` has shards, seeds and a planner besides.

    Raises DECORDError for arguments that cannot be, AssertionError for ``uris`` that are no list or empty, and for a
    shape of other than four numbers.
    """

    def __init__(
        self,
        uris: Sequence[Any],
        ctx: DECORDContext | Sequence[DECORDContext],
        shape: Sequence[int],
        interval: int,
        skip: int,
        shuffle: int,
        prefetch: int = 0,
    ) -> None:
        if not isinstance(uris, (list, tuple)) or not uris:
            raise AssertionError(f"uris must be a list of videos, got {uris!r}")
        contexts = [ctx] if isinstance(ctx, DECORDContext) else list(ctx)
        if not contexts:
            raise DECORDError("ctx must have one context at least")
        if len(shape) != 4:
            raise AssertionError(f"shape must be (batch size, height, width, 3), got {shape!r}")
        if shape[0] < 1:
            raise DECORDError(f"shape: a batch has one frame at least, got {shape!r}")
        if shuffle not in (0, 1, 2):
            raise DECORDError(f"shuffle must be 0, 1 or 2, got {shuffle!r}")
        self._shuffle = shuffle
        self._readers: list[VideoReader] = []
        for uri in uris:
            try:
                self._readers.append(VideoReader(uri, contexts[0], width=shape[2], height=shape[1]))
            except RuntimeError as reason:
                raise DECORDError(str(reason)) from reason
        stride = max(0, interval) + 1
        span = (shape[0] - 1) * stride + 1
        step = span + max(0, skip)
        self._batches = [
            (number, range(place * step, place * step + span, stride))
            for number, reader in enumerate(self._readers)
            # A last batch that just fits is left out, as in decord.
            for place in range(max(0, -(-(len(reader) - shape[0] * stride) // step)))
        ]
        self._epoch = -1
        self._left: Iterator[tuple[int, range]] = iter(())
        self.reset()

    def __len__(self) -> int:
        return len(self._batches)

    def reset(self) -> None:
        """Begins an epoch."""
        self._epoch += 1
        order = list(self._batches)
        draws = random.Random(self._epoch)
        if self._shuffle == 2:
            draws.shuffle(order)
        elif self._shuffle == 1:
            numbers = [number for number, _ in order]
            draws.shuffle(numbers)
            queues = {number: [batch for batch in reversed(order) if batch[0] == number] for number in set(numbers)}
            order = [queues[number].pop() for number in numbers]
        self._left = iter(order)

    def next(self) -> tuple[Any, Any]:
        """The next batch: frames (N, H, W, 3) uint8, and for each (number of the video, frame), (N, 2) int64."""
        number, frames = next(self._left)
        data = self._readers[number].get_batch(frames)
        return data, bridge_out(NDArray(np.array([(number, frame) for frame in frames], np.int64)))

    def __next__(self) -> tuple[Any, Any]:
        return self.next()

    def __iter__(self) -> VideoLoader:
        return self
