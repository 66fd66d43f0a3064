"""The interface of a peer: the given frames of a file, with one decoding thread."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np


class Peer(ABC):
    name: str

    def __init__(self) -> None:
        self._readers: dict[tuple[str, int | None], Any] = {}

    @abstractmethod
    def version(self) -> str:
        """Version of the library and, if it reports one, of its FFmpeg."""

    @abstractmethod
    def open(self, path: str, size: int | None) -> Any:
        """A reader of `path` whose frames are size x size, or unscaled if `size` is None."""

    @abstractmethod
    def read(self, reader: Any, indices: list[int]) -> np.ndarray:
        """The frames at these ascending indices in presentation order: uint8, (T, H, W, 3), RGB."""

    def num_frames(self, reader: Any) -> int:
        """Number of frames reported by the open reader."""
        raise NotImplementedError(f"{self.name} does not report the number of frames")

    def clip(self, path: str, indices: list[int], size: int | None = 224) -> np.ndarray:
        """Opens the file and reads, like a job that takes each clip from another file."""
        return self.read(self.open(path, size), indices)

    def warm_clip(self, path: str, indices: list[int], size: int | None = 224) -> np.ndarray:
        """Reads with a reader that stays open."""
        key = (path, size)
        if key not in self._readers:
            self._readers[key] = self.open(path, size)
        return self.read(self._readers[key], indices)
