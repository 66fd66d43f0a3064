"""What can be set about a loader, apart from what it reads."""

from __future__ import annotations

from framespool.options._cache import Cache

__all__ = ["Cache"]
