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
            batch (N, ..., 2), or a list with (K, 2) points for each clip, where K may differ and be 0; `None` is no
            points.
        geometry: (2, 3), or (N, 2, 3) for a batch: `batch.geometry`, or its part for one clip. Of a batch with views,
            such as those of `ThreeCrop`, one view: `batch.torch().geometry[:, 0]`.

    Returns:
        (..., 2), a `torch.Tensor` if one of the arguments is one, else a NumPy array. For a list of arrays, or of
        different numbers of points, a list with (K, 2) for each clip.

    Raises:
        ArgumentError: If the shapes do not fit.

    Example:
        >>> import framespool as fsp
        >>> t = fsp.transforms
        >>> clip_sampler = fsp.samplers.RandomClips(sequence_length=4)
        >>> transforms = [t.Resize((180, 320)), t.RandomHorizontalFlip(1.0)]
        >>> [batch] = fsp.ClipLoader(["a.mp4"], clip_sampler, batch_size=1, transforms=transforms)
        >>> t.map_points([[[0, 0], [640, 360]]], batch.geometry).tolist()
        [[[320.0, 0.0], [0.0, 180.0]]]
    """
    if _is_per_clip(points):
        return [map_points(*clip) for clip in _clips("points", points, 2, geometry)]
    points, geometry = _arrays("points", points, 2, geometry)
    if geometry.ndim == 3:
        # Over all dimensions of the points between N and the last.
        geometry = geometry.reshape((len(geometry), *[1] * (points.ndim - 2), 2, 3))
    return (geometry[..., :2] @ points[..., None])[..., 0] + geometry[..., 2]


def map_boxes(boxes: Any, geometry: Any, size: tuple[int, int] | None = None, *, relative_to: Any = None) -> Any:
    """Moves boxes from a video's frame to the frames of a clip.

    The result is the smallest upright box around the moved corners.

    Args:
        boxes: (..., 4) left, top, right and bottom, in pixels of the frame as displayed; as `points` of `map_points()`,
            so that each clip may have its own number of boxes.
        geometry: As for `map_points()`.
        size: (height, width) of the frames, to which boxes are clipped: a box outside has no area. `None`: they are not
            clipped.
        relative_to: (height, width) of the video's frames, or (N, 2) for a batch, if boxes are from 0 to 1, as in AVA.
            `None`: boxes are in pixels.

    Returns:
        (..., 4) in pixels, as `map_points()`.

    Raises:
        ArgumentError: If the shapes do not fit.

    Example:
        >>> import framespool as fsp
        >>> half = [[0.5, 0, 0], [0, 0.5, 0]]
        >>> fsp.transforms.map_boxes([[20, 10, 700, 90]], half, size=(180, 320)).tolist()
        [[10.0, 5.0, 320.0, 45.0]]
        >>> first, second = fsp.transforms.map_boxes([[[0, 0, 0.5, 1]], []], [half, half], relative_to=(360, 640))
        >>> first.tolist(), second.shape
        ([[0.0, 0.0, 160.0, 180.0]], (0, 4))
    """
    if _is_per_clip(boxes):
        relative_to = relative_to.cpu().numpy() if isinstance(relative_to, Tensor) else relative_to
        sizes = [relative_to] * len(boxes)
        if relative_to is not None and not _is_pair(relative_to):
            sizes = list(relative_to)
            if len(sizes) != len(boxes):
                raise ArgumentError(f"relative_to must be (2,) or ({len(boxes)}, 2), got {len(sizes)} sizes")
        clips = zip(_clips("boxes", boxes, 4, geometry), sizes, strict=True)
        return [map_boxes(*clip, size, relative_to=frame) for clip, frame in clips]
    boxes, geometry = _arrays("boxes", boxes, 4, geometry)
    if relative_to is not None:
        boxes = boxes * _scale(boxes, relative_to)
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


def _is_pair(size: Any) -> bool:
    """Whether it is one (height, width), not one per clip."""
    return not hasattr(size[0], "__len__") or getattr(size[0], "ndim", 1) == 0


def _scale(boxes: Any, size: Any) -> Any:
    """Width and height of the video's frames in the order of a box, with the dimensions of the boxes."""
    if isinstance(size, Tensor):
        size = size.cpu().numpy()
    if hasattr(boxes, "detach"):
        size = importlib.import_module("torch").as_tensor(size).to(boxes)
    else:
        import numpy as np

        size = np.asarray(size, dtype="float64")
    if tuple(size.shape) not in ((2,), (len(boxes), 2)):
        raise ArgumentError(
            f"relative_to must be (height, width) of the video's frames, or (N, 2) for a batch, got {tuple(size.shape)}"
        )
    size = size[..., [1, 0, 1, 0]]
    return size if size.ndim == 1 else size.reshape((len(size), *[1] * (boxes.ndim - 2), 4))


def _is_per_clip(values: Any) -> bool:
    """Whether it is a list with the points or boxes of each clip that are not to be one array."""
    if not isinstance(values, (list, tuple)):
        return False
    counts = [_count(value) for value in values]
    arrays = any(len(getattr(value, "shape", ())) == 2 for value in values)
    return None not in counts and (arrays or 0 in counts or len(set(counts)) > 1)


def _count(value: Any) -> int | None:
    """Number of points or boxes of a clip; `None` if it has other dimensions."""
    if value is None:
        return 0
    shape = getattr(value, "shape", None)
    if shape is not None:
        return 0 if 0 in shape else shape[0] if len(shape) == 2 else None
    if not isinstance(value, (list, tuple)):
        return None
    is_rows = all(hasattr(row, "__len__") and getattr(row, "ndim", 1) == 1 for row in value)
    return len(value) if is_rows else None


def _clips(name: str, values: Any, width: int, geometry: Any) -> list[tuple[Any, Any]]:
    """The points or boxes of each clip, and its geometry."""
    like = next((value for value in values if hasattr(value, "detach")), None)
    none = [[0.0] * width] if like is None else like.new_zeros((1, width))
    geometry = geometry.cpu().numpy() if isinstance(geometry, Tensor) else geometry
    if isinstance(geometry, (list, tuple)):
        import numpy as np

        geometry = np.asarray(geometry, dtype="float64")
    _refuse_views(geometry)
    if len(geometry.shape) == 3 and len(geometry) != len(values):
        raise ArgumentError(f"{name} are those of {len(values)} clips, and geometry is of {len(geometry)}")
    parts = [geometry] * len(values) if len(geometry.shape) == 2 else [geometry[n] for n in range(len(values))]
    clips = []
    for value, part in zip(values, parts, strict=True):
        if _count(value):
            clips.append((value, part))
        else:
            empty, part = _arrays(name, none, width, part)
            clips.append((empty[:0], part))
    return clips


def _refuse_views(geometry: Any) -> None:
    """Raises for the geometry of several views: a clip with as many boxes as views would have one box in each."""
    if len(geometry.shape) > 3:
        raise ArgumentError(
            f"geometry has several views or clips per row, {tuple(geometry.shape)}: map those of one after another, "
            "with geometry[:, 0], geometry[:, 1], ..."
        )


def _arrays(name: str, values: Any, width: int, geometry: Any) -> tuple[Any, Any]:
    """Both as float64 arrays of one library, with shapes that fit."""
    values, geometry = (value.cpu() if isinstance(value, Tensor) else value for value in (values, geometry))
    if isinstance(values, (list, tuple)) and not values:
        values = [[0.0] * width]
        values, geometry = _arrays(name, values, width, geometry)
        return values[:0], geometry
    try:
        return _converted(name, values, width, geometry)
    except (TypeError, ValueError, RuntimeError) as reason:
        if isinstance(reason, ArgumentError):
            raise
        raise ArgumentError(
            f"{name} must be numbers of the shape (..., {width}), or a list with (K, {width}) for each clip: {reason}"
        ) from reason


def _converted(name: str, values: Any, width: int, geometry: Any) -> tuple[Any, Any]:
    values, geometry = (value.cpu().numpy() if isinstance(value, Tensor) else value for value in (values, geometry))
    tensor = next((value for value in (values, geometry) if hasattr(value, "detach")), None)
    if tensor is not None:
        torch = importlib.import_module("torch")
        values, geometry = (torch.as_tensor(value).to(tensor.device, torch.float64) for value in (values, geometry))
    else:
        import numpy as np

        values, geometry = (np.asarray(value, dtype="float64") for value in (values, geometry))
    _refuse_views(geometry)
    fits = tuple(geometry.shape[-2:]) == (2, 3) and values.ndim >= 1 and values.shape[-1] == width
    of_batch = geometry.ndim == 3 and values.ndim >= 2 and len(values) == len(geometry)
    if not fits or not (geometry.ndim == 2 or of_batch):
        raise ArgumentError(
            f"{name} must be (..., {width}) with a geometry of (2, 3), or (N, ..., {width}) with (N, 2, 3), got "
            f"{tuple(values.shape)} and {tuple(geometry.shape)}"
        )
    return values, geometry
