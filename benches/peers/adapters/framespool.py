"""framespool: `Video.frames` with the resize as its transform."""

from __future__ import annotations

import framespool as fsp
import numpy as np

from .base import Peer


class Adapter(Peer):
    name = "framespool"

    def version(self) -> str:
        return fsp.__version__

    def open(self, path: str, size: int | None) -> tuple[fsp.Video, list]:
        transforms = [] if size is None else [fsp.transforms.Resize((size, size))]
        # One thread, as for all peers, and no stored index unless FRAMESPOOL_INDEX names one.
        return fsp.Video(path, num_threads=1, layout="THWC"), transforms

    def num_frames(self, reader: tuple[fsp.Video, list]) -> int:
        return len(reader[0])

    def read(self, reader: tuple[fsp.Video, list], indices: list[int]) -> np.ndarray:
        video, transforms = reader
        return np.from_dlpack(video.frames(indices, transforms=transforms).frames)
