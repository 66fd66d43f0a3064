"""Methods of `Tensor` that are written in Python, and a function for tensors in lists and dicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from framespool._framespool import Tensor


def _missing(self: Any, name: str) -> Any:
    """Refuses an attribute that a tensor does not have, with what to use instead."""
    if name.startswith("_"):
        return object.__getattribute__(self, name)  # raises the error of the class, or that of a property
    kind = "ray.Tensor" if type(self).__module__.startswith("framespool.ray") else "video.Tensor"
    raise AttributeError(
        f"framespool.{kind} has no attribute {name!r}: it holds memory and computes nothing; use .torch() or .numpy()",
        name=name,
        obj=self,
    )


def add_methods(tensor: Any = Tensor) -> None:
    """Adds the methods to a class.

    Args:
        tensor: The class.
    """
    tensor.__getattr__ = _missing


def map_nested(value: Any, method: str, change: Callable[[Any], Any]) -> Any:
    """Applies a function to the values in lists, tuples and dicts, at any depth, that have a method.

    Args:
        value: A value, or a list, tuple, named tuple or dict of values.
        method: Name of the method. Values without it are unchanged.
        change: The function.

    Returns:
        The same structure; `value` itself if nothing in it changes.
    """
    if hasattr(value, method):
        return change(value)
    if isinstance(value, (list, tuple)):
        entries = [map_nested(each, method, change) for each in value]
        if all(new is old for new, old in zip(entries, value, strict=True)):
            return value
        if isinstance(value, list):
            return entries
        return type(value)(*entries) if hasattr(value, "_fields") else tuple(entries)
    if isinstance(value, dict):
        named = {name: map_nested(each, method, change) for name, each in value.items()}
        return value if all(new is value[name] for name, new in named.items()) else named
    return value
