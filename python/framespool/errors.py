"""The errors of framespool, one class per kind, all derived from `Error`.

Each message names the file. The attributes of an error repeat what is known: `file`, `packet` and `frame`.
"""

from __future__ import annotations

__all__ = [
    "ArgumentError",
    "CancelledError",
    "ClipSamplingError",
    "DecodeError",
    "Error",
    "ForkedError",
    "FrameIndexError",
    "FrameTimeError",
    "GpuError",
    "HdrWarning",
    "InternalError",
    "InvalidDataError",
    "LimitError",
    "NoAudioError",
    "NoVideoError",
    "NotFoundError",
    "ReadError",
    "TruncatedError",
    "UnavailableError",
    "UnsupportedError",
]


class Error(Exception):
    """Base class of all errors of framespool.

    Attributes:
        file: Path of the file, if known.
        packet: Index of the packet in decode order, if known.
        frame: Index of the frame in presentation order, if known.
    """

    file: str | None = None
    packet: int | None = None
    frame: int | None = None


class NotFoundError(Error, FileNotFoundError):
    """The file does not exist."""


class ReadError(Error, OSError):
    """The operating system refused or failed to read."""


class UnavailableError(ReadError):
    """A server did not answer for as long as `options.OnError(outage=)` or `FRAMESPOOL_REMOTE_TIMEOUT` permits.

    It is always raised: `on_error` does not omit or replace clips because of an outage.
    """


class InvalidDataError(Error):
    """The data is not a valid video or image."""


class TruncatedError(InvalidDataError):
    """The file ends earlier than its header states."""


class NoVideoError(Error):
    """The container has no video stream."""


class NoAudioError(Error):
    """The file has no audio stream."""


class UnsupportedError(Error):
    """The data is valid, but this build does not support it (a codec, a pixel format, a device)."""


class DecodeError(Error):
    """A frame could not be decoded exactly; frames that may refer to it are not delivered either."""


class LimitError(Error):
    """A number in the file exceeds the limit that protects memory."""


class FrameIndexError(Error, IndexError):
    """The video does not have a frame with this index."""


class FrameTimeError(Error, ValueError):
    """The video shows no frame at this time."""


class ArgumentError(Error, ValueError):
    """An argument is invalid; the message repeats its value."""


class ClipSamplingError(ArgumentError):
    """The video cannot give the requested clip: it is too short, or smaller than a crop."""


class ForkedError(Error, RuntimeError):
    """An object was used after `os.fork()`, which its threads do not survive."""


class GpuError(Error, RuntimeError):
    """The GPU or its driver failed: no driver, no such device, out of memory, or a failed call."""


class CancelledError(Error, RuntimeError):
    """The work was canceled by the caller, who closed the object or started a newer iterator of the same loader."""


class InternalError(Error, RuntimeError):
    """A bug in framespool, reported instead of hanging."""


class HdrWarning(UserWarning):
    """Video with a PQ or HLG transfer function was converted as if it had standard dynamic range.

    It is given once per process, for the first such file. `transforms.ToneMap` converts such video;
    `Video(hdr="ignore")` suppresses the warning, and for loaders Python's filter of warnings does.
    """


#: The class for each kind that the engine names.
BY_KIND: dict[str, type[Error]] = {
    "not_found": NotFoundError,
    "io": ReadError,
    "unavailable": UnavailableError,
    "invalid_data": InvalidDataError,
    "truncated": TruncatedError,
    "no_video": NoVideoError,
    "no_audio": NoAudioError,
    "unsupported": UnsupportedError,
    "decode": DecodeError,
    "limit": LimitError,
    "frame_index": FrameIndexError,
    "frame_time": FrameTimeError,
    "clip_sampling": ClipSamplingError,
    "argument": ArgumentError,
    "forked": ForkedError,
    "gpu": GpuError,
    "cancelled": CancelledError,
    "internal": InternalError,
}
