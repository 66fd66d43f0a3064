"""Everything that framespool raises, one class per kind, all under :class:`Error`.

Each error names its file in the message and, where known, in its attributes: ``file`` (str), ``packet`` (decode
index) or ``frame`` (display index).
"""

from __future__ import annotations


class Error(Exception):
    """Base of all errors of framespool."""

    file: str | None = None
    packet: int | None = None
    frame: int | None = None


class NotFoundError(Error, FileNotFoundError):
    """The file does not exist."""


class ReadError(Error, OSError):
    """The operating system refused or failed to read."""


class InvalidDataError(Error):
    """The bytes are not a video that can be understood."""


class TruncatedError(InvalidDataError):
    """The file ends before what its header promises."""


class NoVideoError(Error):
    """The container holds no video stream."""


class UnsupportedError(Error):
    """Understood, but beyond what this build does (a codec, a pixel format, a device)."""


class DecodeError(Error):
    """A picture could not be decoded exactly; frames that may refer to it are not delivered either."""


class LimitError(Error):
    """A number in the file is beyond the cap that protects memory."""


class FrameIndexError(Error, IndexError):
    """A frame number that the video does not have."""


class FrameTimeError(Error, ValueError):
    """A time at which no frame of the video is on screen."""


class ArgumentError(Error, ValueError):
    """An argument is wrong; the message repeats its value."""


class ClipSamplingError(ArgumentError):
    """This video cannot give the clip that was asked for: it is too short, or smaller than a crop."""


class ForkedError(Error, RuntimeError):
    """An object was carried across ``os.fork()``, which its threads do not survive."""


class GpuError(Error, RuntimeError):
    """The GPU or its driver refused or failed: no driver, no such device, no memory left, a call that failed."""


class CancelledError(Error):
    """The work was stopped from outside."""


class InternalError(Error, RuntimeError):
    """A bug of framespool, reported instead of hanging."""


class HdrWarning(UserWarning):
    """Video whose transfer function is PQ or HLG was converted as if it were of standard dynamic range.

    Given once per process, for the first such file. :class:`framespool.transforms.ToneMap` converts it properly;
    ``hdr="ignore"`` says that the values are meant as they are.
    """


#: The class for each kind that the engine names.
BY_KIND: dict[str, type[Error]] = {
    "not_found": NotFoundError,
    "io": ReadError,
    "invalid_data": InvalidDataError,
    "truncated": TruncatedError,
    "no_video": NoVideoError,
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
