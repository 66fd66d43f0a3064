"""Exceptions of decord, and the sources that its readers open."""

from __future__ import annotations

import os
from typing import Any

from framespool.compat._readahead import readable

__all__ = ["DECORDError", "DECORDLimitReachedError"]


class DECORDError(Exception):
    """A frame could not be decoded, or an argument is invalid; the message names the reason."""


class DECORDLimitReachedError(Exception):
    """Never raised, since a damaged frame is an error at once. It exists so that code can catch it."""


def source_of(uri: Any) -> Any:
    """Converts a source for :class:`framespool.Video`.

    An object with ``read()`` is read from its position to its end, as in decord: it may be closed afterwards.

    Args:
        uri: A path, a file object, bytes or an archive member.

    Returns:
        The source.

    Raises:
        DECORDError: If its type is not supported.
    """
    # Some paths have it, too.
    source = uri.read() if hasattr(uri, "read") and not isinstance(uri, os.PathLike) else uri
    found = None if isinstance(source, str) and source is not uri else readable(source)
    if found is None:
        raise DECORDError(f"uri must be a path or a file object opened for bytes, got {type(uri).__name__}")
    return found
