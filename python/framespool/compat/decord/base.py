"""Exceptions of decord."""

from __future__ import annotations

__all__ = ["DECORDError", "DECORDLimitReachedError"]


class DECORDError(Exception):
    """A frame could not be decoded, or an argument is invalid; the message names the reason."""


class DECORDLimitReachedError(Exception):
    """Never raised, since a damaged frame is an error at once. It exists so that code can catch it."""
