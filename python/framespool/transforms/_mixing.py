"""Transforms that mix the clips of a batch, and their labels with them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from framespool.errors import ArgumentError
from framespool.transforms._functions import BatchMixing, seeded

__all__ = ["CutMix", "MixUp"]


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
        >>> dataset, clip_sampler = fsp.datasets.folder("videos/"), fsp.samplers.random(sequence_length=4)
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
        >>> dataset, clip_sampler = fsp.datasets.folder("videos/"), fsp.samplers.random(sequence_length=4)
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


def _within(place: int, size: int) -> int:
    return min(max(place, 0), size)
