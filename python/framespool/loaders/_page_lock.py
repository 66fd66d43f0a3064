"""Decides whether the host memory of batches is page-locked."""

from __future__ import annotations

import sys
from typing import Any

from framespool._common.validate_args import current_gpu
from framespool.errors import ArgumentError


def checked(pin_memory: Any, device: int | None) -> Any:
    """Checks the argument `pin_memory` of a loader.

    Args:
        pin_memory: `True`, `False` or `"auto"`.
        device: Number of the GPU on which batches are placed; `None` for the host.

    Returns:
        `pin_memory`; `False` if batches are placed on a GPU.

    Raises:
        ArgumentError: For another value, and for `True` if batches are placed on a GPU.
    """
    if not isinstance(pin_memory, bool) and pin_memory != "auto":
        raise ArgumentError(f'pin_memory must be True, False or "auto", got {pin_memory!r}')
    if device is None:
        return pin_memory
    if pin_memory is True:
        raise ArgumentError(f'pin_memory=True is for batches on the host, got device="cuda:{device}"; omit one of them')
    return False


def gpu_of_process(pin_memory: Any) -> int | None:
    """Chooses the GPU whose driver page-locks memory, at the start of an iteration. Loads no library itself.

    Args:
        pin_memory: As `checked()` returned it.

    Returns:
        PyTorch's current GPU, if PyTorch has initialized CUDA in this process. Otherwise any if `pin_memory` is `True`,
        since all GPUs copy from the memory, else `None`: nothing is page-locked.
    """
    if pin_memory is False:
        return None
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None and cuda.is_initialized():
        return int(cuda.current_device())
    return current_gpu(ambiguous=0) if pin_memory is True else None
