"""The audio of clips."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from framespool._common.validate_args import choice, integer, number, span, stream_index


@dataclass(frozen=True)
class Audio:
    """The audio of the clips of a loader, `ClipLoader(audio=...)`, or of the windows of an `AudioLoader`.

    `batch.audio` is (N, C, S) float32, from -1 to 1, and `batch.audio_mask` (N, S) bool, false where the file has no
    audio: before its begin, after its end and in gaps.

    It is the audio of the time that a clip spans on the clock of the file: from the start of its first frame, each
    frame lasting until the next one of the clip. With `fps` of the clip sampler that is `sequence_length / fps`
    seconds for every clip; otherwise S is that of the longest clip of the batch.

    Clips that are reversed, or whose frames have gaps, have the audio of the whole time in its own direction and speed.

    Samples are exact: encoder delay and padding are removed, and sample *n* of a file does not depend on what was
    read before it. They are resampled on a grid that begins with the audio of the file. See docs/howto/audio.md.

    Args:
        sample_rate: Samples per second, 1 to 768000.
        channels: Number of channels: 1, 2, or that of all files. Channels are mixed as by FFmpeg's `-ac`.
        seconds: Length, in place of the time that the clip spans; of an `AudioLoader`, that of a window, or `None` for
            whole files.
        align: Where a length in `seconds` lies: `"start"`, it begins with the clip; `"center"`, its center is that of
            the clip. Not for an `AudioLoader`.
        shift: Largest random shift of the begin, earlier or later, in seconds, drawn for each clip and epoch. With
            `padding="drop"` of an `AudioLoader`, a window stays inside the file or the segment.
        gain: Range (low, high) in dB of a random gain, drawn for each clip and epoch. Samples may then exceed 1.
        missing: What a file without audio is: `"error"`, a `NoAudioError`, to which `on_error` of the loader applies;
            `"zeros"`, silence.
        stream: Index of the audio stream among all streams of a file (`video.info.streams`). `None`: the stream that
            FFmpeg's `av_find_best_stream` selects.

    Raises:
        ArgumentError: If a value is invalid.

    Example:
        >>> import framespool as fsp
        >>> loader = fsp.ClipLoader(
        ...     ["talk.mp4"],
        ...     fsp.samplers.RandomClips(sequence_length=8, fps=8),
        ...     batch_size=1,
        ...     audio=fsp.Audio(sample_rate=16000),
        ... )
        >>> batch = next(iter(loader))
        >>> batch.audio.shape, batch.audio_mask.shape
        ((1, 1, 16000), (1, 16000))
    """

    sample_rate: int = 16000
    channels: int = 1
    seconds: float | None = None
    align: Literal["start", "center"] = "start"
    shift: float = 0.0
    gain: tuple[float, float] = (0.0, 0.0)
    missing: Literal["error", "zeros"] = "error"
    stream: int | None = None

    def __post_init__(self) -> None:
        integer("sample_rate", self.sample_rate, least=1, most=768_000)
        integer("channels", self.channels, least=1, most=64)
        if self.seconds is not None:
            number("seconds", self.seconds, above=0.0, most=3600.0)
        choice("align", self.align, ("start", "center"))
        number("shift", self.shift, least=0.0, most=3600.0)
        object.__setattr__(self, "gain", span("gain", self.gain, least=-120.0, most=120.0))
        choice("missing", self.missing, ("error", "zeros"))
        stream_index(self.stream)

    def _for_engine(self, clip_sampler: Any) -> dict[str, Any]:
        """The settings of the engine, for the clips of a clip sampler."""
        fps = getattr(clip_sampler, "fps", None)
        return {
            "sample_rate": int(self.sample_rate),
            "channels": int(self.channels),
            "seconds": None if self.seconds is None else float(self.seconds),
            "fps": None if fps is None else float(fps),
            "view_fps": [],
            "shift": float(self.shift),
            "gain": self.gain,
            "centered": self.align == "center",
            "stream": None if self.stream is None else int(self.stream),
            "allows_silence": self.missing == "zeros",
        }
