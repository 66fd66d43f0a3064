"""The location of the index cache."""

from __future__ import annotations

import atexit
import os
from typing import Any, Literal

from framespool import _framespool
from framespool.errors import ArgumentError

# A background thread writes indexes; those still queued when Python exits would be lost. A disk that does not answer
# must not hold up the exit.
atexit.register(_framespool.flush_index, 5)


def cache_location(index: Any) -> str | Literal[False] | None:
    """The argument `index` in the engine's form.

    Args:
        index: A folder, `None` or `"auto"` for the default, or `False` for none.

    Returns:
        `None` for the default, `False` for none, or the folder.

    Raises:
        ArgumentError: If `index` is anything else.
    """
    if index is None or index is False:
        return index
    if isinstance(index, (str, os.PathLike)):
        folder = os.fspath(index)
        if folder == "auto":
            return None
        if isinstance(folder, str) and folder:
            return os.path.expanduser(folder)
    raise ArgumentError(f'index must be a folder, None or "auto" (the default folder), or False (none), got {index!r}')
