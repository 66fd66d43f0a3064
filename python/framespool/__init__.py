"""Video clips and images for training: decoded exactly, delivered in a deterministic order."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from framespool import datasets, errors, options, order, samplers, tools, transforms, video
from framespool import gpu as gpu
from framespool._common import tensor_methods
from framespool._framespool import __version__
from framespool.errors import Error
from framespool.loaders import _chunks as _chunks  # implements Video.chunks()
from framespool.loaders._audio import AudioLoader
from framespool.loaders._clips import Batch, ClipLoader, SampleBatch
from framespool.loaders._images import ImageBatch, ImageLoader, decode_image, decode_images
from framespool.loaders._views import View
from framespool.options import Audio, Buckets, BufferShuffle, Cache, Gpu, GroupedShuffle, PixelBudget, TokenBudget
from framespool.tools import _notebook as _notebook  # shows objects in notebooks
from framespool.video import Video

tensor_methods.add_methods()

#: Earlier and natural names at the root, and where they are or what replaces them.
_MOVED = {
    name: f"it is {module.__name__}.{name}"
    for module in (tools, order, errors, video, options)
    for name in module.__all__
} | {name: f"use {replacement}" for name, replacement in {**tools.REPLACED, **order.REPLACED}.items()}

if TYPE_CHECKING:
    from framespool import ray as ray
else:

    def __getattr__(name: str) -> Any:
        """Imports `framespool.ray` on first access, and says where a name is that is not here."""
        if name == "ray":
            return importlib.import_module("framespool.ray")
        hint = f"; {_MOVED[name]}" if name in _MOVED else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")

    def __dir__() -> list[str]:
        return sorted({*globals(), "ray"})


__all__ = [
    "Audio",
    "AudioLoader",
    "Batch",
    "Buckets",
    "BufferShuffle",
    "Cache",
    "ClipLoader",
    "Error",
    "Gpu",
    "GroupedShuffle",
    "ImageBatch",
    "ImageLoader",
    "PixelBudget",
    "SampleBatch",
    "TokenBudget",
    "Video",
    "View",
    "__version__",
    "datasets",
    "decode_image",
    "decode_images",
    "options",
    "samplers",
    "tools",
    "transforms",
]
