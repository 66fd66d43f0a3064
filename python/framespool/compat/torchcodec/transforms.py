"""torchcodec's transforms, which are applied during decoding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from framespool import transforms as ours
from framespool.compat.torchcodec._torch import needed
from framespool.transforms import Transform
from framespool.video._video import Video

__all__ = ["CenterCrop", "DecoderTransform", "RandomCrop", "Resize"]


class DecoderTransform:
    """Base class of these transforms.

    Args:
        size: ``(height, width)`` of the result in pixels.

    Raises:
        ValueError: If ``size`` is not a pair.
    """

    def __init__(self, size: Sequence[int]) -> None:
        self.size = _pair(self, size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size})"


class Resize(DecoderTransform):
    """Resizes frames as torchvision does: bilinear, with antialiasing.

    :class:`framespool.transforms.Resize` is faster and needs less memory; docs/howto/transforms.md describes how its
    results differ.
    """


class CenterCrop(DecoderTransform):
    """Crops the center of the frame, which must be at least as large."""


class RandomCrop(DecoderTransform):
    """Crops at a random position, drawn by torch's generator when the decoder is created; all its frames share it."""


@dataclass(frozen=True)
class Translated:
    """Transforms for frames of one size.

    The engine resizes the planes that the file stores; torchcodec and torchvision resize RGB, rounded and clamped
    before. The two differ at saturated edges, so a resize and what follows it are applied by ``finish``.

    Attributes:
        steps: The engine's transforms.
        after: Sizes of resizes, and boxes (top, left, height, width) of crops, to apply to decoded frames.
        size: (height, width) of the result; ``None`` if only decoding shows it (see :func:`decoded_size`).
    """

    steps: list[Transform]
    after: list[tuple[int, ...]]
    size: tuple[int, int] | None

    def finish(self, data: Any) -> Any:
        """Applies the remaining transforms to frames of the engine.

        Args:
            data: Frames, (N, H, W, 3).

        Returns:
            Frames, (N, H, W, 3).
        """
        for step in self.after:
            if len(step) == 2:
                data = _resized(data, step[0], step[1])
            else:
                top, left, height, width = step
                data = data[:, top : top + height, left : left + width].contiguous()
        return data


def translate(transforms: Sequence[Any], video: Video) -> Translated:
    """Converts transforms of torchcodec or of torchvision v2 for the frames of a video.

    If framespool's own transforms are among them, the engine applies all.

    Args:
        transforms: The transforms.
        video: The video.

    Returns:
        The converted transforms.

    Raises:
        ValueError: If a transform is not supported, or has an option of torchvision that torchcodec does not have
            (interpolations other than bilinear, no antialiasing, padding); framespool's own transforms have most of
            them. Or if a crop follows a transform of framespool whose result has a random size.
        RuntimeError: If a size is not positive, or a center crop is larger than the frame.
        framespool.Error: If the first frame cannot be decoded, which shows the size before a crop.
    """
    own = any(isinstance(transform, Transform) for transform in transforms)
    steps: list[Transform] = []
    after: list[tuple[int, ...]] = []
    known: tuple[int, int] | None = (video.info.height, video.info.width)
    for transform in transforms:
        if isinstance(transform, Transform):
            steps.append(transform)
            known = None
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
            elif size != known:
                after.append(size)
        else:
            if known is None and not all(step._keeps_one_size for step in steps):
                raise ValueError(
                    f"{name} cannot follow transforms of framespool whose result has a random size; give "
                    f"framespool.transforms.{name} instead, in the same list"
                )
            height, width = known or decoded_size(video, steps)
            if size[0] > height or size[1] > width:
                kind = ValueError if name == "RandomCrop" else RuntimeError
                raise kind(
                    f"{name} to {size}: frames of {(height, width)} are smaller than the crop; put Resize before it"
                )
            top, left = _corner(name, size, height, width)
            if after:
                after.append((top, left, *size))
            else:
                steps += _part(top, left, size, height, width)
        known = size
    return Translated(steps, after, known)


def decoded_size(video: Video, steps: list[Transform]) -> tuple[int, int]:
    """Returns the size of a video's frames after transforms of the engine.

    Args:
        video: The video, with `layout="THWC"`.
        steps: The transforms.

    Returns:
        (height, width) of the first frame.

    Raises:
        framespool.Error: If it cannot be decoded.
    """
    height, width = video.frames([0], transforms=steps, dtype="float32").frames.shape[1:3]
    return height, width


def _corner(name: str, size: tuple[int, int], height: int, width: int) -> tuple[int, int]:
    """Returns top and left of a crop: the center, as torchvision rounds it, or a random position."""
    spare = (height - size[0], width - size[1])
    if name == "CenterCrop":
        return round(spare[0] / 2), round(spare[1] / 2)
    torch = needed()
    top, left = (int(torch.randint(0, room + 1, (1,))) for room in spare)
    return top, left


def _part(top: int, left: int, size: tuple[int, int], height: int, width: int) -> list[Transform]:
    """Returns a crop at a position: padding moves it to the center, and the center crop removes the padding."""
    sides = []
    for start, whole, part in ((top, height, size[0]), (left, width, size[1])):
        behind = whole - part - start
        sides.append((max(0, behind - start), max(0, start - behind)))
    (above, below), (before, behind) = sides
    padding = [ours.Pad((before, above, behind, below))] if any((above, below, before, behind)) else []
    return [*padding, ours.CenterCrop(size)]


def _resized(data: Any, height: int, width: int) -> Any:
    """Resizes frames (N, H, W, 3) as torchvision does: bilinear, antialiased, in RGB."""
    torch = needed()
    frames, size = data.permute(0, 3, 1, 2), (height, width)
    # torch resizes uint8 directly on the CPU, on other devices only floats.
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
                raise ValueError(f"RandomCrop {words}, got {option}={value!r}; put a padding transform before it")
