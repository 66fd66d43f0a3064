"""Imports PyTorch if it is installed, and converts batches to its tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framespool.errors import UnsupportedError

if TYPE_CHECKING:
    # Type checking does not require PyTorch.
    Base = object
    torch: Any
    get_worker_info: Any
else:
    try:
        import torch
        from torch.utils.data import IterableDataset as Base
        from torch.utils.data import get_worker_info
    except ImportError:
        torch, Base, get_worker_info = None, object, None


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
        (`masks`) are omitted; the result of a callable at the end of the transforms is unchanged.
    """
    return {
        name: [_tensor(each) for each in value] if isinstance(value, list) else _tensor(value)
        for name, value in vars(batch).items()
        if value is not None
    }


def _tensor(value: Any) -> Any:
    return value.torch() if hasattr(value, "torch") else value
