"""PyTorch, where it is installed, and batches as its tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framespool.errors import UnsupportedError

if TYPE_CHECKING:
    # PyTorch need not be there when types are checked either.
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
    """Raises :class:`~framespool.UnsupportedError` where PyTorch is not installed."""
    if torch is None:
        raise UnsupportedError("framespool.torch needs PyTorch, which is not installed; use framespool.ClipLoader")


def tensors(batch: Any) -> dict[str, Any]:
    """A batch as a dict of ``torch.Tensor``, of lists of them where pictures differ in size. What a batch does not have
    (``masks``) is left out; what a callable at the end of the transforms made stays as it is."""
    return {
        name: [_tensor(each) for each in value] if isinstance(value, list) else _tensor(value)
        for name, value in vars(batch).items()
        if value is not None
    }


def _tensor(value: Any) -> Any:
    return value.torch() if hasattr(value, "torch") else value
