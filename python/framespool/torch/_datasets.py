"""Batches inside PyTorch's own `DataLoader`."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from framespool._common.pytorch import Base, SharedTensors, get_worker_info, needed, tensors, torch
from framespool._common.ranks import cores_per_rank
from framespool._common.validate_args import integer
from framespool.datasets._dataset import as_dataset, warn_of_other_numbers
from framespool.errors import ArgumentError
from framespool.loaders._base import BaseLoader
from framespool.loaders._clips import ClipLoader
from framespool.loaders._images import ImageLoader
from framespool.loaders._lightning_epoch import epoch_of_fit
from framespool.options._files import quiet_index
from framespool.options._order import DrawnSeed, Shards, as_shards, is_sampler, resolve_seed
from framespool.torch._distributed import is_initialized, rank_and_world


class _Batches(SharedTensors, Base):
    """Common base of `ClipDataset` and `ImageDataset`."""

    def __init__(self, dataset: Any, keywords: dict[str, Any]) -> None:
        needed()
        super().__init__()
        shards = as_shards(keywords.get("num_shards", 1))
        if shards.num_workers > 1 or "num_workers" in keywords:
            raise ArgumentError("num_workers is that of the DataLoader, which starts the workers; give it num_workers=")
        self.dataset = as_dataset(dataset)
        warn_of_other_numbers(self.dataset)  # here, since loaders of workers see one dataset each
        self.keywords = keywords
        self._epochs = _EpochCounter()
        self._loader: BaseLoader[Any] | None = None
        self._made_for: tuple[int, ...] | None = None
        self._resumes: Mapping[str, Any] | None = None
        # The epoch of an iterator that has not ended.
        self._current_epoch: int | None = None
        self._begun = False
        #: Shard of this process if no keyword selects it; see _part.
        self._rank: dict[str, int] | None = None
        #: Batches of an epoch, for a shard and a drawn seed; the loader that counts them, if epochs differ in length.
        self._length: tuple[dict[str, int], int | BaseLoader[Any]] | None = None
        #: With `seed=None` the seed, shared by the processes of a `DataLoader`.
        self._drawn: Any = None
        if keywords.get("seed", 0) is None:
            self._drawn = torch.tensor([resolve_seed(None, self._shards(self._part()).num_shards)]).share_memory_()
        #: The parameters of a grouped shuffle that a state had, shared likewise: workers of later epochs, which load no
        #: state, continue with them. All zeros: none.
        self._grouped = torch.zeros(3, dtype=torch.int64).share_memory_()
        #: Iterations that this process has started, and whether the latest one has delivered a batch.
        self._started, self._unused = 0, False

    def _make(self, keywords: dict[str, Any]) -> BaseLoader[Any]:
        """Creates a loader of this kind."""
        raise NotImplementedError

    def set_epoch(self, epoch: int) -> None:
        """Selects the epoch of the next iteration, also in workers that are alive.

        Without it each iteration is the next epoch.

        Args:
            epoch: Epoch, from 0.
        """
        self._epochs.select(integer("epoch", epoch, most=2**63 - 1))
        self._unused = False

    def __len__(self) -> int:
        """Batches of the next epoch of this rank, over all workers."""
        started = epoch_of_fit()
        if started is not None:
            self._epochs.select(started[0], repeat=started[1])
            self._unused = False
        # Workers and threads do not change it; a state may have another seed.
        part = {**self._part(), **({} if self._drawn is None else {"seed": int(self._drawn)})}
        if self._length is None or self._length[0] != part:
            loader = self._make({**self.keywords, **part})
            self._length = part, len(loader) if loader._plan is None else loader
        length = self._length[1]
        return length if isinstance(length, int) else length._num_batches(self._epochs.next())

    def _part(self) -> dict[str, int]:
        """Returns the shard of this process, unless keywords select it.

        A spawned worker is in no process group: it uses the shard of its training process (see __getstate__). A rank
        that another one has sent the dataset to uses its own.
        """
        given = "shard_id" in self.keywords or "num_shards" in self.keywords
        if given or is_sampler(self.keywords.get("shuffle")):
            return {}
        return rank_and_world() if self._rank is None or is_initialized() else self._rank

    def _shards(self, part: Mapping[str, int]) -> Shards:
        return as_shards({**self.keywords, **part}.get("num_shards", 1))

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
            if self._drawn is not None:
                keywords["seed"] = DrawnSeed(self._drawn)
            if info is not None and worker == 0:
                _warn_oversubscribed(workers, keywords["num_threads"])
            if workers > 1 and is_sampler(sampler := keywords.get("shuffle")):
                _check_repeatable(sampler)
            keywords["num_shards"] = replace(self._shards(part), worker_id=worker, num_workers=workers)
            self._loader = self._make(keywords)
            streams, block, chunk = self._grouped.tolist()
            if self._resumes is None and streams:
                self._loader._group((streams, block, chunk))
            self._made_for, self._current_epoch, self._begun = place, None, False
        return self._loader

    def _refuse_second_sharding(self, part: Mapping[str, int]) -> None:
        """Raises if Accelerate's `prepare` would shard the batches again.

        It lets only the first rank iterate and distributes its batches: the clips of the other ranks would be lost.
        """
        shards = self._shards(part).num_shards
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
        # Some frameworks create iterators that they do not use.
        self._started += not self._unused
        if self._resumes is None:
            loader.set_epoch(self._epochs.start(self._iteration()))
        else:
            loader.load_state_dict(self._resumes)
            self._resumes = None
            if self._drawn is not None:
                self._drawn[0] = loader.seed
            if (grouped := loader._native.grouped) is not None:
                streams, block, chunk = grouped
                # With so large a block all clips are spread over their whole stream.
                self._grouped[:] = torch.tensor([streams, min(block, 2**63 - 1), chunk])
            self._epochs.start(self._iteration(), loader.epoch)
        self._current_epoch, self._begun = loader.epoch, True
        self._unused = get_worker_info() is None
        return _Epoch(self, iter(loader))

    def _iteration(self) -> int:
        """Identifies an iteration over a `DataLoader`: the same in all of its workers.

        A `DataLoader` draws a random seed when it starts its workers; workers that stay alive start all iterations.
        """
        info = get_worker_info()
        return hash((0 if info is None else info.seed - info.id, self._started))

    def state_dict(self) -> dict[str, Any]:
        """Returns the position of this process's loader.

        Returns:
            A state for `load_state_dict()`.
        """
        if self._resumes is not None:
            return dict(self._resumes)
        loader = self._here()
        if not self._begun:
            loader.set_epoch(self._epochs.next())
        state = loader.state_dict()
        if self._current_epoch is not None and state["epoch"] > self._current_epoch:
            # Workers end at different times: one that has delivered its last batch waits for the others' last batches,
            # and must not start the next epoch when they are all resumed.
            state |= {"epoch": self._current_epoch, "batch": loader._num_batches(self._current_epoch)}
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
        own = {"_loader": None, "_made_for": None, "_length": None, "_current_epoch": None, "_rank": rank}
        return {**self.__dict__, **own}


def _check_repeatable(sampler: Any) -> None:
    """Refuses a sampler that would yield another order in each worker, so that clips would be lost."""
    if not hasattr(sampler, "set_epoch") and not isinstance(sampler, Sequence):
        raise ArgumentError(
            f"each worker of the DataLoader iterates shuffle={sampler!r} itself, and would get another order: use a "
            'sampler with set_epoch(), as DistributedSampler, or shuffle="full"; or num_workers=0'
        )


class _EpochCounter(SharedTensors):
    """The epoch of the next iteration, shared by the processes of a `DataLoader`.

    The workers of an iteration start at different times, and must agree on its epoch without a lock: a worker that is
    killed would never release it. The first one that starts advances the epoch, the others find the iteration's key in
    the shared memory, also if an iterator that is not used has advanced the epoch since.

    Key and number of an iteration are one word, so they are read and written together. If two of its workers are the
    first, both write the same word. Only if the first workers of two iterations start within microseconds may one
    overwrite the word of the other, whose next workers then have another epoch.
    """

    #: The number of an iteration, from 1, is the lower half of a word, its key, from 1, the upper half.
    _NUMBERS, _KEYS = 1 << 32, 1 << 30
    #: Iterations whose workers may still start.
    _KEPT = 16

    def __init__(self) -> None:
        #: The selected epoch; the number of the first iteration since then; whether all iterations have that epoch.
        self._selection = torch.tensor([0, 1, 0]).share_memory_()
        #: The latest iterations, each at its number modulo `_KEPT`: words, and epochs.
        self._words = torch.zeros(self._KEPT, dtype=torch.int64).share_memory_()
        self._epochs = torch.zeros(self._KEPT, dtype=torch.int64).share_memory_()
        #: Selections in this process, or in the training process when it started this worker. They distinguish
        #: iterations of different epochs for which the `DataLoader` draws the same seed.
        self._selections = 0

    def select(self, epoch: int, *, repeat: bool = False) -> None:
        """Selects the epoch of the next iteration, or of all."""
        self._selections += 1
        self._selection[:] = torch.tensor([epoch, self._latest(self._words.tolist()) + 1, int(repeat)])

    def next(self) -> int:
        """Returns the epoch of an iteration that starts now."""
        return self._after(self._latest(self._words.tolist()))

    def start(self, iteration: int, resumed: int | None = None) -> int:
        """Starts an iteration.

        Args:
            iteration: Identifies the iteration in all processes.
            resumed: Its epoch, if a state has it.

        Returns:
            Its epoch.
        """
        key = 1 + hash((iteration, self._selections)) % self._KEYS
        words = self._words.tolist()
        latest = self._latest(words)
        if resumed is None:
            number = max((word % self._NUMBERS for word in words if word // self._NUMBERS == key), default=0)
            if number:
                return int(self._epochs[number % self._KEPT])
            number, epoch = latest + 1, self._after(latest)
        else:
            number = latest + (words[latest % self._KEPT] // self._NUMBERS != key)
            self._selection[:2] = torch.tensor([resumed, number])
            epoch = resumed
        # The epoch first: a worker that finds the word reads it.
        self._epochs[number % self._KEPT] = epoch
        self._words[number % self._KEPT] = key * self._NUMBERS + number
        return epoch

    def _after(self, latest: int) -> int:
        """Epoch of the iteration after this one."""
        selected, first, repeat = self._selection.tolist()
        return int(selected if repeat else selected + latest + 1 - first)

    def _latest(self, words: list[int]) -> int:
        """Number of the latest iteration; 0 before the first one."""
        return max(word % self._NUMBERS for word in words)


def _warn_oversubscribed(workers: int, threads: int) -> None:
    """Warns if the workers of a `DataLoader` have more decoding threads than this rank has cores."""
    cores = cores_per_rank()
    if workers * threads > cores:
        warnings.warn(
            f"{workers} workers with {threads} decoding {'thread' if threads == 1 else 'threads'} each share the "
            f"{cores} {'core' if cores == 1 else 'cores'} of this rank; use fewer workers, or num_workers=0: a loader "
            "decodes on threads of its own",
            stacklevel=2,
        )


class _Epoch(Iterator[dict[str, Any]]):
    """The batches of a process's loader.

    It is not a generator, which would end at an error: the batches after the error are still delivered, and workers
    stay synchronized.
    """

    def __init__(self, dataset: _Batches, batches: Iterator[Any]) -> None:
        self._dataset = dataset
        self._batches = batches

    def __next__(self) -> dict[str, Any]:
        self._dataset._unused = False
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
    Each iteration is the next epoch. `set_epoch()` selects one, as of a `DistributedSampler`; it also reaches workers
    that are alive. `len()` is the number of batches of this rank in the next epoch, over all workers.

    `state_dict` and `load_state_dict` are the methods that `torchdata`'s `StatefulDataLoader` calls in each
    worker; a state fits the same number of workers. No file is opened and no thread starts before a worker starts to
    iterate, so every start method works; `len()` opens the videos if the clip sampler counts clips by their lengths.

    Args:
        dataset: As for `framespool.ClipLoader`.
        clip_sampler: As for `framespool.ClipLoader`.
        keywords: All other arguments of `framespool.ClipLoader`. `num_threads` and the memory of `cache` are per
            worker; by default the cores are divided among the workers, and among the ranks of the machine
            (`LOCAL_WORLD_SIZE`).

    Raises:
        UnsupportedError: If PyTorch is not installed.
        ArgumentError: If an argument is one of the `DataLoader`, such as `num_workers`.

    Example:
        >>> clips = framespool.torch.ClipDataset(  # doctest: +SKIP
        ...     dataset,
        ...     fsp.samplers.RandomClips(sequence_length=16),
        ...     batch_size=8,
        ...     shuffle="full",
        ...     transforms=[fsp.transforms.Resize((112, 112))],
        ... )
        >>> for batch in DataLoader(clips, batch_size=None, num_workers=4):  # doctest: +SKIP
        ...     print(batch["frames"].shape)  # torch.Size([8, 16, 3, 112, 112])
    """

    def __init__(self, dataset: Any, clip_sampler: Any = None, **keywords: Any) -> None:
        super().__init__(dataset, keywords)
        self.clip_sampler = clip_sampler

    def _make(self, keywords: dict[str, Any]) -> BaseLoader[Any]:
        if get_worker_info() is not None:
            # The workers share the terminal, and what a function does in them is lost.
            keywords = {**keywords, "index": quiet_index(keywords.get("index"))}
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
        torch.Size([4, 3, 64, 64])
    """

    def __init__(self, dataset: Any, **keywords: Any) -> None:
        super().__init__(dataset, keywords)

    def _make(self, keywords: dict[str, Any]) -> BaseLoader[Any]:
        return ImageLoader(self.dataset, **keywords)
