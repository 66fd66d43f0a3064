"""Functions of the user at the end of a list of transforms."""

from __future__ import annotations

import contextlib
import importlib
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from framespool._framespool import Tensor
from framespool._validate_args import integer, number
from framespool.errors import ArgumentError

__all__ = ["PerBatch", "PerClip"]


@dataclass(frozen=True)
class PerClip:
    """Apply a function to each clip, as torchvision's transforms expect it.

    It runs after all other transforms, on the thread that takes batches; in a `framespool.torch.ClipDataset`, in the
    worker processes. PyTorch's default generator on the CPU is seeded for each clip, from (seed, epoch, clip), and
    restored afterwards: random transforms draw the same numbers after a checkpoint and in any number of processes.

    Args:
        function: Gets the clip as a `torch.Tensor` (T, C, H, W) in the dtype of the loader, of an image (C, H, W);
            `ThreeCrop` and `FiveCrop` add a first dimension. A result with as many dimensions is put back into the
            layout of the loader, any other is returned as it is. Results of one shape are stacked, others are a list.

    Raises:
        ArgumentError: If `function` is not callable.

    Example:
        >>> import framespool as fsp
        >>> import torch
        >>> transforms = [fsp.transforms.Resize((8, 8)), fsp.transforms.PerClip(lambda clip: torch.flip(clip, [-1]))]
        >>> tuple(fsp.Video("a.mp4").frames([0, 1], transforms=transforms).data.shape)
        (2, 8, 8, 3)
    """

    function: Callable[[Any], Any]

    def __post_init__(self) -> None:
        _check(self)

    def _apply(self, frames: Any, layout: str, keys: Iterable[tuple[int, ...]]) -> Any:
        """Applies the function to the clips of `frames`, or to `frames` itself if its layout has no N."""
        torch = _torch(self)
        clip_layout = layout.removeprefix("N")
        if clip_layout == layout:
            return self._one(torch, _tensor(frames), layout, *keys)
        clips = frames if isinstance(frames, list) else _tensor(frames)
        results = [self._one(torch, _tensor(clip), clip_layout, key) for clip, key in zip(clips, keys, strict=True)]
        stackable = all(isinstance(made, torch.Tensor) and made.shape == results[0].shape for made in results)
        return torch.stack(results) if stackable else results

    def _one(self, torch: Any, clip: Any, layout: str, key: tuple[int, ...]) -> Any:
        forward = "TCHW" if "T" in layout else "CHW"
        views = range(clip.ndim - len(layout))
        there = [*views, *(len(views) + layout.index(axis) for axis in forward)]
        with seeded(torch, key):
            made = self.function(clip.permute(there))
        if isinstance(made, torch.Tensor) and made.ndim == clip.ndim:
            back = [*views, *(len(views) + forward.index(axis) for axis in layout)]
            made = made.permute(back).contiguous()
        return made


@dataclass(frozen=True)
class PerBatch:
    """Apply a function to each finished batch, such as a random mix of its clips.

    It runs after all other transforms, on the thread that takes batches.

    Args:
        function: Gets the frames as a `torch.Tensor` in the layout and dtype of the loader; its result replaces them.

    Raises:
        ArgumentError: If `function` is not callable.

    Example:
        >>> import framespool as fsp
        >>> import torch
        >>> clip_sampler = fsp.samplers.random(sequence_length=4)
        >>> transforms = [fsp.transforms.Resize((8, 8)), fsp.transforms.PerBatch(torch.neg)]
        >>> loader = fsp.ClipLoader(["a.mp4"], clip_sampler, batch_size=1, transforms=transforms)
        >>> next(iter(loader)).frames.shape
        torch.Size([1, 4, 3, 8, 8])
    """

    function: Callable[[Any], Any]

    def __post_init__(self) -> None:
        _check(self)

    def _apply(self, frames: Any) -> Any:
        _torch(self)
        return self.function(_tensor(frames))


class BatchMixing:
    """Common base of the transforms that mix the clips of a batch."""

    num_classes: int | None
    alpha: float

    def __post_init__(self) -> None:
        name = type(self).__name__
        _torch(self)
        number(f"{name}: alpha", self.alpha, above=0)
        if self.num_classes is not None:
            integer(f"{name}: num_classes", self.num_classes, least=1)

    def _apply(self, frames: Any, labels: Any, layout: str, keys: Sequence[tuple[int, ...]]) -> tuple[Any, Any]:
        """Returns mixed frames, and their labels as vectors. Frames that are no batch have no labels."""
        torch = _torch(self)
        if labels is None:
            raise ArgumentError(f"{self!r} mixes the clips of a batch; use it in the transforms of a loader")
        labels = _tensor(labels)
        if labels.ndim == 1:
            labels = self._one_hot(torch, labels)
        elif self.num_classes not in (None, labels.shape[1]):
            raise ArgumentError(f"{self!r}: labels are vectors of {labels.shape[1]} numbers; remove num_classes")
        mixed, kept = self._mix(torch, _tensor(frames), layout, keys)
        kept = kept.to(labels.device).unsqueeze(1)
        return mixed, kept * labels + (1 - kept) * labels.roll(1, 0)

    def _mix(self, torch: Any, frames: Any, layout: str, keys: Sequence[tuple[int, ...]]) -> tuple[Any, Any]:
        """Returns the mixed frames, and the part (N,) of each clip that is its own, float32."""
        raise NotImplementedError

    def _one_hot(self, torch: Any, labels: Any) -> Any:
        if self.num_classes is None:
            raise ArgumentError(f"{self!r} needs num_classes, since labels are class numbers")
        wrong = [label for label in labels.tolist() if label not in range(self.num_classes)]
        if wrong:
            raise ArgumentError(f"{self!r}: the label {wrong[0]} is not a class from 0 to {self.num_classes - 1}")
        return torch.nn.functional.one_hot(labels.long(), self.num_classes).float()


@contextlib.contextmanager
def seeded(torch: Any, key: tuple[int, ...]) -> Iterator[None]:
    """Seeds PyTorch's default generator on the CPU, and restores it at the end.

    Args:
        torch: The module.
        key: Numbers from which the seed is derived.

    Returns:
        A context manager.
    """
    import hashlib  # loads OpenSSL, which most programs do not need

    with torch.random.fork_rng(devices=[]):
        digest = hashlib.blake2b(struct.pack(f"<{len(key)}Q", *key), digest_size=8).digest()
        # manual_seed would also seed the generators of all devices.
        torch.default_generator.manual_seed(int.from_bytes(digest, "little") >> 1)
        yield


def _check(transform: PerClip | PerBatch) -> None:
    if not callable(transform.function):
        name = type(transform).__name__
        raise ArgumentError(f"{name}: function must be callable, got {transform.function!r}")


def _torch(transform: PerClip | PerBatch | BatchMixing) -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise ArgumentError(
            f"{type(transform).__name__} works on torch.Tensor: install PyTorch, `pip install torch`"
        ) from None


def _tensor(frames: Any) -> Any:
    """A `torch.Tensor` of a `framespool.Tensor`; anything else is the result of another function and stays."""
    return frames.torch() if isinstance(frames, Tensor) else frames


def apply_functions(
    functions: Sequence[Any], frames: Any, layout: str, keys: Sequence[tuple[int, ...]], labels: Any = None
) -> tuple[Any, Any]:
    """Applies the user's functions in turn.

    Args:
        functions: `PerClip`, `PerBatch`, `MixUp` and `CutMix` objects, and at the end at most one callable.
        frames: A Tensor, or a list of Tensors.
        layout: Its layout, such as `"NTCHW"`, `"TCHW"` or `"HWC"`.
        keys: Numbers that identify each clip, or the one clip if the layout has no N.
        labels: Labels of the clips; `None` if the frames are no batch.

    Returns:
        The result of the last function, or `frames` without any; and the labels.

    Raises:
        ArgumentError: If frames of different sizes are passed to a function of a batch.
    """
    for function in functions:
        if isinstance(function, PerClip):
            frames = function._apply(frames, layout, keys)
            continue
        if isinstance(frames, list):
            # Also if the frames of this batch have one size: the input of a function must not vary between batches.
            raise ArgumentError(
                f"{function!r} needs frames of one size, but these transforms give different ones; "
                'put Resize((height, width)) or a crop before it, or use collate="pad"'
            )
        if isinstance(function, BatchMixing):
            frames, labels = function._apply(frames, labels, layout, keys)
        elif isinstance(function, PerBatch):
            frames = function._apply(frames)
        else:
            frames = function(_tensor(frames) if is_module(function) else frames)
    return frames, labels


def is_module(function: Any) -> bool:
    """Whether a callable is a `torch.nn.Module`; PyTorch is not imported for it.

    Args:
        function: The callable.

    Returns:
        The answer.
    """
    module = getattr(getattr(sys.modules.get("torch"), "nn", None), "Module", None)
    return isinstance(module, type) and isinstance(function, module)
