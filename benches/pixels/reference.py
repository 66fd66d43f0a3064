"""The expected pixels in float64, and the difference of a library's output from them.

The full-size image is the matrix of BT.709 (or BT.601, limited range) with chroma repeated, clamped to 0..255 and not
rounded. Everything after it is linear except the last clamp: resize as a matrix product, colors, rotation, mask.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from inputs import CORNER, MEAN, RESIZED, SIDE, STD, Augmentation

# Gray of torchvision, OpenCV and DALI, for every matrix of the image.
GRAY = np.array([0.299, 0.587, 0.114])


@dataclass(frozen=True)
class Expected:
    """The variant of correct output that a library aims at."""

    # "triangle": bilinear widened by the scale, as PIL and torchvision. "area": means of boxes, OpenCV's INTER_AREA.
    # "bilinear": the two nearest pixels at every scale, which aliases.
    kernel: str = "triangle"
    matrix: str = "bt709"
    # The gray that contrast keeps: the image's mean (framespool, torchvision), or a constant (DALI).
    contrast_center: float | None = None
    # Mean absolute difference, in code values, above which the output is WRONG and its time is not shown. Rounding once
    # gives 0.25. On the default inputs a shift by one and a half source pixels gives 0.9, BT.601 instead of BT.709
    # 1.0 to 1.2. Libraries that are known to round more coarsely have a separate bound.
    tolerance: float = 0.75


def weights(source: int, start: float, length: float, resized: int, kernel: str) -> np.ndarray:
    """(resized, source): each output position's weights over the pixels of an axis; 0 outside the crop."""
    scale = length / resized
    centers = start + (np.arange(resized) + 0.5) * scale
    left = np.arange(source, dtype=np.float64)
    if kernel == "area":
        low = np.maximum(left, (centers - scale / 2)[:, None])
        high = np.minimum(left + 1, (centers + scale / 2)[:, None])
        raw = (high - low).clip(0)
    else:
        reach = max(scale, 1.0) if kernel == "triangle" else 1.0
        raw = (1 - np.abs(left + 0.5 - centers[:, None]) / reach).clip(0)
        raw[:, (left + 1 <= start) | (left >= start + length)] = 0
    return raw / raw.sum(axis=1, keepdims=True)


def resize(rgb: np.ndarray, crop: tuple[float, ...], size: tuple[int, int], kernel: str) -> np.ndarray:
    """`crop` is left, top, width, height; `size` is width, height."""
    height, width, _ = rgb.shape
    columns = weights(width, crop[0], crop[2], size[0], kernel)
    rows = weights(height, crop[1], crop[3], size[1], kernel)
    return np.stack([rows @ rgb[:, :, c] @ columns.T for c in range(3)], axis=2)


def rotate(picture: np.ndarray, clip: Augmentation) -> np.ndarray:
    """Rotates around the center, bilinear, black outside."""
    height, width, _ = picture.shape
    x, y = np.meshgrid(np.arange(width) - (width - 1) / 2, np.arange(height) - (height - 1) / 2)
    from_x = clip.cos * x - clip.sin * y + (width - 1) / 2
    from_y = clip.sin * x + clip.cos * y + (height - 1) / 2
    padded = np.pad(picture, ((1, 2), (1, 2), (0, 0)))
    from_x, from_y = (from_x + 1).clip(0, width + 1), (from_y + 1).clip(0, height + 1)
    column, row = from_x.astype(int), from_y.astype(int)
    f, g = (from_x - column)[:, :, None], (from_y - row)[:, :, None]
    above = padded[row, column] * (1 - f) + padded[row, column + 1] * f
    below = padded[row + 1, column] * (1 - f) + padded[row + 1, column + 1] * f
    return above * (1 - g) + below * g


def masked(clip: Augmentation, size: int) -> np.ndarray:
    """(size, size): which pixels the grid covers."""
    x, y = np.meshgrid(np.arange(size), np.arange(size))
    phases = [(across * x + down * y + start) % 1 for across, down, start in clip.grid]
    return (phases[0] < clip.grid_ratio) & (phases[1] < clip.grid_ratio)


def augmented(rgb: np.ndarray, clip: Augmentation, steps: tuple[str, ...], expected: Expected) -> np.ndarray:
    """(SIDE, SIDE, 3) in code values."""
    picture = resize(rgb, clip.crop, (SIDE, SIDE), expected.kernel)
    if "flip" in steps and clip.flip:
        picture = picture[:, ::-1]
    if "contrast" in steps:
        gray = expected.contrast_center
        gray = (picture @ GRAY).mean() if gray is None else gray
        picture = clip.contrast * (picture - gray) + gray
    if "color" in steps:
        picture = picture @ np.array(clip.color).T
    picture = picture.clip(0, 255)
    if "rotate" in steps:
        picture = rotate(picture, clip)
    if "grid" in steps:
        picture = np.where(masked(clip, SIDE)[:, :, None], 0, picture)
    return picture


def resized(rgb: np.ndarray, case: str, kernel: str) -> np.ndarray:
    """(SIDE, SIDE, 3) in code values: the complete image as a square, or its center crop at shorter side 256."""
    height, width, _ = rgb.shape
    if case == "direct":
        return resize(rgb, (0, 0, width, height), (SIDE, SIDE), kernel)
    if case == "crop":
        (x, y), picture = CORNER, resize(rgb, (0, 0, width, height), RESIZED, kernel)
        return picture[y : y + SIDE, x : x + SIDE]
    raise ValueError(f"no case {case}")


def code_values(elements: np.ndarray) -> np.ndarray:
    """(3, H, W) normalized to (H, W, 3) from 0 to 255."""
    return (elements.transpose(1, 2, 0).astype(np.float64) * STD + MEAN) * 255


def difference(got: np.ndarray, expected: np.ndarray) -> tuple[float, float]:
    """Mean and largest absolute difference, in code values; infinity for NaN."""
    apart = np.nan_to_num(np.abs(got - expected), nan=np.inf)
    return float(apart.mean()), float(apart.max())
