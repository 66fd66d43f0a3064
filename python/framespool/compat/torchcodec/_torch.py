"""Imports PyTorch if it is installed: these modules can be imported without it, but not used."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Type checking does not require PyTorch.
    torch: Any
else:
    try:
        import torch
    except ImportError:
        torch = None


def needed(module: str = "torchcodec") -> Any:
    """Returns PyTorch.

    Args:
        module: Name of the module of ``framespool.compat`` that needs it, for the error.

    Returns:
        The module ``torch``.

    Raises:
        ImportError: If PyTorch is not installed.
    """
    if torch is None:
        raise ImportError(f"framespool.compat.{module} needs PyTorch, which is not installed; use framespool.Video")
    return torch


def copied(data: Any) -> Any:
    """Copies a contiguous tensor, on the CPU in the calling thread.

    ``clone()`` uses torch's threads, which do not survive ``os.fork()``: it would block in a child of a process that
    has used them.

    Args:
        data: The tensor.

    Returns:
        The copy.
    """
    if data.device.type != "cpu":
        return data.clone()
    made = needed().empty_like(data)
    ctypes.memmove(made.data_ptr(), data.data_ptr(), data.nbytes)
    return made
