"""OpenCV, with its own JPEG decoder or with simplejpeg's, in PyTorch's DataLoader for batches.

Variants: "" is cv2.imdecode and INTER_LINEAR, the usual way (it aliases); "simplejpeg" is the same
after simplejpeg; "scaled" is simplejpeg at 1/2, 1/4 or 1/8 if that is still larger than the requested size, then
INTER_AREA. For `decode` also "fast": simplejpeg with its fast IDCT and upsampling.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import cv2
import numpy as np
import simplejpeg
import torch
from tasks import CROP, ENLARGED, MEAN, SHORTER, SQUARE, STD, Draws, Job

from . import loading
from .base import BaseAdapter, Batch, UnsupportedTask, decoded_by_threads, draw_crop, grid_mask, read

SCALE = np.float32([1 / (255 * s) for s in STD])
OFFSET = np.float32([-m / s for m, s in zip(MEAN, STD, strict=True)])
GRAY = np.array([0.299, 0.587, 0.114])
# RGB to YIQ, in which hue is an angle: the matrix of DALI's color_twist.
YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])


def normalized(picture: np.ndarray) -> torch.Tensor:
    planes = np.empty((3, *picture.shape[:2]), np.float32)
    for channel in range(3):
        np.multiply(picture[:, :, channel], SCALE[channel], out=planes[channel])
        planes[channel] += OFFSET[channel]
    return torch.from_numpy(planes)


def twisted(picture: np.ndarray, draws: Draws) -> np.ndarray:
    """Hue, saturation, contrast around 127.5 and brightness as one matrix."""
    brightness, contrast, saturation = (
        random.uniform(*ends) for ends in (draws.brightness, draws.contrast, draws.saturation)
    )
    hue = math.radians(random.uniform(*draws.hue))
    turn = np.array([[1, 0, 0], [0, math.cos(hue), -math.sin(hue)], [0, math.sin(hue), math.cos(hue)]])
    turned = np.linalg.inv(YIQ) @ turn @ YIQ
    matrix = (saturation * np.eye(3) + (1 - saturation) * GRAY[None, :]) @ turned
    offset = np.full((3, 1), 127.5 * (1 - contrast) * brightness)
    return cv2.transform(picture, np.hstack([brightness * contrast * matrix, offset]))


def rotated(picture: np.ndarray, degrees: float) -> np.ndarray:
    height, width = picture.shape[:2]
    matrix = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), degrees, 1.0)
    return cv2.warpAffine(picture, matrix, (width, height), flags=cv2.INTER_LINEAR)


class Loader:
    def __init__(self, job: Job) -> None:
        self.job = job

    def plan(self, width: int, height: int) -> tuple[tuple[int, int, int, int], tuple[int, int]]:
        """Which region of the image (left, top, width, height) is resized to which size (width, height)."""
        whole = (0, 0, width, height)
        if self.job.task == "square":
            return whole, (SQUARE, SQUARE)
        if self.job.task == "augment":
            return whole, (ENLARGED, ENLARGED)
        if self.job.task == "eval":
            # int(), as in torchvision.
            return whole, (max(SHORTER, int(SHORTER * width / height)), max(SHORTER, int(SHORTER * height / width)))
        return draw_crop(width, height, self.job.draws, random), (CROP, CROP)

    def opened(self, path: str) -> np.ndarray:
        """The requested region, resized."""
        data = read(path)
        if self.job.variant == "":
            picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB)
            box, size = self.plan(picture.shape[1], picture.shape[0])
        else:
            height, width = simplejpeg.decode_jpeg_header(data)[:2]
            box, size = self.plan(width, height)
            shrink = min(box[2] / size[0], box[3] / size[1])
            if self.job.variant == "scaled" and shrink >= 2:
                # Factors below 2 are slower than none.
                least = {"min_width": int(width / shrink), "min_height": int(height / shrink), "min_factor": 2}
                picture = simplejpeg.decode_jpeg(data, **least)
                by = (picture.shape[1] / width, picture.shape[0] / height) * 2
                box = tuple(round(edge * factor) for edge, factor in zip(box, by, strict=True))
            else:
                picture = simplejpeg.decode_jpeg(data)
        left, top, width, height = box
        return self.resized(picture[top : top + height, left : left + width], size)

    def resized(self, picture: np.ndarray, size: tuple[int, int]) -> np.ndarray:
        # INTER_AREA is nearly nearest-neighbor for enlargement.
        shrinks = picture.shape[1] >= size[0] and picture.shape[0] >= size[1]
        by_area = self.job.variant == "scaled" and shrinks
        return cv2.resize(picture, size, interpolation=cv2.INTER_AREA if by_area else cv2.INTER_LINEAR)

    def __call__(self, path: str) -> torch.Tensor:
        picture, draws = self.opened(path), self.job.draws
        if self.job.task == "square":
            return torch.from_numpy(picture)
        if self.job.task == "eval":
            # round(), half to even, as in torchvision.
            top, left = (round((side - CROP) / 2) for side in picture.shape[:2])
            return normalized(picture[top : top + CROP, left : left + CROP])
        if self.job.task == "augment":
            picture = rotated(picture, random.uniform(*draws.angle))
            left, top, width, height = draw_crop(ENLARGED, ENLARGED, draws, random)
            picture = picture[top : top + height, left : left + width]
            picture = twisted(self.resized(picture, (CROP, CROP)), draws)
            if draws.grid_tile:
                picture[grid_mask(draws, random)] = 0
        return normalized(cv2.flip(picture, 1) if random.random() < draws.mirror else picture)


DECODERS = {
    "": lambda path: cv2.imdecode(np.frombuffer(read(path), np.uint8), cv2.IMREAD_COLOR_RGB),
    "simplejpeg": lambda path: simplejpeg.decode_jpeg(read(path)),
    "fast": lambda path: simplejpeg.decode_jpeg(read(path), fastdct=True, fastupsample=True),
}


class Adapter(BaseAdapter):
    def version(self) -> str:
        return f"OpenCV {cv2.__version__}, simplejpeg {simplejpeg.__version__}"

    def batches(self, job: Job) -> Iterator[Batch]:
        # Threads or workers process batches in parallel, each image in one of them.
        cv2.setNumThreads(1)
        if job.task == "decode" and job.variant in DECODERS:
            return decoded_by_threads(DECODERS[job.variant], job)
        if job.task == "decode" or job.variant not in ("", "simplejpeg", "scaled"):
            raise UnsupportedTask(job)
        return loading.batches(job, Loader(job))
