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
    """Iterates over batches of frames at a fixed interval within a video, from several videos.

    A video ends when no further batch, plus two frames, fits. An epoch ends with StopIteration, also in a ``for`` loop;
    :meth:`reset` starts the next one, in another order. :class:`framespool.ClipLoader` additionally has shards, seeds
    and scheduled decoding.

    Args:
        uris: Sources, as for :class:`VideoReader`.
        ctx: A context or a list of them; the first one is used.
        shape: (frames in a batch, height, width, 3).
        interval: Frames to skip between two frames of a batch.
        skip: Frames to skip after a batch.
        shuffle: 0: the order of the videos. 1: batches of randomly selected videos, with the batches of each video in
            order. 2: all batches in random order.
        prefetch: No effect.
        stream: Video stream of each video, as for :class:`VideoReader`.

    Raises:
        DECORDError: If an argument is invalid, or a video cannot be opened.
        AssertionError: If ``uris`` is not a list or is empty, or ``shape`` does not have four numbers.
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
        *,
        stream: int | None = None,
    ) -> None:
        if not isinstance(uris, (list, tuple)) or not uris:
            raise AssertionError(f"uris must be a list of videos, got {uris!r}")
        contexts = [ctx] if isinstance(ctx, DECORDContext) else list(ctx)
        if not contexts:
            raise DECORDError("ctx must have at least one context")
        if len(shape) != 4:
            raise AssertionError(f"shape must be (batch size, height, width, 3), got {shape!r}")
        if shape[0] < 1:
            raise DECORDError(f"shape: a batch must have at least one frame, got {shape!r}")
        if shuffle not in (0, 1, 2):
            raise DECORDError(f"shuffle must be 0, 1 or 2, got {shuffle!r}")
        self._shuffle = shuffle
        self._readers: list[VideoReader] = []
        for uri in uris:
            try:
                self._readers.append(VideoReader(uri, contexts[0], shape[2], shape[1], stream=stream))
            except RuntimeError as reason:
                raise DECORDError(str(reason)) from reason
        stride = max(0, interval) + 1
        span = (shape[0] - 1) * stride + 1
        step = span + max(0, skip)
        self._batches = [
            (number, range(place * step, place * step + span, stride))
            for number, reader in enumerate(self._readers)
            # A last batch that fits exactly, or leaves one frame, is skipped, as in decord.
            for place in range(max(0, -(-(len(reader) - 1 - span) // step)))
        ]
        self._epoch = -1
        self._left: Iterator[tuple[int, range]] = iter(())
        self.reset()

    def __len__(self) -> int:
        return len(self._batches)

    def reset(self) -> None:
        """Starts an epoch."""
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
        """Returns the next batch.

        Returns:
            The frames, (N, H, W, 3) uint8, and (video index, frame index) of each, (N, 2) int64.

        Raises:
            StopIteration: At the end of the epoch.
        """
        number, frames = next(self._left)
        data = self._readers[number].get_batch(frames)
        return data, bridge_out(NDArray(np.array([(number, frame) for frame in frames], np.int64)))

    def __next__(self) -> tuple[Any, Any]:
        return self.next()

    def __iter__(self) -> VideoLoader:
        return self
