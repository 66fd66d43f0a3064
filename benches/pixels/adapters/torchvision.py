"""torchvision's v2 functionals on uint8 RGB, antialiased.

`direct` and `crop` start from existing RGB; `-yuv` convert to it first, with swscale's default through PyAV.
`aug-...` process the clip's 16 frames as one batch. RGB is channels last in memory, as in torchcodec and NumPy:
torchvision's resize has its fast path for that.
"""

from __future__ import annotations

import numpy as np
import torch
import torchvision
from inputs import CHECKED_FRAMES, CLIP, CORNER, MEAN, RESIZED, SIDE, STD, STEPS, Inputs
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as F

from .base import BaseAdapter


class Adapter(BaseAdapter):
    def __init__(self, inputs: Inputs) -> None:
        super().__init__(inputs)
        torch.set_num_threads(1)
        # (frames, 3, H, W), channels last in memory.
        self.rgb = torch.from_numpy(inputs.rgb()).permute(0, 3, 1, 2)
        self.swscale = None

    def version(self) -> str:
        return f"torchvision {torchvision.__version__}, torch {torch.__version__}"

    def prepare(self, case: str) -> None:
        self.kind, _, self.variant = case.partition("-")
        if self.variant == "yuv" and self.swscale is None:
            from .swscale import Adapter as Swscale

            self.swscale = Swscale(self.inputs)
            self.swscale.prepare("full")
            # Needed only temporarily.
            self.swscale.full = [None]
        if self.kind == "aug":
            self.steps = STEPS[: STEPS.index(self.variant) + 1]

    def run(self, ring: int, frames: int, first_clip: int) -> None:
        if self.kind == "aug":
            for n in range(0, frames, CLIP):
                self.augment(self.rgb[:CLIP], first_clip + n // CLIP)
            return
        for n in range(frames):
            self.resize(n % ring)

    def check(self) -> np.ndarray:
        results = []
        for clip, index in enumerate(CHECKED_FRAMES):
            made = self.augment(self.rgb[index : index + 1], clip)[0] if self.kind == "aug" else self.resize(index)
            results.append(made.numpy())
        return np.stack(results)

    def resize(self, index: int) -> torch.Tensor:
        if self.variant == "yuv":
            self.swscale.frame(index, None)
            picture = torch.from_numpy(self.swscale.full[0]).permute(2, 0, 1)
        else:
            picture = self.rgb[index]
        if self.kind == "direct":
            picture = F.resize(picture, [SIDE, SIDE], antialias=True)
        else:
            x, y = CORNER
            picture = F.crop(F.resize(picture, [RESIZED[1], RESIZED[0]], antialias=True), y, x, SIDE, SIDE)
        return normalize(picture)

    def augment(self, clip: torch.Tensor, number: int) -> torch.Tensor:
        draw = self.inputs.clips[number % len(self.inputs.clips)]
        left, top, width, height = draw.crop
        clip = F.resized_crop(clip, top, left, height, width, [SIDE, SIDE], antialias=True)
        if "flip" in self.steps and draw.flip:
            clip = F.horizontal_flip(clip)
        if "color" in self.steps:
            clip = F.adjust_brightness(clip, draw.brightness)
        if "contrast" in self.steps:
            clip = F.adjust_contrast(clip, draw.contrast)
        if "color" in self.steps:
            clip = F.adjust_saturation(clip, draw.saturation)
            if draw.hue:
                clip = F.adjust_hue(clip, draw.hue / 360)
        if "rotate" in self.steps:
            clip = F.rotate(clip, draw.angle, interpolation=InterpolationMode.BILINEAR, fill=0)
        if "grid" in self.steps:
            clip = clip.masked_fill(grid_mask(draw), 0)
        return normalize(clip)


def normalize(picture: torch.Tensor) -> torch.Tensor:
    return F.normalize(F.to_dtype(picture, torch.float32, scale=True), MEAN.tolist(), STD.tolist(), inplace=True)


def grid_mask(draw) -> torch.Tensor:
    """(SIDE, SIDE); created once per clip. torchvision has none."""
    x = torch.arange(SIDE, dtype=torch.float32)
    phases = [(across * x[None, :] + down * x[:, None] + start) % 1 for across, down, start in draw.grid]
    return (phases[0] < draw.grid_ratio) & (phases[1] < draw.grid_ratio)
