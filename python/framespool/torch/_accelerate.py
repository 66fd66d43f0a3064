"""Loaders under Accelerate, which would share out batches that are shared out already."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

from framespool._base_loader import BaseLoader
from framespool.errors import ArgumentError, UnsupportedError
from framespool.torch._loader import TorchLoader


def for_accelerate(loader: BaseLoader[Any], accelerator: Any) -> TorchLoader:
    """A loader for an ``accelerate.Accelerator``, in place of ``accelerator.prepare(loader)``::

        accelerator = Accelerator()
        loader = fsp.ClipLoader(dataset, clip_sampler, batch_size=8, **framespool.torch.rank_and_world())
        batches = framespool.torch.for_accelerate(loader, accelerator)
        model, optimizer = accelerator.prepare(model, optimizer)

    ``prepare`` does with a ``DataLoader`` over an iterable dataset what is wrong here: by default the first rank alone
    iterates, and its batches are cut up and sent to the others (``dispatch_batches``); without that each rank throws
    the others' part away after it was decoded. ``split_batches`` and ``even_batches`` have no say: the loader's
    ``batch_size`` is each rank's, all ranks have equal numbers of batches of the same sizes, and clips that only make
    up for that are marked in ``padding`` (drop them after ``gather``). With ``on_error="skip"`` batches may be shorter
    on one rank than on another: use ``"replace"``, or ``accelerator.pad_across_processes`` before ``gather``.

    The batches are dicts of tensors on the accelerator's device. Accelerate is told where an epoch ends, so that
    gradient accumulation ends with it, and ``accelerator.save_state`` and ``load_state`` keep the place in the epoch.

    Raises :class:`~framespool.ArgumentError` for a loader whose ``num_shards`` is not the accelerator's number of
    processes.
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
            f"the loader is shard {shard} of {shards}, and the accelerator process {accelerator.process_index} of "
            f"{accelerator.num_processes}; make it with **framespool.torch.rank_and_world()"
        )
    accelerator.register_for_checkpointing(made)
    return made


class _Accelerated(TorchLoader):
    """Tells Accelerate when an epoch begins and ends; stands before Accelerate's ``DataLoaderStateMixin``."""

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
    """An epoch of which Accelerate is told. An error in place of a batch does not end it."""

    def __init__(self, loader: _Accelerated, batches: Iterator[dict[str, Any]]) -> None:
        self._loader = loader
        self._batches = batches
        self._under_way = False

    def __next__(self) -> dict[str, Any]:
        if not self._under_way:
            self._loader.begin()
            # Nothing is to be cut off what ranks gather: their batches are of the same size.
            self._loader.remainder = 0
            self._under_way = True
        try:
            batch = next(self._batches)
        except StopIteration:
            self._end()
            raise
        # Whether another epoch begins behind this batch.
        self._loader.end_of_dataloader = self._loader.loader.state_dict()["batch"] == 0
        return batch

    def _end(self) -> None:
        if self._under_way:
            self._under_way = False
            self._loader.end()

    def __del__(self) -> None:
        # An iteration that was left.
        self._end()


def _class() -> Any:
    mixin = importlib.import_module("accelerate.data_loader").DataLoaderStateMixin
    return type("AcceleratedLoader", (_Accelerated, mixin), {})
