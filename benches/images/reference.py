"""The expected pixels in float64, the difference of a library's output from them, and the values of its random draws.

The decoded image is Pillow's. Everything after it is linear except for clamps: resize as a matrix product, rotation,
colors, mask, normalization.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from image_sets import COORDINATES, FIRST, LAST
from PIL import Image
from tasks import CROP, ENLARGED, MEAN, SHORTER, SQUARE, STD, Draws, Job

GRAY = np.array([0.299, 0.587, 0.114])


def rgb(path: str | Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def weights(source: int, resized: int, kernel: str) -> np.ndarray:
    """Weights, shape (resized, source).

    "triangle" is bilinear widened by the scale, as in Pillow; "two taps" uses the nearest two pixels at any scale
    (it aliases); "area" is means of boxes if the image shrinks in both directions.
    """
    scale = source / resized
    centers = (np.arange(resized) + 0.5) * scale
    reach = max(scale, 1.0) if kernel == "triangle" else 1.0
    if kernel == "area":
        low, high = (centers - scale / 2)[:, None], (centers + scale / 2)[:, None]
        raw = (np.minimum(np.arange(source) + 1, high) - np.maximum(np.arange(source), low)).clip(0)
        return raw / raw.sum(axis=1, keepdims=True)
    raw = (1 - np.abs(np.arange(source) + 0.5 - centers[:, None]) / reach).clip(0)
    return raw / raw.sum(axis=1, keepdims=True)


def resize(picture: np.ndarray, width: int, height: int, kernel: str) -> np.ndarray:
    if kernel == "area" and (picture.shape[1] < width or picture.shape[0] < height):
        kernel = "two taps"
    rows, columns = weights(picture.shape[0], height, kernel), weights(picture.shape[1], width, kernel)
    return np.stack([rows @ picture[:, :, c] @ columns.T for c in range(3)], axis=2)


def rotate(picture: np.ndarray, degrees: float) -> np.ndarray:
    """Rotates counter-clockwise about the center, bilinear, black outside."""
    height, width, _ = picture.shape
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    x, y = np.meshgrid(np.arange(width) - (width - 1) / 2, np.arange(height) - (height - 1) / 2)
    from_x = (cos * x - sin * y + (width - 1) / 2 + 1).clip(0, width + 1)
    from_y = (sin * x + cos * y + (height - 1) / 2 + 1).clip(0, height + 1)
    padded = np.pad(picture, ((1, 2), (1, 2), (0, 0)))
    column, row = from_x.astype(int), from_y.astype(int)
    f, g = (from_x - column)[:, :, None], (from_y - row)[:, :, None]
    above = padded[row, column] * (1 - f) + padded[row, column + 1] * f
    below = padded[row + 1, column] * (1 - f) + padded[row + 1, column + 1] * f
    return above * (1 - g) + below * g


def expected(job: Job, path: str, kernel: str, longer: Callable[[float], int], up: bool) -> np.ndarray:
    """(H, W, 3) in code values, of a job whose draws are pinned.

    `kernel` is that of weights(), or "once": one of two resizes is made, from the original image. Libraries differ in
    `eval`: `longer` rounds the longer side to an integer (torchvision truncates, DALI rounds); if the corner of a
    center crop is between two pixels, `up` takes the farther one (DALI), otherwise it is the even one (torchvision).
    """
    picture = rgb(path).astype(np.float64)
    height, width, _ = picture.shape
    if job.task == "decode":
        return picture
    if job.task == "square":
        return resize(picture, SQUARE, SQUARE, kernel)
    if job.task == "eval":
        sides = [longer(SHORTER * side / min(width, height)) for side in (width, height)]
        left, top = ((side - CROP + 1) // 2 if up else round((side - CROP) / 2) for side in sides)
        return resize(picture, *sides, kernel)[top : top + CROP, left : left + CROP]
    if job.task == "train":
        return resize(picture, CROP, CROP, kernel)
    draws = job.draws
    if kernel == "once":
        picture = rotate(resize(picture, CROP, CROP, "triangle"), draws.angle[0])
    else:
        picture = rotate(resize(picture, ENLARGED, ENLARGED, kernel), draws.angle[0])
        picture = resize(picture, CROP, CROP, kernel)
    picture = picture * draws.brightness[0]
    picture = (draws.saturation[0] * picture + (1 - draws.saturation[0]) * (picture @ GRAY)[:, :, None]).clip(0, 255)
    if draws.grid_tile:
        covered = (np.arange(CROP) / draws.grid_tile[0]) % 1 < draws.grid_ratio
        picture[covered[:, None] & covered[None, :]] = 0
    return picture


def code_values(job: Job, image: np.ndarray) -> np.ndarray:
    """An output as (H, W, 3) in code values; fails for any shape or dtype other than the task's."""
    shape = {"decode": image.shape[:2] + (3,), "square": (SQUARE, SQUARE, 3)}.get(job.task, (3, CROP, CROP))
    wanted = np.dtype(np.uint8 if job.task in ("decode", "square") else np.float32)
    if image.shape != shape or image.dtype != wanted:
        raise ValueError(f"gives {image.dtype} {image.shape}, and {wanted} {shape} is wanted")
    if wanted == np.uint8:
        return image.astype(np.float64)
    return (image.transpose(1, 2, 0).astype(np.float64) * STD + MEAN) * 255


def difference(job: Job, image: np.ndarray, path: str, kernel: str) -> tuple[float, float]:
    """Mean and largest absolute difference, in code values; infinity for NaN."""
    got = code_values(job, image)
    best = (np.inf, np.inf)
    views = [(int, False), (round, False), (int, True), (round, True)] if job.task == "eval" else [(int, False)]
    for longer, up in views:
        right = expected(job, path, kernel, longer, up)
        if got.shape != right.shape:
            raise ValueError(f"gives {got.shape[1]}x{got.shape[0]}, and {right.shape[1]}x{right.shape[0]} is wanted")
        apart = np.nan_to_num(np.abs(got - right), nan=np.inf)
        best = min(best, (float(apart.mean()), float(apart.max())))
    return best


@dataclass(frozen=True)
class Drawn:
    """The transform of the image of coordinates, read back from the result."""

    area: float
    ratio: float
    mirrored: bool
    angle: float
    # Source of the result's center, as fractions of width and height.
    middle: tuple[float, float]


def read_back(job: Job, image: np.ndarray) -> Drawn:
    picture = code_values(job, image)
    rows, columns = np.nonzero(picture[:, :, 2] > 250)  # neither fill value nor blended with it
    if len(rows) < 100:
        raise ValueError("nearly nothing of the image is visible")
    # Red and green as planes over the result's pixels; their slopes are the steps in the source image.
    places = np.stack([columns - (CROP - 1) / 2, rows - (CROP - 1) / 2, np.ones(len(rows))], axis=1)
    planes, *_ = np.linalg.lstsq(places, picture[rows, columns, :2], rcond=None)
    planes /= LAST - FIRST
    middle = tuple(planes[2] - FIRST / (LAST - FIRST))
    # Columns: the effect of one step to the right, and one down, in fractions of the image's width and height.
    steps = planes[:2].T
    # `augment` works on a square, `train` on the original image.
    size = np.array(COORDINATES if job.task == "train" else (ENLARGED, ENLARGED))
    right, down = (steps * size[:, None]).T
    width, height = np.linalg.norm(right) * CROP, np.linalg.norm(down) * CROP
    mirrored = bool(right[0] * down[1] - right[1] * down[0] < 0)
    # In a result rotated counter-clockwise by a, a step down is a step to the left by sin a in the image.
    angle = math.degrees(math.atan2(-down[0], down[1]))
    return Drawn(width * height / float(np.prod(size)), width / height, mirrored, angle, middle)


def check_draw_statistics(draws: Draws, drawn: list[Drawn]) -> str:
    """Errors of the draws; empty if none."""
    areas, ratios = [d.area for d in drawn], [d.ratio for d in drawn]
    angles, mirrored = [d.angle for d in drawn], np.mean([d.mirrored for d in drawn])
    low, high = draws.area
    span = high - low
    # If a crop of that area does not fit, another one is drawn: the mean is below the middle of the range.
    claims = {
        f"areas are {min(areas):.2f} to {max(areas):.2f}": low - 0.03 <= min(areas) <= low + 0.25 * span
        and high - 0.35 * span <= max(areas) <= high + 0.03,
        f"the mean area is {np.mean(areas):.2f}": low + 0.3 * span < np.mean(areas) < low + 0.65 * span,
        f"ratios are {min(ratios):.2f} to {max(ratios):.2f}": draws.ratio[0] * 0.93 <= min(ratios) <= 0.95
        and 1.05 <= max(ratios) <= draws.ratio[1] * 1.07,
        f"{mirrored:.0%} are mirrored": abs(mirrored - draws.mirror) < 0.2,
        f"angles are {min(angles):.1f} to {max(angles):.1f}": draws.angle[0] - 1.5 <= min(angles)
        and max(angles) <= draws.angle[1] + 1.5,
        f"angles are {min(angles):.1f} to {max(angles):.1f} only": max(angles) - min(angles)
        >= 0.7 * (draws.angle[1] - draws.angle[0]),
        "crops do not move": all(np.std(axis) > 0.03 for axis in zip(*(d.middle for d in drawn), strict=True)),
    }
    return "; ".join(words for words, holds in claims.items() if not holds)
