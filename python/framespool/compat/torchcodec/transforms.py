"""torchcodec's transforms, which are applied while decoding."""

from __future__ import annotations

from collections.abc import Sequence
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
    """Bilinear, with antialiasing."""


class CenterCrop(DecoderTransform):
    """The middle of the picture, which must be as large."""


class RandomCrop(DecoderTransform):
    """A part at a place that torch's generator draws when the decoder is made; it is the same for all its frames."""


def translate(transforms: Sequence[Any], height: int, width: int) -> list[Transform]:
    """framespool's transforms for those of torchcodec or of torchvision v2, for pictures of this size.

    framespool's own are kept. Raises ValueError for others, and for options of torchvision's transforms that
    torchcodec does not have (other interpolations than bilinear, no antialiasing, padding); framespool's own transforms
    have most of them.
    """
    steps: list[Transform] = []
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
        if name != "Resize" and (size[0] > height or size[1] > width):
            kind = ValueError if name == "RandomCrop" else RuntimeError
            raise kind(
                f"{name} to {size}: pictures of {(height, width)} are smaller than the crop; put Resize before it"
            )
        if name == "Resize":
            steps.append(ours.Resize(size))
        elif name == "CenterCrop":
            steps.append(ours.CenterCrop(size))
        else:
            steps += _part(size, height, width)
        height, width = size
    return steps


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


def _part(size: tuple[int, int], height: int, width: int) -> list[Transform]:
    """A crop at a place drawn now: what is added at the sides brings it into the middle, and is cropped away."""
    torch = needed()
    sides = []
    for whole, part in ((height, size[0]), (width, size[1])):
        start = int(torch.randint(0, whole - part + 1, (1,)))
        behind = whole - part - start
        sides.append((max(0, behind - start), max(0, start - behind)))
    (top, bottom), (left, right) = sides
    return [ours.Pad((left, top, right, bottom)), ours.CenterCrop(size)]
