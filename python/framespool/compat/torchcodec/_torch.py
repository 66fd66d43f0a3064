"""Imports PyTorch if it is installed: these modules can be imported without it, but not used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Type checking does not require PyTorch.
    torch: Any
else:
    try:
        import torch
    except ImportError:
        torch = None


def needed() -> Any:
    """Returns PyTorch.

    Returns:
        The module ``torch``.

    Raises:
        ImportError: If PyTorch is not installed.
    """
    if torch is None:
        raise ImportError("framespool.compat.torchcodec needs PyTorch, which is not installed; use framespool.Video")
    return torch
