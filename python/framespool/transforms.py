"""What to make of each frame. A list of these, in torchvision's order and meaning, becomes one pass over the picture.

Specs are small immutable objects that compare by value and can be pickled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from framespool._check import whole
from framespool.errors import ArgumentError

if TYPE_CHECKING:
    from framespool._framespool import Step

__all__ = ["CenterCrop", "Normalize", "Resize", "Transform"]


def _sides(name: str, size: int | Sequence[int]) -> tuple[int, ...]:
    sides = tuple(size) if isinstance(size, Sequence) and not isinstance(size, str) else (size,)
    if len(sides) not in (1, 2):
        raise ArgumentError(f"{name}: size must be an int or (height, width), got {size!r}")
    return tuple(whole(f"{name}: a side", side, least=1) for side in sides)


class Transform:
    """Base of all transforms."""

    def _step(self) -> Step:
        raise NotImplementedError


@dataclass(frozen=True)
class Resize(Transform):
    """Resize with an antialiased triangle filter, as torchvision's ``Resize(size, antialias=True)``.

    ``size``: an int for the shorter side (the longer one becomes ``int(size * longer / shorter)``), or
    ``(height, width)``; in pixels.
    """

    size: int | tuple[int, ...]

    def __init__(self, size: int | Sequence[int]) -> None:
        sides = _sides("Resize", size)
        object.__setattr__(self, "size", sides[0] if len(sides) == 1 else sides)

    def _step(self) -> Step:
        size = self.size
        return ("Resize", [float(size)] if isinstance(size, int) else [float(side) for side in size])


@dataclass(frozen=True)
class CenterCrop(Transform):
    """Keep the middle ``size``: an int for a square, or ``(height, width)``; in pixels.

    The corner is rounded as torchvision does (half to even). A picture smaller than the crop is an error.
    """

    size: tuple[int, int]

    def __init__(self, size: int | Sequence[int]) -> None:
        sides = _sides("CenterCrop", size)
        object.__setattr__(self, "size", (sides[0], sides[-1]))

    def _step(self) -> Step:
        return ("CenterCrop", [float(side) for side in self.size])


@dataclass(frozen=True)
class Normalize(Transform):
    """``(value / 255 - mean) / std`` for each channel; must come last and needs ``dtype="float32"``.

    ``mean``, ``std``: three numbers each, for values in 0..1.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        for name, values in (("mean", mean), ("std", std)):
            if len(values) != 3:
                raise ArgumentError(f"Normalize: {name} must have three numbers, one per channel, got {values!r}")
        object.__setattr__(self, "mean", tuple(float(v) for v in mean))
        object.__setattr__(self, "std", tuple(float(v) for v in std))

    def _step(self) -> Step:
        return ("Normalize", [*self.mean, *self.std])


def steps(transforms: Iterable[Transform] | None) -> list[Step]:
    """The engine's form of a list of transforms."""
    out: list[Step] = []
    for transform in transforms or ():
        if not isinstance(transform, Transform):
            raise ArgumentError(
                f"transforms must be framespool.transforms objects, got {transform!r}; "
                "apply your own callables to the batch"
            )
        out.append(transform._step())
    return out
