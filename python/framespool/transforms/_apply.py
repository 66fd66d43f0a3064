"""Transforms on arrays, with the same pass as on videos."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from framespool import _framespool
from framespool._common.validate_args import ClipLayout, Dtype, as_sequence, batch_layout, check_dtype, integer
from framespool.errors import ArgumentError
from framespool.transforms._args import Transform
from framespool.transforms._compose import split, steps
from framespool.transforms._functions import apply_functions


@overload
def apply(
    array: Any,
    transforms: Sequence[Any],
    *,
    masks: None = None,
    mask_fill: int = 0,
    seed: int = 0,
    epoch: int = 0,
    clip: int = 0,
    dtype: Dtype = "uint8",
    layout: ClipLayout = "THWC",
) -> Any: ...
@overload
def apply(
    array: Any,
    transforms: Sequence[Any],
    *,
    masks: Any,
    mask_fill: int = 0,
    seed: int = 0,
    epoch: int = 0,
    clip: int = 0,
    dtype: Dtype = "uint8",
    layout: ClipLayout = "THWC",
) -> tuple[Any, Any]: ...
def apply(
    array: Any,
    transforms: Sequence[Any],
    *,
    masks: Any = None,
    mask_fill: int = 0,
    seed: int = 0,
    epoch: int = 0,
    clip: int = 0,
    dtype: Dtype = "uint8",
    layout: ClipLayout = "THWC",
) -> Any:
    """Applies transforms to an array.

    The result is what a loader makes of a clip with these frames, except for rounding, since a loader resizes in YUV.

    Args:
        array: uint8, (T, H, W, 3) or one frame (H, W, 3), RGB; one channel instead of three is gray. NumPy arrays,
            PyTorch tensors on the CPU, `framespool.video.Tensor` and objects with Python's buffer protocol.
        transforms: List of transforms; the last entry may be a callable.
        masks: Labels of the pixels of `array`, uint8, (T, H, W) or (H, W), or a list of such arrays. They move
            exactly as `array`, each pixel taking the nearest label; color and erasing transforms and `Normalize`
            skip them. `None`: no masks.
        mask_fill: Label outside the frame, 0 to 255.
        seed: Seed of the loader whose random numbers are used.
        epoch: Epoch of the loader.
        clip: Clip of the loader. The same three numbers move another array of the same size in the same way.
        dtype: `"uint8"`, `"uint16"`, `"float16"`, `"bfloat16"` or `"float32"`.
        layout: `"THWC"`, `"TCHW"` or `"CTHW"`.

    Returns:
        A Tensor (T, H, W, C) in `layout` and `dtype`, without T if `array` has none; `ThreeCrop` and `FiveCrop` add a
        first dimension. With `masks`, `(frames, masks)`, where masks are a list if they were one.

    Raises:
        ArgumentError: If an array has another shape or type, or an argument is invalid.

    Example:
        >>> import framespool as fsp
        >>> frame = fsp.Video("a.mp4", layout="THWC")[0]
        >>> fsp.transforms.apply(frame, [fsp.transforms.Resize(90), fsp.transforms.CenterCrop(64)]).shape
        (64, 64, 3)
    """
    native_steps, functions = split(transforms, dtype)
    owner = _owner(seed, epoch, clip)
    check_dtype(dtype)
    engine_layout = batch_layout(layout)
    data, shape, single = _pixels("array", array, channels=True)
    made = _framespool.apply(data, shape, native_steps, owner, dtype, engine_layout, None)
    frames, own_layout = made, str(layout)
    if single:
        frames, own_layout = made.drop_time(engine_layout), layout.replace("T", "")
    frames = apply_functions(functions, frames, own_layout, [owner])
    if masks is None:
        return frames
    fill = integer("mask_fill", mask_fill, most=255)
    listed = isinstance(masks, (list, tuple))
    moved = []
    for mask in masks if listed else [masks]:
        labels, mask_shape, mask_single = _pixels("masks", mask, channels=False)
        if mask_shape[:3] != shape[:3]:
            raise ArgumentError(
                f"masks must have the array's frames, height and width {shape[:3]}, got {mask_shape[:3]}"
            )
        labels_made = _framespool.apply(labels, mask_shape, native_steps, owner, dtype, "NTHWC", fill)
        moved.append(labels_made.drop_time("NTHW") if mask_single else labels_made)
    return frames, moved if listed else moved[0]


def sample_params(
    shape: Sequence[int],
    transforms: Sequence[Transform],
    *,
    seed: int = 0,
    epoch: int = 0,
    clip: int = 0,
    frame: int = 0,
    num_frames: int | None = None,
) -> list[dict[str, Any]]:
    """Returns the random numbers that transforms draw for a clip.

    Args:
        shape: (height, width), or the shape of an array (..., height, width, C). For a video and a transform with
            `display_aspect=True`: (display_height, display_width) of its `VideoInfo`.
        transforms: List of transforms.
        seed: Seed of the loader.
        epoch: Epoch of the loader.
        clip: Clip of the loader.
        frame: Position of the frame in the clip, which matters only with `per_frame=True`.
        num_frames: Number of frames of the clip, which matters only after `SmartResize` with `total_pixels`. `None`:
            the frame is the last one.

    Returns:
        list: One dict per transform with its `name`, and the numbers by name: positions and sizes in pixels, angles
        in degrees, `applied` 1.0 or 0.0, `holes` as top, left, height, width of each in turn, `order` of the
        four changes of `ColorJitter` (0 brightness, 1 contrast, 2 saturation, 3 hue). `RandomApply` and `RandomChoice`
        also have `transforms`, the list of dicts of the transforms inside that are applied.

    Raises:
        ArgumentError: If an argument is invalid.

    Example:
        >>> import framespool as fsp
        >>> [drawn] = fsp.transforms.sample_params((240, 320), [fsp.transforms.RandomHorizontalFlip(1.0)])
        >>> drawn["name"], drawn["applied"]
        ('RandomHorizontalFlip', 1.0)
    """
    sides = as_sequence(shape)
    if sides is None or len(sides) < 2 or (len(sides) > 2 and sides[-1] not in (1, 3)):
        raise ArgumentError(f"shape must be (height, width) or an array's (..., height, width, 1 or 3), got {shape!r}")
    height, width = sides if len(sides) == 2 else sides[-3:-1]
    size = (integer("width", width, least=1, most=65535), integer("height", height, least=1, most=65535))
    frame = integer("frame", frame)
    length = frame + 1 if num_frames is None else integer("num_frames", num_frames, least=frame + 1)
    return _framespool.sample_transform_params(size, steps(transforms), _owner(seed, epoch, clip), (frame, length))


def _owner(seed: int, epoch: int, clip: int) -> tuple[int, int, int]:
    most = 2**64 - 1
    return integer("seed", seed, most=most), integer("epoch", epoch, most=most), integer("clip", clip, most=most)


def _pixels(name: str, array: Any, *, channels: bool) -> tuple[Any, tuple[int, int, int, int], bool]:
    """The bytes of `array`, its (T, H, W, C), and whether it is a single frame."""
    try:
        view = memoryview(array)
    except TypeError:
        try:
            view = memoryview(array.numpy())
        except (AttributeError, TypeError, RuntimeError) as error:
            raise ArgumentError(f"{name} must be a uint8 array, got {type(array).__name__}: {error}") from None
    if view.format != "B":
        raise ArgumentError(f"{name} must be uint8, 0 to 255, got format {view.format!r}; convert it")
    shape = view.shape or ()
    ndim = 3 if channels else 2
    expected = "(T, H, W, C) or (H, W, C)" if channels else "(T, H, W) or (H, W)"
    if len(shape) not in (ndim, ndim + 1):
        raise ArgumentError(f"{name} must be {expected}, got shape {shape}")
    if channels and shape[-1] not in (1, 3):
        raise ArgumentError(f"{name} must have 1 or 3 channels in its last dimension, got shape {shape}")
    if 0 in shape:
        raise ArgumentError(f"{name} has no pixels: its shape is {shape}")
    single = len(shape) == ndim
    full = (*((1,) if single else ()), *shape, *(() if channels else (1,)))
    return view, (full[0], full[1], full[2], full[3]), single
