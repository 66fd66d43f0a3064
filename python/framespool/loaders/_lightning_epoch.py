"""The epoch of a loader that Lightning iterates.

Lightning 2 creates the iterator of the first epoch before it knows which epoch that is. It restores the states of
loaders only if the epoch was unfinished, and not at all if `Trainer.estimated_stepping_batches` created the iterator.
When everything else is restored, and before it requests a batch, it calls `set_epoch` of
`loader.batch_sampler.sampler`.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Callable, Mapping
from typing import Any


class LightningSampler:
    """Moves a loader to the position at which an epoch of Lightning starts.

    `batch_size` is that of the loader, which DeepSpeed's strategy reads.

    Args:
        given: The object that Lightning iterates: the loader or a wrapper of it.
        loader: The loader.
        epoch: Function that returns the epoch of each iteration. `None`: the loader counts them.
    """

    def __init__(self, given: Any, loader: Any, epoch: Callable[[], int] | None = None) -> None:
        self._given = given
        self._loader = loader
        self._epoch = epoch
        self.batch_size = loader.batch_size

    @property
    def sampler(self) -> LightningSampler:
        """The sampler, as in a `torch.utils.data.BatchSampler`."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Moves the next iteration, or the latest iterator if it has delivered nothing.

        A run starts at Lightning's epoch, and a resumed run at the position in the checkpoint. After that the loader
        counts: Lightning's epoch is too high by one after each run that `max_steps` ended within an epoch, and it
        iterates the shorter one of two loaders several times per epoch. An evaluation uses Lightning's epoch.
        With `Trainer(overfit_batches=N)` it is always epoch 0.

        Args:
            epoch: Lightning's epoch, from 0.
        """
        # The caller is `_set_sampler_epoch(dataloader, epoch)`, called by a method of the loop.
        caller = sys._getframe(1).f_back
        loop: Any = None if caller is None else caller.f_locals.get("self")
        if not hasattr(loop, "epoch_progress"):  # an evaluation, or not Lightning
            self._loader._move(epoch if self._epoch is None else self._epoch(), 0)
            return
        loader, state, is_new = self._loader, self._unread_state(loop), _is_new(self._loader, loop)
        fixed = self._epoch() if self._epoch is not None else 0 if loop.trainer.overfit_batches > 0 else None
        if loop.restarting:  # within an epoch
            if state is not None:
                loader._load(state)
            first, batch = loader._upcoming()
            if (first, batch) != loader._restored or (fixed is not None and first != fixed):
                # The checkpoint has no state of this loader, such as that of lr_find.
                loader._move(epoch if fixed is None else fixed, 0)
            elif batch == 0 and first > epoch and len(loop._combined_loader.flattened) == 1:
                # All batches of the epoch were delivered. Lightning may request the rest, which is empty.
                loader._move(first - 1, loader._num_batches(first - 1))
            elif batch > 0 and first < epoch and loop.epoch_loop.batch_progress.is_last_batch:
                # A limit ended the epoch, and the checkpoint was saved after its last batch.
                loader._move(first + 1 if fixed is None else fixed, 0)
            return
        if fixed is not None:
            loader._move(fixed, 0)
        elif state is None and (is_new or epoch == 0):  # a run from the beginning
            loader._move(epoch, 0)
        else:
            first, batch = loader._upcoming() if state is None else (state["epoch"], state["batch"])
            loader._move(first + (batch > 0), 0)

    def _unread_state(self, loop: Any) -> Mapping[str, Any] | None:
        """Returns the loader's state in the checkpoint, if Lightning has not loaded it."""
        states = getattr(loop, "_combined_loader_states_to_load", None)
        if states is None:
            warnings.warn(
                "this release of Lightning is not known, so a resumed run may start at another batch; use Lightning "
                "2.2 to 2.6, or report it",
                stacklevel=4,
            )
        if not states or states is self._loader._unread_states:
            return None
        self._loader._unread_states = states
        stateful = [each for each in loop._combined_loader.flattened if hasattr(each, "load_state_dict")]
        state = next((state for each, state in zip(stateful, states, strict=False) if each is self._given), None)
        return state if isinstance(state, Mapping) and "epoch" in state and "batch" in state else None


def epoch_of_fit() -> tuple[int, bool] | None:
    """Reports the epoch at which Lightning starts to iterate a `DataLoader`, to a dataset whose length it requests.

    Lightning requests the length before it creates the first iterator, and reports the epoch only to samplers. If
    `Trainer.estimated_stepping_batches` requests it, the loop is not restored yet: the epoch is in the checkpoint.

    Returns:
        The epoch, and whether all epochs repeat it (`overfit_batches`); `None` if the training loop of Lightning does
        not prepare its data, and in workers of a `DataLoader`.
    """
    if "lightning.pytorch" not in sys.modules and "pytorch_lightning" not in sys.modules:
        return None
    from framespool._common.pytorch import get_worker_info

    # A forked worker has the frames of its training process on its stack, as they were when it started.
    if get_worker_info() is not None:
        return None
    frame = sys._getframe(1).f_back
    while frame is not None and frame.f_code.co_name != "setup_data":
        frame = frame.f_back
    loop: Any = None if frame is None else frame.f_locals.get("self")
    if not hasattr(loop, "epoch_progress"):  # an evaluation, or not Lightning
        return None
    if getattr(loop._combined_loader, "_iterator", None) is not None:  # it has begun
        return None
    if loop.trainer.overfit_batches > 0:
        return 0, True
    connector = getattr(loop.trainer, "_checkpoint_connector", None)
    saved = (getattr(connector, "_loaded_checkpoint", None) or {}).get("loops", {}).get("fit_loop", {})
    epoch = loop.epoch_progress.current.processed
    # A checkpoint of the last batch of an epoch is from before the end of the epoch, but a resumed run starts the next.
    if saved and epoch == 0:
        progress = saved["epoch_progress"]["current"]
        is_last = saved["epoch_loop.batch_progress"]["is_last_batch"]
        return progress["processed"] + (is_last and progress["ready"] > progress["processed"]), False
    return epoch + (loop.restarting and loop.epoch_loop.batch_progress.is_last_batch), False


def _is_new(loader: Any, loop: Any) -> bool:
    """Whether a loop has not iterated a loader before, or another one has since."""
    before, loader._fit_loop = loader._fit_loop, weakref.ref(loop)
    return before is None or before() is not loop
