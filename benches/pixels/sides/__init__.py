"""One module per Python side, each with a class `Adapter`. A module imports its library: load only the one you
measure."""

from __future__ import annotations

import importlib

from footage import Footage

from .base import Side

NAMES = ("swscale", "opencv", "torchvision", "torchcodec", "dali", "decode")


def load(name: str, footage: Footage) -> Side:
    if name not in NAMES:
        raise ValueError(f"unknown side {name!r}; choose from {', '.join(NAMES)}")
    return importlib.import_module(f"{__name__}.{name}").Adapter(footage)
