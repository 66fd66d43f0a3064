"""LeRobot's ``decode_video_frames_torchcodec`` over framespool, correct for variable frame rates too.

LeRobot's own function multiplies each timestamp by the average frame rate, takes the frame with that index, and fails
if its time is not within the tolerance; with a variable frame rate most are not. This one takes the frame nearest to
each timestamp. To use it::

    from lerobot.datasets import video_utils
    from framespool.compat.lerobot import decode_video_frames_torchcodec

    video_utils.decode_video_frames_torchcodec = decode_video_frames_torchcodec

``StreamingLeRobotDataset`` has the function in ``lerobot.datasets.streaming_dataset``.

It needs PyTorch. :func:`framespool.datasets.lerobot` reads complete LeRobot datasets for a loader, which decodes each
GOP once.
"""

from __future__ import annotations

import bisect
import logging
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from framespool._common.validate_args import display_path
from framespool.compat.torchcodec._torch import needed
from framespool.compat.torchcodec.decoders import VideoDecoder

__all__ = ["FrameTimestampError", "VideoDecoderCache", "decode_video_frames_torchcodec"]

_log = logging.getLogger(__name__)


class FrameTimestampError(ValueError):
    """No frame is within the tolerance of a timestamp; the message names both times.

    If LeRobot is imported, it is also LeRobot's error of that name.
    """


def _of_lerobot(name: str) -> tuple[type, ...]:
    """Returns LeRobot's own class of a name, if LeRobot is imported."""
    theirs = getattr(sys.modules.get("lerobot.datasets.video_utils"), name, None)
    return () if theirs is None else (theirs,)


#: For each class of LeRobot the one that is also ours.
_shared_errors: dict[type, type[FrameTimestampError]] = {}


def _error_class() -> type[FrameTimestampError]:
    """Returns the class of the errors that are raised."""
    theirs = next(iter(_of_lerobot("FrameTimestampError")), None)
    if theirs is None or issubclass(theirs, FrameTimestampError):
        return theirs or FrameTimestampError
    named = {"__module__": __name__, "__doc__": FrameTimestampError.__doc__}
    # One class only: pickle compares it with what the module has.
    return _shared_errors.setdefault(theirs, type("LeRobotFrameTimestampError", (FrameTimestampError, theirs), named))


def __getattr__(name: str) -> Any:
    """Returns the class of an error that another process has sent; it is ours where LeRobot is not imported."""
    if name == "LeRobotFrameTimestampError":
        return _error_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class VideoDecoderCache:
    """Caches the most recently used decoders by path.

    A forked process starts with an empty cache. It may be used from several threads.

    Args:
        max_size: Maximum number of decoders.

    Raises:
        ValueError: If ``max_size`` is below 1.
    """

    def __init__(self, max_size: int = 64) -> None:
        if max_size < 1:
            raise ValueError(f"max_size must be at least 1, got {max_size}")
        self.max_size = max_size
        self._lock = threading.Lock()
        self._held: OrderedDict[str, VideoDecoder] = OrderedDict()
        self._made_in = os.getpid()

    def get_decoder(self, video_path: str | os.PathLike[str]) -> VideoDecoder:
        """Returns the decoder of a video, which is opened if it is not cached.

        Args:
            video_path: Path of the video.

        Returns:
            The decoder.
        """
        path = os.fspath(video_path)
        self._after_fork()
        with self._lock:
            decoder = self._held.pop(path, None) or VideoDecoder(path)
            self._held[path] = decoder
            while len(self._held) > self.max_size:
                self._held.popitem(last=False)
        return decoder

    def clear(self) -> None:
        """Removes all decoders."""
        self._after_fork()
        with self._lock:
            self._held.clear()

    def size(self) -> int:
        """Returns the number of cached decoders.

        Returns:
            The number.
        """
        self._after_fork()
        return len(self._held)

    def _after_fork(self) -> None:
        """Empties the cache in a forked process, which can use neither the parent's decoders nor its lock."""
        if os.getpid() != self._made_in:
            self._lock, self._held, self._made_in = threading.Lock(), OrderedDict(), os.getpid()


_cache = VideoDecoderCache()


def decode_video_frames_torchcodec(
    video_path: str | os.PathLike[str],
    timestamps: Sequence[float],
    tolerance_s: float,
    log_loaded_timestamps: bool = False,
    decoder_cache: Any = None,
    return_uint8: bool = False,
) -> Any:
    """Decodes the frames nearest to these timestamps.

    Args:
        video_path: Path of the video.
        timestamps: Seconds on the video's clock, in any order; may repeat.
        tolerance_s: Maximum distance in seconds, exclusive, of a frame from its timestamp; also of the two rounded to
            float32, as LeRobot stores and compares them.
        log_loaded_timestamps: Whether the frames' times are logged, at level INFO.
        decoder_cache: Object with ``get_decoder(path)``. By default a cache of this module, which also takes the place
            of LeRobot's own: the decoders of that are torchcodec's.
        return_uint8: Values 0..255 instead of 0..1.

    Returns:
        torch.Tensor (N, 3, H, W), float32 in 0..1, or uint8; one frame per timestamp.

    Raises:
        FrameTimestampError: If a timestamp has no frame within the tolerance.
        RuntimeError: If the video cannot be opened or decoded.
    """
    torch = needed()
    is_ours = decoder_cache is not None and not isinstance(decoder_cache, _of_lerobot("VideoDecoderCache"))
    decoder = (decoder_cache if is_ours else _cache).get_decoder(video_path)
    times = decoder._pts
    places, far = [], []
    for wanted in map(float, timestamps):
        after = bisect.bisect_left(times, wanted)
        near = [place for place in (after - 1, after) if 0 <= place < len(times)]
        place = min(near, key=lambda place: abs(times[place] - wanted))
        rounded = torch.tensor([times[place], wanted], dtype=torch.float32)
        if not min(abs(times[place] - wanted), float(rounded.diff().abs())) < tolerance_s:
            far.append(f"{wanted} s (nearest frame: {times[place]} s)")
        places.append(place)
    if far:
        raise _error_class()(
            f"{display_path(os.fspath(video_path))}: no frame within {tolerance_s} s of {', '.join(far[:5])}"
            f"{f' and {len(far) - 5} more' if len(far) > 5 else ''}; check that the timestamps are this video's, "
            "skip the item, or increase tolerance_s"
        )
    if log_loaded_timestamps:
        _log.info("%s: frames at %s s", display_path(os.fspath(video_path)), [times[place] for place in places])
    frames = decoder.get_frames_at(places).data
    return frames if return_uint8 else frames.to(torch.float32) / 255
