"""decord's bridge to PyTorch."""

from __future__ import annotations

import importlib
from typing import Any

from framespool.compat.decord.ndarray import NDArray

__all__ = ["from_torch", "to_torch", "try_import_torch"]


def try_import_torch() -> Any:
    """Imports PyTorch's DLPack module.

    Returns:
        ``torch.utils.dlpack``.

    Raises:
        ImportError: If PyTorch is not installed.
    """
    return importlib.import_module("torch.utils.dlpack")


def to_torch(decord_arr: NDArray) -> Any:
    """Converts an array to a torch tensor without a copy.

    Args:
        decord_arr: The array.

    Returns:
        A ``torch.Tensor``.
    """
    return try_import_torch().from_dlpack(decord_arr)


def from_torch(tensor: Any) -> NDArray:
    """Converts a torch tensor to an array without a copy.

    Args:
        tensor: A tensor on the CPU.

    Returns:
        The array.
    """
    return NDArray(tensor.numpy())
