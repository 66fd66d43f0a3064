"""Batches inside PyTorch's own `DataLoader`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from framespool._base_loader import BaseLoader
from framespool._clip_loader import ClipLoader
from framespool._images import ImageLoader
from framespool._ranks import cores_per_rank
from framespool._validate_args import integer
from framespool.datasets._dataset import as_dataset
from framespool.errors import ArgumentError
from framespool.torch._distributed import is_initialized, rank_and_world
from framespool.torch._torch import Base, get_worker_info, needed, tensors, torch


class _Batches(Base):
    """Common base of `ClipDataset` and `ImageDataset`."""

    def __init__(self, dataset: Any, keywords: dict[str, Any]) -> None:
        needed()
        super().__init__()
        self.dataset = as_dataset(dataset)
        self.keywords = keywords
        # In shared memory: persistent workers see the epoch that the training process selects.
        self._epoch = torch.zeros(1, dtype=torch.int64).share_memory_()
        self._loader: BaseLoader[Any] | None = None
        self._made_for: tuple[int, ...] | None = None
        self._resumes: Mapping[str, Any] | None = None
        # The epoch of an iterator that has not ended.
        self._current_epoch: int | None = None
        self._begun = False
        #: Shard of this process if no keyword selects it; see _part.
        self._rank: dict[str, int] | None = None

    def _make(self, keywords: dict[str, Any]) -> BaseLoader[Any]:
        """Creates a loader of this kind."""
        raise NotImplementedError

    def set_epoch(self, epoch: int) -> None:
        """Selects the epoch of the next iteration.

        Without it each iteration is epoch 0.

        Args:
            epoch: Epoch, from 0.
        """
        self._epoch[0] = integer("epoch", epoch, most=2**63 - 1)

    def _part(self) -> dict[str, int]:
        """Returns the shard of this process, unless keywords select it.

        A spawned worker is in no process group: it uses the shard of its training process (see __getstate__).
        """
        if "shard_id" in self.keywords or "num_shards" in self.keywords:
            return {}
        return self._rank or rank_and_world()

    def _here(self) -> BaseLoader[Any]:
        """Returns the loader of this process."""
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        part = self._part()
        place = (os.getpid(), worker, workers, *part.values())
        if self._loader is None or self._made_for != place:
            self._refuse_second_sharding(part)
            keywords = {**self.keywords, **part}
            if keywords.get("num_threads") is None:
                keywords["num_threads"] = max(1, cores_per_rank() // workers)
            self._loader = self._make({**keywords, "worker_id": worker, "num_workers": workers})
            self._made_for, self._current_epoch, self._begun = place, None, False
        return self._loader

    def _refuse_second_sharding(self, part: Mapping[str, int]) -> None:
        """Raises if Accelerate's `prepare` would shard the batches again.

        It lets only the first rank iterate and distributes its batches: the clips of the other ranks would be lost.
        """
        shards = {**self.keywords, **part}.get("num_shards", 1)
        state, loading = sys.modules.get("accelerate.state"), sys.modules.get("accelerate.data_loader")
        if shards == 1 or state is None or loading is None:
            return
        if isinstance(state.GradientState().active_dataloader, loading.DataLoaderDispatcher):
            raise ArgumentError(
                f"Accelerate's prepare() distributes the batches of one rank, but this dataset is already one of "
                f"{shards} shards: clips would be lost. Use framespool.torch.for_accelerate(loader, accelerator) "
                "instead of prepare(loader), or create the dataset with num_shards=1"
            )

    def __iter__(self) -> Iterator[dict[str, Any]]:
        loader = self._here()
        if self._resumes is None:
            loader.set_epoch(int(self._epoch[0]))
        else:
            loader.load_state_dict(self._resumes)
            self._resumes = None
        self._current_epoch, self._begun = loader.epoch, True
        return _Epoch(self, iter(loader))

    def state_dict(self) -> dict[str, Any]:
        """Returns the position of this process's loader.

        Returns:
            A state for `load_state_dict()`.
        """
        if self._resumes is not None:
            return dict(self._resumes)
        loader = self._here()
        if not self._begun:
            loader.set_epoch(int(self._epoch[0]))
        state = loader.state_dict()
        if self._current_epoch is not None and state["epoch"] > self._current_epoch:
            # Workers end at different times: one that has delivered its last batch waits for the others' last batches,
            # and must not start the next epoch when they are all resumed.
            state |= {"epoch": self._current_epoch, "batch": len(loader)}
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Lets the next iteration continue at a state.

        The next iteration raises `ArgumentError` if the state does not match the loader.

        Args:
            state: What `state_dict()` returned.
        """
        self._resumes = state

    def __getstate__(self) -> dict[str, Any]:
        """Returns what is sent to a worker: not the loader, whose threads cannot be sent."""
        # Frameworks that start their ranks themselves send datasets to processes that are not ranks yet.
        rank = rank_and_world() if is_initialized() else self._rank
        return {**self.__dict__, "_loader": None, "_made_for": None, "_current_epoch": None, "_rank": rank}


class _Epoch(Iterator[dict[str, Any]]):
    """The batches of a process's loader.

    It is not a generator, which would end at an error: the batches after the error are still delivered, and workers
    stay synchronized.
    """

    def __init__(self, dataset: _Batches, batches: Iterator[Any]) -> None:
        self._dataset = dataset
        self._batches = batches

    def __next__(self) -> dict[str, Any]:
        try:
            return tensors(next(self._batches))
        except StopIteration:
            self._dataset._current_epoch = None
            raise


class ClipDataset(_Batches):
    """Batches of clips as a `torch.utils.data.IterableDataset`, for a `DataLoader` with `batch_size=None`.

    With `num_workers` processes, worker *w* makes the batches *w*, *w* + `num_workers`, …, which the `DataLoader`
    puts in order again. The batches are those of one loader, for any number of workers, and none occurs twice.

    If neither `shard_id` nor `num_shards` is given, each rank has its own shard
    (`torch.rank_and_world()`): a `DataLoader` cannot shard an iterable dataset, and no
    `DistributedSampler` applies to one. `num_shards=1` gives every rank all clips.

    A batch is a dict of tensors with the names of `Batch`; `frames` is a list if the transforms give different sizes.
    Call `set_epoch()` before each epoch, as with a `DistributedSampler`; it also reaches workers that are alive.

    `state_dict` and `load_state_dict` are the methods that `torchdata`'s `StatefulDataLoader` calls in each
    worker; a state fits the same number of workers. The dataset has no length. No file is opened and no thread starts
    before a worker starts to iterate, so every start method works.

    Args:
        dataset: As for `framespool.ClipLoader`.
        clip_sampler: As for `framespool.ClipLoader`.
        keywords: All other arguments of `framespool.ClipLoader`. `num_threads` is per worker; by default the
            cores are divided among the workers, and among the ranks of the machine (`LOCAL_WORLD_SIZE`).

    Raises:
        UnsupportedError: If PyTorch is not installed.

    Example:
        >>> clips = framespool.torch.ClipDataset(  # doctest: +SKIP
        ...     dataset,
        ...     fsp.samplers.random(sequence_length=16),
        ...     batch_size=8,
        ...     shuffle="full",
        ...     transforms=[fsp.transforms.Resize((112, 112))],
        ... )
        >>> for batch in DataLoader(clips, batch_size=None, num_workers=4):  # doctest: +SKIP
        ...     print(batch["frames"].shape)  # torch.Size([8, 16, 112, 112, 3])
    """

    def __init__(self, dataset: Any, clip_sampler: Any, **keywords: Any) -> None:
        super().__init__(dataset, keywords)
        self.clip_sampler = clip_sampler

    def _make(self, keywords: dict[str, Any]) -> BaseLoader[Any]:
        return ClipLoader(self.dataset, self.clip_sampler, **keywords)


class ImageDataset(_Batches):
    """Batches of images as a `torch.utils.data.IterableDataset`; see `ClipDataset`.

    A batch is a dict of tensors with the names of `ImageBatch`.

    Args:
        dataset: As for `framespool.ImageLoader`.
        keywords: All other arguments of `framespool.ImageLoader`, `masks` included.

    Raises:
        UnsupportedError: If PyTorch is not installed.

    Example:
        >>> import framespool as fsp
        >>> import framespool.torch
        >>> from torch.utils.data import DataLoader
        >>> images = framespool.torch.ImageDataset(
        ...     fsp.datasets.image_folder("photos/"),
        ...     batch_size=4,
        ...     transforms=[fsp.transforms.Resize((64, 64))],
        ... )
        >>> batch = next(iter(DataLoader(images, batch_size=None)))
        >>> batch["images"].shape
        torch.Size([4, 64, 64, 3])
    """

    def __init__(self, dataset: Any, **keywords: Any) -> None:
        super().__init__(dataset, keywords)

    def _make(self, keywords: dict[str, Any]) -> BaseLoader[Any]:
        return ImageLoader(self.dataset, **keywords)
