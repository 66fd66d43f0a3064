"""The steps of a list of framespool's transforms with torchvision's functions, and images to apply them to."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from framespool import transforms as t
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as F

# Appended to the path: modules that all benches share.
sys.path.append(str(Path(__file__).resolve().parents[1]))
from harness.folders import corpus  # noqa: E402

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
TENSOR, PIL, FORMULA = "torchvision", "PIL", "formula"
Drawn = dict[str, Any]


# --- Images ---------------------------------------------------------------------------------------------------------


def decoded(frames: int) -> np.ndarray:
    """Consecutive frames of a video, (T, H, W, 3)."""
    path = corpus() / "video" / "action" / "dog_fetch_720p.mp4"
    with av.open(str(path)) as container:
        wanted = itertools.islice(container.decode(video=0), 20, 20 + frames)
        return np.stack([frame.to_ndarray(format="rgb24") for frame in wanted])


def made(height: int = 251, width: int = 333) -> np.ndarray:
    """Ramps, saturated patches, fine lines and noise, (H, W, 3)."""
    y, x = np.mgrid[0:height, 0:width]
    picture = np.stack([x * 255 / (width - 1), y * 255 / (height - 1), (x + y) % 256], axis=-1)
    colors = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0), (255, 0, 255), (0, 255, 255), (255,) * 3, (0,) * 3]
    for i, color in enumerate(colors):
        picture[20 + 25 * i : 40 + 25 * i, 30:120] = color
    picture[60:120, 150:220] = ((x + y)[60:120, 150:220, None] % 2) * 255
    picture[130:190, 150:220] = ((x // 3)[130:190, 150:220, None] % 2) * 255
    picture[40:200, 240:310] = np.random.default_rng(0).integers(0, 256, (160, 70, 3))
    return picture.round().astype(np.uint8)


# --- torchvision's result for a transform and its parameters ---------------------------------------------------------


def mode(transform: Any, *, resizes: bool) -> InterpolationMode:
    if transform.interpolation == "bilinear":
        return InterpolationMode.BILINEAR
    # For resizing, torchvision's NEAREST takes another pixel than its NEAREST_EXACT and PIL.
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
    return F.resize(picture, size, max_size=transform.max_size, **given)


def random_crop(picture: Any, transform: t.RandomCrop, drawn: Drawn) -> Any:
    """Its position is relative to the padded image."""
    picture = F.pad(picture, list(transform.padding), fill=whole(transform.fill))
    if transform.pad_if_needed:
        missing = [max(0, wanted - there) for wanted, there in zip(transform.size, size_of(picture), strict=True)]
        picture = F.pad(picture, [missing[1], missing[0]], fill=whole(transform.fill))
    return F.crop(picture, *whole((drawn["top"], drawn["left"])), *transform.size)


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


def jitter(picture: Any, drawn: Drawn) -> Any:
    changes: list[tuple[str, Callable[[Any, float], Any]]] = [
        ("brightness", F.adjust_brightness),
        ("contrast", F.adjust_contrast),
        ("saturation", F.adjust_saturation),
        ("hue", F.adjust_hue),
    ]
    for index in whole(drawn.get("order", range(4))):
        name, change = changes[index]
        if drawn.get(name) is not None:
            picture = change(picture, drawn[name])
    return picture


def erase(picture: Any, holes: Sequence[float], value: Sequence[float]) -> Any:
    rows, columns = size_of(picture)
    fill_color = torch.tensor(value)[:, None, None]
    if isinstance(picture, torch.Tensor):
        fill_color = fill_color.to(picture.dtype)
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
    turned = np.einsum("rk,khw->rhw", matrix, picture.numpy())
    twisted = ((turned - 128) * contrast + 128) * brightness
    return torch.from_numpy(np.clip(np.rint(twisted), 0, 255).astype(np.uint8))


def one_step(picture: Any, transform: t.Transform, drawn: Drawn) -> Any:
    """The image after one transform; a list of images for a transform that makes views."""
    applied = drawn.get("applied", 1.0) > 0.5
    match transform:
        case t.Resize():
            return resize(picture, transform)
        case t.CenterCrop():
            return F.center_crop(picture, list(transform.size))
        case t.RandomCrop():
            return random_crop(picture, transform, drawn)
        case t.RandomResizedCrop():
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
        case t.ColorJitter():
            return jitter(picture, drawn)
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
            tensor = picture if isinstance(picture, torch.Tensor) else F.pil_to_tensor(picture)
            return F.normalize(F.to_dtype(tensor, torch.float32, scale=True), transform.mean, transform.std)
    raise NotImplementedError(transform)


def theirs(frames: np.ndarray, transforms: list[t.Transform], drawn: list[Drawn], against: str) -> np.ndarray:
    """(views, T, H, W, 3) from torchvision or PIL."""
    made_of_each = []
    for frame in frames:
        views = [Image.fromarray(frame) if against == PIL else torch.from_numpy(frame).permute(2, 0, 1)]
        for transform, numbers in zip(transforms, drawn, strict=True):
            after = [one_step(view, transform, numbers) for view in views]
            views = [each for one in after for each in (one if isinstance(one, list) else [one])]
        made_of_each.append(
            [np.asarray(v.permute(1, 2, 0) if isinstance(v, torch.Tensor) else v).astype(np.float32) for v in views]
        )
    return np.stack([np.stack(view) for view in zip(*made_of_each, strict=True)])
