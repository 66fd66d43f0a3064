"""torchcodec's decoder of audio."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

from framespool.compat.torchcodec._frame import AudioSamples
from framespool.compat.torchcodec._metadata import AudioStreamMetadata, audio_metadata
from framespool.compat.torchcodec._open import open_audio
from framespool.compat.torchcodec._torch import needed
from framespool.errors import Error


class AudioDecoder:
    """Decodes the audio of a file as torch tensors, by time; the file may have video besides.

    Sample *n* is the same after any other access. A decoder may be used from several threads.

    Args:
        source: A path, the bytes of a file, a uint8 tensor of them, a :class:`framespool.datasets.ArchiveMember`, or a
            file object opened for bytes, with ``seek(offset, whence)`` and ``read(size)``.
        stream_index: Stream, counted over streams of all types. By default FFmpeg's best audio stream.
        sample_rate: Samples per second of the result. By default those of the stream.
        num_channels: Channels of the result: 1, 2 or those of the stream, which is the default.

    Attributes:
        metadata: An :class:`AudioStreamMetadata`.
        stream_index: Index of the stream.

    Raises:
        RuntimeError: If the file cannot be opened or decoded, or a rate or number of channels is not positive.
        TypeError: If the source has another type.
        ValueError: If there is no such audio stream.
        ImportError: If PyTorch is not installed.

    Example:
        >>> from framespool.compat.torchcodec.decoders import AudioDecoder
        >>> decoder = AudioDecoder("talk.mp4", sample_rate=16000, num_channels=1)  # doctest: +SKIP
        >>> decoder.get_samples_played_in_range(0.5, 2.5).data.shape  # doctest: +SKIP
        torch.Size([1, 32000])
    """

    def __init__(
        self,
        source: Any,
        *,
        stream_index: int | None = None,
        sample_rate: int | None = None,
        num_channels: int | None = None,
    ) -> None:
        needed()
        for name, value in (("sample_rate", sample_rate), ("num_channels", num_channels)):
            if value is not None and not isinstance(value, Integral):
                raise RuntimeError(f"{name} must be an int, got {value!r}")
            if value is not None and value <= 0:
                raise RuntimeError(f"{name} must be > 0. Got: {value}")
        try:
            self._file = open_audio(source, stream_index)
        except Error as reason:
            raise RuntimeError(str(reason)) from reason
        info = self._file.info
        self.stream_index: int = info.stream
        self.metadata: AudioStreamMetadata = audio_metadata(info)
        self._begin, self._end = info.begin_seconds, info.end_seconds
        self._rate = int(info.sample_rate if sample_rate is None else sample_rate)
        self._channels = int(info.channels if num_channels is None else num_channels)
        # torchcodec adds two channels at 0.707 each, and may exceed 1; framespool returns their mean.
        self._gain = math.sqrt(2) if (info.channels, self._channels) == (2, 1) else 1.0

    def get_all_samples(self) -> AudioSamples:
        """Decodes all samples.

        Returns:
            The samples.

        Raises:
            RuntimeError: If they cannot be decoded or converted.
        """
        return self.get_samples_played_in_range()

    def get_samples_played_in_range(
        self, start_seconds: float = 0.0, stop_seconds: float | None = None
    ) -> AudioSamples:
        """Decodes the samples from ``start_seconds`` up to but not including ``stop_seconds``.

        Args:
            start_seconds: Start of the range in seconds; before the audio, the range begins with the audio.
            stop_seconds: End of the range in seconds; by default, and at most, the end of the audio.

        Returns:
            The samples; none if the range is empty.

        Raises:
            ValueError: If the range ends before it starts.
            RuntimeError: If the range has no audio, or it cannot be decoded or converted.
        """
        torch = needed()
        stop = self._end if stop_seconds is None else stop_seconds
        if stop_seconds is not None and not start_seconds <= stop_seconds:
            raise ValueError(f"Invalid start seconds: {start_seconds} must be at most stop_seconds, {stop_seconds}")
        begin = max(float(start_seconds), self._begin)
        if start_seconds == stop_seconds:
            return AudioSamples(torch.empty(self._channels, 0), begin, 0.0, self._rate)
        if stop <= self._begin or start_seconds >= self._end:
            raise RuntimeError(
                f"No audio frames were decoded: there is audio from {self._begin} to {self._end} s, not from "
                f"{start_seconds} to {stop} s"
            )
        first = self._sample_at(begin)
        count = None if stop >= self._end else self._sample_at(stop) - first
        if count == 0:
            return AudioSamples(torch.empty(self._channels, 0), begin, 0.0, self._rate)
        try:
            data = self._file.samples(
                self._begin + first / self._rate,
                None if count is None else count / self._rate,
                sample_rate=self._rate,
                channels=self._channels,
            ).torch()
        except Error as reason:
            raise RuntimeError(str(reason)) from reason
        if self._gain != 1.0:
            data *= self._gain
        return AudioSamples(data, begin, data.shape[1] / self._rate, self._rate)

    def _sample_at(self, seconds: float) -> int:
        """Returns the sample nearest to a time; of two, the later one, so that adjacent ranges share no sample."""
        return math.floor((seconds - self._begin) * self._rate + 0.5)
