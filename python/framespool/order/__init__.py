"""The order of clips in an epoch, as numbers: for programs that sample clips themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framespool.order._batch_sampler import BatchSampler, EpochBatches, Mixture, VideoWeights

__all__ = ["BatchSampler", "EpochBatches", "Mixture", "VideoWeights"]

#: Earlier names, and what replaces them.
REPLACED = {
    "DaliOrder": "shuffle=DaliReader(...), the sampler of examples/orders/dali.py",
    "TorchOrder": "shuffle=torch.utils.data.DistributedSampler(...)",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Says what replaces an earlier name."""
        hint = f"; use {REPLACED[name]}" if name in REPLACED else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
