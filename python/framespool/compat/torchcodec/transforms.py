"""torchcodec's transforms, which are applied while decoding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from framespool import transforms as ours
from framespool.compat.torchcodec._torch import needed
from framespool.transforms import Transform

__all__ = ["CenterCrop", "DecoderTransform", "RandomCrop", "Resize"]


class DecoderTransform:
    """Base of these transforms. ``size``: ``(height, width)`` of the result in pixels, else ValueError."""

    def __init__(self, size: Sequence[int]) -> None:
        self.size = _pair(self, size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size})"


class Resize(DecoderTransform):
    """Bilinear, with antialiasing: the frame as torchvision would resize it.

    :class:`framespool.transforms.Resize` in its place is faster and needs less memory; see docs/howto/transforms.md for
    how its results differ.
    """


class CenterCrop(DecoderTransform):
    """The middle of the picture, which must be as large."""


class RandomCrop(DecoderTransform):
    """A part at a place that torch's generator draws when the decoder is made; it is the same for all its frames."""


@dataclass(frozen=True)
class Translated:
    """Transforms for pictures of one size. ``steps`` are the engine's. What follows a resize is done by ``finish``:
    torchcodec and torchvision resize RGB, rounded and clamped before, where the engine resizes what is stored in the
    file, and the two differ at saturated edges. ``size``: (height, width) of the result."""

    steps: list[Transform]
    after: list[tuple[int, ...]]
    size: tuple[int, int]

    def finish(self, data: Any) -> Any:
        """Frames (N, H, W, 3) of the engine, with what is left to do."""
        for step in self.after:
            if len(step) == 2:
                data = _resized(data, step[0], step[1])
            else:
                top, left, height, width = step
                data = data[:, top : top + height, left : left + width].contiguous()
        return data


def translate(transforms: Sequence[Any], height: int, width: int) -> Translated:
    """Transforms of torchcodec or of torchvision v2, for pictures of this size.

    Where framespool's own are among them, all are the engine's. Raises ValueError for others, and for options of
    torchvision's transforms that torchcodec does not have (other interpolations than bilinear, no antialiasing,
    padding); framespool's own transforms have most of them.
    """
    own = any(isinstance(transform, Transform) for transform in transforms)
    steps: list[Transform] = []
    after: list[tuple[int, ...]] = []
    for transform in transforms:
        if isinstance(transform, Transform):
            steps.append(transform)
            size = getattr(transform, "size", None)
            height, width = size if isinstance(size, tuple) and len(size) == 2 else (height, width)
            continue
        name = type(transform).__name__
        theirs = type(transform).__module__.startswith("torchvision.transforms.v2")
        if name not in __all__ or not (theirs or isinstance(transform, DecoderTransform)):
            raise ValueError(f"Unsupported transform {transform!r}: give Resize, CenterCrop or RandomCrop")
        if theirs:
            _only_plain(transform, name)
        size = _pair(transform, transform.size)
        if min(size) < 1:
            raise RuntimeError(f"{name}: height and width must be positive, got {size}")
        if name == "Resize":
            if own:
                steps.append(ours.Resize(size))
            elif size != (height, width):
                after.append(size)
        else:
            if size[0] > height or size[1] > width:
                kind = ValueError if name == "RandomCrop" else RuntimeError
                raise kind(
                    f"{name} to {size}: pictures of {(height, width)} are smaller than the crop; put Resize before it"
                )
            top, left = _corner(name, size, height, width)
            if after:
                after.append((top, left, *size))
            else:
                steps += _part(top, left, size, height, width)
        height, width = size
    return Translated(steps, after, (height, width))


def _corner(name: str, size: tuple[int, int], height: int, width: int) -> tuple[int, int]:
    """Top and left of a crop: in the middle, as torchvision rounds it, or drawn now."""
    spare = (height - size[0], width - size[1])
    if name == "CenterCrop":
        return round(spare[0] / 2), round(spare[1] / 2)
    torch = needed()
    top, left = (int(torch.randint(0, room + 1, (1,))) for room in spare)
    return top, left


def _part(top: int, left: int, size: tuple[int, int], height: int, width: int) -> list[Transform]:
    """A crop at a place: what is added at the sides brings it into the middle, and is cropped away."""
    sides = []
    for start, whole, part in ((top, height, size[0]), (left, width, size[1])):
        behind = whole - part - start
        sides.append((max(0, behind - start), max(0, start - behind)))
    (above, below), (before, behind) = sides
    padding = [ours.Pad((before, above, behind, below))] if any((above, below, before, behind)) else []
    return [*padding, ours.CenterCrop(size)]


def _resized(data: Any, height: int, width: int) -> Any:
    """Frames (N, H, W, 3) resized as torchvision does it: bilinear, antialiased, in RGB."""
    torch = needed()
    frames, size = data.permute(0, 3, 1, 2), (height, width)
    # On the CPU torch resizes bytes as they are, and elsewhere only floats.
    whole = data.dtype == torch.uint8 and data.device.type != "cpu"
    made = torch.nn.functional.interpolate(frames.float() if whole else frames, size, mode="bilinear", antialias=True)
    made = made.round().clamp(0, 255).to(torch.uint8) if whole else made
    return made.permute(0, 2, 3, 1).contiguous()


def _pair(transform: Any, size: Any) -> tuple[int, int]:
    if not isinstance(size, Sequence) or len(size) != 2:
        name = type(transform).__name__
        raise ValueError(f"{name} transform must have a (height, width) pair for the size, got {size!r}")
    return int(size[0]), int(size[1])


def _only_plain(transform: Any, name: str) -> None:
    """Refuses options of torchvision's transforms that would otherwise be ignored."""
    instead = f"give framespool.transforms.{name} instead, in the same list"
    if name == "Resize":
        how = transform.interpolation
        if str(getattr(how, "value", how)).lower() != "bilinear":
            raise ValueError(f"Resize must use bilinear interpolation, got {how}; {instead}, which has others")
        if transform.antialias is False:
            raise ValueError(
                f"Resize must have antialias enabled, got antialias=False; {instead}, which can do without"
            )
        if transform.size is None or transform.max_size is not None:
            raise ValueError(f"Resize must have a size specified and no max_size; {instead}, which has max_size")
    if name == "RandomCrop":
        for option, plain, words in (
            ("padding", None, "must not specify padding"),
            ("pad_if_needed", False, "must not specify pad_if_needed"),
            ("fill", 0, "fill must be 0"),
            ("padding_mode", "constant", "padding_mode must be constant"),
        ):
            value = getattr(transform, option)
            if value != plain:
                raise ValueError(f"RandomCrop {words}, got {option}={value!r}; put a transform that pads before it")
