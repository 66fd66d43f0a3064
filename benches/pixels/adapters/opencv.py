"""OpenCV: cvtColor from I420 at full size, then resize, normalized by NumPy.

`direct` and `crop` resize with INTER_AREA, its antialiasing filter; `-linear` with INTER_LINEAR, its default, which
aliases. cvtColor only supports limited-range BT.601: on most HD video its colors are wrong, at the same speed.
"""

from __future__ import annotations

import cv2
import numpy as np
from inputs import CORNER, RESIZED, SIDE, Inputs

from .base import FrameAdapter, normalize


class Adapter(FrameAdapter):
    def __init__(self, inputs: Inputs) -> None:
        super().__init__(inputs)
        cv2.setNumThreads(1)
        # The layout of cvtColor: one plane below the other.
        self.frames = inputs.planes().reshape(-1, inputs.height * 3 // 2, inputs.width)
        self.rgb = np.ones((inputs.height, inputs.width, 3), np.uint8)

    def version(self) -> str:
        return f"OpenCV {cv2.__version__}"

    def prepare(self, case: str) -> None:
        super().prepare(case)
        self.kind, _, flags = case.partition("-")
        self.interpolation = cv2.INTER_LINEAR if flags == "linear" else cv2.INTER_AREA
        width, height = RESIZED if self.kind == "crop" else (SIDE, SIDE)
        self.small = np.ones((height, width, 3), np.uint8)

    def frame(self, index: int, out: np.ndarray) -> None:
        if self.kind == "full":
            cv2.cvtColor(self.frames[index], cv2.COLOR_YUV2RGB_I420, dst=out)
            return
        cv2.cvtColor(self.frames[index], cv2.COLOR_YUV2RGB_I420, dst=self.rgb)
        height, width, _ = self.small.shape
        cv2.resize(self.rgb, (width, height), dst=self.small, interpolation=self.interpolation)
        x, y = CORNER if self.kind == "crop" else (0, 0)
        normalize(self.small[y : y + SIDE, x : x + SIDE], out)
