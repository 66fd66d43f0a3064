"""Each transform of framespool by torchvision's functions, with parameters that framespool has drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from framespool import transforms as t
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as F

Drawn = dict[str, Any]


def mode(transform: Any, *, resizes: bool) -> InterpolationMode:
    if transform.interpolation == "bilinear":
        return InterpolationMode.BILINEAR
    # For resizing, torchvision's NEAREST takes another pixel than its NEAREST_EXACT.
    return InterpolationMode.NEAREST_EXACT if resizes else InterpolationMode.NEAREST


def whole(values: Sequence[float]) -> list[int]:
    return [round(value) for value in values]


def size_of(picture: Any) -> tuple[int, int]:
    height, width = F.get_size(picture)
    return height, width


def resize(picture: Any, transform: t.Resize) -> Any:
    given = {"interpolation": mode(transform, resizes=True), "antialias": transform.antialias}
    if transform.side == "longer":
        return F.resize(picture, None, max_size=transform.size, **given)
    size = [transform.size] if isinstance(transform.size, int) else list(transform.size)
    if transform.fit == "cover":
        scale = max(wanted / there for wanted, there in zip(size, size_of(picture), strict=True))
        size = [round(side * scale) for side in size_of(picture)]
    return F.resize(picture, size, max_size=transform.max_size, **given)


def random_crop(picture: Any, transform: t.RandomCrop, drawn: Drawn) -> Any:
    """Its position is relative to the padded image."""
    picture = F.pad(picture, list(transform.padding), fill=whole(transform.fill))
    if transform.pad_if_needed:
        missing = [max(0, wanted - there) for wanted, there in zip(transform.size, size_of(picture), strict=True)]
        picture = F.pad(picture, [missing[1], missing[0]], fill=whole(transform.fill))
    return F.crop(picture, *whole((drawn["top"], drawn["left"])), *transform.size)


def shortest_size(picture: Any, transform: t.RandomShortestSize, drawn: Drawn) -> Any:
    """torchvision's sizes are up to a pixel less, where its floating-point product is just below an integer."""
    sides = size_of(picture)
    scale = Fraction(round(drawn["size"]), min(sides))
    if transform.max_size is not None:
        scale = min(scale, Fraction(transform.max_size, max(sides)))
    size = [int(side * scale) for side in sides]
    return F.resize(picture, size, interpolation=mode(transform, resizes=True), antialias=transform.antialias)


def photometric_distort(picture: Any, drawn: Drawn) -> Any:
    contrast = [("contrast", F.adjust_contrast)] if drawn["contrast"] != 1 else []
    changes = [("brightness", F.adjust_brightness)] if drawn["brightness"] != 1 else []
    changes += contrast if drawn["contrast_first"] else []
    changes += [("saturation", F.adjust_saturation)] if drawn["saturation"] != 1 else []
    changes += [("hue", F.adjust_hue)] if drawn["hue"] != 0 else []
    changes += [] if drawn["contrast_first"] else contrast
    for name, change in changes:
        picture = change(picture, drawn[name])
    return picture[:, whole(drawn["channels"])]


def listed(picture: Any, lists: Sequence[Sequence[t.Transform]], number: int, drawn: Drawn) -> Any:
    for transform, numbers in zip(lists[number], drawn["transforms"], strict=True):
        picture = one_step(picture, transform, numbers)
    return picture


def three_crop(picture: Any, transform: t.ThreeCrop) -> list[Any]:
    (height, width), (rows, columns) = transform.size, size_of(picture)
    down, across = rows - height, columns - width
    middle = [round(down / 2), round(across / 2)]
    if columns >= rows:
        places = [(middle[0], 0), (middle[0], middle[1]), (middle[0], across)]
    else:
        places = [(0, middle[1]), (middle[0], middle[1]), (down, middle[1])]
    return [F.crop(picture, top, left, height, width) for top, left in places]


def letterbox(picture: Any, transform: t.Letterbox) -> Any:
    (height, width), (rows, columns) = transform.size, size_of(picture)
    factor = min(height / rows, width / columns)
    inner = [max(1, round(rows * factor)), max(1, round(columns * factor))]
    picture = F.resize(picture, inner, interpolation=mode(transform, resizes=True), antialias=transform.antialias)
    top, left = (height - inner[0]) // 2, (width - inner[1]) // 2
    padding = [left, top, width - inner[1] - left, height - inner[0] - top]
    return F.pad(picture, padding, fill=whole(transform.fill))


def erase(picture: Any, holes: Sequence[float], value: Sequence[float]) -> Any:
    rows, columns = size_of(picture)
    fill_color = torch.tensor(value)[:, None, None].to(picture.dtype)
    for top, left, height, width in zip(*[iter(whole(holes))] * 4, strict=True):
        bottom, right = min(rows, top + height), min(columns, left + width)
        top, left = max(0, top), max(0, left)
        if bottom > top and right > left:
            picture = F.erase(picture, top, left, bottom - top, right - left, fill_color)
    return picture


def grid_mask(picture: torch.Tensor, transform: t.GridMask) -> torch.Tensor:
    """DALI's formula, with shifts in tiles. All parameters must be constants."""
    tile, ratio, shift_x, shift_y = (getattr(transform, name)[0] for name in ("tile", "ratio", "shift_x", "shift_y"))
    angle = math.radians(transform.degrees[0])
    y, x = np.mgrid[0 : picture.shape[-2], 0 : picture.shape[-1]]
    across = (x * math.cos(angle) - y * math.sin(angle)) / tile - shift_x
    down = (x * math.sin(angle) + y * math.cos(angle)) / tile - shift_y
    covered = (across - np.floor(across) < ratio) & (down - np.floor(down) < ratio)
    fill_color = torch.tensor(transform.fill)[:, None, None].to(picture.dtype)
    return torch.where(torch.from_numpy(covered), fill_color, picture)


def color_twist(picture: torch.Tensor, transform: t.ColorTwist) -> torch.Tensor:
    """DALI's formula: middle gray is 128. All parameters must be constants."""
    brightness, contrast, saturation, hue = (
        getattr(transform, name)[0] for name in ("brightness", "contrast", "saturation", "hue")
    )
    to_yiq = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
    cos, sin = math.cos(math.radians(hue)) * saturation, math.sin(math.radians(hue)) * saturation
    matrix = np.linalg.inv(to_yiq) @ np.array([[1, 0, 0], [0, cos, sin], [0, -sin, cos]]) @ to_yiq
    turned = np.einsum("rk,tkhw->trhw", matrix, picture.numpy())
    twisted = ((turned - 128) * contrast + 128) * brightness
    return torch.from_numpy(np.clip(np.rint(twisted), 0, 255).astype(np.uint8))


def one_step(picture: Any, transform: t.Transform, drawn: Drawn) -> Any:
    """Frames (T, C, H, W) after one transform; a list of them for a transform that makes views."""
    applied = drawn.get("applied", 1.0) > 0.5
    match transform:
        case t.Resize():
            return resize(picture, transform)
        case t.CenterCrop():
            return F.center_crop(picture, list(transform.size))
        case t.RandomCrop():
            return random_crop(picture, transform, drawn)
        case t.RandomShortestSize():
            return shortest_size(picture, transform, drawn)
        case t.RandomPhotometricDistort():
            return photometric_distort(picture, drawn)
        case t.RandomApply():
            return listed(picture, [[], transform.transforms], round(drawn["applied"]), drawn)
        case t.RandomChoice():
            return listed(picture, transform.transforms, round(drawn["choice"]), drawn)
        case t.RandomResizedCrop() | t.MultiScaleCrop():
            place = whole([drawn[name] for name in ("top", "left", "height", "width")])
            given = {"interpolation": mode(transform, resizes=True), "antialias": transform.antialias}
            return F.resized_crop(picture, *place, list(transform.size), **given)
        case t.FiveCrop():
            return list(F.five_crop(picture, list(transform.size)))
        case t.ThreeCrop():
            return three_crop(picture, transform)
        case t.RandomHorizontalFlip():
            return F.horizontal_flip(picture) if applied else picture
        case t.RandomVerticalFlip():
            return F.vertical_flip(picture) if applied else picture
        case t.RandomRotation():
            given = {"interpolation": mode(transform, resizes=False), "expand": transform.expand}
            center = None if transform.center is None else list(transform.center)
            return F.rotate(picture, drawn["degrees"], center=center, fill=whole(transform.fill), **given)
        case t.RandomAffine():
            return F.affine(
                picture,
                angle=drawn["degrees"],
                translate=whole((drawn["translate_x"], drawn["translate_y"])),
                scale=drawn["scale"],
                shear=[drawn["shear_x"], drawn["shear_y"]],
                interpolation=mode(transform, resizes=False),
                fill=whole(transform.fill),
                center=None if transform.center is None else list(transform.center),
            )
        case t.Pad():
            return F.pad(picture, list(transform.padding), fill=whole(transform.fill))
        case t.Letterbox():
            return letterbox(picture, transform)
        case t.ColorTwist():
            return color_twist(picture, transform)
        case t.RandomGrayscale() | t.Grayscale():
            return F.rgb_to_grayscale(picture, num_output_channels=3) if applied else picture
        case t.RandomErasing():
            return erase(picture, drawn["holes"], transform.value)
        case t.Cutout():
            return erase(picture, drawn["holes"], transform.fill)
        case t.GridMask():
            return grid_mask(picture, transform)
        case t.Normalize():
            return F.normalize(F.to_dtype(picture, torch.float32, scale=True), transform.mean, transform.std)
    raise NotImplementedError(transform)


def theirs(frames: np.ndarray, transforms: list[t.Transform], drawn: list[Drawn]) -> np.ndarray:
    """The views of all frames, (views * T, C, H, W), of frames (T, H, W, C)."""
    views = [torch.from_numpy(frames).permute(0, 3, 1, 2)]
    for transform, numbers in zip(transforms, drawn, strict=True):
        after = [one_step(view, transform, numbers) for view in views]
        views = [each for one in after for each in (one if isinstance(one, list) else [one])]
    return torch.cat(views).numpy().astype(np.float32)
