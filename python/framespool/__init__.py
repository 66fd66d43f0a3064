"""Video clips and images for training: decoded exactly, delivered in a deterministic order."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from framespool import errors
from framespool._framespool import Tensor, __version__, remote_stats
from framespool.errors import (
    ArgumentError,
    CancelledError,
    ClipSamplingError,
    DecodeError,
    Error,
    ForkedError,
    FrameIndexError,
    FrameTimeError,
    GpuError,
    HdrWarning,
    InternalError,
    InvalidDataError,
    LimitError,
    NotFoundError,
    NoVideoError,
    ReadError,
    TruncatedError,
    UnavailableError,
    UnsupportedError,
)

#: Modules and the names that they define, which are imported on first access: a program pays only for what it uses.
_SUBMODULES = ("datasets", "gpu", "ray", "samplers", "transforms")
_NAMES = {
    "_analyze_access": ("AccessReport", "analyze_access"),
    "_batch_sampler": ("BatchSampler", "EpochBatches", "Mixture", "VideoWeights"),
    "_bench": ("BenchReport", "bench"),
    "_clip_loader": ("Batch", "ClipLoader"),
    "_doctor": ("Finding", "doctor"),
    "_images": ("ImageBatch", "ImageLoader", "decode_image", "decode_images"),
    "_preview": ("preview",),
    "_summary._distribution": ("Distribution",),
    "_summary._summarize": ("DatasetSummary",),
    "_transcode": ("TranscodeEstimate", "TranscodeReport", "estimate_transcode", "transcode"),
    "_validate_dataset": ("ValidationReport", "validate"),
    "_video": ("FrameBatch", "Video"),
    "_video_info": ("StreamInfo", "VideoInfo"),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}

if TYPE_CHECKING:
    from framespool import datasets as datasets
    from framespool import gpu as gpu
    from framespool import ray as ray
    from framespool import samplers as samplers
    from framespool import transforms as transforms
    from framespool._analyze_access import AccessReport, analyze_access
    from framespool._batch_sampler import BatchSampler, EpochBatches, Mixture, VideoWeights
    from framespool._bench import BenchReport, bench
    from framespool._clip_loader import Batch, ClipLoader
    from framespool._doctor import Finding, doctor
    from framespool._images import ImageBatch, ImageLoader, decode_image, decode_images
    from framespool._preview import preview
    from framespool._summary._distribution import Distribution
    from framespool._summary._summarize import DatasetSummary
    from framespool._transcode import TranscodeEstimate, TranscodeReport, estimate_transcode, transcode
    from framespool._validate_dataset import ValidationReport, validate
    from framespool._video import FrameBatch, Video
    from framespool._video_info import StreamInfo, VideoInfo
else:

    def __getattr__(name: str) -> Any:
        """Imports a module, or the module that defines the name, on first access."""
        if name in _SUBMODULES:
            return importlib.import_module(f"framespool.{name}")
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"framespool.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_MODULE_OF, *_SUBMODULES})


__all__ = [
    "ArgumentError",
    "Batch",
    "BenchReport",
    "ValidationReport",
    "ClipSamplingError",
    "ClipLoader",
    "DatasetSummary",
    "DecodeError",
    "Distribution",
    "EpochBatches",
    "Error",
    "ForkedError",
    "Finding",
    "FrameIndexError",
    "FrameTimeError",
    "FrameBatch",
    "GpuError",
    "HdrWarning",
    "ImageBatch",
    "ImageLoader",
    "InternalError",
    "CancelledError",
    "LimitError",
    "InvalidDataError",
    "Mixture",
    "VideoWeights",
    "NoVideoError",
    "NotFoundError",
    "BatchSampler",
    "TranscodeEstimate",
    "TranscodeReport",
    "AccessReport",
    "ReadError",
    "StreamInfo",
    "Tensor",
    "TruncatedError",
    "UnavailableError",
    "UnsupportedError",
    "Video",
    "VideoInfo",
    "__version__",
    "bench",
    "validate",
    "datasets",
    "decode_image",
    "decode_images",
    "doctor",
    "errors",
    "gpu",
    "transcode",
    "estimate_transcode",
    "preview",
    "analyze_access",
    "remote_stats",
    "samplers",
    "transforms",
]
