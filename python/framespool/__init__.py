"""framespool: decode once, deliver shuffled. Video clips for training, exact and in order."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from framespool import datasets, errors, gpu, sampling, transforms
from framespool._bench import BenchReport, bench
from framespool._checking import CheckReport, check
from framespool._doctor import Finding, doctor
from framespool._framespool import Tensor, __version__, remote_stats
from framespool._images import ImageBatch, ImageLoader, decode_image, decode_images
from framespool._loader import Batch, ClipLoader
from framespool._order import Epoch, Mix, Order
from framespool._prepare import PrepareForecast, PrepareReport, prepare, prepare_forecast
from framespool._preview import preview
from framespool._probe import Probe, probe
from framespool._video import Frames, StreamInfo, Video, VideoInfo
from framespool.errors import (
    ArgumentError,
    ClipError,
    DecodeError,
    Error,
    ForkedError,
    FrameIndexError,
    FrameTimeError,
    GpuError,
    HdrWarning,
    InternalError,
    InterruptedReadError,
    LimitError,
    MalformedError,
    NotFoundError,
    NoVideoError,
    ReadError,
    TruncatedError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from framespool import ray as ray
else:

    def __getattr__(name: str) -> Any:
        """``framespool.ray``, when it is first asked for."""
        if name == "ray":
            return importlib.import_module("framespool.ray")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "ArgumentError",
    "Batch",
    "BenchReport",
    "CheckReport",
    "ClipError",
    "ClipLoader",
    "DecodeError",
    "Epoch",
    "Error",
    "ForkedError",
    "Finding",
    "FrameIndexError",
    "FrameTimeError",
    "Frames",
    "GpuError",
    "HdrWarning",
    "ImageBatch",
    "ImageLoader",
    "InternalError",
    "InterruptedReadError",
    "LimitError",
    "MalformedError",
    "Mix",
    "NoVideoError",
    "NotFoundError",
    "Order",
    "PrepareForecast",
    "PrepareReport",
    "Probe",
    "ReadError",
    "StreamInfo",
    "Tensor",
    "TruncatedError",
    "UnsupportedError",
    "Video",
    "VideoInfo",
    "__version__",
    "bench",
    "check",
    "datasets",
    "decode_image",
    "decode_images",
    "doctor",
    "errors",
    "gpu",
    "prepare",
    "prepare_forecast",
    "preview",
    "probe",
    "remote_stats",
    "sampling",
    "transforms",
]
