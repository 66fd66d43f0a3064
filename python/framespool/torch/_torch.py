"""Imports PyTorch if it is installed, and converts batches to its tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framespool._batch import BatchMethods, is_absent
from framespool.errors import UnsupportedError

if TYPE_CHECKING:
    # Type checking does not require PyTorch.
    Base = object
    torch: Any
    get_worker_info: Any
    _pytree: Any
else:
    try:
        import torch
        from torch.utils.data import IterableDataset as Base
        from torch.utils.data import get_worker_info
    except ImportError:
        torch, Base, get_worker_info = None, object, None
    else:
        from torch.utils import _pytree


def needed() -> None:
    """Checks that PyTorch is installed.

    Raises:
        UnsupportedError: If it is not.
    """
    if torch is None:
        raise UnsupportedError("framespool.torch needs PyTorch, which is not installed; use framespool.ClipLoader")


def tensors(batch: Any) -> dict[str, Any]:
    """Converts a batch to a dict of `torch.Tensor`.

    Args:
        batch: A batch of a loader.

    Returns:
        Tensors by name, or lists of them if the transforms give different sizes. Attributes that are `None`
        (`masks`) or empty (`columns`) are omitted; `columns` is a dict; the result of a callable at the end of the
        transforms is unchanged.
    """
    return {name: _tensor(value) for name, value in vars(batch).items() if not is_absent(value)}


def _tensor(value: Any) -> Any:
    if isinstance(value, list):
        return [_tensor(each) for each in value]
    if isinstance(value, dict):
        return {name: _tensor(each) for name, each in value.items()}
    return value.torch() if hasattr(value, "torch") else value


def register(batch_class: type[BatchMethods]) -> None:
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
