"""Video loading of vLLM over framespool.

vLLM loads :func:`register` by itself as a plugin; select the loader by the environment::

    VLLM_VIDEO_LOADER_BACKEND=framespool vllm serve Qwen/Qwen2.5-VL-7B-Instruct

The frames are those that vLLM's own loaders select: evenly spread ones, or for Qwen2.5-VL and Qwen3-VL those of
transformers' processors. To serve with the clip sampler of a training, name it::

    --media-io-kwargs '{"video": {"video_backend": "framespool", "clip_sampler": {"preset": "qwen_vl", "fps": 2.0}}}'

Only the frames that are sampled are decoded, from the bytes in memory, without a temporary file and on any thread. vLLM
is imported when it is needed.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from framespool import _framespool
from framespool.errors import ArgumentError
from framespool.samplers import ClipSampler, presets
from framespool.video._video import Video

__all__ = ["load_bytes", "register"]

#: Limit of the frames of a request in bytes, unless ``max_bytes`` is given.
MAX_BYTES = 2 << 30
#: The preset of each loader that vLLM has for some models, and its options.
_MODEL_LOADERS = {
    "qwen2_vl": ("hf_qwen2_vl", ("min_frames", "max_frames", "temporal_patch_size")),
    "qwen3_vl": ("hf_qwen3_vl", ("min_frames", "max_frames")),
}
#: An entry for each request that is being decoded; a list, which needs no lock.
_running: list[None] = []
os.register_at_fork(after_in_child=_running.clear)


def register() -> None:
    """Registers the loader ``"framespool"`` in this process; vLLM calls it in each of its own.

    Newer releases of vLLM choose the loader of some models by their video processor and then ignore
    ``VLLM_VIDEO_LOADER_BACKEND``. If that is ``framespool``, the loaders ``"framespool_qwen2_vl"`` and
    ``"framespool_qwen3_vl"`` take the place of vLLM's ``"qwen2_vl"`` and ``"qwen3_vl"``.

    Raises:
        ImportError: If vLLM is not installed.

    Example:
        >>> from framespool.compat import vllm
        >>> vllm.register()  # doctest: +SKIP
    """
    video: Any = importlib.import_module("vllm.multimodal.video")
    registry = video.VIDEO_LOADER_REGISTRY

    def loader(load: Any) -> type:
        members = {"load_bytes": staticmethod(load), "__doc__": "Decodes the sampled frames with framespool."}
        return type("FramespoolVideoLoader", (video.VideoLoader,), members)

    registry.register("framespool")(loader(load_bytes))
    is_selected = os.environ.get("VLLM_VIDEO_LOADER_BACKEND") == "framespool"
    by_processor = dict(getattr(registry, "processor2backend", {}))
    for name in _MODEL_LOADERS:
        processors = tuple(each for each, used in by_processor.items() if used == name)
        selects = {"video_processor": processors} if processors and is_selected else {}
        registry.register(f"framespool_{name}", **selects)(loader(partial(_load_for_model, name)))


def load_bytes(
    data: bytes,
    num_frames: int = -1,
    fps: float = -1,
    max_bytes: int = MAX_BYTES,
    clip_sampler: ClipSampler | Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> tuple[Any, dict[str, Any]]:
    """Reads the frames of a video that a clip sampler selects, or evenly spread ones, as a loader of vLLM.

    Args:
        data: The contents of a video file.
        num_frames: Maximum number of frames; not positive for no limit.
        fps: Maximum number of frames per second of the video; not positive for no limit.
        max_bytes: Limit of the decoded frames in bytes: uploads are not trusted.
        clip_sampler: Selects the frames instead of ``num_frames`` and ``fps``, by the number of frames and the average
            rate: a clip sampler with one clip per video, or a dict with the name of a ``preset`` and its options.
        kwargs: Further arguments of vLLM, which are not used.

    Returns:
        numpy.ndarray uint8 (T, H, W, 3), and the metadata ``total_num_frames``, ``fps``, ``duration`` in seconds,
        ``video_backend``, ``frames_indices`` and ``do_sample_frames``, true if all frames were read without a clip
        sampler: then the processor selects frames.

    Raises:
        ArgumentError: If the frames exceed ``max_bytes``, or an option is invalid.
        ClipSamplingError: If the video cannot give the clip.
        framespool.Error: If the video cannot be read.

    Example:
        >>> from framespool.compat import vllm
        >>> with open("a.mp4", "rb") as file:
        ...     frames, metadata = vllm.load_bytes(file.read(), num_frames=4)
        >>> frames.shape, metadata["frames_indices"]
        ((4, 360, 640, 3), [0, 23, 47, 71])
    """
    _running.append(None)
    try:
        # Concurrent requests share the cores.
        num_threads = max(1, _framespool.cores() // len(_running))
        return _load(Video(data, layout="THWC", num_threads=num_threads), num_frames, fps, max_bytes, clip_sampler)
    finally:
        _running.pop()


def _load(
    video: Video, num_frames: int, fps: float, max_bytes: int, clip_sampler: ClipSampler | Mapping[str, Any] | None
) -> tuple[Any, dict[str, Any]]:
    total, rate = len(video), float(video.info.average_fps)
    if clip_sampler is None:
        most = min(num_frames, total) if num_frames > 0 else None
        sampler: ClipSampler = presets.vllm(num_frames=most, fps=fps if fps > 0 else None)
    else:
        sampler = clip_sampler if isinstance(clip_sampler, ClipSampler) else _preset(clip_sampler)
    indices = sampler.indices(total, fps=rate).indices
    count = len(indices)
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
        "duration": video.info.end_seconds - video.info.begin_seconds,
        "video_backend": "framespool",
        "frames_indices": indices,
        "do_sample_frames": clip_sampler is None and count == total,
    }
    return frames, metadata


def _load_for_model(name: str, data: bytes, /, num_frames: int = -1, fps: float = 2, **kwargs: Any) -> Any:
    """Reads the frames of vLLM's loader of a model, which depend on the rate only."""
    preset, options = _MODEL_LOADERS[name]
    given = {each: kwargs.pop(each) for each in options if each in kwargs}
    return load_bytes(data, **{"clip_sampler": {"preset": preset, "fps": fps, **given}, **kwargs})


def _preset(options: Mapping[str, Any]) -> ClipSampler:
    """The preset that a dict names."""
    given = dict(options)
    name = given.pop("preset", None)
    if name not in presets.__all__:
        raise ArgumentError(f"clip_sampler must name a preset, such as {{'preset': 'qwen_vl'}}, got {options!r}")
    try:
        sampler: ClipSampler = getattr(presets, name)(**given)
    except TypeError as error:
        raise ArgumentError(f"clip_sampler: {error}; see samplers.presets.{name}") from error
    return sampler
