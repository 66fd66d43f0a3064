"""Clips and images in PyTorch's own surroundings: ``DataLoader``, ``torch.distributed``, Lightning, Accelerate.

:class:`~framespool.ClipLoader` needs none of them: it decodes on threads of its own and makes whole batches, which
leave by ``batch.frames.torch()`` without a copy. In a training loop of your own, on several ranks::

    loader = fsp.ClipLoader(dataset, clip_sampler, batch_size=8, **framespool.torch.rank_and_world())

Where a framework holds the loop, it is given one of these:

* :class:`TorchLoader`: a loader whose batches are dicts of ``torch.Tensor``, on the device that you say.
* :class:`ClipDataModule`, :class:`ImageDataModule`: for Lightning's ``Trainer``, resumed in the middle of an epoch.
* :func:`for_accelerate`: for an ``Accelerator``, in place of ``prepare``, which would share out batches a second time.
* :class:`ClipDataset`, :class:`ImageDataset`: for ``DataLoader``, where one is insisted on. Each worker process then
  runs a loader over its part of the batches. That costs a copy of each batch between processes, and look-ahead ends
  at a process: one loader in the training process is faster.
"""

from __future__ import annotations

from typing import Any

from framespool.torch._accelerate import for_accelerate
from framespool.torch._datasets import ClipDataset, ImageDataset
from framespool.torch._distributed import rank_and_world
from framespool.torch._loader import TorchLoader

# Without the data modules, which cannot be imported where Lightning is not installed.
__all__ = ["ClipDataset", "ImageDataset", "TorchLoader", "for_accelerate", "rank_and_world"]

_MODULES = ("ClipDataModule", "ImageDataModule")


def __getattr__(name: str) -> Any:
    """The data modules, whose base class is Lightning's: it is imported when one of them is asked for."""
    if name in _MODULES:
        from framespool.torch import _lightning

        return _lightning.module_class(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
