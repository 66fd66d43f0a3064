"""Opens videos from torchvision's arguments, and their timestamps in ticks."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

from framespool.compat._readahead import readable
from framespool.compat.torchcodec._torch import needed
from framespool.errors import NoVideoError
from framespool.video._video import Video

#: Largest relative difference of the rate that a file states from the rate of its frames.
MAX_RATE_DIFFERENCE = 0.02

_warned_of_audio = False


def open_video(source: Any, *, video_stream: int = 0, num_threads: int = 0) -> Video:
    """Opens a video stream.

    Args:
        source: A path, the bytes of a file, a uint8 tensor of them, an archive member or a file object.
        video_stream: Number of the stream among the video streams of the file.
        num_threads: Threads that decode the frames of one call; 0 for all cores, and for one in a DataLoader worker.

    Returns:
        The video.

    Raises:
        ValueError: If the source has another type, or is an empty path.
        Error: If the video cannot be opened, or has no such stream.
    """
    torch = needed("torchvision")
    if isinstance(source, torch.Tensor):
        if source.dtype != torch.uint8 or source.ndim != 1:
            raise ValueError(f"a tensor as src must be 1-D uint8, got {tuple(source.shape)} {source.dtype}")
        source = source.contiguous().numpy().tobytes()
    elif isinstance(source, str) and not source:
        raise ValueError("src cannot be empty")
    given = readable(source)
    if given is None:
        raise ValueError(
            f"src must be either a path, a uint8 tensor, bytes or a file object. Got {type(source).__name__}"
        )
    if num_threads <= 0:
        # A DataLoader has one worker per core or so: each with a thread per core would be too many.
        threads = 1 if torch.utils.data.get_worker_info() is not None else None
    else:
        threads = min(num_threads, 256)
    video = Video(given, num_threads=threads, hdr="ignore", layout="THWC")
    streams = video_streams(video)
    if not 0 <= video_stream < len(streams):
        raise NoVideoError(f"{video.info.path}: no stream video:{video_stream}; there are {len(streams)} video streams")
    if streams[video_stream] != video.info.stream:
        video = Video(given, num_threads=threads, stream=streams[video_stream], hdr="ignore", layout="THWC")
    warn_of_audio(video)
    return video


def video_streams(video: Video) -> list[int]:
    """Returns the video streams of a file.

    Args:
        video: The video.

    Returns:
        Indices among all streams, without cover art.
    """
    return [stream.index for stream in video.info.streams if stream.kind == "video"]


def warn_of_audio(video: Video) -> None:
    """Warns once per process that audio is not decoded.

    Args:
        video: The video.
    """
    global _warned_of_audio
    if not _warned_of_audio and any(stream.kind == "audio" for stream in video.info.streams):
        _warned_of_audio = True
        warnings.warn(
            f"{video.info.path} has audio, which framespool.compat.torchvision does not decode: audio tensors are "
            "empty. This is reported once per process.",
            UserWarning,
            stacklevel=4,
        )


def ticks(video: Video) -> list[int]:
    """Returns when each frame appears.

    Args:
        video: The video.

    Returns:
        Presentation times in units of ``video.info.time_base``, in ascending order.
    """
    num, den = video.info.time_base
    return [round(seconds * den / num) for seconds in video.pts_seconds]


def frame_rate(video: Video) -> float:
    """Returns the frame rate that FFmpeg reports as average, for files whose header is correct.

    Args:
        video: The video.

    Returns:
        Frames per second.
    """
    info = video.info
    num, den = info.time_base
    span = round(info.end_seconds * den / num) - round(info.begin_seconds * den / num)
    # In ticks, rounded once: whether the rate is a multiple of another one, which selects frames, must not depend on
    # rounded seconds.
    average = float(Fraction(info.num_frames * den, span * num)) if span > 0 else info.average_fps
    if info.container == "mov,mp4":
        return average
    # Matroska, FLV and WMV round times to milliseconds, which the clips of VideoClips would depend on.
    stated = video._video.header().get("frame_rate")
    if stated is not None and stated[1] and abs(stated[0] / stated[1] - average) <= MAX_RATE_DIFFERENCE * average:
        return float(stated[0] / stated[1])
    return average
