"""torchcodec's own Resize, measured with a video that costs almost nothing to decode: the uncompressed inputs.

`direct` reads the clip with `transforms=[Resize]` and normalizes it. PyAV measures reading alone
(library `decode`, case `raw`): the same libavformat and libavcodec, no conversion. The difference is torchcodec's
own cost. `full` is the same without transforms: RGB at full size, the input of Resize.
"""

from __future__ import annotations

import numpy as np
import torch
import torchcodec
from inputs import CHECKED_FRAMES, NUM_FRAMES, SIDE, Inputs
from torchcodec.decoders import VideoDecoder
from torchcodec.transforms import Resize

from .base import BIAS, SCALE, BaseAdapter


class Adapter(BaseAdapter):
    def __init__(self, inputs: Inputs) -> None:
        super().__init__(inputs)
        torch.set_num_threads(1)
        self.scale, self.bias = (torch.from_numpy(values).view(3, 1, 1) for values in (SCALE, BIAS))
        self.decoders: dict[str, VideoDecoder] = {}

    def version(self) -> str:
        return f"torchcodec {torchcodec.__version__}, FFmpeg {torchcodec.ffmpeg_major_version}"

    def prepare(self, case: str) -> None:
        self.case = case
        if case not in self.decoders:
            self.decoders[case] = VideoDecoder(
                str(self.inputs.folder / "raw.mkv"),
                dimension_order="NHWC",
                num_ffmpeg_threads=1,
                transforms=[Resize((SIDE, SIDE))] if case == "direct" else None,
            )

    def read(self, count: int) -> torch.Tensor:
        clip = self.decoders[self.case].get_frames_in_range(0, count).data
        if self.case == "full":
            return clip
        return torch.mul(clip.permute(0, 3, 1, 2), self.scale).add_(self.bias)

    def run(self, ring: int, frames: int, first_clip: int) -> None:
        for _ in range(0, frames, ring):
            self.read(ring)

    def check(self) -> np.ndarray:
        return self.read(NUM_FRAMES)[list(CHECKED_FRAMES)].numpy()
