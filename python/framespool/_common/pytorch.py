"""Imports PyTorch if it is installed, and converts batches to its tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framespool.errors import UnsupportedError

if TYPE_CHECKING:
    # Type checking does not require PyTorch.
    Base = object
    MapBase = object
    SamplerBase = object
    torch: Any
    get_worker_info: Any
    _pytree: Any
else:
    try:
        import torch
        from torch.utils.data import Dataset as MapBase
        from torch.utils.data import IterableDataset as Base
        from torch.utils.data import Sampler as SamplerBase
        from torch.utils.data import get_worker_info
    except ImportError:
        torch, Base, MapBase, SamplerBase, get_worker_info = None, object, object, object, None
    else:
        from torch.utils import _pytree


def needed() -> None:
    """Checks that PyTorch is installed.

    Raises:
        UnsupportedError: If it is not.
    """
    if torch is None:
        raise UnsupportedError("framespool.torch needs PyTorch, which is not installed; use framespool.ClipLoader")


def map_nested(value: Any, method: str, change: Callable[[Any], Any]) -> Any:
    """Applies a function to the values in lists, tuples and dicts, at any depth, that have a method.

    Args:
        value: A value, or a list, tuple, named tuple or dict of values.
        method: Name of the method. Values without it are unchanged.
        change: The function.

    Returns:
        The same structure; `value` itself if nothing in it changes.
    """
    if hasattr(value, method):
        return change(value)
    if isinstance(value, (list, tuple)):
        entries = [map_nested(each, method, change) for each in value]
        if all(new is old for new, old in zip(entries, value, strict=True)):
            return value
        if isinstance(value, list):
            return entries
        return type(value)(*entries) if hasattr(value, "_fields") else tuple(entries)
    if isinstance(value, dict):
        named = {name: map_nested(each, method, change) for name, each in value.items()}
        return value if all(new is value[name] for name, new in named.items()) else named
    return value


def tensors(batch: Any) -> dict[str, Any]:
    """Converts a batch to a dict of `torch.Tensor`.

    Args:
        batch: A batch of a loader.

    Returns:
        Tensors by name, or lists of them if the transforms give different sizes. Attributes that are `None`
        (`masks`) or empty (`columns`) are omitted; `columns` is a dict; the result of a callable at the end of the
        transforms is unchanged.
    """
    return {name: map_nested(value, "torch", lambda tensor: tensor.torch()) for name, value in batch.as_dict().items()}


def page_locked(batch: Any) -> list[Any]:
    """Lists the page-locked `framespool.video.Tensor` of a batch, also of one that was converted to PyTorch.

    Args:
        batch: A batch of a loader.

    Returns:
        The tensors.
    """
    kept = getattr(batch, "_page_locked", None)
    values = batch.as_dict().values() if kept is None else kept
    return [value for value in values if getattr(value, "_is_page_locked", False)]


def record_copies(sources: list[Any], device: Any) -> None:
    """Keeps memory from being used again before copies that were just enqueued on PyTorch's current stream are done.

    Args:
        sources: What `page_locked()` returned for the batch that was copied.
        device: Where it was copied to, as for `torch.Tensor.to()`.
    """
    target = torch.device(device)
    if not sources or target.type != "cuda":
        return
    gpu = torch.cuda.current_device() if target.index is None else target.index
    for source in sources:
        source._record_copy(gpu, torch.cuda.current_stream(gpu).cuda_stream)


def register(batch_class: type) -> None:
    """Makes the batches of a class pytrees: `torch.utils._pytree.tree_map` and what uses it reach their tensors.

    Args:
        batch_class: `Batch` or `ImageBatch`.
    """
    _pytree.register_pytree_node(
        batch_class,
        lambda batch: (list(batch.as_dict().values()), tuple(batch.as_dict())),
        lambda values, names: batch_class(**dict(zip(names, values, strict=True))),
        serialized_type_name=f"framespool.{batch_class.__name__}",
    )
