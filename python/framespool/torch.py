"""Clips inside PyTorch's own ``DataLoader``, for training code that is built around it.

:class:`~framespool.ClipLoader` needs no ``DataLoader``: it decodes on threads of its own and makes whole batches. Where
a framework wants one all the same, :class:`ClipDataset` goes into it: each worker process then runs a loader over its
part of the batches. That costs a copy of each batch between processes, and look-ahead ends at a process: one
:class:`~framespool.ClipLoader` in the training process is faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from framespool import _framespool
from framespool._loader import ClipLoader
from framespool.datasets import as_dataset
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
    worker: its state fits the same number of workers.

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
        self._made_for: tuple[int, int] | None = None
        self._resumes: Mapping[str, Any] | None = None

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next iteration."""
        self._epoch[0] = epoch

    def _here(self) -> ClipLoader:
        """The loader of this process."""
        info = get_worker_info()
        place = (0, 1) if info is None else (info.id, info.num_workers)
        if self._loader is None or self._made_for != place:
            keywords = dict(self.keywords)
            if info is not None and keywords.get("num_threads") is None:
                keywords["num_threads"] = max(1, _framespool.cores() // info.num_workers)
            self._loader = ClipLoader(self.dataset, self.sampling, worker_id=place[0], num_workers=place[1], **keywords)
            self._made_for = place
        return self._loader

    def __iter__(self) -> Iterator[dict[str, Any]]:
        loader = self._here()
        if self._resumes is None:
            loader.set_epoch(int(self._epoch[0]))
        else:
            loader.load_state_dict(self._resumes)
            self._resumes = None
        for batch in loader:
            yield _tensors(batch)

    def state_dict(self) -> dict[str, Any]:
        """Where this process' loader is."""
        if self._resumes is not None:
            return dict(self._resumes)
        return self._here().state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next iteration goes on where the state was taken; it raises for a state that does not fit."""
        self._resumes = state

    def __getstate__(self) -> dict[str, Any]:
        """What goes to a worker: not the loader, whose threads stay where they are."""
        return {**self.__dict__, "_loader": None, "_made_for": None}


def _tensors(batch: Any) -> dict[str, Any]:
    return {
        name: [tensor.torch() for tensor in value] if isinstance(value, list) else _tensor(value)
        for name, value in vars(batch).items()
    }


def _tensor(value: Any) -> Any:
    return value.torch() if hasattr(value, "torch") else value
