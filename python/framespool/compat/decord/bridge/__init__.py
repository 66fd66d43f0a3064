"""The type of arrays that readers return: their own ("native"), or torch tensors ("torch", see ``torchdl``).

The bridge is set per thread, as in decord.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from framespool.compat.decord.bridge.torchdl import from_torch, to_torch
from framespool.compat.decord.ndarray import NDArray

__all__ = [
    "bridge_in",
    "bridge_out",
    "from_torch",
    "reset_bridge",
    "set_bridge",
    "to_torch",
    "use_mxnet",
    "use_tensorflow",
    "use_torch",
    "use_tvm",
]

_BRIDGES = ("native", "mxnet", "torch", "tensorflow", "tvm")


class _Chosen(threading.local):
    name = "native"


_chosen = _Chosen()


def set_bridge(new_bridge: str) -> None:
    """Sets the bridge of this thread.

    decord's other bridges (mxnet, tensorflow, tvm) do not exist here: these frameworks read arrays by DLPack.

    Args:
        new_bridge: "native" or "torch".

    Raises:
        ImportError: If the framework is not installed or has no bridge.
        AssertionError: If the name is unknown.
    """
    if new_bridge not in _BRIDGES:
        raise AssertionError(f"bridge must be one of {', '.join(_BRIDGES)}, got {new_bridge!r}")
    if new_bridge == "torch":
        importlib.import_module("torch")  # an ImportError now, rather than at the first frame
    elif new_bridge != "native":
        raise ImportError(f"framespool has no bridge to {new_bridge}; convert arrays of bridge 'native' by DLPack")
    _chosen.name = new_bridge


def reset_bridge() -> None:
    """Sets the bridge to "native"."""
    _chosen.name = "native"


@contextmanager
def _within(name: str) -> Iterator[None]:
    before = _chosen.name
    set_bridge(name)
    try:
        yield
    finally:
        _chosen.name = before


def use_torch() -> AbstractContextManager[None]:
    """Returns torch tensors inside a ``with`` block.

    Returns:
        A context manager.
    """
    return _within("torch")


def use_mxnet() -> AbstractContextManager[None]:
    """Raises ImportError when the block is entered: framespool has no bridge to MXNet.

    Returns:
        A context manager.
    """
    return _within("mxnet")


def use_tensorflow() -> AbstractContextManager[None]:
    """Raises ImportError when the block is entered: framespool has no bridge to TensorFlow.

    Returns:
        A context manager.
    """
    return _within("tensorflow")


def use_tvm() -> AbstractContextManager[None]:
    """Raises ImportError when the block is entered: framespool has no bridge to TVM.

    Returns:
        A context manager.
    """
    return _within("tvm")


def bridge_out(native_arr: NDArray) -> Any:
    """Converts an array to the bridge's type.

    Args:
        native_arr: The array.

    Returns:
        The array, or a torch tensor.
    """
    return to_torch(native_arr) if _chosen.name == "torch" else native_arr


def bridge_in(arr: Any) -> NDArray:
    """Converts an array of the bridge's type to a native one.

    Args:
        arr: An array, or a torch tensor.

    Returns:
        The array.
    """
    return from_torch(arr) if _chosen.name == "torch" else arr
