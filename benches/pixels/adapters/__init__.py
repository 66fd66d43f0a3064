"""One module per Python library, each with a class `Adapter`. Import only the measured one."""

from __future__ import annotations

import importlib

from inputs import Inputs

from .base import BaseAdapter

NAMES = ("swscale", "opencv", "torchvision", "torchcodec", "dali", "decode")


def load(name: str, inputs: Inputs) -> BaseAdapter:
    if name not in NAMES:
        raise ValueError(f"unknown side {name!r}; choose from {', '.join(NAMES)}")
    return importlib.import_module(f"{__name__}.{name}").Adapter(inputs)
