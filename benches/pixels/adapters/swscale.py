"""libswscale through PyAV's VideoReformatter: size and color in one call, normalized by NumPy.

`direct` and `crop` are BILINEAR, PyAV's default. swscale widens it by the scale, so it antialiases. Its fast
paths round down, about 2 code values in total, and keep half the horizontal chroma; at an odd width (`crop`) it uses
other paths that do not. `-area` is AREA. `-accurate` adds the flags for exact rounding and full chroma
resolution. `-fast` is FAST_BILINEAR, which aliases and whose columns drift by more than an output pixel. `full` is the
default conversion without resizing.
"""

from __future__ import annotations

import av
import numpy as np
from av.video.reformatter import Interpolation, VideoReformatter
from inputs import CHECKED_FRAMES, CORNER, NUM_FRAMES, RESIZED, SIDE, Inputs, video_frame

from .base import FrameAdapter, normalize

FLAGS = {
    "": Interpolation.BILINEAR,
    "area": Interpolation.AREA,
    "fast": Interpolation.FAST_BILINEAR,
    "accurate": Interpolation.BILINEAR
    | Interpolation.ACCURATE_RND
    | Interpolation.FULL_CHR_H_INT
    | Interpolation.FULL_CHR_H_INP,
}


class Adapter(FrameAdapter):
    def __init__(self, inputs: Inputs) -> None:
        super().__init__(inputs)
        self.frames = [video_frame(planes, inputs.width, inputs.height) for planes in inputs.planes()]
        # One per case: the context is expensive to create and reused while nothing changes.
        self.reformatters: dict[str, VideoReformatter] = {}
        # Full-size results stay where swscale wrote them. As many are kept as in the ring buffers of other adapters, so
        # that the same amount of memory is written.
        self.full: list[np.ndarray | None] = [None] * NUM_FRAMES

    def version(self) -> str:
        major, minor, _ = av.library_versions["libswscale"]
        return f"libswscale {major}.{minor} (FFmpeg {av.ffmpeg_version_info}) through PyAV {av.__version__}"

    def prepare(self, case: str) -> None:
        super().prepare(case)
        self.kind, _, flags = case.partition("-")
        sizes = {"direct": (SIDE, SIDE), "crop": RESIZED, "full": (self.inputs.width, self.inputs.height)}
        self.size, self.flags = sizes[self.kind], FLAGS[flags]
        self.reformatter = self.reformatters.setdefault(case, VideoReformatter())

    def frame(self, index: int, out: np.ndarray) -> None:
        width, height = self.size
        made = self.reformatter.reformat(
            self.frames[index], width=width, height=height, format="rgb24", interpolation=self.flags, threads=1
        )
        plane = made.planes[0]
        rgb = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[:height, : width * 3]
        rgb = rgb.reshape(height, width, 3)
        if self.kind == "direct":
            normalize(rgb, out)
        elif self.kind == "crop":
            x, y = CORNER
            normalize(rgb[y : y + SIDE, x : x + SIDE], out)
        else:
            self.full[index % len(self.full)] = rgb

    def check(self) -> np.ndarray:
        if self.kind != "full":
            return super().check()
        for index in CHECKED_FRAMES:
            self.frame(index, None)
        return np.stack([self.full[index] for index in CHECKED_FRAMES])
