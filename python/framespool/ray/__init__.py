"""More than one machine: batches made by the workers of a Ray cluster, the same ones in the same order.

:class:`ClipLoader` and :class:`ImageLoader` are the local loaders with workers elsewhere, for training.
:func:`read_clips` is a source for Ray Data, for curation and inference. Ray is imported when one of them is used.

Where every trainer's machine has cores enough to decode for itself, a local loader with ``shard_id`` and ``num_shards``
moves no pixels between machines and is faster.
"""

from __future__ import annotations

from framespool.ray._errors import WorkerError
from framespool.ray._loader import ClipLoader, ImageLoader
from framespool.ray._read import read_clips
from framespool.ray._tensor import Tensor

__all__ = ["ClipLoader", "ImageLoader", "Tensor", "WorkerError", "read_clips"]
