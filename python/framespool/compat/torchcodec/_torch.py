"""PyTorch, where it is installed: these modules can be imported without, and used with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # PyTorch need not be there when types are checked either.
    torch: Any
else:
    try:
        import torch
    except ImportError:
        torch = None


def needed() -> Any:
    """PyTorch, or ImportError."""
    if torch is None:
        raise ImportError("framespool.compat.torchcodec needs PyTorch, which is not installed; use framespool.Video")
    return torch
