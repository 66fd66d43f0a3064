"""Pillow alone, in PyTorch's DataLoader for batches: Image.resize with a box, then NumPy.

Variants: "" decodes complete images; "draft" lets libjpeg decode at 1/2, 1/4 or 1/8 if that is still larger than the
requested size, as Pillow's thumbnail() does.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import PIL
import torch
from PIL import Image, features
from tasks import CROP, MEAN, SHORTER, SQUARE, STD, Job

from . import loading
from .base import BaseAdapter, Batch, UnsupportedTask, decoded_by_threads, draw_crop

SCALE = np.float32([1 / (255 * s) for s in STD])[:, None, None]
OFFSET = np.float32([-m / s for m, s in zip(MEAN, STD, strict=True)])[:, None, None]


def normalized(picture: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(picture.transpose(2, 0, 1) * SCALE + OFFSET)


class Loader:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.reduces = job.variant == "draft"

    def box_of(self, width: int, height: int) -> tuple[tuple[float, ...], tuple[int, int], bool]:
        """Which region of the image is resized to which size (width, height), and whether it is flipped."""
        task, draws = self.job.task, self.job.draws
        if task == "square":
            return (0, 0, width, height), (SQUARE, SQUARE), False
        if task == "eval":
            # The region of the image that the center crop shows: the rest is never resized.
            shorter = min(width, height)
            resized = tuple(SHORTER if side == shorter else int(SHORTER * side / shorter) for side in (width, height))
            corner = [round((side - CROP) / 2) for side in resized]
            ends = [
                (c * full / r, (c + CROP) * full / r)
                for c, full, r in zip(corner, (width, height), resized, strict=True)
            ]
            return (ends[0][0], ends[1][0], ends[0][1], ends[1][1]), (CROP, CROP), False
        left, top, w, h = draw_crop(width, height, draws, random)
        return (left, top, left + w, top + h), (CROP, CROP), random.random() < draws.mirror

    def __call__(self, path: str) -> torch.Tensor:
        with Image.open(path) as image:
            full = image.size
            box, size, mirrored = self.box_of(*full)
            if self.reduces:
                # The region must not become smaller than its resized form.
                shrink = min((box[2] - box[0]) / size[0], (box[3] - box[1]) / size[1])
                if shrink > 1:
                    image.draft("RGB", tuple(int(side / shrink) for side in full))
                    by = image.width / full[0], image.height / full[1]
                    box = tuple(end * by[place % 2] for place, end in enumerate(box))
            picture = image.convert("RGB").resize(size, Image.Resampling.BILINEAR, box=box)
        if mirrored:
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        if self.job.task == "square":
            return torch.from_numpy(np.array(picture))
        return normalized(np.asarray(picture))


def rgb(path: str) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


class Adapter(BaseAdapter):
    def version(self) -> str:
        return f"Pillow {PIL.__version__} (libjpeg-turbo {features.version('libjpeg_turbo')})"

    def batches(self, job: Job) -> Iterator[Batch]:
        if job.task == "augment" or job.variant not in ("", "draft"):
            raise UnsupportedTask(job)
        if job.task == "decode":
            return decoded_by_threads(rgb, job)
        return loading.batches(job, Loader(job))
