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
        if isinstance(size, int) or len(size) != 2:
            raise ValueError(f"{type(self).__name__}: size must be (height, width), got {size!r}")
        self.size = (int(size[0]), int(size[1]))

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

    framespool's own are kept. Raises ValueError for others.
    """
    steps: list[Transform] = []
    for transform in transforms:
        if isinstance(transform, Transform):
            steps.append(transform)
            continue
        name = type(transform).__name__
        theirs = type(transform).__module__.startswith("torchvision.transforms.v2")
        if name not in __all__ or not (theirs or isinstance(transform, DecoderTransform)):
            raise ValueError(f"unsupported transform {transform!r}: give Resize, CenterCrop or RandomCrop")
        if len(transform.size) != 2:
            raise ValueError(f"{transform!r}: size must be (height, width)")
        size = (int(transform.size[0]), int(transform.size[1]))
        if name != "Resize" and (size[0] > height or size[1] > width):
            raise RuntimeError(f"{name} to {size} of pictures of only {(height, width)}; put Resize before it")
        if name == "Resize":
            steps.append(ours.Resize(size))
        elif name == "CenterCrop":
            steps.append(ours.CenterCrop(size))
        else:
            steps += _part(size, height, width)
        height, width = size
    return steps


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
