"""decord's reader of audio."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from framespool.compat.decord.base import DECORDError, source_of
from framespool.compat.decord.bridge import bridge_out
from framespool.compat.decord.ndarray import DECORDContext, NDArray, cpu
from framespool.errors import Error
from framespool.video._audio import AudioFile

__all__ = ["AudioReader"]


class AudioReader:
    """Reads the audio of a file by sample number: (C, S) float32, as an NDArray or the bridge's type.

    Samples are decoded when they are requested; decord decodes the complete file when it is opened.

    Args:
        uri: As for :class:`VideoReader`.
        ctx: Has no effect: samples are on the CPU, as in decord.
        sample_rate: Samples per second; those of the stream if not positive.
        mono: Whether channels are mixed into one; otherwise they are those of the stream.

    Attributes:
        sample_rate: Samples per second; decord has the argument here, which may be -1.

    Raises:
        DECORDError: If the file cannot be opened or has no audio, or an argument has a wrong type.
        AssertionError: If ``ctx`` is not a context.

    Example:
        >>> from framespool.compat import decord
        >>> reader = decord.AudioReader("talk.mp4", sample_rate=16000)
        >>> reader.shape, reader[8000:24000].shape
        ((1, 48000), (1, 16000))
    """

    def __init__(
        self,
        uri: Any,
        ctx: DECORDContext = cpu(0),  # noqa: B008  # it cannot be changed
        sample_rate: int = -1,
        mono: bool = True,
    ) -> None:
        if not isinstance(ctx, DECORDContext):
            raise AssertionError(f"ctx must be cpu(i) or gpu(i), got {ctx!r}")
        if not isinstance(sample_rate, (int, np.integer)):
            raise DECORDError(f"sample_rate must be an int, got {sample_rate!r}")
        source = source_of(uri)
        try:
            self._file = AudioFile(source)
        except Error as reason:
            raise DECORDError(str(reason)) from reason
        info = self._file.info
        self.sample_rate = int(sample_rate) if sample_rate > 0 else info.sample_rate
        self._channels = 1 if mono else info.channels
        # decord adds two channels at 0.707 each, and may exceed 1; framespool returns their mean.
        self._gain = math.sqrt(2) if mono and info.channels == 2 else 1.0
        length = round(info.duration_seconds * info.sample_rate)
        self._num_samples = -(-length * self.sample_rate // info.sample_rate)
        self._begin = info.begin_seconds
        self._padding = 0
        # The samples that were decoded last, after the number of the first of them.
        self._decoded = (0, np.empty((self._channels, 0), np.float32))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of channels and of samples."""
        return self._channels, self._padding + self._num_samples

    def __len__(self) -> int:
        """The number of channels, as in decord."""
        return self._channels

    def __getitem__(self, idx: int | slice) -> Any:
        """``reader[7]``: (C,) float32. ``reader[100:200]``: (C, S), S may be 0. IndexError past the end."""
        count = self.shape[1]
        if isinstance(idx, slice):
            wanted = range(count)[idx]
            if not wanted:
                return self.get_batch([])
            found = self._samples(min(wanted[0], wanted[-1]), max(wanted[0], wanted[-1]) + 1)[:, :: abs(wanted.step)]
            return bridge_out(NDArray(found[:, :: 1 if wanted.step > 0 else -1].copy()))
        place = idx + count if idx < 0 else idx
        if not isinstance(place, (int, np.integer)) or not 0 <= place < count:
            raise IndexError(f"Index: {idx} out of bound: {count}")
        return bridge_out(NDArray(self._samples(int(place), int(place) + 1)[:, 0].copy()))

    def get_batch(self, indices: Any) -> Any:
        """Returns samples in the given order.

        Args:
            indices: Sample numbers, as a range, a list or anything that NumPy converts to one; may repeat, and negative
                ones count from the end.

        Returns:
            The samples, (C, S) float32.

        Raises:
            IndexError: If a sample does not exist.
            DECORDError: If samples cannot be decoded.
        """
        count = self.shape[1]
        numbers = np.array(indices, dtype=np.int64)
        if numbers.ndim != 1:
            raise TypeError(f"indices must be a list of sample numbers, got {indices!r}")
        numbers = np.where(numbers < 0, numbers + count, numbers)
        wrong = numbers[(numbers < 0) | (numbers >= count)]
        if wrong.size:
            raise IndexError(f"Out of bound indices: {wrong[:8].tolist()} of {count} samples")
        if not numbers.size:
            return bridge_out(NDArray(np.empty((self._channels, 0), np.float32)))
        first = int(numbers.min())
        return bridge_out(NDArray(self._samples(first, int(numbers.max()) + 1)[:, numbers - first]))

    def duration(self) -> float:
        """Returns the duration of the audio.

        Returns:
            Seconds; decord rounds them.
        """
        return self.shape[1] / self.sample_rate

    def add_padding(self) -> int:
        """Adds silence before the audio, so that sample 0 is at 0 s on the clock of the file's video.

        Audio before 0 s is dropped instead.

        Returns:
            Number of samples that were added; negative if some were dropped.
        """
        self._padding = round(self._begin * self.sample_rate)
        return self._padding

    def get_info(self) -> None:
        """Prints what is known about the audio."""
        print(self._file)

    def _time_to_sample(self, timestamp: float) -> int:
        """Returns the first sample at or after a time in seconds."""
        return math.ceil(timestamp * self.sample_rate)

    def _times_to_samples(self, timestamps: Any) -> list[int]:
        return [self._time_to_sample(timestamp) for timestamp in timestamps]

    def _samples(self, first: int, end: int) -> np.ndarray[Any, Any]:
        """Returns samples ``first`` to ``end``, which exist; short ranges are decoded with the second that follows."""
        have, samples = self._decoded
        if not have <= first <= end <= have + samples.shape[1]:
            stop = min(max(end, first + self.sample_rate), self.shape[1])
            start = self._begin + (first - self._padding) / self.sample_rate
            length = (stop - first) / self.sample_rate
            try:
                decoded = self._file.samples(start, length, sample_rate=self.sample_rate, channels=self._channels)
            except Error as reason:
                raise DECORDError(str(reason)) from reason
            have, samples = first, decoded.numpy() * np.float32(self._gain)
            self._decoded = (have, samples)
        return samples[:, first - have : end - have]
