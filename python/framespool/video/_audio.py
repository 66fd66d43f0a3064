"""The audio of one file, and batches of windows of audio."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from framespool import _framespool
from framespool._common.batch_methods import BatchMethods
from framespool._common.index_cache import cache_location
from framespool._common.validate_args import integer, number, stream_index
from framespool._framespool import Tensor
from framespool.video._sources import ArchiveMember, TableCell

if TYPE_CHECKING:
    from typing import Literal


@dataclass(frozen=True)
class AudioInfo:
    """What is known about the audio of a file.

    Attributes:
        stream: Index of the audio stream among all streams of the file.
        codec: FFmpeg's name of the codec.
        sample_rate: Samples per second.
        channels: Number of channels.
        begin_seconds: Time of the first sample on the file's clock, that of `Video.pts_seconds`.
        end_seconds: Time after the last sample.

    Example:
        >>> import framespool as fsp
        >>> fsp.Video("talk.mp4").info.audio_streams[0].channels
        1
    """

    stream: int
    codec: str
    sample_rate: int
    channels: int
    begin_seconds: float
    end_seconds: float

    @property
    def duration_seconds(self) -> float:
        """`end_seconds - begin_seconds`."""
        return self.end_seconds - self.begin_seconds


class AudioFile:
    """Random access to the audio of a file, exact to the sample.

    The file may have video besides, or be a WAV, FLAC, MP3, M4A, Ogg, Opus or other file of audio. Sample *n* does
    not depend on what was read before it: encoder delay and padding are removed as by the `ffmpeg` program, and reading
    starts early enough for the decoder. See docs/howto/audio.md.

    An `AudioFile` may be used from several threads. It does not survive `os.fork()`. It can be pickled if it was opened
    from a path.

    Args:
        source: A path or URL, the bytes of a file, a file object opened for bytes, a `datasets.ArchiveMember` or a
            `datasets.TableCell`.
        index: The index cache, as of `Video`.
        stream: Index of the audio stream among all streams of the file. `None`: the stream that FFmpeg's
            `av_find_best_stream` selects.

    Raises:
        NotFoundError: If the file does not exist.
        NoAudioError: If there is no audio stream, or `stream` is not one.
        UnsupportedError: If the codec or container is not supported.
        InvalidDataError: If the file is damaged.
        ArgumentError: If an argument is invalid.

    Example:
        >>> import framespool as fsp
        >>> audio = fsp.video.AudioFile("talk.mp4")
        >>> audio
        AudioFile('talk.mp4', 3.0 s, 1 channel, 44100 Hz, aac)
        >>> audio.samples(start=0.5, seconds=1.0).shape
        (1, 44100)
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | bytes | ArchiveMember | TableCell | object,
        *,
        index: str | os.PathLike[str] | Literal[False] | None = None,
        stream: int | None = None,
    ) -> None:
        self._source = source
        self._index = cache_location(index)
        self._stream = stream_index(stream)
        self._native = _framespool.AudioFile(source, "bytes", self._index, self._stream)

    @property
    def info(self) -> AudioInfo:
        """Metadata of the audio."""
        return AudioInfo(*self._native.info())

    def samples(
        self,
        start: float | None = None,
        seconds: float | None = None,
        *,
        sample_rate: int | None = None,
        channels: int | None = None,
    ) -> Tensor:
        """Returns the samples of a time span.

        Args:
            start: Time of the first sample in seconds; the nearest sample counts. `None`: the begin of the audio.
            seconds: Length. `None`: up to the end of the audio.
            sample_rate: Samples per second of the result. `None`: those of the file. Samples are resampled on a grid
                that begins with the audio, so that any span equals the cut of the whole.
            channels: Number of channels of the result, 1 or 2, mixed as by FFmpeg's `-ac`. `None`: those of the file.

        Returns:
            Tensor (C, S) float32, from -1 to 1; zeros where the file has no audio.

        Raises:
            DecodeError: If a packet of the span is damaged.
            ClipSamplingError: If the file's channels or rate cannot be converted.
            ArgumentError: If an argument is invalid.

        Example:
            >>> import framespool as fsp
            >>> fsp.video.AudioFile("talk.mp4").samples(seconds=2.0, sample_rate=16000, channels=1).shape
            (1, 32000)
        """
        return self._native.audio(*checked_span(start, seconds, sample_rate, channels))[0]

    def __repr__(self) -> str:
        i = self.info
        name = "bytes" if isinstance(self._source, bytes) else str(self._source)
        channels = f"{i.channels} channel{'s' * (i.channels > 1)}"
        return f"AudioFile({name!r}, {i.duration_seconds:.1f} s, {channels}, {i.sample_rate} Hz, {i.codec})"

    def __reduce__(self) -> tuple[Callable[..., AudioFile], tuple[object, ...]]:
        if not isinstance(self._source, (str, os.PathLike, ArchiveMember, TableCell)):
            raise TypeError("an AudioFile can be pickled only if it was opened from a path")
        return (_reopen, (self._source, self._index, self._stream))


@dataclass(eq=False, repr=False)
class AudioBatch(BatchMethods):
    """N windows of audio, with their labels and positions: a batch of `framespool.AudioLoader`.

    `audio, labels = batch`, `batch["labels"]` and `batch.to("cuda")` work as with `Batch`.

    Attributes:
        audio: (N, C, S) float32, from -1 to 1; zeros after shorter windows.
        labels: As in `Batch`.
        audio_mask: (N, S) bool, false for samples that the file does not have: before its begin, after its end, in
            gaps, and for those that `padding="loop"` repeats.
        file_ids: (N,) int64, index of the file in the dataset.
        window_ids: (N,) int64, index of the window in the dataset.
        requested_ids: (N,) int64, the window that the batch sampler requested. Differs from `window_ids` only for a
            replacement.
        start_seconds: (N,) float64, time of the first sample on the clock of the file.
        padding: (N,) bool, true for windows that only fill a batch or make ranks equal.
        sample_rate: Samples per second.
        columns: The values of `dataset.columns` by name, as in `Batch`.

    Example:
        >>> import framespool as fsp
        >>> dataset = fsp.datasets.audio_folder("sounds/")
        >>> batch = next(iter(fsp.AudioLoader(dataset, fsp.Audio(16000, seconds=0.5), batch_size=4)))
        >>> batch.audio.shape, batch.labels.tolist(), batch.sample_rate
        ((4, 1, 8000), [0, 0, 1, 1], 16000)
    """

    audio: Tensor
    labels: Tensor
    audio_mask: Tensor
    file_ids: Tensor
    window_ids: Tensor
    requested_ids: Tensor
    start_seconds: Tensor
    padding: Tensor
    sample_rate: int
    columns: dict[str, Any] = field(default_factory=dict)


def _reopen(source: object, index: object, stream: int | None) -> AudioFile:
    """An AudioFile from a pickle."""
    return AudioFile(source, index=index, stream=stream)  # type: ignore[arg-type]


def checked_span(
    start: float | None, seconds: float | None, sample_rate: int | None, channels: int | None
) -> tuple[float | None, float | None, int | None, int | None]:
    """Checks the arguments of `samples()`.

    Args:
        start: As there.
        seconds: As there.
        sample_rate: As there.
        channels: As there.

    Returns:
        The arguments.

    Raises:
        ArgumentError: If one is invalid.
    """
    if start is not None:
        number("start", start)
    if seconds is not None:
        number("seconds", seconds, above=0.0)
    if sample_rate is not None:
        integer("sample_rate", sample_rate, least=1, most=768_000)
    if channels is not None:
        integer("channels", channels, least=1, most=64)
    return start, seconds, sample_rate, channels
