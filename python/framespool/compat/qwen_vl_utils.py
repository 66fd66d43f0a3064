"""Video reading of qwen-vl-utils over framespool.

:func:`install` makes ``qwen_vl_utils.process_vision_info`` decode videos with framespool::

    from framespool.compat import qwen_vl_utils

    qwen_vl_utils.install()

Frames are chosen as qwen-vl-utils' torchcodec and decord readers do. :func:`fetch_video` resizes while it decodes: its
size is that of the original, its values differ from the original's bicubic resize by less than one level of 255 on
average. An unreadable video is an error that names the file; the original then tries torchvision's reader, which
torchvision 0.28 removed. qwen-vl-utils and PyTorch are imported when they are needed.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any

from framespool.compat.torchcodec._torch import needed
from framespool.errors import ArgumentError
from framespool.samplers import presets
from framespool.transforms import Resize
from framespool.video._video import Video

__all__ = ["fetch_video", "install", "read_video"]

#: Keys of a video's dict that select its frames.
_SAMPLING = ("fps", "nframes", "min_frames", "max_frames", "video_start", "video_end")


def install() -> None:
    """Makes qwen-vl-utils decode videos with framespool in this process.

    Registers :func:`read_video` as the reader ``"framespool"``, selects it, and replaces ``fetch_video`` by
    :func:`fetch_video`.

    Raises:
        ImportError: If qwen-vl-utils is not installed.

    Example:
        >>> from framespool.compat import qwen_vl_utils
        >>> qwen_vl_utils.install()  # doctest: +SKIP
    """
    vision_process = _vision_process()
    vision_process.VIDEO_READER_BACKENDS["framespool"] = read_video
    vision_process.FORCE_QWENVL_VIDEO_READER = "framespool"
    vision_process.get_video_reader_backend.cache_clear()
    if vision_process.fetch_video is not fetch_video:
        _originals["fetch_video"] = vision_process.fetch_video
        vision_process.fetch_video = fetch_video


#: Functions of qwen-vl-utils that were replaced, by name.
_originals: dict[str, Any] = {}


def read_video(ele: Mapping[str, Any]) -> tuple[Any, dict[str, Any], float]:
    """Reads the frames of a video at full size, as a reader of qwen-vl-utils does.

    Args:
        ele: The dict of a video: ``video`` (a path, ``file://`` or ``https://`` address) and optionally ``fps`` or
            ``nframes``, ``min_frames``, ``max_frames``, ``video_start`` and ``video_end`` in seconds.

    Returns:
        torch.Tensor uint8 (T, C, H, W), the metadata ``fps``, ``frames_indices``, ``total_num_frames`` and
        ``video_backend``, and the rate of the chosen frames per second.

    Raises:
        ClipSamplingError: If the video has fewer frames than requested, or none in the range.
        framespool.Error: If the video cannot be read; the message names it.
    """
    needed("qwen_vl_utils")
    video, indices, metadata, rate = _sampled(ele)
    return video.frames(indices).frames.torch(), metadata, rate


def fetch_video(
    ele: Mapping[str, Any],
    image_patch_size: int = 14,
    return_video_sample_fps: bool = False,
    return_video_metadata: bool = False,
) -> Any:
    """Reads and resizes the frames of a video, as ``qwen_vl_utils.vision_process.fetch_video`` does.

    Args:
        ele: The dict of a video, as for :func:`read_video`; also ``min_pixels``, ``max_pixels`` and ``total_pixels``,
            or ``resized_height`` and ``resized_width``. A list of images as ``video`` goes to qwen-vl-utils.
        image_patch_size: Side of a patch in pixels, 14 for Qwen2-VL and Qwen2.5-VL, 16 for Qwen3-VL.
        return_video_sample_fps: Also return the rate of the frames.
        return_video_metadata: Also return the metadata.

    Returns:
        torch.Tensor float32 (T, C, H, W), 0 to 255; with metadata a pair (frames, metadata); with the rate a pair of
        that and the rate.

    Raises:
        ArgumentError: If the size cannot be computed.
        framespool.Error: As for :func:`read_video`.
    """
    if not isinstance(ele["video"], str):
        original = _originals.get("fetch_video") or _vision_process().fetch_video
        return original(ele, image_patch_size, return_video_sample_fps, return_video_metadata)
    torch = needed("qwen_vl_utils")
    vision_process = _vision_process()
    video, indices, metadata, rate = _sampled(ele)
    factor = image_patch_size * vision_process.SPATIAL_MERGE_SIZE
    try:
        if "resized_height" in ele and "resized_width" in ele:
            size = vision_process.smart_resize(ele["resized_height"], ele["resized_width"], factor=factor)
        else:
            least = ele.get("min_pixels", vision_process.VIDEO_MIN_TOKEN_NUM * factor**2)
            total = ele.get("total_pixels", vision_process.MODEL_SEQ_LEN * factor**2 * 0.9)
            share = total / len(indices) * vision_process.FRAME_FACTOR
            most = max(min(vision_process.VIDEO_MAX_TOKEN_NUM * factor**2, share), int(least * 1.05))
            most = min(ele.get("max_pixels", most), most)
            height, width = video.info.height, video.info.width
            size = vision_process.smart_resize(height, width, factor, min_pixels=least, max_pixels=most)
    except (AssertionError, ValueError) as reason:
        raise ArgumentError(f"{ele['video']}: qwen-vl-utils gives it no size: {reason}") from reason
    frames = video.frames(indices, transforms=[Resize(size, interpolation="bicubic")]).frames
    result: Any = frames.torch().to(torch.float32)
    if return_video_metadata:
        result = result, metadata
    return (result, rate) if return_video_sample_fps else result


def _vision_process() -> Any:
    """The module of qwen-vl-utils, which is not needed for `read_video`."""
    return importlib.import_module("qwen_vl_utils.vision_process")


def _sampled(ele: Mapping[str, Any]) -> tuple[Video, list[int], dict[str, Any], float]:
    """The video, its chosen frames, their metadata and their rate."""
    # The rest is a path as it stands, also with characters that have a meaning in URLs.
    video = Video(os.fspath(ele["video"]).removeprefix("file://"))
    rate = float(video.info.average_fps)
    given = {name: ele[name] for name in _SAMPLING if ele.get(name) is not None}
    if len(video) == 1:
        given = {"nframes": 2}  # an error, as in the original, which reads images elsewhere
    indices = presets.qwen_vl(**given).indices(len(video), fps=rate).indices
    # The segment, whose first and last frame are always chosen.
    total = indices[-1] - indices[0] + 1
    metadata = {
        "fps": rate,
        "frames_indices": indices,
        "total_num_frames": total,
        "video_backend": "framespool",
    }
    return video, indices, metadata, len(indices) / total * rate
