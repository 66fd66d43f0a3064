"""video_reader-rs: `PyVideoReader.get_batch`, resized by the reader's own scaler.

get_batch chooses between seeking and decoding from the start by its own estimate. bilinear (swscale, antialiased) was
the fastest filter, within the noise.
"""

from __future__ import annotations

import ctypes
import sysconfig
from importlib.metadata import version
from pathlib import Path

import numpy as np

from .base import Peer

# The wheel's libwebp does not find its libsharpyuv next to itself, so the import fails unless that is loaded already.
for library in Path(sysconfig.get_paths()["platlib"], "video_reader_rs.libs").glob("libsharpyuv-*"):
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)

from video_reader import PyVideoReader  # noqa: E402


class Adapter(Peer):
    name = "video_reader"

    def version(self) -> str:
        return f"{version('video-reader-rs')} (FFmpeg 8, in its wheel)"

    def open(self, path: str, size: int | None) -> PyVideoReader:
        return PyVideoReader(path, threads=1, target_width=size, target_height=size, resize_algo="bilinear")

    def read(self, reader: PyVideoReader, indices: list[int]) -> np.ndarray:
        return reader.get_batch(indices)
