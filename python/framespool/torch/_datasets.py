"""Batches inside PyTorch's own ``DataLoader``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from framespool._base_loader import BaseLoader
from framespool._clip_loader import ClipLoader
from framespool._images import ImageLoader
from framespool._validate_args import integer
from framespool.datasets._dataset import as_dataset
from framespool.errors import ArgumentError
from framespool.torch._distributed import cores_per_rank, is_initialized, rank_and_world
from framespool.torch._torch import Base, get_worker_info, needed, tensors, torch


class _Batches(Base):
    """What :class:`ClipDataset` and :class:`ImageDataset` share."""

    def __init__(self, dataset: Any, keywords: dict[str, Any]) -> None:
        needed()
        super().__init__()
        self.dataset = as_dataset(dataset)
        self.keywords = keywords
        # In shared memory: workers that live on see the epoch that the training process chooses.
        self._epoch = torch.zeros(1, dtype=torch.int64).share_memory_()
        self._loader: BaseLoader[Any] | None = None
        self._made_for: tuple[int, ...] | None = None
        self._resumes: Mapping[str, Any] | None = None
        # The epoch of an iterator that has not ended.
        self._under_way: int | None = None
        self._begun = False
        #: This process' part of the data, where it was not chosen by keywords; see _part.
        self._rank: dict[str, int] | None = None

    def _make(self, keywords: dict[str, Any]) -> BaseLoader[Any]:
        """A loader of this kind."""
        raise NotImplementedError

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next iteration; without it each one is the same epoch, 0."""
        self._epoch[0] = integer("epoch", epoch, most=2**63 - 1)

    def _part(self) -> dict[str, int]:
        """This process' part of the data, where no keyword chose it.

        A worker that was spawned knows no process group: it is told what its training process knows (see __getstate__).
        """
        if "shard_id" in self.keywords or "num_shards" in self.keywords:
            return {}
        return self._rank or rank_and_world()

    def _here(self) -> BaseLoader[Any]:
        """The loader of this process."""
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        part = self._part()
        place = (os.getpid(), worker, workers, *part.values())
        if self._loader is None or self._made_for != place:
            self._refuse_a_second_split(part)
            keywords = {**self.keywords, **part}
            if keywords.get("num_threads") is None:
                keywords["num_threads"] = max(1, cores_per_rank() // workers)
            self._loader = self._make({**keywords, "worker_id": worker, "num_workers": workers})
            self._made_for, self._under_way, self._begun = place, None, False
        return self._loader

    def _refuse_a_second_split(self, part: Mapping[str, int]) -> None:
        """Accelerate's ``prepare`` lets the first rank iterate and shares its batches out: the clips of the other ranks
        would never come."""
        shards = {**self.keywords, **part}.get("num_shards", 1)
        state, loading = sys.modules.get("accelerate.state"), sys.modules.get("accelerate.data_loader")
        if shards == 1 or state is None or loading is None:
            return
        if isinstance(state.GradientState().active_dataloader, loading.DataLoaderDispatcher):
            raise ArgumentError(
                f"Accelerate's prepare() shares out the batches of one rank, and this dataset is already one of "
                f"{shards} parts: clips would be lost. Use framespool.torch.for_accelerate(loader, accelerator) in "
                "place of prepare(loader), or give the dataset num_shards=1"
            )

    def __iter__(self) -> Iterator[dict[str, Any]]:
        loader = self._here()
        if self._resumes is None:
            loader.set_epoch(int(self._epoch[0]))
        else:
            loader.load_state_dict(self._resumes)
            self._resumes = None
        self._under_way, self._begun = loader.epoch, True
        return _Epoch(self, iter(loader))

    def state_dict(self) -> dict[str, Any]:
        """Where this process' loader is."""
        if self._resumes is not None:
            return dict(self._resumes)
        loader = self._here()
        if not self._begun:
            loader.set_epoch(int(self._epoch[0]))
        state = loader.state_dict()
        if self._under_way is not None and state["epoch"] > self._under_way:
            # Workers end at different times: one that has delivered its last batch waits for the others' last ones, and
            # must not begin the next epoch when it is resumed among them.
            state |= {"epoch": self._under_way, "batch": len(loader)}
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next iteration goes on where the state was taken; it raises for a state that does not fit."""
        self._resumes = state

    def __getstate__(self) -> dict[str, Any]:
        """What goes to a worker: not the loader, whose threads stay where they are."""
        # Frameworks that start their ranks by themselves send datasets to processes that are no rank yet.
        rank = rank_and_world() if is_initialized() else self._rank
        return {**self.__dict__, "_loader": None, "_made_for": None, "_under_way": None, "_rank": rank}


class _Epoch(Iterator[dict[str, Any]]):
    """The batches of a process' loader. No generator, which an error would end: the batches behind it still come, and
    workers stay in step."""

    def __init__(self, dataset: _Batches, batches: Iterator[Any]) -> None:
        self._dataset = dataset
        self._batches = batches

    def __next__(self) -> dict[str, Any]:
        try:
            return tensors(next(self._batches))
        except StopIteration:
            self._dataset._under_way = None
            raise


class ClipDataset(_Batches):
    """Batches of clips as a ``torch.utils.data.IterableDataset``; give it to a ``DataLoader`` with ``batch_size=None``.

    Takes what :class:`~framespool.ClipLoader` takes. With ``num_workers`` processes worker *w* makes the batches *w*,
    *w* + ``num_workers``, …, which the ``DataLoader`` puts in order again: the batches are those of one loader,
    whatever the number of workers, and none comes twice. ``num_threads`` is per worker; by default the cores are
    shared out among the workers, and among the ranks of the machine (``LOCAL_WORLD_SIZE``).

    Where neither ``shard_id`` nor ``num_shards`` is given, each rank has its own part, as
    :func:`~framespool.torch.rank_and_world` says: a ``DataLoader`` cannot share out an iterable dataset, and no
    ``DistributedSampler`` goes with one. ``num_shards=1`` gives every rank all clips.

    A batch is a dict of tensors with the names of :class:`~framespool.Batch`; ``frames`` is a list where clips differ
    in size. Call :meth:`set_epoch` before each epoch, as with a ``DistributedSampler``; it reaches workers that are
    alive. ``state_dict`` and ``load_state_dict`` are what ``torchdata``'s ``StatefulDataLoader`` asks for in each
    worker: its state fits the same number of workers. It has no length, which only its workers could tell.

    Nothing is opened and no thread starts before a worker begins to iterate, so every start method will do.
    """

    def __init__(self, dataset: Any, clip_sampler: Any, **keywords: Any) -> None:
        super().__init__(dataset, keywords)
        self.clip_sampler = clip_sampler

    def _make(self, keywords: dict[str, Any]) -> BaseLoader[Any]:
        return ClipLoader(self.dataset, self.clip_sampler, **keywords)


class ImageDataset(_Batches):
    """Batches of images, as :class:`ClipDataset` has them of clips: takes what :class:`~framespool.ImageLoader` takes,
    ``masks`` too, and gives dicts of tensors with the names of :class:`~framespool.ImageBatch`."""

    def __init__(self, dataset: Any, **keywords: Any) -> None:
        super().__init__(dataset, keywords)

    def _make(self, keywords: dict[str, Any]) -> BaseLoader[Any]:
        return ImageLoader(self.dataset, **keywords)
