"""Video reading of Hugging Face's transformers over framespool.

:func:`install` makes video processors, and with them ``processor.apply_chat_template``, decode videos with framespool::

    from framespool.compat import transformers

    transformers.install()

Only the frames that a model samples are decoded, also from bytes in memory. The frames and the metadata are those of
the backend ``"torchcodec"``, except for the rounding of colors. An unreadable video is an error that names it.
transformers and PyTorch are imported when they are needed.
"""

from __future__ import annotations

import importlib
import io
import os
from collections.abc import Callable
from typing import Any

from framespool.compat.torchcodec._torch import needed
from framespool.video._video import Video

__all__ = ["install", "read_video"]


def install() -> None:
    """Makes transformers decode videos with framespool in this process.

    Registers :func:`read_video` as the backend ``"framespool"`` of ``transformers.video_utils.load_video``, and selects
    it for video processors, which then need neither torchcodec nor torchvision's reader.

    Raises:
        ImportError: If transformers is not installed.

    Example:
        >>> from framespool.compat import transformers
        >>> transformers.install()  # doctest: +SKIP
    """
    utils: Any = importlib.import_module("transformers.video_utils")
    processing: Any = importlib.import_module("transformers.video_processing_utils")
    utils.VIDEO_DECODERS["framespool"] = read_video

    def load_video(video: Any, *arguments: Any, **keywords: Any) -> Any:
        return utils.load_video(video, *arguments, **{**keywords, "backend": "framespool"})

    processing.load_video = load_video
    # The processors check this before they select a backend. Its name in Transformers 5.0 is the second one.
    usable = "is_torchcodec_usable" if hasattr(processing, "is_torchcodec_usable") else "is_torchcodec_available"
    setattr(processing, usable, lambda *arguments, **keywords: True)


def read_video(video_path: Any, sample_indices_fn: Callable[..., Any], **kwargs: Any) -> tuple[Any, Any]:
    """Reads the sampled frames of a video, as a backend of ``transformers.video_utils.load_video``.

    Args:
        video_path: A path, bytes, or an ``io.BytesIO`` of a file that transformers has fetched.
        sample_indices_fn: Function of ``metadata`` and the further arguments that returns frame indices.
        kwargs: Further arguments of that function; ``device`` is also that of the frames, ``"cpu"`` or as ``"cuda:0"``.

    Returns:
        torch.Tensor uint8 (T, C, H, W), and the ``VideoMetadata``.

    Raises:
        framespool.Error: If the video cannot be read; the message names it.
    """
    needed("transformers")
    utils: Any = importlib.import_module("transformers.video_utils")
    if isinstance(video_path, io.BytesIO):
        video_path = video_path.getvalue()
    source = video_path if isinstance(video_path, bytes) else os.fspath(video_path)
    device = str(kwargs.get("device") or "cpu")
    video = Video(source, device=device)
    info = video.info
    metadata = utils.VideoMetadata(
        total_num_frames=len(video),
        fps=float(info.average_fps),
        duration=info.end_seconds - info.begin_seconds,
        video_backend="framespool",
        height=info.height,
        width=info.width,
    )
    indices = sample_indices_fn(metadata=metadata, **kwargs)
    metadata.frames_indices = indices
    frames = video.frames([int(index) for index in indices]).frames
    return frames.torch(), metadata
