"""Positions in a video's frame, moved as the transforms move its pixels."""

from __future__ import annotations

import importlib
from typing import Any

from framespool._framespool import Tensor
from framespool.errors import ArgumentError

__all__ = ["map_boxes", "map_points"]


def map_points(points: Any, geometry: Any) -> Any:
    """Moves points from a video's frame to the frames of a clip.

    A point (x, y) becomes (a x + b y + c, d x + e y + f) for the geometry ((a, b, c), (d, e, f)). Pixels are unit
    squares: the center of the first one is (0.5, 0.5).

    Args:
        points: (..., 2) x and y, in pixels of the frame as displayed; an array, a `torch.Tensor` or nested lists. Of a
            batch (N, ..., 2).
        geometry: (2, 3), or (N, 2, 3) for a batch: `batch.geometry`, or its part for one clip.

    Returns:
        (..., 2), a `torch.Tensor` if one of the arguments is one, else a NumPy array.

    Raises:
        ArgumentError: If the shapes do not fit.

    Example:
        >>> import framespool as fsp
        >>> t = fsp.transforms
        >>> clip_sampler = fsp.samplers.random(sequence_length=4)
        >>> transforms = [t.Resize((180, 320)), t.RandomHorizontalFlip(1.0)]
        >>> [batch] = fsp.ClipLoader(["a.mp4"], clip_sampler, batch_size=1, transforms=transforms)
        >>> t.map_points([[[0, 0], [640, 360]]], batch.geometry).tolist()
        [[[320.0, 0.0], [0.0, 180.0]]]
    """
    points, geometry = _arrays("points", points, 2, geometry)
    if geometry.ndim == 3:
        # Over all dimensions of the points between N and the last.
        geometry = geometry.reshape((len(geometry), *[1] * (points.ndim - 2), 2, 3))
    return (geometry[..., :2] @ points[..., None])[..., 0] + geometry[..., 2]


def map_boxes(boxes: Any, geometry: Any, size: tuple[int, int] | None = None) -> Any:
    """Moves boxes from a video's frame to the frames of a clip.

    The result is the smallest upright box around the moved corners.

    Args:
        boxes: (..., 4) left, top, right and bottom, in pixels of the frame as displayed; as `points` of `map_points()`.
        geometry: As for `map_points()`.
        size: (height, width) of the frames, to which boxes are clipped: a box outside has no area. `None`: they are not
            clipped.

    Returns:
        (..., 4), as `map_points()`.

    Raises:
        ArgumentError: If the shapes do not fit.

    Example:
        >>> import framespool as fsp
        >>> half = [[0.5, 0, 0], [0, 0.5, 0]]
        >>> fsp.transforms.map_boxes([[20, 10, 700, 90]], half, size=(180, 320)).tolist()
        [[10.0, 5.0, 320.0, 45.0]]
    """
    boxes, geometry = _arrays("boxes", boxes, 4, geometry)
    corners = boxes[..., [0, 1, 2, 1, 0, 3, 2, 3]].reshape((*boxes.shape[:-1], 4, 2))
    corners = map_points(corners, geometry)
    x, y = corners[..., 0], corners[..., 1]
    sides = [x.min(-1), y.min(-1), x.max(-1), y.max(-1)]
    if hasattr(corners, "detach"):
        torch = importlib.import_module("torch")
        sides = [side.values for side in sides]
        sides = sides if size is None else [side.clamp(0, size[n % 2 == 0]) for n, side in enumerate(sides)]
        return torch.stack(sides, -1)
    import numpy as np

    sides = sides if size is None else [side.clip(0, size[n % 2 == 0]) for n, side in enumerate(sides)]
    return np.stack(sides, -1)


def _arrays(name: str, values: Any, width: int, geometry: Any) -> tuple[Any, Any]:
    """Both as float64 arrays of one library, with shapes that fit."""
    values, geometry = (value.cpu() if isinstance(value, Tensor) else value for value in (values, geometry))
    tensor = next((value for value in (values, geometry) if hasattr(value, "detach")), None)
    if tensor is not None:
        torch = importlib.import_module("torch")
        values, geometry = (
            torch.as_tensor(value.numpy() if isinstance(value, Tensor) else value).to(tensor.device, torch.float64)
            for value in (values, geometry)
        )
    else:
        import numpy as np

        values, geometry = (np.asarray(value, dtype="float64") for value in (values, geometry))
    fits = tuple(geometry.shape[-2:]) == (2, 3) and values.ndim >= 1 and values.shape[-1] == width
    of_batch = geometry.ndim == 3 and values.ndim >= 2 and len(values) == len(geometry)
    if not fits or not (geometry.ndim == 2 or of_batch):
        raise ArgumentError(
            f"{name} must be (..., {width}) with a geometry of (2, 3), or (N, ..., {width}) with (N, 2, 3), got "
            f"{tuple(values.shape)} and {tuple(geometry.shape)}"
        )
    return values, geometry
