"""The order of clips in an epoch, as numbers: for programs that sample clips themselves."""

from __future__ import annotations

from framespool.options._order import DaliOrder, TorchOrder
from framespool.order._batch_sampler import BatchSampler, EpochBatches, Mixture, VideoWeights

__all__ = ["BatchSampler", "DaliOrder", "EpochBatches", "Mixture", "TorchOrder", "VideoWeights"]
