"""Loaders under Accelerate, which would shard batches that are sharded already."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

from framespool.errors import ArgumentError, UnsupportedError
from framespool.loaders._base import BaseLoader
from framespool.torch._loader import TorchLoader


def for_accelerate(loader: BaseLoader[Any], accelerator: Any) -> TorchLoader:
    """Wraps a loader for an `accelerate.Accelerator`; it replaces `accelerator.prepare(loader)`.

    `prepare` returns a loader unchanged: its batches are not moved to the device, gradient accumulation does not end
    with the epoch, and `save_state` omits the position. It shards a `DataLoader` over a `ClipDataset` a second time: by
    default only the first rank iterates, and its batches are split and sent to the others (`dispatch_batches`);
    otherwise each rank decodes the parts of all ranks and drops the others'.

    `split_batches` and `even_batches` have no effect: the loader's `batch_size` is per rank, and all ranks have
    equal numbers of batches of the same sizes. Clips that only fill a batch are marked in `padding`; drop them after
    `gather`. With `on_error="skip"` batch sizes may differ between ranks: use `"replace"`, or
    `accelerator.pad_across_processes` before `gather`.

    The loader notifies Accelerate of the end of an epoch, so that gradient accumulation ends with it.
    `accelerator.save_state` and `load_state` include the position in the epoch.

    Args:
        loader: A `framespool.ClipLoader` or `framespool.ImageLoader`.
        accelerator: The `accelerate.Accelerator`.

    Returns:
        A loader whose batches are dicts of tensors on the accelerator's device.

    Raises:
        ArgumentError: If the loader's `num_shards` and `shard_id` are not the accelerator's number of processes and
            process index.
        UnsupportedError: If Accelerate is not installed.

    Example:
        >>> accelerator = Accelerator()  # doctest: +SKIP
        >>> ranks = framespool.torch.rank_and_world()  # doctest: +SKIP
        >>> loader = fsp.ClipLoader(dataset, clip_sampler, batch_size=8, **ranks)  # doctest: +SKIP
        >>> batches = framespool.torch.for_accelerate(loader, accelerator)  # doctest: +SKIP
        >>> model, optimizer = accelerator.prepare(model, optimizer)  # doctest: +SKIP
    """
    try:
        accelerate = importlib.import_module("accelerate")
    except ImportError as error:
        raise UnsupportedError(
            f"framespool.torch.for_accelerate needs Accelerate: {error}; use framespool.ClipLoader"
        ) from error
    if not isinstance(accelerator, accelerate.Accelerator):
        raise ArgumentError(f"accelerator must be an accelerate.Accelerator, got {accelerator!r}")
    made: TorchLoader = _class()(loader, accelerator)
    shard, shards = loader._settings["order"]["shard_id"], loader._settings["order"]["num_shards"]
    if (shard, shards) != (accelerator.process_index, accelerator.num_processes):
        raise ArgumentError(
            f"the loader is shard {shard} of {shards}, but the accelerator is process {accelerator.process_index} of "
            f"{accelerator.num_processes}; create it with **framespool.torch.rank_and_world()"
        )
    accelerator.register_for_checkpointing(made)
    return made


class _Accelerated(TorchLoader):
    """Notifies Accelerate of the start and end of an epoch; a base before Accelerate's `DataLoaderStateMixin`."""

    begin: Callable[[], None]
    end: Callable[[], None]
    remainder: int
    end_of_dataloader: bool

    def __init__(self, loader: BaseLoader[Any], accelerator: Any) -> None:
        super().__init__(loader, device=accelerator.device)
        self.gradient_state = importlib.import_module("accelerate.state").GradientState()

    def _batches(self, batches: Iterator[Any]) -> Iterator[dict[str, Any]]:
        return _AccelerateEpoch(self, super()._batches(batches))


class _AccelerateEpoch(Iterator[dict[str, Any]]):
    """An epoch whose start and end are reported to Accelerate. An error in place of a batch does not end it."""

    def __init__(self, loader: _Accelerated, batches: Iterator[dict[str, Any]]) -> None:
        self._loader = loader
        self._batches = batches
        self._in_progress = False

    def __next__(self) -> dict[str, Any]:
        if not self._in_progress:
            self._loader.begin()
            # Accelerate must not truncate what ranks gather: their batches have the same size.
            self._loader.remainder = 0
            self._in_progress = True
        try:
            batch = next(self._batches)
        except StopIteration:
            self._end()
            raise
        # Whether this is the last batch of the epoch.
        self._loader.end_of_dataloader = self._loader.loader.state_dict()["batch"] == 0
        return batch

    def _end(self) -> None:
        if self._in_progress:
            self._in_progress = False
            self._loader.end()

    def __del__(self) -> None:
        # The iteration was abandoned.
        self._end()


def _class() -> Any:
    mixin = importlib.import_module("accelerate.data_loader").DataLoaderStateMixin
    return type("AcceleratedLoader", (_Accelerated, mixin), {})
