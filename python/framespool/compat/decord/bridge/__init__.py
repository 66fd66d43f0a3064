"""What readers hand over: their own arrays ("native"), or torch tensors ("torch", see ``torchdl``).

The choice holds for the thread that makes it, as in decord.
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
    """ "native" or "torch". ImportError for a framework that is not there, AssertionError for an unknown name.

    Of decord's others (mxnet, tensorflow, tvm) none is: their tensors can be had from arrays by DLPack.
    """
    if new_bridge not in _BRIDGES:
        raise AssertionError(f"bridge must be one of {', '.join(_BRIDGES)}, got {new_bridge!r}")
    if new_bridge == "torch":
        importlib.import_module("torch")  # an ImportError now, rather than at the first frame
    elif new_bridge != "native":
        raise ImportError(f"framespool has no bridge to {new_bridge}; give the arrays of bridge 'native' to its DLPack")
    _chosen.name = new_bridge


def reset_bridge() -> None:
    """Back to "native"."""
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
    """torch tensors inside a ``with`` block."""
    return _within("torch")


def use_mxnet() -> AbstractContextManager[None]:
    """ImportError when the block is entered: framespool has no bridge to MXNet."""
    return _within("mxnet")


def use_tensorflow() -> AbstractContextManager[None]:
    """ImportError when the block is entered: framespool has no bridge to TensorFlow."""
    return _within("tensorflow")


def use_tvm() -> AbstractContextManager[None]:
    """ImportError when the block is entered: framespool has no bridge to TVM."""
    return _within("tvm")


def bridge_out(native_arr: NDArray) -> Any:
    """An array as the chosen bridge has it."""
    return to_torch(native_arr) if _chosen.name == "torch" else native_arr


def bridge_in(arr: Any) -> NDArray:
    """An array of the chosen bridge as a native one."""
    return from_torch(arr) if _chosen.name == "torch" else arr
