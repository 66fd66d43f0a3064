"""decord's reader of frames and their audio."""

from __future__ import annotations

from typing import Any

from framespool.compat.decord.audio_reader import AudioReader
from framespool.compat.decord.base import source_of
from framespool.compat.decord.ndarray import DECORDContext, cpu
from framespool.compat.decord.video_reader import VideoReader

__all__ = ["AVReader"]


class AVReader:
    """Reads frames together with the audio of the time for which they are on screen.

    Args:
        uri: As for :class:`VideoReader`.
        ctx: Device of the frames, ``cpu(0)`` or ``gpu(i)``.
        sample_rate: Samples per second; those of the stream if not positive.
        mono: Whether channels are mixed into one; otherwise they are those of the stream.
        width: Width of the frames in pixels; the video's own if not positive.
        height: Height of the frames in pixels; the video's own if not positive.
        num_threads: Threads that decode the frames of one call; all cores if not positive.
        fault_tol: No effect: a damaged frame is an error.

    Raises:
        RuntimeError: If the video cannot be opened.
        DECORDError: If the audio cannot be opened, data cannot be decoded, or an argument has a wrong type.

    Example:
        >>> from framespool.compat import decord
        >>> reader = decord.AVReader("talk.mp4", sample_rate=16000)
        >>> audio, frames = reader[3:6]
        >>> [samples.shape for samples in audio], frames.shape
        ([(1, 667), (1, 667), (1, 666)], (3, 360, 640, 3))
    """

    def __init__(
        self,
        uri: Any,
        ctx: DECORDContext = cpu(0),  # noqa: B008  # it cannot be changed
        sample_rate: int = 44100,
        mono: bool = True,
        width: int = -1,
        height: int = -1,
        num_threads: int = 0,
        fault_tol: int = -1,
    ) -> None:
        source = source_of(uri)
        self._audio = AudioReader(source, ctx, sample_rate, mono)
        self._audio.add_padding()
        self._video = VideoReader(source, ctx, width, height, num_threads, fault_tol)

    def __len__(self) -> int:
        """The number of frames."""
        return len(self._video)

    def __getitem__(self, idx: int | slice) -> Any:
        """``reader[7]``: samples (C, S) float32, and a frame (H, W, 3) uint8. ``reader[10:20]``: as ``get_batch``."""
        if isinstance(idx, slice):
            return self.get_batch(range(len(self))[idx])
        frame = self._video[idx]
        return self._audio_of(idx + len(self) if idx < 0 else idx), frame

    def get_batch(self, indices: Any) -> tuple[list[Any], Any]:
        """Decodes frames and their audio in the given order.

        Args:
            indices: List of frame indices; may repeat, and negative ones count from the end.

        Returns:
            The samples of each frame, (C, S) float32, fewer where the audio ends; and the frames, (N, H, W, 3) uint8.

        Raises:
            IndexError: If a frame does not exist.
            DECORDError: If frames or samples cannot be decoded.
        """
        frames = self._video.get_batch(indices)
        return [self._audio_of(index) for index in self._video._exist(indices)], frames

    def _audio_of(self, index: int) -> Any:
        """Returns the samples of the time for which a frame is on screen."""
        frames = self._video._frames
        edges = frames.pts[index : index + 2]
        begin, end = edges if len(edges) == 2 else (edges[0], frames.video.info.end_seconds)
        first, last = (max(0, self._audio._time_to_sample(seconds)) for seconds in (begin, end))
        return self._audio[first:last]
