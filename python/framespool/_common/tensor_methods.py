"""Methods of `Tensor` that are written in Python."""

from __future__ import annotations

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
