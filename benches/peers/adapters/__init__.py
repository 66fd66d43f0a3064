"""One module per peer, each with a class `Adapter`. A module imports its library, so import only the measured one."""

from __future__ import annotations

import importlib

from .base import Peer

NAMES = ("framespool", "torchcodec", "pyav", "opencv", "decord", "spdl", "video_reader")


def load(name: str) -> Peer:
    if name not in NAMES:
        raise ValueError(f"unknown peer {name!r}; choose from {', '.join(NAMES)}")
    return importlib.import_module(f"{__name__}.{name}").Adapter()
