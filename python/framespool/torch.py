"""Clips inside PyTorch's own ``DataLoader``, for training code that is built around it.

:class:`~framespool.ClipLoader` needs no ``DataLoader``: it decodes on threads of its own and makes whole batches. Where
a framework wants one all the same, :class:`ClipDataset` goes into it: each worker process then runs a loader over its
part of the batches. That costs a copy of each batch between processes, and look-ahead ends at a process: one
:class:`~framespool.ClipLoader` in the training process is faster.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from framespool import _framespool
from framespool._check import whole
from framespool._loader import ClipLoader
from framespool.datasets._dataset import as_dataset
from framespool.errors import UnsupportedError

if TYPE_CHECKING:
    # PyTorch need not be there when types are checked either.
    Base = object
    torch: Any
    get_worker_info: Any
else:
    try:
        import torch
        from torch.utils.data import IterableDataset as Base
        from torch.utils.data import get_worker_info
    except ImportError:
        torch, Base, get_worker_info = None, object, None

__all__ = ["ClipDataset"]


class ClipDataset(Base):
    """Batches of clips as a ``torch.utils.data.IterableDataset``; give it to a ``DataLoader`` with ``batch_size=None``.

    Takes what :class:`~framespool.ClipLoader` takes. With ``num_workers`` processes worker *w* makes the batches *w*,
    *w* + ``num_workers``, …, which the ``DataLoader`` puts in order again: the batches are those of one loader,
    whatever the number of workers, and none comes twice. ``num_threads`` is per worker; by default the cores are
    shared out.

    A batch is a dict of tensors with the names of :class:`~framespool.Batch`; ``frames`` is a list where clips differ
    in size. Call :meth:`set_epoch` before each epoch, as with a ``DistributedSampler``; it reaches workers that are
    alive. ``state_dict`` and ``load_state_dict`` are what ``torchdata``'s ``StatefulDataLoader`` asks for in each
    worker: its state fits the same number of workers. It has no length, which only its workers could tell.

    Nothing is opened and no thread starts before a worker begins to iterate, so every start method will do.
    """

    def __init__(self, dataset: Any, sampling: Any, **keywords: Any) -> None:
        if torch is None:
            raise UnsupportedError("framespool.torch needs PyTorch, which is not installed; use framespool.ClipLoader")
        super().__init__()
        self.dataset = as_dataset(dataset)
        self.sampling = sampling
        self.keywords = keywords
        # In shared memory: workers that live on see the epoch that the training process chooses.
        self._epoch = torch.zeros(1, dtype=torch.int64).share_memory_()
        self._loader: ClipLoader | None = None
        self._made_for: tuple[int, int, int] | None = None
        self._resumes: Mapping[str, Any] | None = None
        # The epoch of an iterator that has not ended.
        self._under_way: int | None = None
        self._begun = False

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next iteration; without it each one is the same epoch, 0."""
        self._epoch[0] = whole("epoch", epoch, most=2**63 - 1)

    def _here(self) -> ClipLoader:
        """The loader of this process."""
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        place = (os.getpid(), worker, workers)
        if self._loader is None or self._made_for != place:
            keywords = dict(self.keywords)
            if info is not None and keywords.get("num_threads") is None:
                keywords["num_threads"] = max(1, _framespool.cores() // workers)
            self._loader = ClipLoader(self.dataset, self.sampling, worker_id=worker, num_workers=workers, **keywords)
            self._made_for, self._under_way, self._begun = place, None, False
        return self._loader

    def __iter__(self) -> Iterator[dict[str, Any]]:
        loader = self._here()
        if self._resumes is None:
            loader.set_epoch(int(self._epoch[0]))
        else:
            loader.load_state_dict(self._resumes)
            self._resumes = None
        self._under_way, self._begun = loader.epoch, True
        return self._batches(loader)

    def _batches(self, loader: ClipLoader) -> Iterator[dict[str, Any]]:
        for batch in loader:
            yield _tensors(batch)
        self._under_way = None

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
        return {**self.__dict__, "_loader": None, "_made_for": None, "_under_way": None}


def _tensors(batch: Any) -> dict[str, Any]:
    return {
        name: [tensor.torch() for tensor in value] if isinstance(value, list) else _tensor(value)
        for name, value in vars(batch).items()
    }


def _tensor(value: Any) -> Any:
    return value.torch() if hasattr(value, "torch") else value
