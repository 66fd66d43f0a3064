"""What batches of clips and of images have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from framespool import _framespool
from framespool._common.tensor_methods import map_nested
from framespool._framespool import Tensor
from framespool.errors import ArgumentError

S = TypeVar("S", bound="BatchMethods")


class BatchMethods:
    """Access by name, unpacking, and conversion to PyTorch; the attributes are those of the subclass."""

    #: Of a batch that was converted to PyTorch: the tensors of framespool whose memory it uses.
    _made_from: list[Tensor] | None = None
    #: Of a batch for `FeatureLoader`: its epoch, and the result of the native loader.
    _of_pass: tuple[int, dict[str, Any]] | None = None

    def __len__(self) -> int:
        return len(self.labels)  # type: ignore[attr-defined]

    def __iter__(self) -> Iterator[Any]:
        """The two values of `frames, labels = batch`."""
        first, labels, *_ = (getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]
        return iter((first, labels))

    def __getitem__(self, name: str) -> Any:
        """The attribute or the column of that name, as in a dict."""
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        if name in names:
            return getattr(self, name)
        more = self._more()
        if name not in more:
            raise ArgumentError(f"a batch has no {name!r}; it has {', '.join([*names, *more])}")
        return more[name]

    def __contains__(self, name: object) -> bool:
        return name in self._more() or any(field.name == name for field in fields(self))  # type: ignore[arg-type]

    def _more(self) -> Mapping[str, Any]:
        """What `batch[name]` has besides the attributes."""
        return getattr(self, "columns", {})

    def __repr__(self) -> str:
        lines = [f"    {name}={described(value)}," for name, value in self.as_dict().items()]
        return "\n".join([f"{type(self).__name__}(", *lines, ")"])

    def as_dict(self) -> dict[str, Any]:
        """The attributes by name, without those that are `None` or empty.

        Returns:
            A new dict; the values are not copied.

        Example:
            >>> import framespool as fsp
            >>> loader = fsp.ClipLoader(["a.mp4"], fsp.samplers.RandomClips(sequence_length=4), batch_size=1)
            >>> batch = next(iter(loader))
            >>> sorted(batch.as_dict())[:3]
            ['clip_ids', 'content_keys', 'frames']
        """
        named = ((field.name, getattr(self, field.name)) for field in fields(self))  # type: ignore[arg-type]
        return {name: value for name, value in named if not is_absent(value)}

    def torch(self: S) -> S:
        """Converts all tensors to `torch.Tensor`, without a copy.

        Returns:
            A batch of the same class.

        Raises:
            UnsupportedError: If PyTorch is not installed.

        Example:
            >>> frames, labels = next(iter(loader)).torch()  # doctest: +SKIP
        """
        from framespool._common.pytorch import needed, tensors

        needed()
        converted = replace(self, **tensors(self))  # type: ignore[type-var]
        converted._made_from = self._sources
        return converted

    def to(self: S, device: Any, non_blocking: bool = False) -> S:
        """Converts all tensors to `torch.Tensor` and moves them to a device.

        Lightning's `Trainer` and Accelerate call it, too.

        Args:
            device: As for `torch.Tensor.to()`: `"cuda"`, a `torch.device` or a number.
            non_blocking: As for `torch.Tensor.to()`. A copy from the host to a GPU is asynchronous only from
                page-locked memory: see `pin_memory` of the loader. That memory is not used for another batch before
                the copy is done.

        Returns:
            A batch of the same class.

        Raises:
            UnsupportedError: If PyTorch is not installed.

        Example:
            >>> batch = next(iter(loader)).to("cuda", non_blocking=True)  # doctest: +SKIP
        """
        from framespool._common.pytorch import page_locked, record_copies

        moved = self._mapped("to", lambda value: value.to(device, non_blocking=non_blocking))
        if non_blocking:
            record_copies(page_locked(self), device)
        return moved

    def record_stream(self, stream: Any) -> None:
        """Keeps the memory of the batch from being used for another one before a CUDA stream is done with it.

        The work of two streams is always waited for: the stream that was current where a tensor was converted to
        PyTorch, and the one that is current where it is released. Call this for any other stream that uses the batch.
        `torch.Tensor.record_stream()` has no effect on memory that PyTorch has not allocated. Batches in host memory
        need no call.

        Args:
            stream: A `torch.cuda.Stream`, an object with `__cuda_stream__`, or the handle of a stream. After `to()`
                it must be a `torch.cuda.Stream`.

        Raises:
            ArgumentError: If it is no stream.

        Example:
            >>> batch = next(iter(loader))  # doctest: +SKIP
            >>> batch.record_stream(torch.cuda.current_stream())  # doctest: +SKIP
        """
        for source in self._sources:
            source.record_stream(stream)
        if not hasattr(stream, "cuda_stream"):
            return

        def record(tensor: Any) -> None:
            if tensor.is_cuda:
                tensor.record_stream(stream)  # PyTorch's own memory, of to()

        map_nested(self.as_dict(), "is_cuda", record)

    @property
    def _sources(self) -> list[Tensor]:
        """The tensors of framespool in the batch, or those from which its PyTorch tensors were made."""
        if self._made_from is not None:
            return self._made_from
        found: list[Any] = []
        map_nested(self.as_dict(), "__dlpack__", found.append)
        return [tensor for tensor in found if isinstance(tensor, Tensor)]

    def __getstate__(self) -> dict[str, Any]:
        """What pickle and copy take: a copy in another process has memory of its own."""
        return {name: value for name, value in vars(self).items() if name != "_made_from"}

    def pin_memory(self: S) -> S:
        """Converts all tensors to `torch.Tensor` and copies those of the host to page-locked memory.

        A `DataLoader` with `pin_memory=True` calls it. Tensors that are page-locked already are not copied.

        Returns:
            A batch of the same class.

        Raises:
            UnsupportedError: If PyTorch is not installed.

        Example:
            >>> batch = next(iter(loader)).pin_memory().to("cuda", non_blocking=True)  # doctest: +SKIP
        """
        return self._mapped(
            "pin_memory", lambda value: value if getattr(value, "is_cuda", False) else value.pin_memory()
        )

    def _mapped(self: S, method: str, change: Callable[[Any], Any]) -> S:
        """Applies a function to everything that has a method, as `torch.Tensor` and results of callables may."""
        converted = self.torch()
        changed = {name: map_nested(value, method, change) for name, value in converted.as_dict().items()}
        return replace(converted, **changed)  # type: ignore[type-var]


#: What a training step computes with. Ids, keys, sizes of files and the geometry stay in host memory.
_PLACED = (
    "labels",
    "indices",
    "pts_seconds",
    "mask",
    "padding",
    "masks",
    "unpadded_sizes",
    "columns",
    "mixed_with",
    "mix_weights",
    "audio",
    "audio_mask",
)


def placed(named: dict[str, Any], gpu: int | None) -> dict[str, Any]:
    """Places what a training step computes with on the GPU of the frames, by one copy that is not waited for.

    Args:
        named: The attributes of a batch.
        gpu: The GPU; `None` for batches in host memory.

    Returns:
        The attributes.
    """
    if gpu is None:
        return named
    chosen = {name: named[name] for name in _PLACED if named.get(name) is not None}
    found: list[Any] = []
    map_nested(chosen, "__dlpack__", found.append)
    own = [tensor for tensor in found if isinstance(tensor, Tensor) and tensor.device == "cpu"]
    copies = {id(tensor): copy for tensor, copy in zip(own, _framespool.tensors_on_gpu(own, gpu), strict=True)}

    def on_gpu(tensor: Any) -> Any:
        if getattr(tensor, "is_cuda", True):
            return copies.get(id(tensor), tensor)
        # What a function among the transforms made with PyTorch, such as the labels of MixUp.
        return tensor.to(f"cuda:{gpu}", non_blocking=True)

    moved: dict[str, Any] = map_nested(chosen, "__dlpack__", on_gpu)
    return named | moved


def is_absent(value: Any) -> bool:
    """Whether an attribute of a batch holds nothing, as `masks` without masks and `columns` without columns.

    Args:
        value: The attribute.

    Returns:
        The answer.
    """
    return value is None or (isinstance(value, dict) and not value)


def described(value: Any) -> str:
    """Describes a value of a batch in a line.

    Args:
        value: The value.

    Returns:
        A tensor by shape, dtype and device, anything else by its type.
    """
    if isinstance(value, (list, tuple)):
        inner = f"{', '.join(described(each) for each in value[:4])}{', …' if len(value) > 4 else ''}"
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {described(each)}' for name, each in value.items())}}}"
    if isinstance(value, BatchMethods):
        return f"{type(value).__name__} of {len(value)}"
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        return type(value).__name__
    device = str(getattr(value, "device", "cpu"))
    place = "" if device == "cpu" else f", {device}"
    return f"{type(value).__name__}({tuple(value.shape)}, {value.dtype}{place})"
