"""Where indices of videos are kept."""

from __future__ import annotations

import atexit
import os
from typing import Any, Literal

from framespool import _framespool
from framespool.errors import ArgumentError

# Indices are written by a thread in the background; what is still waiting there when Python ends would be lost.
atexit.register(_framespool.flush_index)


def cache_location(index: Any) -> str | Literal[False] | None:
    """``index`` as the engine takes it: ``None`` for the default place, ``False`` for none, or a folder."""
    if index is None or index is False:
        return index
    if isinstance(index, (str, os.PathLike)):
        folder = os.fspath(index)
        if folder == "auto":
            return None
        if isinstance(folder, str) and folder:
            return os.path.expanduser(folder)
    raise ArgumentError(f'index must be a folder, None or "auto" (the default place), or False (none), got {index!r}')
