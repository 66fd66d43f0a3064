"""Transforms that apply a list of other transforms, or one of several lists, to a clip at random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from framespool._common.validate_args import as_sequence, number
from framespool.errors import ArgumentError
from framespool.transforms._args import Transform, as_probability

if TYPE_CHECKING:
    from framespool._framespool import Step

__all__ = ["RandomApply", "RandomChoice"]


@dataclass(frozen=True, init=False)
class ListTransform(Transform):
    """Common base of the transforms that apply one of several lists."""

    def _lists(self) -> tuple[tuple[Transform, ...], ...]:
        """The lists that may be applied."""
        raise NotImplementedError


@dataclass(frozen=True, init=False)
class RandomApply(ListTransform):
    """Apply all of a list of transforms to a clip with probability `p`, or none of them.

    The transforms inside are part of the same pass, and draw their own numbers. If they change the size of the frame,
    clips differ in size: see `collate` of the loader. `Normalize`, `ToneMap`, `AssumeColor`, `ThreeCrop` and `FiveCrop`
    must apply to all clips and cannot be inside.

    Args:
        transforms: List of transforms, at least one.
        p: Probability, 0 to 1.

    Raises:
        ArgumentError: If an entry is not a transform of this module, or the list is empty.

    Example:
        >>> import framespool as fsp
        >>> t = fsp.transforms
        >>> blur = t.RandomApply([t.GaussianBlur(9), t.ColorJitter(0.4)], p=0.5)
        >>> [drawn] = t.sample_params((90, 160), [blur], seed=1)
        >>> drawn["applied"], [inner["name"] for inner in drawn["transforms"]]
        (1.0, ['GaussianBlur', 'ColorJitter'])
    """

    transforms: tuple[Transform, ...]
    p: float

    def __init__(self, transforms: Sequence[Transform], p: float = 0.5) -> None:
        entries = as_sequence(transforms)
        if not entries:
            raise ArgumentError(f"RandomApply: transforms must be a list of at least one transform, got {transforms!r}")
        self._set(transforms=_transforms("RandomApply", entries), p=as_probability("RandomApply", p))

    def _lists(self) -> tuple[tuple[Transform, ...], ...]:
        return (self.transforms,)

    def _step(self) -> Step:
        return "RandomApply", {"transforms": [[entry._step() for entry in self.transforms]], "p": self.p}, False


@dataclass(frozen=True, init=False)
class RandomChoice(ListTransform):
    """Apply one of several transforms, or of several lists of them, to a clip.

    If the lists do not end in the same size, clips differ in size: see `collate` of the loader. The transforms inside
    are part of the same pass; `RandomApply` names those that cannot be inside.

    Args:
        transforms: List of transforms and of lists of them, at least one. An empty list leaves the clip unchanged.
        p: Weight of each entry, not negative; they need not sum to 1. `None`: equal weights.

    Raises:
        ArgumentError: If an entry is not a transform of this module or a list of them, or `p` does not fit.

    Example:
        >>> import framespool as fsp
        >>> t = fsp.transforms
        >>> choice = t.RandomChoice([[t.Resize(128), t.CenterCrop(112)], t.RandomResizedCrop(112)], p=[1, 3])
        >>> drawn = t.sample_params((90, 160), [choice], seed=2)[0]
        >>> drawn["choice"], [inner["name"] for inner in drawn["transforms"]]
        (1.0, ['RandomResizedCrop'])
    """

    transforms: tuple[tuple[Transform, ...], ...]
    p: tuple[float, ...] | None

    def __init__(self, transforms: Sequence[Transform | Sequence[Transform]], p: Sequence[float] | None = None) -> None:
        entries = as_sequence(transforms)
        if not entries:
            raise ArgumentError(f"RandomChoice: transforms must be a list of at least one entry, got {transforms!r}")
        lists = []
        for entry in entries:
            inner = as_sequence(entry)
            lists.append(_transforms("RandomChoice", (entry,) if inner is None else inner))
        weights = None if p is None else as_sequence(p)
        if p is not None:
            if weights is None or len(weights) != len(lists):
                raise ArgumentError(f"RandomChoice: p must have a weight for each of {len(lists)} entries, got {p!r}")
            weights = tuple(number("RandomChoice: p", weight, least=0) for weight in weights)
            if not any(weights):
                raise ArgumentError(f"RandomChoice: p must have a weight above 0, got {p!r}")
        self._set(transforms=tuple(lists), p=weights)

    def _lists(self) -> tuple[tuple[Transform, ...], ...]:
        return self.transforms

    def _step(self) -> Step:
        weights = [1.0] * len(self.transforms) if self.p is None else list(self.p)
        lists = [[entry._step() for entry in entries] for entries in self.transforms]
        return "RandomChoice", {"transforms": lists, "p": weights}, False


def _transforms(name: str, entries: Sequence[Any]) -> tuple[Transform, ...]:
    """Checks that all are transforms: the callables of a user run after the pass."""
    for entry in entries:
        if isinstance(entry, type):
            raise ArgumentError(f"{name}: {entry.__name__} is a class; use an object, {entry.__name__}(...)")
        if not isinstance(entry, Transform):
            raise ArgumentError(
                f"{name}: transforms must be framespool.transforms objects, got {entry!r}; put a callable at the end "
                "of the list of the loader, in PerClip or PerBatch"
            )
    return tuple(entries)
