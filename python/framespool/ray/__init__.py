"""Loaders whose batches are made by the workers of a Ray cluster, with the batches and order of the local loaders.

`ClipLoader` and `ImageLoader` are the local loaders with remote workers, for training. `ClipSource` is a source for Ray
Data, for curation and inference, and `read_clips()` reads it. Ray is imported when one of them is used.

If every trainer's machine has enough cores to decode for itself, a local loader with `shard_id` and `num_shards` is
faster, since it moves no pixels between machines. See docs/howto/ray.md.
"""

from __future__ import annotations

from framespool.ray._clip_source import ClipSource
from framespool.ray._errors import WorkerError
from framespool.ray._loader import ClipLoader, ImageLoader
from framespool.ray._read import read_clips
from framespool.ray._tensor import Tensor

__all__ = ["ClipLoader", "ClipSource", "ImageLoader", "Tensor", "WorkerError", "read_clips"]
