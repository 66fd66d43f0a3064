"""decord's bridge to PyTorch."""

from __future__ import annotations

import importlib
from typing import Any

from framespool.compat.decord.ndarray import NDArray

__all__ = ["from_torch", "to_torch", "try_import_torch"]


def try_import_torch() -> Any:
    """``torch.utils.dlpack``; ImportError without PyTorch."""
    return importlib.import_module("torch.utils.dlpack")


def to_torch(decord_arr: NDArray) -> Any:
    """The array's memory as a torch tensor."""
    return try_import_torch().from_dlpack(decord_arr)


def from_torch(tensor: Any) -> NDArray:
    """A torch tensor on the CPU as an array of the same memory."""
    return NDArray(tensor.numpy())
