"""Transforms that apply a list of other transforms, or one of several lists, to a clip at random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from framespool._common.validate_args import as_sequence, number
from framespool.errors import ArgumentError
from framespool.transforms._args import Probability, Transform, optional

__all__ = ["RandomApply", "RandomChoice"]


def _as_list(name: str, transforms: Any) -> tuple[Transform, ...]:
    entries = as_sequence(transforms)
    if not entries:
        raise ArgumentError(f"{name} must be a list of at least one transform, got {transforms!r}")
    return _transforms(name, entries)


def _as_lists(name: str, transforms: Any) -> tuple[tuple[Transform, ...], ...]:
    entries = as_sequence(transforms)
    if not entries:
        raise ArgumentError(f"{name} must be a list of at least one entry, got {transforms!r}")
    lists = [as_sequence(entry) for entry in entries]
    return tuple(
        _transforms(name, (entry,) if inner is None else inner) for entry, inner in zip(entries, lists, strict=True)
    )


def _as_weights(name: str, weights: Any) -> tuple[float, ...]:
    entries = as_sequence(weights)
    if entries is None:
        raise ArgumentError(f"{name} must be a list of weights, got {weights!r}")
    checked = tuple(number(name, weight, least=0) for weight in entries)
    if not any(checked):
        raise ArgumentError(f"{name} must have a weight above 0, got {weights!r}")
    return checked


def _transforms(name: str, entries: Sequence[Any]) -> tuple[Transform, ...]:
    """Checks that all are transforms: the callables of a user run after the pass."""
    for entry in entries:
        if isinstance(entry, type):
            kind = name.partition(":")[0]
            raise ArgumentError(f"{kind}: {entry.__name__} is a class; use an object, {entry.__name__}(...)")
        if not isinstance(entry, Transform):
            raise ArgumentError(
                f"{name} must be framespool.transforms objects, got {entry!r}; put a callable at the end "
                "of the list of the loader, in PerClip or PerBatch"
            )
    return tuple(entries)


@dataclass(frozen=True)
class ListTransform(Transform):
    """Common base of the transforms that apply one of several lists."""

    _keeps_one_size = False

    @property
    def _moves_pixels(self) -> bool:  # type: ignore[override]
        return all(inner._moves_pixels for entries in self._lists() for inner in entries)

    def _lists(self) -> tuple[tuple[Transform, ...], ...]:
        """The lists that may be applied."""
        raise NotImplementedError


@dataclass(frozen=True)
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

    transforms: Annotated[Sequence[Transform], _as_list]
    p: Probability = 0.5

    def _lists(self) -> tuple[tuple[Transform, ...], ...]:
        return (tuple(self.transforms),)

    def _variant(self) -> tuple[str, dict[str, Any]]:
        return "RandomApply", {"steps": [entry._step() for entry in self.transforms], "p": self.p}


@dataclass(frozen=True)
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

    transforms: Annotated[Sequence[Transform | Sequence[Transform]], _as_lists]
    p: Annotated[Sequence[float] | None, optional(_as_weights)] = None

    def __post_init__(self) -> None:
        given = self.p
        super().__post_init__()
        if self.p is not None and len(self.p) != len(self.transforms):
            count = len(self.transforms)
            raise ArgumentError(f"RandomChoice: p must have a weight for each of {count} entries, got {given!r}")

    def _lists(self) -> tuple[tuple[Transform, ...], ...]:
        return self.transforms  # type: ignore[return-value]

    def _variant(self) -> tuple[str, dict[str, Any]]:
        weights = self.p or [1.0] * len(self.transforms)
        lists = [[entry._step() for entry in entries] for entries in self._lists()]
        return "RandomChoice", {"choices": list(zip(weights, lists, strict=True))}
