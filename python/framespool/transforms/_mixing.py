"""Transforms that change the labels of a batch: MixUp, CutMix, the choice of one of them, label smoothing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from framespool._common.validate_args import as_sequence, integer, number
from framespool.errors import ArgumentError
from framespool.transforms._functions import (
    BatchContext,
    BatchMixing,
    FunctionTransform,
    PerClip,
    label_vectors,
    seed_of,
    seeded,
    torch_module,
)

__all__ = ["CutMix", "LabelSmoothing", "MixUp", "OneOf"]


@dataclass(frozen=True)
class MixUp(BatchMixing):
    """Mix each clip with another one of the batch, and their labels, as `torchvision.transforms.v2.MixUp`.

    A clip becomes `w * clip + (1 - w) * other`, where `w` has the distribution Beta(alpha, alpha) and depends on (seed,
    epoch, clip); torchvision draws one `w` for the batch. Source: "mixup: Beyond Empirical Risk Minimization" (Zhang et
    al., 2018).

    The other clip is the one before it in the batch; for the first clip, the last one. With `repeats` of the loader it
    is that number of rows before, and rows that hold the same clip are passed over: a clip is never mixed with itself.
    Where a batch has only one clip, a warning says once that it is left as it is. `batch.mixed_with` has the row of the
    other clip, `batch.mix_weights` has `w`.

    It runs after all other transforms, on the thread that takes batches, and needs float frames of one size. Labels
    become float32 (N, `num_classes`).

    Args:
        num_classes: Number of classes. `None` if labels are vectors already.
        alpha: Parameter of the distribution.

    Raises:
        ArgumentError: If an argument is invalid; while iterating, if frames are not float, or a label is not a class.

    Example:
        >>> import framespool as fsp
        >>> import torch
        >>> t = fsp.transforms
        >>> transforms = [t.Resize((8, 8)), t.Normalize(0.45, 0.225), t.MixUp(num_classes=3)]
        >>> dataset, clip_sampler = fsp.datasets.folder("videos/"), fsp.samplers.RandomClips(sequence_length=4)
        >>> loader = fsp.ClipLoader(dataset, clip_sampler, batch_size=3, transforms=transforms, dtype="float32")
        >>> next(iter(loader)).labels.shape
        torch.Size([3, 3])
    """

    num_classes: int | None = None
    alpha: float = 1.0

    def _check_frames(self, frames: Any) -> None:
        if not frames.is_floating_point():
            raise ArgumentError(f'MixUp needs float frames, got {frames.dtype}; give the loader dtype="float32"')

    def _mix(
        self, torch: Any, frames: Any, layout: str, keys: Sequence[tuple[int, ...]], others: list[int]
    ) -> tuple[Any, Any]:
        shares = []
        for key in keys:
            with seeded(torch, key):
                shares.append(float(torch.distributions.Beta(self.alpha, self.alpha).sample()))
        weights = torch.tensor(shares)
        own = weights.to(frames).reshape(-1, *[1] * (frames.ndim - 1))
        return own * frames + (1 - own) * frames[others], weights


@dataclass(frozen=True)
class CutMix(BatchMixing):
    """Replace a box of each clip by that of another one of the batch, and mix their labels accordingly.

    As `torchvision.transforms.v2.CutMix`, with a box for each clip, which depends on (seed, epoch, clip); torchvision
    draws one for the batch. The box is the same in all frames of a clip. Its part of the frame has the distribution
    Beta(alpha, alpha) where the frame's border does not cut it, and its center is uniform. Source: "CutMix:
    Regularization Strategy to Train Strong Classifiers with Localizable Features" (Yun et al., 2019).

    The other clip is chosen as for `MixUp`; `batch.mix_weights` is the part of the frame outside the box.

    It runs after all other transforms, on the thread that takes batches, and needs frames of one size. Labels become
    float32 (N, `num_classes`).

    Args:
        num_classes: Number of classes. `None` if labels are vectors already.
        alpha: Parameter of the distribution.

    Raises:
        ArgumentError: If an argument is invalid; while iterating, if a label is not a class.

    Example:
        >>> import framespool as fsp
        >>> import torch
        >>> t = fsp.transforms
        >>> dataset, clip_sampler = fsp.datasets.folder("videos/"), fsp.samplers.RandomClips(sequence_length=4)
        >>> transforms = [t.Resize((8, 8)), t.CutMix(num_classes=3)]
        >>> loader = fsp.ClipLoader(dataset, clip_sampler, batch_size=3, transforms=transforms)
        >>> frames, labels = next(iter(loader))
        >>> labels.sum(dim=1)
        tensor([1., 1., 1.])
    """

    num_classes: int | None = None
    alpha: float = 1.0

    def _mix(
        self, torch: Any, frames: Any, layout: str, keys: Sequence[tuple[int, ...]], others: list[int]
    ) -> tuple[Any, Any]:
        rows, columns = (layout.index(axis) - len(layout) for axis in "HW")
        height, width = frames.shape[rows], frames.shape[columns]
        mixed, shares = frames.clone(), []
        for clip, (other, key) in enumerate(zip(others, keys, strict=True)):
            with seeded(torch, key):
                share = float(torch.distributions.Beta(self.alpha, self.alpha).sample())
                center_x, center_y = int(torch.randint(width, (1,))), int(torch.randint(height, (1,)))
            half = 0.5 * math.sqrt(1 - share)
            left, right = (_within(center_x + side * int(half * width), width) for side in (-1, 1))
            top, bottom = (_within(center_y + side * int(half * height), height) for side in (-1, 1))
            to, source = (
                frame.narrow(rows, top, bottom - top).narrow(columns, left, right - left)
                for frame in (mixed[clip], frames[other])
            )
            to.copy_(source)
            shares.append(1 - (bottom - top) * (right - left) / (height * width))
        return mixed, torch.tensor(shares)


@dataclass(frozen=True)
class OneOf(FunctionTransform):
    """Apply one of several functions to each batch, such as `MixUp` to some batches and `CutMix` to the others.

    The choice depends on (seed, epoch, number of the batch, rank), as the random numbers of `PerBatch` do. If `MixUp`
    or `CutMix` is among the functions, labels are vectors in all batches, also where another function is chosen.

    Args:
        transforms: `MixUp`, `CutMix`, `PerBatch`, `PerClip` and other functions at the end of a list.
        weights: Relative probability of each. `None`: all are equally likely.

    Raises:
        ArgumentError: If an argument is invalid, or if the functions name different numbers of classes.

    Example:
        >>> import framespool as fsp
        >>> import torch
        >>> t = fsp.transforms
        >>> mixing = t.OneOf([t.MixUp(num_classes=3, alpha=0.8), t.CutMix(num_classes=3)], weights=[0.3, 0.7])
        >>> transforms = [t.Resize((8, 8)), t.Normalize(0.45, 0.225), mixing]
        >>> dataset, clip_sampler = fsp.datasets.folder("videos/"), fsp.samplers.RandomClips(sequence_length=4)
        >>> loader = fsp.ClipLoader(dataset, clip_sampler, batch_size=3, transforms=transforms, dtype="float32")
        >>> next(iter(loader)).labels.shape
        torch.Size([3, 3])
    """

    transforms: Sequence[Any]
    weights: Sequence[float] | None = None

    _num_classes: ClassVar[int | None] = None
    #: Whether labels become vectors.
    _vectors: ClassVar[bool] = False

    def __post_init__(self) -> None:
        listed = as_sequence(self.transforms)
        if not listed:
            raise ArgumentError(f"OneOf: transforms must be a list of functions, got {self.transforms!r}")
        for each in listed:
            if not isinstance(each, FunctionTransform):
                raise ArgumentError(
                    f"OneOf: {each!r} is no function of clips or batches; use MixUp, CutMix, PerBatch(...) or "
                    "PerClip(...)"
                )
            if isinstance(each, PerClip) and each.on == "workers":
                raise ArgumentError(f'OneOf: {each!r} is chosen on the thread that takes batches; use on="consumer"')
        weights = None if self.weights is None else as_sequence(self.weights)
        if self.weights is not None:
            if weights is None or len(weights) != len(listed):
                raise ArgumentError(f"OneOf: weights must be {len(listed)} numbers, got {self.weights!r}")
            weights = tuple(number("OneOf: weights", weight, least=0, most=1e9) for weight in weights)
            if sum(weights) == 0:
                raise ArgumentError("OneOf: one of the weights must be above 0")
        object.__setattr__(self, "transforms", tuple(listed))
        object.__setattr__(self, "weights", weights)
        numbers = {each.num_classes for each in listed if isinstance(each, (BatchMixing, LabelSmoothing))}
        if len(numbers) > 1:
            raise ArgumentError(f"OneOf: num_classes must be the same in all functions that have it, got {self!r}")
        object.__setattr__(self, "_num_classes", next(iter(numbers), None))
        object.__setattr__(self, "_mixes", any(each._mixes for each in listed))
        object.__setattr__(self, "_vectors", bool(numbers))
        object.__setattr__(self, "_needs_one_size", any(each._needs_one_size for each in listed))
        object.__setattr__(self, "_changes_frames", any(each._changes_frames for each in listed))

    def _apply(
        self, frames: Any, layout: str, keys: Sequence[tuple[int, ...]], batch: BatchContext | None, place: int
    ) -> Any:
        torch, batch = torch_module(self), self._batch(batch)
        if self._vectors:
            batch.labels = label_vectors(self, torch, batch.labels, self._num_classes)
        weights = self.weights or [1.0] * len(self.transforms)
        bounds = list(itertools.accumulate(weights))
        drawn = seed_of((*batch._key, place, 2)) / 2**63 * bounds[-1]
        # Rounding may give the upper end, which belongs to the last function with a weight.
        chosen = next((each for each, bound in enumerate(bounds) if drawn < bound), bounds.index(bounds[-1]))
        return self.transforms[chosen]._apply(frames, layout, keys, batch, place)


@dataclass(frozen=True)
class LabelSmoothing(FunctionTransform):
    """Move a part of each label to all classes equally.

    A label `y` becomes `(1 - smoothing) * y + smoothing / num_classes`. Source: "Rethinking the Inception Architecture
    for Computer Vision" (Szegedy et al., 2016), section 7. Before and after `MixUp` or `CutMix` the result is the same.
    `torch.nn.CrossEntropyLoss(label_smoothing=...)` computes the same loss from labels without it: use one of both.

    Args:
        num_classes: Number of classes. `None` if labels are vectors already.
        smoothing: The part, from 0 to 1.

    Raises:
        ArgumentError: If an argument is invalid; while iterating, if a label is not a class.

    Example:
        >>> import framespool as fsp
        >>> import torch
        >>> dataset, clip_sampler = fsp.datasets.folder("videos/"), fsp.samplers.RandomClips(sequence_length=4)
        >>> transforms = [fsp.transforms.Resize((8, 8)), fsp.transforms.LabelSmoothing(num_classes=4, smoothing=0.2)]
        >>> loader = fsp.ClipLoader(dataset, clip_sampler, batch_size=1, transforms=transforms)
        >>> next(iter(loader)).labels
        tensor([[0.8500, 0.0500, 0.0500, 0.0500]])
    """

    num_classes: int | None = None
    smoothing: float = 0.1

    _needs_one_size = False
    _changes_frames = False

    def __post_init__(self) -> None:
        if self.num_classes is not None:
            integer("LabelSmoothing: num_classes", self.num_classes, least=1)
        number("LabelSmoothing: smoothing", self.smoothing, least=0, most=1)

    def _apply(
        self, frames: Any, layout: str, keys: Sequence[tuple[int, ...]], batch: BatchContext | None, place: int
    ) -> Any:
        torch, batch = torch_module(self), self._batch(batch)
        labels = label_vectors(self, torch, batch.labels, self.num_classes)
        batch.labels = (1 - self.smoothing) * labels + self.smoothing / labels.shape[1]
        return frames


def _within(place: int, size: int) -> int:
    return min(max(place, 0), size)
