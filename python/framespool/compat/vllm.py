"""Video loading of vLLM over framespool.

vLLM loads :func:`register` by itself as a plugin; select the loader by the environment::

    VLLM_VIDEO_LOADER_BACKEND=framespool vllm serve Qwen/Qwen2.5-VL-7B-Instruct

Only the frames that are sampled are decoded, from the bytes in memory, without a temporary file and on any thread. They
are those of vLLM's loader ``"opencv"``. vLLM is imported when it is needed.
"""

from __future__ import annotations

import importlib
from typing import Any

from framespool.errors import ArgumentError
from framespool.video._video import Video

__all__ = ["load_bytes", "register"]

#: Limit of the frames of a request in bytes, unless ``max_bytes`` is given.
MAX_BYTES = 2 << 30


def register() -> None:
    """Registers the loader ``"framespool"`` in this process; vLLM calls it in each of its own.

    Raises:
        ImportError: If vLLM is not installed.

    Example:
        >>> from framespool.compat import vllm
        >>> vllm.register()  # doctest: +SKIP
    """
    video: Any = importlib.import_module("vllm.multimodal.video")

    def load(cls: Any, data: bytes, num_frames: int = -1, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        return load_bytes(data, num_frames, **kwargs)

    members = {"load_bytes": classmethod(load), "__doc__": "Decodes the sampled frames with framespool."}
    video.VIDEO_LOADER_REGISTRY.register("framespool")(type("FramespoolVideoLoader", (video.VideoLoader,), members))


def load_bytes(
    data: bytes, num_frames: int = -1, fps: float = -1, max_bytes: int = MAX_BYTES, **kwargs: Any
) -> tuple[Any, dict[str, Any]]:
    """Reads evenly spread frames of a video, as a loader of vLLM.

    Args:
        data: The contents of a video file.
        num_frames: Maximum number of frames; not positive for no limit.
        fps: Maximum number of frames per second of the video; not positive for no limit.
        max_bytes: Limit of the decoded frames in bytes: uploads are not trusted.
        kwargs: Further arguments of vLLM, which are not used.

    Returns:
        numpy.ndarray uint8 (T, H, W, 3), and the metadata ``total_num_frames``, ``fps``, ``duration`` in seconds,
        ``video_backend``, ``frames_indices`` and ``do_sample_frames``, which is true if all frames were read.

    Raises:
        ArgumentError: If the frames exceed ``max_bytes``.
        framespool.Error: If the video cannot be read.
    """
    video = Video(data, layout="THWC")
    total, rate = len(video), float(video.info.average_fps)
    duration = video.info.end_seconds - video.info.begin_seconds
    count = total
    if num_frames > 0:
        count = min(count, num_frames)
    if fps > 0:
        count = min(count, int(duration * fps))
    count = max(count, 1)
    # As numpy.linspace(0, total - 1, count, dtype=int), which truncates.
    step = (total - 1) / (count - 1) if count > 1 else 0.0
    indices = [int(number * step) for number in range(count - 1)] + [total - 1 if count > 1 else 0]
    size = count * video.info.height * video.info.width * 3
    if size > max_bytes:
        raise ArgumentError(
            f"{count} frames of {video.info.width}x{video.info.height} take {size} bytes, more than "
            f"max_bytes={max_bytes}; request fewer frames with num_frames or fps, or raise max_bytes"
        )
    frames = video.frames(indices).frames.numpy()
    metadata = {
        "total_num_frames": total,
        "fps": rate,
        "duration": duration,
        "video_backend": "framespool",
        "frames_indices": indices,
        "do_sample_frames": count == total,
    }
    return frames, metadata
