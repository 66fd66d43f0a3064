"""torchvision's functions that read complete videos or ranges of them."""

from __future__ import annotations

import bisect
import math
import os
import warnings
from fractions import Fraction
from typing import Any

from framespool._common.validate_args import display_path
from framespool.compat.torchcodec._torch import needed
from framespool.compat.torchvision._open import frame_rate, open_video, ticks
from framespool.errors import Error

__all__ = ["read_video", "read_video_timestamps"]


def read_video(
    filename: Any,
    start_pts: float | Fraction = 0,
    end_pts: float | Fraction | None = None,
    pts_unit: str = "pts",
    output_format: str = "THWC",
) -> tuple[Any, Any, dict[str, Any]]:
    """Decodes the frames between two times, both included.

    If no frame appears exactly at ``start_pts`` and it is above 0, the frame before it is included.

    Args:
        filename: A path, or bytes, an archive member or a file object.
        start_pts: Time of the first frame: ticks of the stream's time base, or seconds.
        end_pts: Time of the last frame. ``None``: the end of the video.
        pts_unit: ``"pts"`` for ticks or ``"sec"`` for seconds, which are rounded to the ticks that include the range.
        output_format: ``"THWC"`` or ``"TCHW"``.

    Returns:
        The frames, torch.Tensor (T, H, W, 3) or (T, 3, H, W) uint8; the audio, always an empty torch.Tensor (1, 0)
        float32; and a dict with ``video_fps``, frames per second.

    Raises:
        ValueError: If an argument is invalid, or ``end_pts`` is less than ``start_pts``.
        RuntimeError: If the video cannot be opened or decoded.
        ImportError: If PyTorch is not installed.

    Example:
        >>> from framespool.compat.torchvision.io import read_video
        >>> frames, audio, info = read_video("a.mp4", start_pts=0.5, end_pts=1.0, pts_unit="sec")
        >>> frames.shape, info
        (torch.Size([13, 360, 640, 3]), {'video_fps': 24.0})
    """
    torch = needed("torchvision")
    layout = format_of(output_format)
    _check_unit(pts_unit)
    until = math.inf if end_pts is None else end_pts
    if until < start_pts:
        raise ValueError(f"end_pts should be larger than start_pts, got start_pts={start_pts} and end_pts={end_pts}")
    try:
        video = open_video(filename)
        if pts_unit == "sec":
            per_second = Fraction(video.info.time_base[1], video.info.time_base[0])
            start_pts = math.floor(start_pts * per_second)
            until = until if until == math.inf else math.ceil(until * per_second)
        selected = _between(ticks(video), start_pts, until)
        # torchvision's shape for no frames.
        none = torch.empty((0, 1, 1, 3), dtype=torch.uint8)
        frames = video.frames(selected).frames.torch() if selected else none
        info = {"video_fps": frame_rate(video)}
    except Error as reason:
        raise RuntimeError(str(reason)) from reason
    return (frames.permute(0, 3, 1, 2) if layout == "TCHW" else frames), no_audio(), info


def read_video_timestamps(filename: Any, pts_unit: str = "pts") -> tuple[list[Any], float | None]:
    """Returns when each frame appears, without decoding.

    Args:
        filename: A path, or bytes, an archive member or a file object.
        pts_unit: ``"pts"`` for ticks of the stream's time base, or ``"sec"`` for seconds.

    Returns:
        The times in ascending order, ints or ``Fraction`` of seconds, and the frames per second. An empty list and
        ``None`` if the file cannot be opened, with a RuntimeWarning.

    Raises:
        ValueError: If ``pts_unit`` is invalid, or ``filename`` has another type.
        ImportError: If PyTorch is not installed.

    Example:
        >>> from framespool.compat.torchvision.io import read_video_timestamps
        >>> times, fps = read_video_timestamps("a.mp4")
        >>> times[:3], fps
        ([0, 512, 1024], 24.0)
        >>> read_video_timestamps("a.mp4", pts_unit="sec")[0][:3]
        [Fraction(0, 1), Fraction(1, 24), Fraction(1, 12)]
    """
    _check_unit(pts_unit)
    try:
        video = open_video(filename)
        times, fps = ticks(video), frame_rate(video)
    except Error as reason:
        is_path = isinstance(filename, (str, os.PathLike))
        name = display_path(os.fspath(filename)) if is_path else type(filename).__name__
        warnings.warn(f"Failed to open container for {name}; Caught error: {reason}", RuntimeWarning, stacklevel=2)
        return [], None
    if pts_unit == "sec":
        time_base = Fraction(*video.info.time_base)
        return [tick * time_base for tick in times], fps
    return times, fps


def format_of(output_format: str) -> str:
    """Checks the order of the dimensions.

    Args:
        output_format: The order, in upper or lower case.

    Returns:
        ``"THWC"`` or ``"TCHW"``.

    Raises:
        ValueError: If it is another one.
    """
    layout = output_format.upper()
    if layout not in ("THWC", "TCHW"):
        raise ValueError(f"output_format should be either 'THWC' or 'TCHW', got {output_format}.")
    return layout


def no_audio() -> Any:
    """Returns the audio of a video without audio.

    Returns:
        torch.Tensor (1, 0) float32.
    """
    torch = needed("torchvision")
    return torch.empty((1, 0), dtype=torch.float32)


def _check_unit(pts_unit: str) -> None:
    if pts_unit not in ("pts", "sec"):
        raise ValueError(f"pts_unit should be either 'pts' or 'sec', got {pts_unit!r}")


def _between(times: list[int], start: float | Fraction, end: float | Fraction) -> range:
    """Returns the frames from the one on screen at `start` to the last one that appears until `end`."""
    first = bisect.bisect_left(times, start)
    if start > 0 and first > 0 and (first == len(times) or times[first] != start):
        first -= 1
    return range(first, max(first, bisect.bisect_right(times, end)))
