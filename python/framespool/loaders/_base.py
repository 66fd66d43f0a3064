"""What all loaders share: epochs, checkpoints, errors, counters."""

from __future__ import annotations

import functools
import itertools
import math
import os
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from framespool import _framespool
from framespool._common.counters import merged, with_derived
from framespool._common.flat_stats import flattened
from framespool._common.index_cache import cache_location
from framespool._common.ranks import warn_of_machines, warn_unsharded
from framespool._common.validate_args import integer, user_stacklevel
from framespool.datasets import Dataset, MixtureDataset, WeightedDataset
from framespool.datasets._columns import Column
from framespool.datasets._dataset import as_dataset, warn_of_other_numbers
from framespool.datasets._failures import failure_record, write_failures
from framespool.errors import ArgumentError, GpuError
from framespool.loaders import _checkpoint, _page_lock
from framespool.loaders._dropped import dropped
from framespool.loaders._engine import Engine
from framespool.loaders._epoch_iterator import EpochIterator
from framespool.loaders._index_progress import IndexProgress
from framespool.loaders._lightning_epoch import LightningSampler
from framespool.loaders._samples import Samples
from framespool.options._batch_size import PixelBudget, TokenBudget
from framespool.options._loader import LoaderOptions
from framespool.options._order import MAX_EPOCH, DrawnSeed, GroupedShuffle, is_sampler, shuffle_name
from framespool.order._batch_budget import BatchBudget, Slot
from framespool.order._sample_order import OrderBatches, SampleOrder
from framespool.order._sampler_batches import SamplerBatches
from framespool.transforms._compose import on_workers, split
from framespool.transforms._functions import BatchContext, apply_functions
from framespool.transforms._worker_functions import ClipWorkers

if TYPE_CHECKING:
    from concurrent.futures import Future

#: Version of the keys of `stats()`; raised when a key changes its name or meaning.
STATS_VERSION = 3

#: Share of the pictures of an epoch that the CPU may decode in place of NVDEC; above it, a warning names the reasons.
MAX_FALLBACK_SHARE = 0.1

B = TypeVar("B")


def _warn_if_poorly_mixed(native: Engine, option: str, budget: int) -> None:
    """Warns if the grouped shuffle of a loader mixes videos poorly.

    Args:
        native: The native loader.
        option: The option of `Cache` that limits its clips.
        budget: The value of the option in bytes.
    """
    mixing, is_poor, enough = native.shuffle_mixing() or (1.0, False, None)
    if not is_poor:
        return
    remedy = "" if enough is None else f'cache=Cache({option}="{math.ceil(enough / 2**20)}MiB") gives 90 %; otherwise '
    warnings.warn(
        f"clips of one video come close together: 10 batches have {mixing:.0%} of the different videos that a full "
        f'shuffle gives, with Cache({option}="{budget / 2**20:.3g}MiB"); {remedy}decrease max_chunk, which decodes '
        'more, or use shuffle="full"',
        stacklevel=user_stacklevel(),
    )


class BaseLoader(Generic[B]):
    """One or more native loaders that deliver the same order, and the interface that all loaders share.

    Args:
        dataset: The dataset, as the caller gave it.
        sampler_spec: The arguments of the clip sampler for the engine.
        options: The keyword arguments that all loaders share.
        group_clips: Whether the clips of a video stay together.
        images: Whether the files are images.
        exact: Whether images are decoded completely.
        quiet: Whether HDR video gives no warning.
        more_views: The views after the first one: see `Views.others()`.

    Raises:
        ArgumentError: If an argument is invalid.
    """

    #: The videos and images of the samples, if these have several sources; set before `__init__`.
    _samples: Samples | None = None

    def __init__(
        self,
        dataset: Iterable[Any],
        sampler_spec: Any,
        options: LoaderOptions,
        *,
        group_clips: bool = False,
        images: bool = False,
        exact: bool = False,
        quiet: bool = False,
        more_views: Sequence[Any] = (),
    ) -> None:
        self.dataset = as_dataset(dataset)
        warn_of_other_numbers(self.dataset)
        mixture = self.dataset if isinstance(self.dataset, MixtureDataset) else None
        ordered = options.order_settings(can_group=mixture is None or not mixture.replacement)
        if isinstance(self.dataset, WeightedDataset):
            ordered["weights"] = {
                "weights": self.dataset.weights,
                "replacement": self.dataset.replacement,
                "epoch_clips": self.dataset.epoch_clips,
            }
        samples = self._samples
        #: What makes the batches in place of the engine's batch sampler.
        self._plan: BatchBudget | SamplerBatches | OrderBatches | None = None if samples is None else OrderBatches()
        if is_sampler(options.shuffle):
            self._plan = SamplerBatches(options.shuffle, ordered)
        else:
            warn_unsharded(ordered["num_shards"])
        if isinstance(options.batch_size, (PixelBudget, TokenBudget)) or options.buckets is not None:
            if isinstance(self._plan, SamplerBatches):
                raise ArgumentError(
                    "batch_size must be a number if shuffle is a sampler, without buckets; got "
                    f"{options.batch_size!r} and buckets={options.buckets!r}"
                )
            self._plan = BatchBudget(options, ordered, self.dataset.columns, of_samples=samples is not None)
        if self._plan is not None and group_clips:
            raise ArgumentError(
                "group_clips=True and views= need a number as batch_size, an order of framespool, and no buckets"
            )
        self._strict = options.gpu is not None and options.gpu._is_strict
        self._settings: dict[str, Any] = {
            "order": ordered,
            "mixture": None
            if mixture is None
            else {
                "items": mixture.lengths,
                "weights": mixture.weights,
                "replacement": mixture.replacement,
                "epoch_clips": mixture.epoch_clips,
            },
            "frames": options.frame_settings(exact=exact, ignores_hdr=quiet),
            "more_views": list(more_views),
            "index": cache_location(options.index.folder),
            "options": options.engine_settings(self.dataset.stream, images=images, group_clips=group_clips),
        }
        own = self._settings["options"]
        if own["clip_store"] is not None:
            warn_of_machines(ordered)
        self._pin_memory = _page_lock.checked(options.pin_memory, own["gpu"]["device"])
        decoder, device = own["gpu"]["decoder"], own["gpu"]["device"]
        on_gpu = device is not None or own["gpu"]["decode_device"] is not None
        self._uses_nvdec = not images and on_gpu and decoder in ("auto", "nvdec")
        self._sampler_spec = sampler_spec
        self.batch_size: int = ordered["batch_size"]
        steps, self._functions = split(options.transforms, options.dtype)
        #: Whether the frames of a batch do not follow from the content keys of its clips.
        self._changes_frames = any(getattr(function, "_changes_frames", True) for function in self._functions)
        early = tuple(function for function in self._functions if on_workers(function))
        if early and device is not None:
            raise ArgumentError(f'{early[0]!r} needs frames on the CPU: use device="cpu", or on="consumer"')
        self._num_early = len(early)
        self._clip_workers = ClipWorkers(early, max(1, own["num_threads"])) if early else None
        others = ordered["shard_id"] > 0 or ordered["worker_id"] > 0
        self._index_progress = IndexProgress(options.index.progress, len(self._engine_dataset), quiet=others)
        with self._index_progress.creation() as self._report_index:
            self._native = self._engine(self._engine_dataset, sampler_spec, steps, self._settings)
        self._report_index = None
        if self._uses_nvdec:
            self._check_nvdec()
        self._companions: list[Engine] = []  # of the same samples in the same order, such as masks
        #: Makes single batches, so that an iteration in progress continues; created when first needed.
        self._single: list[_framespool.Loader] = []
        self._companion_arguments: list[tuple[Dataset, Any, list[Any], dict[str, Any]]] = []
        self._seed_is_drawn = isinstance(options.seed, DrawnSeed)
        if shuffle_name(ordered) == "grouped" and self._native.grouped is None:
            ordered = {**ordered, "shuffle": "full"}  # each video or sample is one unit: the orders are the same
        elif shuffle_name(ordered) == "grouped" and ordered["shard_id"] == ordered["worker_id"] == 0:
            on_device = device is not None and own["device_memory_budget"] is not None
            option, budget = ("device_memory", "device_memory_budget") if on_device else ("memory", "memory_budget")
            _warn_if_poorly_mixed(self._native, option, own[budget])
        if self._plan is not None and not isinstance(self._native, _framespool.Loader):
            raise ArgumentError("workers on Ray need a number as batch_size, and an order of framespool as shuffle")
        #: The order of the samples; `None` if the engine has that of the clips.
        self._sample_order: SampleOrder | None = None
        self._planned: dict[int, list[list[Slot]]] = {}  # the batches of samples of the two latest epochs
        if samples is not None:
            mix = self._settings["mixture"]
            mix = None if mix is None else {**{n: v for n, v in mix.items() if n != "items"}, "sizes": mix["items"]}
            self._sample_order = SampleOrder(ordered, len(self.dataset), mix, self._sample_shapes)
        if (
            ordered["last_batch"] == "drop"
            and (self._plan is None or isinstance(self._plan, OrderBatches))
            and ordered["num_workers"] == 1
            and (len(self._native) if self._sample_order is None else len(self._sample_order.sampler)) == 0
        ):
            all_ranks = f"batch_size * num_shards = {self.batch_size} * {ordered['num_shards']}"
            warnings.warn(
                f"this loader has no batches: {all_ranks} is more than the dataset has ({self.num_clips} clips), and "
                'last_batch="drop" omits an incomplete batch; use last_batch="fill" or smaller batches',
                stacklevel=3,
            )
        self._order = _checkpoint.order(ordered, mixture)
        if group_clips:
            self._order |= {"group_clips": True}
        if isinstance(self._plan, BatchBudget):
            self._plan.shuffle = self._order["shuffle"]  # a grouped shuffle of videos with one clip is a full one
        if self._plan is not None:
            self._order |= self._plan.config()
        self._numbers = {
            "seed": ordered["seed"],
            "global_batch_size": self.batch_size * ordered["num_shards"],
            "num_clips": self.num_clips,
        }
        self._configuration: dict[str, Any] | None = None
        self._dataset_columns: dict[str, Column] | None = None  # prepared when the first batch needs them
        self._label_column: Column | None = None
        self._steps = steps
        self._warned_idle = False  # that a mix of clips had one clip only
        self._next = (0, 0)  # epoch and batch at which the next iteration starts
        # Number, epoch and first batch of the latest pass, until another epoch is chosen.
        self._pass: tuple[int, int, int] | None = None
        self._epoch_set_at: int | None = None  # the next batch of that pass when set_epoch chose another epoch
        self._begun: int | None = None
        # The loaders of the latest pass, each with its own number of the pass.
        self._running: list[tuple[Engine, int]] = []
        # The iterator of that pass, which refers to this loader and may be dropped before its end; and the batches that
        # it has taken for functions on workers and not delivered, which count also if it is gone.
        self._iterator: weakref.ref[EpochIterator[B]] | None = None
        self._waiting_numbers: Sequence[int] = ()
        # Lightning's loop that iterated this loader last, and the states in its checkpoint: see LightningSampler.
        self._fit_loop: weakref.ref[Any] | None = None
        self._unread_states: Any = None
        self._restored: tuple[int, int] | None = None  # the position that load_state_dict restored last
        self._delivers_known = False  # the engine delivers some clips without frames

    def _engine(self, dataset: Dataset, sampler_spec: Any, steps: list[Any], settings: dict[str, Any]) -> Engine:
        settings = self._for_engine(settings)
        return _framespool.Loader(dataset._for_engine(), sampler_spec, steps, settings, self._report_index)

    @property
    def _engine_dataset(self) -> Dataset:
        """The dataset of the first native loader."""
        return self.dataset if self._samples is None else self._samples.datasets[self._samples.kinds[0]]

    def _for_engine(self, settings: dict[str, Any]) -> dict[str, Any]:
        """The settings of a native loader."""
        return settings if self._samples is None else self._samples.engine_settings(settings)

    def _sample_shapes(self, epoch: int, slots: list[Slot]) -> Any:
        assert self._samples is not None
        return self._samples.shapes([self._native, *self._companions], epoch, slots)

    def _add_companion(self, dataset: Dataset, sampler_spec: Any, steps: list[Any], settings: dict[str, Any]) -> None:
        """Creates a native loader of the same order, whose results are part of the same batches."""
        self._companion_arguments.append((dataset, sampler_spec, steps, settings))
        self._companions.append(self._engine(dataset, sampler_spec, steps, settings))
        self._group(self._native.grouped)

    def _group(self, grouped: tuple[int, int, int] | None) -> None:
        """Uses these parameters of the grouped shuffle, if there is one, in all native loaders.

        Each derives its own from its memory when it is created. From then on they are those of the loader, which only a
        state changes.
        """
        for native in [self._native, *self._companions]:
            if grouped is not None and native.grouped != grouped:
                native.set_grouped(*grouped)

    def _set_seed(self, seed: int) -> None:
        """Creates the native loaders again, with another seed."""
        if self._plan is not None:
            self._plan.set_seed(seed)
        self._cancel()
        order, grouped = {**self._settings["order"], "seed": seed}, self._native.grouped
        self._settings["order"], self._numbers["seed"] = order, seed
        self._configuration, self._running, self._single = None, [], []
        if self._sample_order is not None:
            self._sample_order.set_seed(seed)
            self._planned.clear()
        self._native = self._engine(self._engine_dataset, self._sampler_spec, self._steps, self._settings)
        self._companions = [
            self._engine(dataset, sampler_spec, steps, {**settings, "order": order})
            for dataset, sampler_spec, steps, settings in self._companion_arguments
        ]
        self._group(grouped)

    def _batch(self, epoch: int, made: list[dict[str, Any]]) -> B:
        """Builds a batch of an epoch from the results of the native loaders."""
        raise NotImplementedError

    def _batch_of_known(self, epoch: int, made: list[dict[str, Any]]) -> B:
        """As `_batch()`, with what `FeatureLoader` has to know about a batch whose frames lack some clips."""
        batch = self._batch(epoch, made)
        batch._of_pass = epoch, made[0]  # type: ignore[attr-defined]
        return batch

    def _columns(self, batch: dict[str, Any], sample_ids: Any) -> dict[str, Any]:
        """Returns what the dataset has for the samples of a batch: `labels` and `columns`.

        Args:
            batch: A batch of the native loader.
            sample_ids: Its tensor with the index of each sample.
        """
        if self._dataset_columns is None:
            self._dataset_columns = {name: Column(values) for name, values in self.dataset.columns.items()}
            self._label_column = self.dataset._label_column()
        if not self._dataset_columns and self._label_column is None:
            return {"labels": batch["labels"], "columns": {}}
        samples = sample_ids.tolist()
        return {
            "labels": batch["labels"] if self._label_column is None else self._label_column.take(samples),
            "columns": {name: column.take(samples) for name, column in self._dataset_columns.items()},
        }

    def _function_input(self, made: dict[str, Any]) -> tuple[Any, str]:
        """Returns the frames of a batch as functions get them, and their layout."""
        return made["frames"], self._settings["frames"]["layout"]

    def _clip_keys(self, values: dict[str, Any], epoch: int) -> list[tuple[int, ...]]:
        """Returns the numbers from which the seed of each clip of a batch is derived."""
        # As for the engine's transforms: another delivery of a clip in the epoch has other random numbers.
        deliveries = zip(values["clip_ids"].tolist(), values["occurrences"].tolist(), strict=True)
        return [(self._numbers["seed"], epoch, clip, occurrence) for clip, occurrence in deliveries]

    def _apply_functions(self, values: dict[str, Any], layout: str, epoch: int) -> dict[str, Any]:
        """Applies the user's functions to a batch.

        Args:
            values: The batch: `frames`, `labels`, `columns`, `clip_ids`, `video_ids` and `batch_index`. Functions on
                workers have been applied to `frames`.
            layout: Layout of the frames.
            epoch: Epoch of the batch.

        Returns:
            What they determine of the batch, by name.
        """
        if not self._functions:
            return {}
        order, seed, keys = self._settings["order"], self._numbers["seed"], self._clip_keys(values, epoch)
        # Batch of this rank, over its workers.
        number = (values.get("batch_index") or 0) * order["num_workers"] + order["worker_id"]
        batch = BatchContext(
            values["labels"],
            values["columns"],
            values["clip_ids"],
            values["video_ids"],
            epoch,
            _key=(seed, epoch, number, order["shard_id"]),
            _repeats=order["repeats"],
        )
        frames = apply_functions(self._functions, values["frames"], layout, keys, batch, self._num_early)
        if batch._idle is not None and not self._warned_idle:
            self._warned_idle = True
            warnings.warn(
                f"{batch._idle!r} changed nothing in a batch: all of its {len(keys)} rows hold clip {keys[0][2]}. Use "
                'a larger batch_size and, if only the last batch is short, last_batch="drop" or "fill"',
                stacklevel=user_stacklevel(),
            )
        changed = {"mixed_with": batch._mixed_with, "mix_weights": batch._mix_weights}
        if self._changes_frames:
            changed["content_keys"] = None
        return {"frames": frames, "labels": batch.labels, "columns": batch.columns, **changed}

    def __len__(self) -> int:
        """Batches per epoch, the same on all ranks."""
        return self._num_batches(self._next[0])

    def _num_batches(self, epoch: int) -> int:
        return len(self._native) if self._plan is None else self._plan.num_batches(self._units(), epoch)

    def _local(self) -> _framespool.Loader:
        """The engine of a loader with a plan, which `__init__` refuses for other engines."""
        assert isinstance(self._native, _framespool.Loader)
        return self._native

    def _units(self) -> Any:
        """What a plan asks about the order: the engine, or the order of samples of several sources."""
        return self._local() if self._sample_order is None else self._sample_order

    @property
    def num_clips(self) -> int:
        """Number of clips in the dataset, over all ranks; if samples have several sources, of samples."""
        return self._native.num_clips if self._samples is None else len(self.dataset)

    @property
    def seed(self) -> int:
        """The seed in use; with `seed=None` the one that was drawn, or that of the loaded state."""
        return int(self._numbers["seed"])

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration delivers."""
        return self._next[0]

    @property
    def first_batch(self) -> int:
        """The batch at which the next iteration starts: 0, unless `load_state_dict()` set another one."""
        return self._next[1]

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next iteration.

        If it is the epoch that `load_state_dict()` restored, the iteration resumes at the batch of that state. Any
        other epoch starts at its first batch.

        Args:
            epoch: Number of the epoch, from 0.

        Raises:
            ArgumentError: If `epoch` is negative.
        """
        number = integer("epoch", epoch, most=MAX_EPOCH)
        if self._pass is not None and self._is_unconsumed() and number == self._pass[1]:
            self._next = self._pass[1:]  # of an iterator that was discarded unused
        else:
            self._next = (number, self._next[1] if number == self._next[0] else 0)
        # The state is that of this epoch from now on, unless batches of the current pass are still taken.
        self._epoch_set_at = None if self._pass is None else self._next_batch_index()

    @property
    def batch_sampler(self) -> LightningSampler:
        """For Lightning, which sets the epoch of `batch_sampler.sampler` as that of a `DataLoader`."""
        return LightningSampler(self, self)

    def _unconsumed_iterator(self) -> EpochIterator[B] | None:
        """The latest iterator, if it has delivered nothing."""
        if self._iterator is None or self._pass is None or self._next_batch_index() != self._pass[2]:
            return None
        return self._iterator()

    def _upcoming(self) -> tuple[int, int]:
        """Epoch and batch at which the next iteration starts, or the latest iterator if it has delivered nothing."""
        return self._next if self._pass is None or self._unconsumed_iterator() is None else self._pass[1:]

    def _move(self, epoch: int, batch: int) -> None:
        """Sets the position at which the next iteration or an iterator that has delivered nothing starts."""
        if self._upcoming() == (epoch, batch):
            return
        iterator = self._unconsumed_iterator()
        self._next, self._pass = (epoch, batch), None
        if iterator is not None:
            iterator.replace(self._iterate(iterator.known))
            self._iterator = weakref.ref(iterator)

    def _load(self, state: Mapping[str, Any]) -> None:
        """Loads a state as `load_state_dict()`, also for an iterator that has delivered nothing."""
        iterator = self._unconsumed_iterator()
        self.load_state_dict(state)
        if iterator is not None:
            iterator.replace(self._iterate(iterator.known))
            self._iterator = weakref.ref(iterator)

    def state_dict(self) -> dict[str, Any]:
        """Returns the position of the loader: the epoch and the batch that it delivers next.

        The state is a small dict of numbers and strings, the same on all ranks, unless `shuffle` is a sampler, which
        yields the clips of one rank: then each rank has to save and load its own state. Batches that are prefetched but
        not delivered do not count, so none is lost or delivered twice. A batch in whose place an error was raised
        counts as delivered. After the last batch of an epoch the state is the start of the next epoch.

        The state also holds a fingerprint of the configuration. Functions, used as a clip sampler or as the last
        transform, are identified by their names only.

        Returns:
            The state, for `load_state_dict()`.
        """
        epoch, batch = self._position()
        state = {"format": _checkpoint.FORMAT, "epoch": epoch, "batch": batch, **self._config()}
        if self._order["shuffle"] == "grouped":
            given = self._settings["order"]["shuffle"]["grouped"]
            state |= {"grouped": list(self._native.grouped or ()), "max_chunk": given["max_chunk"]}
        if self._plan is not None and batch > 0:
            state |= self._plan.state(self._units(), epoch)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes at the position of a state.

        The next iteration delivers the rest of that epoch, batch by batch the same as without the interruption.
        `len(loader)` remains the length of a full epoch. An iteration in progress ends.

        The number of ranks may differ as long as `batch_size * num_shards` is the same. It must be the same with
        `stick_to_shard`, where each rank has a list of its own. The number of threads, `cache`, `prefetch_batches`,
        `on_error`, `dtype` and `layout` may differ. A loader with `seed=None` takes the seed of the state; if it is
        another one, `stats()` and `failures()` start again.

        A grouped shuffle continues with the block of the state, in this epoch and all later ones, for any memory and
        any number of ranks. Only what the loader's `GroupedShuffle` states changes that, from the start of an epoch on.

        Args:
            state: A result of `state_dict()`.

        Raises:
            ArgumentError: If dataset, clip sampler, transforms, order or seed differ; the message lists all
                differences. If the state is within an epoch, and the `GroupedShuffle` of the loader states another
                block.
        """

        mine = self._config()
        if self._seed_is_drawn and isinstance(state, Mapping) and "seed" in state:
            mine = {**mine, "seed": integer("seed", state["seed"], most=2**64 - 1)}

        def length(epoch: int) -> int:  # called once everything else matches, since batches may depend on the order
            if mine["seed"] != self.seed:
                self._set_seed(mine["seed"])
            if self._order["shuffle"] == "grouped":
                # Those of the loader that wrote the state, which derived them from its memory and its ranks.
                self._group(_checkpoint.grouped(state, self._given_groups()))
            if self._plan is not None:
                self._plan.check_state(state, self._units(), epoch)
            return self._num_batches(epoch)

        position = _checkpoint.position(state, mine, length)
        self._cancel()
        self._next, self._pass = position, None
        self._restored = position

    def _given_groups(self) -> dict[str, Any]:
        """The parameters of the grouped shuffle that the user gave; `None` for the others."""
        given = self._settings["order"]["shuffle"]["grouped"]
        return {name: None if value == getattr(GroupedShuffle, name) else value for name, value in given.items()}

    def _next_batch_index(self) -> int | None:
        """The next batch of the latest pass: the smallest one over its native loaders.

        Batches that are with the functions on workers are not delivered yet.
        """
        numbers = [native.next_batch_index(number) for native, number in self._running]
        known = [number for number in numbers if number is not None]
        if not known or len(known) < len(numbers):
            return None
        return self._waiting_numbers[0] if self._waiting_numbers else min(known)

    def _next_delivered(self) -> int | None:
        """The next batch of the pass in progress; `None` without a pass, or if an epoch was chosen since."""
        batch = None if self._pass is None else self._next_batch_index()
        return None if batch == self._epoch_set_at else batch

    def _is_unconsumed(self) -> bool:
        """Whether the pass in progress has delivered nothing yet."""
        batch = self._next_delivered()
        if self._pass is None or batch is None:
            return False
        return batch == self._pass[2] < self._num_batches(self._pass[1])

    def _position(self) -> tuple[int, int]:
        batch = self._next_delivered()
        if self._pass is None or batch is None:
            return self._next
        epoch = self._pass[1]
        # After the last batch: the next epoch, or the one that was chosen in the meantime.
        return (epoch, batch) if batch < self._num_batches(epoch) else self._next

    def _config(self) -> dict[str, Any]:
        if self._configuration is None:
            method = self._settings["frames"]["deinterlace"]
            # The default adds nothing, so that states of earlier releases still fit.
            before: list[Any] = [] if method == "weave" else [{"deinterlace": method}]
            audio = self._settings["options"]["audio"]
            before += [] if audio is None or "windows" in audio else [{"audio": audio}]
            self._configuration = _checkpoint.configuration(
                _checkpoint.fingerprint(self.dataset, self.dataset.stream),
                self._sampler_spec,
                [*before, *self._steps, *self._functions],
                self._order,
                **self._numbers,
                **self._extra_config(),
            )
        return self._configuration

    def _extra_config(self) -> dict[str, str]:
        """Further configuration of this kind of loader that determines the batches, as text."""
        return {}

    def _cancel(self) -> None:
        batches = None if self._iterator is None else self._iterator()
        if batches is not None:
            batches.cancel()
        for native in [self._native, *self._companions]:
            native.cancel()

    def _start(self, epoch: int, batch: int, known: Callable[[], bytes] | None = None) -> tuple[int, EpochIterator[B]]:
        """Starts a pass: returns its number and its batches. `known`: see `_iterate()`."""
        older = None if self._iterator is None else self._iterator()
        undelivered = None if older is None else older.undelivered()
        if known is not None or self._delivers_known:
            self._local().set_known_clips(b"" if known is None else known())
            self._delivers_known = known is not None
        gpu = _page_lock.gpu_of_process(self._pin_memory)
        if gpu is not None:
            for native in [self._native, *self._companions]:
                native.page_lock(gpu, self._pin_memory is True)
        engines = [self._native, *self._companions]
        self._running = [(native, self._begin(native, at, epoch, batch)) for at, native in enumerate(engines)]
        check = self._gpu_check() if self._uses_nvdec else self._end_check()
        fetch = self._index_progress.fetch(self._native)
        make = self._maker(epoch) if known is None else functools.partial(self._batch_of_known, epoch)
        if older is not None:
            older.supersede(undelivered)
        start, ahead = self._functions_on_workers(epoch), self._settings["options"]["prefetch_batches"]
        batches = EpochIterator(self._running, make, check, fetch, start, ahead, known, self._num_batches(epoch))
        self._iterator, self._waiting_numbers = weakref.ref(batches), batches.waiting_numbers
        return self._running[0][1], batches

    def _functions_on_workers(self, epoch: int) -> Callable[[list[dict[str, Any]]], Future[Any]] | None:
        """What starts the functions on workers for a batch of an epoch, whose result is its frames; `None` without."""
        workers = self._clip_workers
        if workers is None:
            return None
        return lambda made: workers.start(*self._function_input(made[0]), self._clip_keys(made[0], epoch))

    def _begin(self, native: Engine, at: int, epoch: int, batch: int) -> int:
        """Starts a pass of a native loader, the one at a position among them; returns its number."""
        if self._plan is None:
            return native.start_epoch(epoch, batch)
        assert isinstance(native, _framespool.Loader)
        if self._samples is None:
            return native.start_batches(epoch, batch, self._plan.batches(self._units(), epoch))
        kind = self._samples.kinds[at]
        batches = [self._samples.clips(kind, slots) for slots in self._sample_batches(epoch)]
        return native.start_batches(epoch, batch, batches)

    def _maker(self, epoch: int) -> Callable[[list[dict[str, Any]]], B]:
        """What builds the batches of a pass from the results of all native loaders."""
        if self._samples is None:
            return functools.partial(self._batch, epoch)
        planned = self._sample_batches(epoch)  # of this pass: a sampler may yield another order the next time

        def make(made: list[dict[str, Any]]) -> B:
            made[0]["slots"] = planned[made[0]["batch_index"]]
            return self._batch(epoch, made)

        return make

    def _sample_batches(self, epoch: int) -> list[list[Slot]]:
        """The samples of each batch of this rank in an epoch."""
        if epoch not in self._planned:
            assert self._plan is not None
            while len(self._planned) > 1:
                self._planned.pop(next(iter(self._planned)))
            self._planned[epoch] = self._plan.batches(self._units(), epoch)
        return self._planned[epoch]

    def batch(self, *, epoch: int, index: int) -> B:
        """Makes one batch of an epoch, as an iteration delivers it.

        The position of the loader stays the same, and an iteration in progress continues. The first call creates
        native loaders with threads of their own, whose work `stats()` and `failures()` do not count.

        Args:
            epoch: Number of the epoch, from 0.
            index: Number of the batch in the epoch, from 0. That of the batch that an iterator delivers next is
                `state_dict()["batch"]`.

        Returns:
            The batch. Functions among the transforms are called again, with the same seeds.

        Raises:
            ArgumentError: If there is no such epoch or batch.
            Error: That of the batch, as the iteration raises it.

        Example:
            >>> import framespool as fsp
            >>> loader = fsp.ClipLoader(
            ...     fsp.datasets.folder("videos/"),
            ...     fsp.samplers.RandomClips(sequence_length=4),
            ...     batch_size=2,
            ...     shuffle="full",
            ... )
            >>> loader.batch(epoch=0, index=1).clip_ids.tolist() == list(loader)[1].clip_ids.tolist()
            True
        """
        number, at = integer("epoch", epoch, most=MAX_EPOCH), integer("index", index, most=2**63)
        if at >= (length := self._num_batches(number)):
            raise ArgumentError(f"index must be below {length}, the number of batches of an epoch, got {at}")
        batch: B = self._alone(number, lambda native, place: self._begin(native, place, number, at))
        return batch

    def _alone(
        self, epoch: int, begin: Callable[[Any, int], int], make: Callable[[list[dict[str, Any]]], Any] | None = None
    ) -> Any:
        """Makes the first batch of a pass by native loaders of its own.

        Args:
            epoch: The epoch.
            begin: Starts the pass of a native loader, the one at a position among them; returns its number.
            make: Builds the batch from the results of all native loaders. `None`: as in an iteration.

        Returns:
            The batch.
        """
        if not self._single:
            # A single batch needs nothing made ahead, and must not delete the clips of the epochs before its own.
            alone, order = {"prefetch_batches": 0, "clip_store": None}, {"order": self._settings["order"]}
            self._single = [
                _framespool.Loader(
                    dataset._for_engine(),
                    sampler_spec,
                    steps,
                    self._for_engine({**own, **order, "options": {**own["options"], **alone}}),
                )
                for dataset, sampler_spec, steps, own in [
                    (self._engine_dataset, self._sampler_spec, self._steps, self._settings),
                    *self._companion_arguments,
                ]
            ]
        for native in self._single:
            if self._native.grouped is not None:
                native.set_grouped(*self._native.grouped)
        try:
            passes: list[tuple[Engine, int]] = [(native, begin(native, at)) for at, native in enumerate(self._single)]
            start = self._functions_on_workers(epoch)
            return next(EpochIterator(passes, make or self._maker(epoch), start=start))
        finally:
            for native in self._single:
                native.cancel()

    def _check_nvdec(self) -> None:
        """Reports an NVDEC that cannot be used at all: then the CPU decodes everything, at its own rate."""
        stats = self._native.stats()
        if stats["nvdec_threads"] > 0:
            return
        reason = "; ".join(stats["cpu_fallbacks"])
        text = f"NVDEC decodes nothing here, the CPU decodes all videos: {reason}"
        if self._strict:
            raise GpuError(f'on_fallback="raise", but {text}; or use on_fallback="warn"')
        warnings.warn(f'{text}, or omit this warning by Gpu(decoder="cpu")', stacklevel=user_stacklevel())

    def _end_check(self) -> Callable[[bool], None] | None:
        """A function for one pass that is called after each batch with `False` and at the end with `True`."""
        return None

    def _gpu_check(self) -> Callable[[bool], None]:
        """A function for one pass that reports what the CPU decoded in place of NVDEC: see `strict`."""
        begun = seen = self._native.stats()

        def check(ended: bool) -> None:
            nonlocal seen
            if not ended and not self._strict:
                return
            before, now = (seen, self._native.stats()) if self._strict else (begun, self._native.stats())
            seen = now
            decoded, instead = (now[key] - before[key] for key in ("frames_decoded", "frames_decoded_by_fallback"))
            if instead == 0:
                return
            # A video that is known not to be decodable by the GPU has been noted before.
            counts = now["cpu_fallbacks"]
            new = {reason: count - before["cpu_fallbacks"].get(reason, 0) for reason, count in counts.items()}
            reasons = [reason for reason, count in (new if any(new.values()) else counts).items() if count]
            text = f"the CPU decoded {instead} of {decoded} pictures in place of the GPU: {'; '.join(reasons)}"
            if self._strict:
                raise GpuError(f'on_fallback="raise", but {text}; exclude these videos, or use on_fallback="warn"')
            if instead > MAX_FALLBACK_SHARE * decoded:
                warnings.warn(
                    f"in this epoch {text}; `framespool bench FILE --device cuda:0 --decoder nvdec` tries the GPU on a "
                    'file, Gpu(on_fallback="raise") makes it an error',
                    stacklevel=3,
                )

        return check

    def __iter__(self) -> Iterator[B]:
        """Starts an epoch; `next` of an older iterator that has not reached its end raises `CancelledError`.

        If no batch was taken from the previous iterator, its epoch starts again: some frameworks create iterators that
        they do not use.
        """
        return self._iterate()

    def _iterate(self, known: Callable[[], bytes] | None = None) -> EpochIterator[B]:
        """Starts an epoch.

        Args:
            known: Returns the first 8 bytes of the content keys of clips that are delivered without frames.
                `_batch_of_known()` then makes the batches.
        """
        epoch, batch = self._position() if self._is_unconsumed() else self._next
        number, batches = self._start(epoch, batch, known)
        self._begun = epoch
        self._pass, self._epoch_set_at = (number, epoch, batch), None
        self._next = (epoch + 1, 0)
        return batches

    def describe_clip(
        self, clip_id: int, *, epoch: int | None = None, frame: int = 0, repeat: int = 0, occurrence: int = 0
    ) -> dict[str, Any]:
        """Reports what is determined about a clip before it is decoded.

        Which clip `MixUp` or `CutMix` mixed into it depends on the batch: see `batch.mixed_with`.

        Args:
            clip_id: Clip of the dataset, as in `batch.clip_ids`.
            epoch: Epoch of the random numbers. `None`: the latest epoch that was started, else the next one.
            frame: Position in the clip, which matters only for transforms with `per_frame=True`.
            repeat: Which of the `repeats` of the clip, from 0; repeat *r* of the clips of a batch has the rows *r*,
                *r* + `repeats`, and so on.
            occurrence: Number of the occurrence of the clip in the epoch, from 0, if a mixture or weights repeat it.
                Occurrences are numbered before the order is shuffled; that of a row of a batch has its `indices`.

        Returns:
            dict: `path`, `video_id`, `label`, `indices` (in presentation order), `content_key`, the bytes of the clip's
            row of `batch.content_keys` or `None`, and `transforms`: one dict per transform, with its `name` and the
            numbers that it draws, as `transforms.sample_params()` returns them.

        Raises:
            ArgumentError: If an argument is not an int in its range.
        """
        if self._samples is not None:
            raise ArgumentError("describe_clip() is about clips of one source; these samples have several")
        if epoch is None:
            epoch = self._next[0] if self._begun is None else self._begun
        clip = integer("clip_id", clip_id, most=2**64 - 1)
        found = self._native.describe_clip(
            integer("epoch", epoch, most=2**64 - 1),
            clip,
            integer("frame", frame),
            integer("repeat", repeat, most=2**32 - 1),
            integer("occurrence", occurrence, most=2**32 - 1),
        )
        found["label"] = self.dataset[found["video_id"]][1]
        return {**found, "content_key": None} if self._changes_frames else found

    def cached_batches(self, batches: int = 4) -> Iterator[B]:
        """Repeats the first batches of the next epoch, to measure the training loop without the loader.

        Run the training loop over this iterator and over the loader. If both take equally long, faster loading gains
        nothing. The tensors are not copied, so a loop that changes them in place sees its changes. The position of the
        loader stays the same; `next` of an iterator that has not reached its end raises `CancelledError`.

        Args:
            batches: Number of batches to make.

        Returns:
            An iterator over `len(loader)` batches.

        Raises:
            ArgumentError: If `batches` is less than 1.
        """
        count = integer("batches", batches, least=1)
        if self._is_unconsumed():
            self._next = self._position()
        self._pass = None
        _, first = self._start(self._next[0], 0)
        ready = list(itertools.islice(first, count))
        self._cancel()
        return itertools.islice(itertools.cycle(ready), len(self))

    def failures(self) -> list[dict[str, Any]]:
        """Lists the videos that failed so far, at most 65,536 of them; `stats()` counts all.

        Returns:
            list: One dict per video with `path` (`None` for bytes), `video_id`, `kind` and `message` of its
            first error, and `clips`, the number of clips that could not be made (0 if indexing failed). If only a
            segment of a file is at fault, `part` has its bounds. For a `datasets.ImageSequence` `path` is the folder
            and `frames` has pattern, first and count. For a `datasets.ArchiveMember` `path` is the archive and `member`
            has its name, `offset_bytes` and `num_bytes`. For a `datasets.TableCell` `cell` has its column and row.
        """
        failures: list[dict[str, Any]] = []
        samples = self._samples
        kinds = [""] if samples is None else samples.kinds
        for of_kind, native in zip(kinds, [self._native, *self._companions], strict=False):
            for video, path, kind, message, clips in native.failures():
                if samples is None:
                    sample, source = video, self.dataset.samples[video][0]
                else:
                    sample, source = samples.source(of_kind, video)
                failures.append({"video_id": sample, "path": path, "kind": kind, "message": message, "clips": clips})
                failures[-1] |= failure_record(source, kind)
        return failures

    def dropped(self) -> list[dict[str, Any]]:
        """Lists what epochs omit, and why.

        - Videos that are too short for a clip: with `padding="drop"`, the default of `samplers.Windows`.
        - Videos that failed so far, if their clips are omitted: with `on_error="skip"`, and those that could not be
          indexed when clips were counted.
        - With `last_batch="drop"`, the clips that do not fill the last batch, which differ from epoch to epoch.

        Returns:
            list: One dict per video with `video_id` and `path`, as in `failures()`, `reason`, and `clips`: the number
            of omitted clips so far, 0 for a video that has none. The clips of `last_batch="drop"` are one dict without
            a video; its `clips` are those of the next epoch, over all ranks.

        Example:
            >>> import framespool as fsp
            >>> sampler = fsp.samplers.Windows(sequence_length=60)
            >>> loader = fsp.ClipLoader(["a.mp4"], sampler, batch_size=2, last_batch="drop")
            >>> [each["reason"] for each in loader.dropped()]
            ['last_batch="drop": clips that do not fill a batch of all ranks']
        """
        return dropped(self)

    def _clips_per_video(self) -> int | None:
        """Clips of each video that is long enough; `None` if they depend on its length."""
        return 1

    def _incomplete_clips(self) -> int:
        """Clips of the next epoch that do not fill the last batch, over all ranks."""
        if self._plan is not None:
            return self._plan.omitted(self._units(), self.epoch)
        order = self._settings["order"]
        source: Any = self.dataset
        clips = getattr(source, "epoch_clips", None) or self.num_clips
        step = self.batch_size * order["num_shards"]
        if self._settings["options"]["group_clips"]:
            step *= self.num_clips // max(len(self.dataset), 1)
        if order["num_workers"] > 1:
            return int(clips % max(step, 1))
        return max(0, int(clips - len(self) * step))

    def write_failures(self, path: str | os.PathLike[str]) -> int:
        """Writes `failures()` to a file, one JSON object per line; an existing file is replaced.

        `Dataset.exclude()` reads the file.

        Args:
            path: The file to write.

        Returns:
            Number of failures written.
        """
        return write_failures(path, self.failures())

    def stats(self, *, flat: bool = False) -> dict[str, Any]:
        """Counts since the loader was created. docs/howto/measure.md explains how to use them.

        With several cameras or masks these are sums over their engines; of `clip_cache_peak_bytes`, `memory_budget` and
        `nvdec_threads` the largest, and batches and clips count once. If samples have several sources, a video or image
        is a clip, and `clips_skipped` and `clips_replaced` count samples. `version` changes if a name or its meaning
        does.

        - Delivered
            - `batches`: Batches delivered.
            - `clips`: Clips delivered.
            - `frames`: Frames of delivered clips, with repeated frames and padding.
        - Decoding
            - `frames_decoded`: Frames decoded, with those that no clip contains and those of clips made ahead.
            - `frames_used`: Frames decoded that clips contain, each once for all clips that share a decode.
            - `packets_skipped`: Packets not decoded, since no requested frame depends on them.
            - `decode_ranges`: Ranges of packets decoded.
            - `decode_ranges_repeated`: Ranges decoded again after an error, on one thread or without skipping.
            - `gops_shared`: Ranges that served several clips.
            - `decoders_opened`: Decoders opened.
            - `frames_decoded_per_frame_delivered`: `frames_decoded / frames`, the cost of a delivered frame; 0 before
              the first batch.
        - Clip cache
            - `clip_cache_hits`: Clips taken from the cache.
            - `clips_evicted`: Clips evicted for clips with an earlier deadline.
            - `clips_decoded_again`: Evicted clips that were made again.
            - `clips_cached_over_8_bits`: Clips of more than 8 bits that were cached as output elements.
            - `clip_cache_peak_bytes`: Largest size of the cache.
            - `memory_budget`: Limit of the cache in bytes.
        - Disk cache
            - `disk_clips_stored`: Clips written.
            - `disk_clips_read`: Clips read.
            - `disk_clips_damaged`: Clips that could not be read, and were decoded.
            - `disk_clips_not_stored`: Clips made but not written: the cache or the disk is full, or a copy from the GPU
              failed.
            - `disk_clips_evicted`: Clips deleted before their epoch, for clips of earlier epochs.
            - `disk_bytes_written`: Bytes of clips written.
            - `disk_bytes_read`: Bytes of clips read.
        - Files
            - `bytes_read`: Bytes read from files.
            - `videos_indexed`: Videos whose index was not in the index cache.
            - `index_hits`: Videos whose index was in the index cache.
            - `index_cache_error`: Why indexes cannot be stored, or `None`.
            - `videos_failed`: Videos that could not be indexed when clips were counted.
        - URLs
            - `remote_requests`: Requests, with repeated ones.
            - `remote_bytes`: Bytes received.
            - `remote_retries`: Requests that repeat a failed one.
            - `remote_cache_hits`: Reads served from memory.
            - `remote_outages`: Times in which a server was unavailable.
        - Errors
            - `errors`: Errors of each kind, also those of clips that were skipped or replaced.
            - `clips_skipped`: Clips omitted because of `on_error="skip"`.
            - `clips_replaced`: Clips replaced because of `on_error="replace"`.
        - Time of all workers together
            - `planning_seconds`: Opening files, reading indexes and planning.
            - `reading_seconds`: Reading packets.
            - `decoding_seconds`: Decoding.
            - `transform_seconds`: Transforms.
            - `worker_busy_seconds`: With work, of which the four above are parts.
            - `worker_idle_seconds`: Without available work.
            - `worker_blocked_seconds`: All batches were ready, and the training loop took none.
        - Time of the consumer
            - `consumer_wait_seconds`: The training loop waited; if it is large, loading is the bottleneck.
        - GPU
            - `nvdec_threads`: Threads that decode on NVDEC; 0 without it.
            - `frames_decoded_by_gpu`: Part of `frames_decoded`.
            - `frames_decoded_by_fallback`: Part of `frames_decoded`: what the CPU decoded because the GPU could not.
            - `clips_moved_to_nvdec`: Clips that the CPU had begun and NVDEC made, because the training loop waited for
              them.
            - `late_decode_statuses`: Pictures that were mapped only for their decode status, or whose status is
              unknown.
            - `cpu_fallbacks`: Reasons for decoding on the CPU instead of NVDEC or nvJPEG, with the count of each.
            - `upload_fallbacks`: Reasons for slower copies to the GPU, and for clips that the disk cache could not copy
              from or to it, with the count of each.

        Args:
            flat: `True`: numbers only, as loggers such as TensorBoard and Weights & Biases take them. A count of a dict
                is named `"errors/invalid_data"`.

        Returns:
            The counters by name.

        Example:
            >>> import framespool as fsp
            >>> loader = fsp.ClipLoader(["a.mp4"], fsp.samplers.RandomClips(sequence_length=4), batch_size=1)
            >>> {f"loader/{name}": value for name, value in loader.stats(flat=True).items()}["loader/batches"]
            0
        """
        engines = [engine.stats() for engine in [self._native, *self._companions]]
        counters = merged(engines)
        if self._samples is not None:
            counters["clips"] = sum(stats["clips"] for stats in engines)
            counters |= {"clips_skipped": self._samples.skipped, "clips_replaced": self._samples.replaced}
        stats = {"version": STATS_VERSION, **with_derived(counters)}
        return flattened(stats) if flat else stats
