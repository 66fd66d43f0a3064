"""What can be set about a loader, apart from what it reads: objects for the rarer options of a plain value."""

from __future__ import annotations

from framespool.options._audio import Audio
from framespool.options._batch_size import Buckets, PixelBudget, TokenBudget
from framespool.options._cache import Cache
from framespool.options._files import Index, OnError
from framespool.options._gpu import Gpu
from framespool.options._order import BufferShuffle, GroupedShuffle, Shards

__all__ = [
    "Audio",
    "Buckets",
    "BufferShuffle",
    "Cache",
    "Gpu",
    "GroupedShuffle",
    "Index",
    "OnError",
    "PixelBudget",
    "Shards",
    "TokenBudget",
]
