"""One module per library, each with a class `Adapter(BaseAdapter)`; imported only in the process of that library."""

from __future__ import annotations

from importlib import import_module

from .base import BaseAdapter

NAMES = ("framespool", "dali", "torchvision", "pillow", "opencv", "spdl")


def load(name: str) -> BaseAdapter:
    if name not in NAMES:
        raise ValueError(f"no side {name!r}; there are {', '.join(NAMES)}")
    return import_module(f"{__name__}.{name}").Adapter()
