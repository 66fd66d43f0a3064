"""Imports PyTorch if it is installed, and converts batches to its tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framespool._common.tensor_methods import map_nested
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


class SharedTensors:
    """Base of objects whose tensors are in shared memory, where the workers of a `DataLoader` find their values.

    The tensors of a deep copy, and of an object that was unpickled, are in shared memory, too.
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for value in state.values():
            if isinstance(value, torch.Tensor):
                value.share_memory_()


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
    """Lists the page-locked tensors of a batch, also of one that was converted to PyTorch.

    Args:
        batch: A batch of a loader.

    Returns:
        The tensors.
    """
    return [source for source in batch._sources if source._is_page_locked]


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
