"""A loader whose batches are PyTorch's tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from framespool._base_loader import BaseLoader
from framespool.errors import ArgumentError
from framespool.torch._torch import needed, tensors, torch


class TorchLoader:
    """A :class:`~framespool.ClipLoader` or :class:`~framespool.ImageLoader` whose batches are dicts of
    ``torch.Tensor``, with the names of :class:`~framespool.Batch` or :class:`~framespool.ImageBatch`.

    Tensors of the loader's device share their memory with the loader's; with ``device`` they are moved there
    (``non_blocking``). Where pictures differ in size there is a list of tensors. ``len``, :meth:`set_epoch`,
    :meth:`state_dict` and :meth:`load_state_dict` are the loader's own, which stays reachable as ``loader``.

    ``epoch``: a function that says which epoch an iteration is, asked when it begins, for frameworks that count epochs
    themselves; without it each one is the next.
    """

    def __init__(self, loader: BaseLoader[Any], *, device: Any = None, epoch: Callable[[], int] | None = None) -> None:
        needed()
        if not isinstance(loader, BaseLoader):
            raise ArgumentError(f"loader must be a ClipLoader or an ImageLoader, got {loader!r}")
        self.loader = loader
        self._device = device
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if self._epoch is not None:
            self.loader.set_epoch(self._epoch())
        # The loader begins now, not when the first batch is taken.
        return self._batches(iter(self.loader))

    def _batches(self, batches: Iterator[Any]) -> Iterator[dict[str, Any]]:
        # No generator, which an error would end: the batches behind it can still be had.
        return map(lambda batch: self._placed(tensors(batch)), batches)

    def _placed(self, batch: dict[str, Any]) -> dict[str, Any]:
        if self._device is None:
            return batch
        return {name: _moved(value, self._device) for name, value in batch.items()}

    def set_epoch(self, epoch: int) -> None:
        """See :meth:`framespool.ClipLoader.set_epoch`."""
        self.loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """See :meth:`framespool.ClipLoader.state_dict`."""
        return self.loader.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """See :meth:`framespool.ClipLoader.load_state_dict`."""
        self.loader.load_state_dict(state_dict)

    def stats(self) -> dict[str, Any]:
        """See :meth:`framespool.ClipLoader.stats`."""
        return self.loader.stats()


def _moved(value: Any, device: Any) -> Any:
    if isinstance(value, list):
        return [_moved(each, device) for each in value]
    if not hasattr(value, "to"):
        return value
    # A copy to the host that nobody waits for could be read before it is there.
    return value.to(device, non_blocking=torch.device(device).type != "cpu")
