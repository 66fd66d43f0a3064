"""Integration with PyTorch's `DataLoader`, `torch.distributed`, Lightning and Accelerate.

`framespool.ClipLoader` needs none of them: it decodes on its own threads and makes complete batches, which
convert without a copy by `batch.torch()`. In a training loop of your own, `ClipLoader` and `ImageLoader` of this module
do that for you, and take the shard of this rank from `torch.distributed` or torchrun.

`FeatureCache` keeps what a function computes from clips, such as latents, on disk. With a `FeatureLoader`, clips whose
results are there are not decoded.

If a framework owns the loop, pass it one of these; see docs/howto/frameworks.md:

- `TorchLoader`: a loader whose batches are dicts of `torch.Tensor`, on a device of your choice.
- `ClipDataModule`, `ImageDataModule`: for Lightning's `Trainer`, with checkpoints in the middle of an epoch.
- `for_accelerate()`: for an `Accelerator`. It replaces `prepare`, which would shard the batches a second time.
- `VideoDataset`: single clips, map-style, for code that has its own `DataLoader`, sampler or `collate_fn`, such as
  Hugging Face's `Trainer`. `OccurrenceSampler` wraps a sampler that draws with replacement.
- `ClipDataset`, `ImageDataset`: batches, for code that requires a `DataLoader`. Each worker process runs a loader over
  its part of the batches. That costs a copy of each batch between processes, and lookahead is limited to a process: one
  loader in the training process is faster.
"""

from __future__ import annotations

from typing import Any

from framespool._common import pytorch
from framespool.loaders._clips import Batch
from framespool.loaders._images import ImageBatch
from framespool.torch._accelerate import for_accelerate
from framespool.torch._datasets import ClipDataset, ImageDataset
from framespool.torch._distributed import rank_and_world
from framespool.torch._feature_cache import FeatureCache
from framespool.torch._feature_loader import FeatureLoader
from framespool.torch._loader import ClipLoader, ImageLoader, TorchLoader
from framespool.torch._map_dataset import VideoDataset
from framespool.torch._occurrences import OccurrenceSampler

if pytorch.torch is not None:
    for _class in (Batch, ImageBatch):
        pytorch.register(_class)

# Without the data modules, which cannot be imported if Lightning is not installed.
__all__ = [
    "ClipDataset",
    "ClipLoader",
    "FeatureCache",
    "FeatureLoader",
    "ImageDataset",
    "ImageLoader",
    "OccurrenceSampler",
    "TorchLoader",
    "VideoDataset",
    "for_accelerate",
    "rank_and_world",
]

_MODULES = ("ClipDataModule", "ImageDataModule")


def __getattr__(name: str) -> Any:
    """Creates the data modules on first access, since their base class is Lightning's."""
    if name in _MODULES:
        from framespool.torch import _lightning

        return _lightning.module_class(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
