"""Folders that the comparisons read and write."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def corpus() -> Path:
    """The additional corpus; ends the program if none is set."""
    if not (place := os.environ.get("FRAMESPOOL_CORPUS")):
        sys.exit("no corpus: set FRAMESPOOL_CORPUS to its folder, or name files if the program takes them")
    return Path(place).resolve()


def default_work_folder() -> Path:
    """The folder of encodes that are made once."""
    cache = os.environ.get("FRAMESPOOL_CACHE")
    if not cache:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "framespool"
    return Path(cache) / "peers"
