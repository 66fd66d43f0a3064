"""Video clips and images for training: decoded exactly, delivered in a deterministic order."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from framespool import _tensor_methods, datasets, errors, gpu, samplers, transforms
from framespool._batch_sampler import BatchSampler, EpochBatches, Mixture, VideoWeights
from framespool._cache import Cache
from framespool._clip_loader import Batch, ClipLoader
from framespool._framespool import Tensor, __version__, remote_stats
from framespool._images import ImageBatch, ImageLoader, decode_image, decode_images
from framespool._video import FrameBatch, Video
from framespool._video_info import StreamInfo, VideoInfo
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

_tensor_methods.add_methods()

#: Names of tools, which a training run does not import, and the modules that define them.
_TOOLS = {
    "AccessReport": "_analyze_access",
    "analyze_access": "_analyze_access",
    "BenchReport": "_bench",
    "bench": "_bench",
    "Finding": "_doctor",
    "doctor": "_doctor",
    "preview": "_preview",
    "Distribution": "_summary._distribution",
    "DatasetSummary": "_summary._summarize",
    "TranscodeEstimate": "_transcode",
    "TranscodeReport": "_transcode",
    "estimate_transcode": "_transcode",
    "transcode": "_transcode",
    "ValidationReport": "_validate_dataset",
    "validate": "_validate_dataset",
}

if TYPE_CHECKING:
    from framespool import ray as ray
    from framespool._analyze_access import AccessReport, analyze_access
    from framespool._bench import BenchReport, bench
    from framespool._doctor import Finding, doctor
    from framespool._preview import preview
    from framespool._summary._distribution import Distribution
    from framespool._summary._summarize import DatasetSummary
    from framespool._transcode import TranscodeEstimate, TranscodeReport, estimate_transcode, transcode
    from framespool._validate_dataset import ValidationReport, validate
else:

    def __getattr__(name: str) -> Any:
        """Imports `framespool.ray` and the tools on first access."""
        if name == "ray":
            return importlib.import_module("framespool.ray")
        if name not in _TOOLS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"framespool.{_TOOLS[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_TOOLS, "ray"})


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
    "Cache",
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
