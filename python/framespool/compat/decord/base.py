"""Errors."""

from __future__ import annotations

__all__ = ["DECORDError", "DECORDLimitReachedError"]


class DECORDError(Exception):
    """Something in a video could not be decoded, or an argument is wrong; the message says what."""


class DECORDLimitReachedError(Exception):
    """Never raised: what damage has reached is an error at once. Here so that it can be caught."""
