"""What every peer is asked: these frames of this file, with one decoding thread."""

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
        """Version of the library and, where it tells, of the FFmpeg it runs."""

    @abstractmethod
    def open(self, path: str, size: int | None) -> Any:
        """A reader of `path` whose frames come as size x size, or as they are if `size` is None."""

    @abstractmethod
    def read(self, reader: Any, indices: list[int]) -> np.ndarray:
        """The frames at these ascending display indices: uint8, (T, H, W, 3), RGB."""

    def num_frames(self, reader: Any) -> int:
        """How many frames the open reader says there are."""
        raise NotImplementedError(f"{self.name} is not asked for the number of frames")

    def clip(self, path: str, indices: list[int], size: int | None = 224) -> np.ndarray:
        """Opens the file and reads, as a job does that takes each clip from another file."""
        return self.read(self.open(path, size), indices)

    def warm_clip(self, path: str, indices: list[int], size: int | None = 224) -> np.ndarray:
        """Reads with a reader that stays open."""
        key = (path, size)
        if key not in self._readers:
            self._readers[key] = self.open(path, size)
        return self.read(self._readers[key], indices)
