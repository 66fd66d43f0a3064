"""The interface of a Python adapter: processes frames of the inputs, with one thread."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from inputs import CHECKED_FRAMES, CLIP, MEAN, NUM_FRAMES, SIDE, STD, Inputs

# Normalization as one multiplication and one addition on code values, per channel.
SCALE = (1 / (255 * STD)).astype(np.float32)
BIAS = (-MEAN / STD).astype(np.float32)


class BaseAdapter(ABC):
    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs

    @abstractmethod
    def version(self) -> str: ...

    @abstractmethod
    def prepare(self, case: str) -> None:
        """Untimed: preparations that serve all frames of a case."""

    @abstractmethod
    def run(self, ring: int, frames: int, first_clip: int) -> None:
        """Timed: processes `frames` frames of the prepared case, cycling through the first `ring` inputs.

        A new clip, with the next augmentation, starts every CLIP frames.
        """

    def check(self) -> np.ndarray:
        """Results of CHECKED_FRAMES, each of another clip: (4, 3, H, W) normalized, or (4, H, W, 3) code values."""
        raise NotImplementedError


class FrameAdapter(BaseAdapter):
    """An adapter that processes one frame at a time. Results are in a ring buffer as long as the inputs'."""

    _out: dict[str, np.ndarray]

    def __init__(self, inputs: Inputs) -> None:
        super().__init__(inputs)
        self._out = {}
        self.case = ""

    def prepare(self, case: str) -> None:
        self.case = case
        if case not in self._out:
            full = (NUM_FRAMES, self.inputs.height, self.inputs.width, 3)
            is_full = case.startswith("full")
            shape, dtype = (full, np.uint8) if is_full else ((NUM_FRAMES, 3, SIDE, SIDE), np.float32)
            # Ones, so that the pages are allocated.
            self._out[case] = np.ones(shape, dtype)

    def begin_clip(self, clip: int) -> None:
        pass

    @abstractmethod
    def frame(self, index: int, out: np.ndarray) -> None:
        """Converts one frame of the inputs into `out`."""

    def run(self, ring: int, frames: int, first_clip: int) -> None:
        out = self._out[self.case]
        for n in range(frames):
            if n % CLIP == 0:
                self.begin_clip(first_clip + n // CLIP)
            self.frame(n % ring, out[n % ring])

    def check(self) -> np.ndarray:
        results = []
        for clip, index in enumerate(CHECKED_FRAMES):
            self.begin_clip(clip)
            self.frame(index, self._out[self.case][index])
            results.append(self._out[self.case][index].copy())
        return np.stack(results)


def normalize(rgb: np.ndarray, out: np.ndarray) -> None:
    """(H, W, 3) code values to (3, H, W) floats, in two NumPy calls without temporaries: the fastest of six ways."""
    np.multiply(rgb.transpose(2, 0, 1), SCALE[:, None, None], out=out)
    np.add(out, BIAS[:, None, None], out=out)
