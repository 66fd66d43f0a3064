"""torchvision's transforms (v2) in PyTorch's DataLoader.

Variants: "" reads and decodes with torchvision.io and works on uint8 tensors; "pil" is the usual ImageFolder: Pillow
opens, crops and resizes, and the last transforms run on tensors. `decode` is decode_jpeg of torchvision.io in a pool.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import torch
import torchvision
from PIL import Image
from tasks import CROP, ENLARGED, MEAN, SHORTER, SQUARE, STD, Draws, Job
from torchvision.io import ImageReadMode, decode_jpeg, read_file
from torchvision.transforms import v2

from . import loading
from .base import BaseAdapter, Batch, UnsupportedTask, decoded_by_threads, grid_mask


class GridMask(torch.nn.Module):
    """torchvision has none."""

    def __init__(self, draws: Draws) -> None:
        super().__init__()
        self.draws = draws

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return image.masked_fill(torch.from_numpy(grid_mask(self.draws, random)), 0)


def steps(job: Job) -> list:
    draws = job.draws
    normalize = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD, inplace=True)]
    to_tensor = [v2.ToImage()] if job.variant == "pil" else []
    if job.task == "square":
        return [v2.Resize((SQUARE, SQUARE)), *to_tensor]
    if job.task == "eval":
        return [v2.Resize(SHORTER), v2.CenterCrop(CROP), *to_tensor, *normalize]
    crop = v2.RandomResizedCrop(CROP, scale=draws.area, ratio=draws.ratio)
    mirror = v2.RandomHorizontalFlip(draws.mirror)
    if job.task == "train":
        return [crop, mirror, *to_tensor, *normalize]
    plain = draws.brightness == draws.contrast == draws.saturation == (1.0, 1.0) and draws.hue == (0.0, 0.0)
    colors = v2.ColorJitter(draws.brightness, draws.contrast, draws.saturation, tuple(h / 360 for h in draws.hue))
    return [
        v2.Resize((ENLARGED, ENLARGED)),
        v2.RandomRotation(draws.angle, interpolation=v2.InterpolationMode.BILINEAR),
        crop,
        *([] if plain else [colors]),
        *to_tensor,
        *([GridMask(draws)] if draws.grid_tile else []),
        mirror,
        *normalize,
    ]


def rgb(path: str) -> torch.Tensor:
    return decode_jpeg(read_file(path), mode=ImageReadMode.RGB)


def rgb_by_pillow(path: str) -> Image.Image:
    with Image.open(path) as image:
        return image.convert("RGB")


class Adapter(BaseAdapter):
    def version(self) -> str:
        return f"torchvision {torchvision.__version__}, torch {torch.__version__}"

    def batches(self, job: Job) -> Iterator[Batch]:
        if job.variant not in ("", "pil"):
            raise UnsupportedTask(job)
        if job.task == "decode":
            torch.set_num_threads(1)
            # (H, W, 3), a view of the decoded image.
            return decoded_by_threads(lambda path: rgb(path).permute(1, 2, 0), job)
        transforms = v2.Compose(steps(job))
        opened = rgb_by_pillow if job.variant == "pil" else rgb
        if job.task == "square":
            return loading.batches(job, lambda path: transforms(opened(path)).permute(1, 2, 0))
        return loading.batches(job, lambda path: transforms(opened(path)))
