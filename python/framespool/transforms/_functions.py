"""Functions of the user at the end of a list of transforms."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from framespool._common.validate_args import choice, integer, number
from framespool._framespool import Tensor
from framespool.errors import ArgumentError

__all__ = ["BatchContext", "PerBatch", "PerClip"]


@dataclass(eq=False, repr=False)
class BatchContext:
    """The batch that a function of `PerBatch` works on, without its frames.

    The function may assign `labels` and add entries to `columns`: the batch is delivered with them.

    Args:
        labels: Labels of the clips, as in `Batch`, or as the functions before this one changed them. In host memory:
            the loader moves them to the GPU of the frames afterwards.
        columns: Columns of the batch by name; `batch[name]` finds the entries.
        clip_ids: (N,) int64, index of each clip in the dataset.
        video_ids: (N,) int64, index of each clip's video, or of each image.
        epoch: The epoch, from 0.
        generator: A `torch.Generator` on the CPU, seeded for this function and batch.

    Example:
        >>> import framespool as fsp
        >>> import torch
        >>> def add_noise(frames, context):
        ...     context.columns["levels"] = torch.rand(len(frames), generator=context.generator)
        ...     return frames + context.columns["levels"].reshape(-1, 1, 1, 1, 1)
        >>> transforms = [fsp.transforms.Resize((8, 8)), fsp.transforms.PerBatch(add_noise)]
        >>> clip_sampler = fsp.samplers.RandomClips(sequence_length=4)
        >>> loader = fsp.ClipLoader(["a.mp4"], clip_sampler, batch_size=1, transforms=transforms)
        >>> next(iter(loader))["levels"].shape
        torch.Size([1])
    """

    labels: Any
    columns: dict[str, Any]
    clip_ids: Any
    video_ids: Any
    epoch: int
    generator: Any = None
    #: Seed, epoch, batch of this rank, rank.
    _key: tuple[int, ...] = ()
    #: How many neighboring rows hold the same clip.
    _repeats: int = 1
    #: What `Batch` has under these names.
    _mixed_with: Any = None
    _mix_weights: Any = None
    #: A transform that had no two clips to mix.
    _idle: BatchMixing | None = None


class FunctionTransform:
    """Common base of what stands at the end of a list of transforms and is not a plain callable."""

    #: Whether frames must be one tensor, not a list of tensors of different sizes.
    _needs_one_size = True
    #: Whether it mixes the clips of a batch, and makes labels vectors.
    _mixes = False
    #: Whether it changes the frames, which then depend on more than their content keys.
    _changes_frames = True

    def _apply(
        self, frames: Any, layout: str, keys: Sequence[tuple[int, ...]], batch: BatchContext | None, place: int
    ) -> Any:
        """Returns the frames that replace `frames`, and changes what else changes in `batch`.

        Args:
            frames: A Tensor or a list of Tensors, of this package or of PyTorch.
            layout: Its layout.
            keys: Numbers that identify each clip.
            batch: The batch; `None` if the frames are no batch.
            place: Position of this function among those of the list, for random numbers of its own.
        """
        raise NotImplementedError

    def _batch(self, batch: BatchContext | None) -> BatchContext:
        """Returns the batch, or raises if the frames are no batch of a loader."""
        if batch is None:
            raise ArgumentError(f"{self!r} works on the clips of a batch; use it in the transforms of a loader")
        return batch


@dataclass(frozen=True)
class PerClip(FunctionTransform):
    """Apply a function to each clip, as torchvision's transforms expect it.

    It runs after all other transforms; in a `framespool.torch.ClipDataset`, in the worker processes. PyTorch's default
    generator on the CPU is seeded for each clip, from (seed, epoch, clip) and the position in the list, and restored
    afterwards: random transforms draw the same numbers after a checkpoint and in any number of processes. The
    generators of Python and NumPy are not.

    With `on="workers"` it runs on as many threads as the loader has for decoding, for `prefetch_batches` batches ahead
    of the one that is delivered, which therefore need memory, too. Operators of PyTorch and most of NumPy release the
    GIL; a function of Python code runs on one thread at a time. The function must not change what another call reads.
    Its random numbers are those of `on="consumer"`: operators of PyTorch draw from a generator of the clip. An operator
    that takes no generator is an error.

    Args:
        function: Gets the clip as a `torch.Tensor` (T, C, H, W) in the dtype of the loader, of an image (C, H, W);
            `ThreeCrop` and `FiveCrop` add a first dimension. A result with as many dimensions is put back into the
            layout of the loader, any other is returned as it is. Results of one shape are stacked, others are a list.
        on: Where the function runs in a loader; the result is the same.
            - `"consumer"`: on the thread that takes batches, one clip after another.
            - `"workers"`: on threads, ahead. It must come before functions that run on the other thread, and needs
              frames on the CPU. An error of the function is raised in place of the batch.

    Raises:
        ArgumentError: If an argument is invalid.

    Example:
        >>> import framespool as fsp
        >>> import torch
        >>> transforms = [fsp.transforms.Resize((8, 8)), fsp.transforms.PerClip(lambda clip: torch.flip(clip, [-1]))]
        >>> tuple(fsp.Video("a.mp4").frames([0, 1], transforms=transforms).frames.shape)
        (2, 3, 8, 8)
    """

    function: Callable[[Any], Any]
    on: Literal["consumer", "workers"] = field(default="consumer", compare=False)

    _needs_one_size = False

    def __post_init__(self) -> None:
        _check(self)
        choice("PerClip: on", self.on, ("consumer", "workers"))

    def _apply(
        self, frames: Any, layout: str, keys: Sequence[tuple[int, ...]], batch: BatchContext | None, place: int
    ) -> Any:
        """Applies the function to the clips of `frames`, or to `frames` itself if its layout has no N."""
        torch = torch_module(self)
        clip_layout = layout.removeprefix("N")
        single = clip_layout == layout
        clips = [frames] if single else frames if isinstance(frames, list) else _tensor(frames)
        results = []
        for clip, key in zip(clips, keys, strict=True):
            with seeded(torch, key):
                results.append(self._one(torch, _tensor(clip), clip_layout))
        return results[0] if single else collated(torch, results)

    def _one(self, torch: Any, clip: Any, layout: str) -> Any:
        forward = "TCHW" if "T" in layout else "CHW"
        views = range(clip.ndim - len(layout))
        there = [*views, *(len(views) + layout.index(axis) for axis in forward)]
        made = self.function(clip.permute(there))
        if isinstance(made, torch.Tensor) and made.ndim == clip.ndim:
            back = [*views, *(len(views) + forward.index(axis) for axis in layout)]
            made = made.permute(back).contiguous()
        return made


def collated(torch: Any, results: list[Any]) -> Any:
    """The results of a function for the clips of a batch.

    Args:
        torch: The module.
        results: One per clip.

    Returns:
        A tensor if all are tensors of one shape, else the list.
    """
    stackable = all(isinstance(made, torch.Tensor) and made.shape == results[0].shape for made in results)
    return torch.stack(results) if stackable else results


@dataclass(frozen=True)
class PerBatch(FunctionTransform):
    """Apply a function to each finished batch, such as a random mix of its clips.

    It runs after all other transforms, on the thread that takes batches.

    If the function has a parameter `context`, it gets a `BatchContext` there, with labels, ids and a generator:
    `function(frames, context)`. To change the labels it assigns `context.labels`, to add a value to the batch it
    assigns `context.columns[name]`; what it returns always replaces the frames.

    `context.generator` and PyTorch's default generator on the CPU are seeded for each batch, and the default one is
    restored afterwards; generators of GPUs are not. The seed depends on (seed, epoch, number of the batch, rank) and on
    the position in the list. A run that is resumed on the same number of ranks draws the same numbers, with any number
    of threads or `DataLoader` workers. On another number of ranks batches hold other clips, so a clip meets other
    numbers; for numbers that depend on the clip only, use `PerClip`.

    Args:
        function: Gets the frames as a `torch.Tensor` in the layout and dtype of the loader; its result replaces them.

    Raises:
        ArgumentError: If `function` is not callable; while iterating, if it has a parameter `context` and the frames
            are no batch of a loader.

    Example:
        >>> import framespool as fsp
        >>> import torch
        >>> clip_sampler = fsp.samplers.RandomClips(sequence_length=4)
        >>> transforms = [fsp.transforms.Resize((8, 8)), fsp.transforms.PerBatch(torch.neg)]
        >>> loader = fsp.ClipLoader(["a.mp4"], clip_sampler, batch_size=1, transforms=transforms)
        >>> next(iter(loader)).frames.shape
        torch.Size([1, 4, 3, 8, 8])
    """

    function: Callable[..., Any]

    _takes_context: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check(self)
        object.__setattr__(self, "_takes_context", _has_parameter(self.function, "context"))

    def _apply(
        self, frames: Any, layout: str, keys: Sequence[tuple[int, ...]], batch: BatchContext | None, place: int
    ) -> Any:
        torch, frames = torch_module(self), _tensor(frames)
        key = (*(keys[0] if batch is None else batch._key), place)
        with seeded(torch, key):
            if not self._takes_context:
                return self.function(frames)
            batch = self._batch(batch)
            for name in ("labels", "clip_ids", "video_ids"):
                setattr(batch, name, _tensor(getattr(batch, name)))
            batch.generator = torch.Generator().manual_seed(seed_of((*key, 1)))
            return self.function(frames, context=batch)


def _has_parameter(function: Callable[..., Any], name: str) -> bool:
    """Whether a function names this parameter. A `torch.nn.Module` is called through `forward`."""
    called: Any = function
    try:
        return name in inspect.signature(called.forward if is_module(called) else called).parameters
    except (TypeError, ValueError):
        return False  # a function of C without a signature


class BatchMixing(FunctionTransform):
    """Common base of the transforms that mix the clips of a batch."""

    num_classes: int | None
    alpha: float

    _mixes = True

    def __post_init__(self) -> None:
        name = type(self).__name__
        torch_module(self)
        number(f"{name}: alpha", self.alpha, above=0)
        if self.num_classes is not None:
            integer(f"{name}: num_classes", self.num_classes, least=1)

    def _apply(
        self, frames: Any, layout: str, keys: Sequence[tuple[int, ...]], batch: BatchContext | None, place: int
    ) -> Any:
        """Mixes frames, and makes labels vectors and mixes them."""
        torch, batch, frames = torch_module(self), self._batch(batch), _tensor(frames)
        self._check_frames(frames)
        labels = label_vectors(self, torch, batch.labels, self.num_classes)
        others = mixing_partners(batch.clip_ids.tolist(), batch._repeats)
        if others == list(range(len(others))):
            weights, batch._idle = torch.ones(len(others)), self
        else:
            frames, weights = self._mix(torch, frames, layout, keys, others)
        own = weights.to(labels.device).unsqueeze(1)
        batch.labels = own * labels + (1 - own) * labels[others]
        batch._mixed_with, batch._mix_weights = torch.tensor(others), weights
        return frames

    def _check_frames(self, frames: Any) -> None:
        """Raises if these frames cannot be mixed."""

    def _mix(
        self, torch: Any, frames: Any, layout: str, keys: Sequence[tuple[int, ...]], others: list[int]
    ) -> tuple[Any, Any]:
        """Returns the mixed frames, and the part (N,) of each clip that is its own, float32 on the CPU.

        `others` has the row that is mixed into each row.
        """
        raise NotImplementedError


def mixing_partners(clips: Sequence[int], repeats: int) -> list[int]:
    """Which row of a batch is mixed into each row: `repeats` rows before it, or the nearest one before that.

    It holds another clip, and rows before the first one are counted from the end. With `repeats`, where
    neighboring rows hold the same clip, each repeat is the partner of one row only.

    Args:
        clips: Index of the clip in each row.
        repeats: Number of neighboring rows with the same clip.

    Returns:
        The row for each row: itself if all rows hold the same clip.
    """
    size = len(clips)
    earlier = ([(row - repeats - step) % size for step in range(size)] for row in range(size))
    return [next((each for each in rows if clips[each] != clips[row]), row) for row, rows in enumerate(earlier)]


def label_vectors(transform: FunctionTransform, torch: Any, labels: Any, num_classes: int | None) -> Any:
    """Converts class numbers to vectors of probabilities.

    Args:
        transform: The transform that needs them, for the message of an error.
        torch: The module.
        labels: (N,) class numbers, or vectors (N, K), which stay.
        num_classes: Number of classes; `None` if labels are vectors.

    Returns:
        (N, K) float32, or the vectors.

    Raises:
        ArgumentError: If `num_classes` does not fit the labels.
    """
    labels = _tensor(labels)
    if labels.ndim > 1:
        if num_classes not in (None, labels.shape[1]):
            raise ArgumentError(f"{transform!r}: labels are vectors of {labels.shape[1]} numbers; remove num_classes")
        return labels
    if num_classes is None:
        raise ArgumentError(f"{transform!r} needs num_classes, since labels are class numbers")
    wrong = [label for label in labels.tolist() if label not in range(num_classes)]
    if wrong:
        raise ArgumentError(f"{transform!r}: the label {wrong[0]} is not a class from 0 to {num_classes - 1}")
    return torch.nn.functional.one_hot(labels.long(), num_classes).float()


@contextlib.contextmanager
def seeded(torch: Any, key: tuple[int, ...]) -> Iterator[None]:
    """Seeds PyTorch's default generator on the CPU, and restores it at the end.

    Args:
        torch: The module.
        key: Numbers from which the seed is derived.

    Returns:
        A context manager.
    """
    with torch.random.fork_rng(devices=[]):
        # manual_seed of the module would also seed the generators of all devices.
        torch.default_generator.manual_seed(seed_of(key))
        yield


def seed_of(key: tuple[int, ...]) -> int:
    """Derives a seed from numbers that identify a clip or a batch.

    Args:
        key: The numbers.

    Returns:
        An int from 0 to 2**63 - 1, each equally likely.
    """
    import hashlib  # loads OpenSSL, which most programs do not need

    digest = hashlib.blake2b(struct.pack(f"<{len(key)}Q", *key), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def _check(transform: PerClip | PerBatch) -> None:
    if not callable(transform.function):
        name = type(transform).__name__
        raise ArgumentError(f"{name}: function must be callable, got {transform.function!r}")


def torch_module(transform: FunctionTransform) -> Any:
    """Imports PyTorch.

    Args:
        transform: The transform that needs it, for the message of an error.

    Returns:
        The module.

    Raises:
        ArgumentError: If it is not installed.
    """
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise ArgumentError(
            f"{type(transform).__name__} works on torch.Tensor: install PyTorch, `pip install torch`"
        ) from None


def _tensor(frames: Any) -> Any:
    """A `torch.Tensor` of a `framespool.video.Tensor`; anything else is the result of another function and stays."""
    return frames.torch() if isinstance(frames, Tensor) else frames


def apply_functions(
    functions: Sequence[Any],
    frames: Any,
    layout: str,
    keys: Sequence[tuple[int, ...]],
    batch: BatchContext | None = None,
    first: int = 0,
) -> Any:
    """Applies the user's functions in turn.

    Args:
        functions: `FunctionTransform` objects, and at the end at most one callable.
        frames: A Tensor, or a list of Tensors.
        layout: Its layout, such as `"NTCHW"`, `"TCHW"` or `"HWC"`.
        keys: Numbers that identify each clip, or the one clip if the layout has no N.
        batch: The batch, which the functions may change; `None` if the frames are no batch.
        first: Position of the first function to apply: those before it have been applied to `frames`.

    Returns:
        The result of the last function, or `frames` without any.

    Raises:
        ArgumentError: If frames of different sizes are passed to a function of a batch.
    """
    for place, function in enumerate(functions[first:], first):
        if isinstance(frames, list) and getattr(function, "_needs_one_size", True):
            # Also if the frames of this batch have one size: the input of a function must not vary between batches.
            raise ArgumentError(
                f"{function!r} needs frames of one size, but these transforms give different ones; "
                'put Resize((height, width)) or a crop before it, or use collate="pad"'
            )
        if isinstance(function, FunctionTransform):
            frames = function._apply(frames, layout, [key_at(key, place) for key in keys], batch, place)
        else:
            frames = function(_tensor(frames) if is_module(function) else frames)
    return frames


def key_at(key: tuple[int, ...], place: int) -> tuple[int, ...]:
    """Returns the numbers that identify a clip for one of the functions, so that each draws other random numbers.

    Args:
        key: Numbers that identify the clip.
        place: Position of the function among the functions.

    Returns:
        The numbers.
    """
    return key if place == 0 else (*key, place)


def is_module(function: Any) -> bool:
    """Whether a callable is a `torch.nn.Module`; PyTorch is not imported for it.

    Args:
        function: The callable.

    Returns:
        The answer.
    """
    module = getattr(getattr(sys.modules.get("torch"), "nn", None), "Module", None)
    return isinstance(module, type) and isinstance(function, module)
