"""What all loaders share: epochs, states, errors, counts."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from framespool import _checkpoint, _framespool
from framespool._batch_sampler import max_epoch, validate_shuffle
from framespool._index_cache import cache_location
from framespool._validate_args import boolean, byte_size, choice, device_number, integer, stream_index
from framespool.datasets import ArchiveMember, Dataset, ImageSequence, MixtureDataset, TableCell, VideoSegment
from framespool.datasets._dataset import as_dataset, write_failures
from framespool.datasets._sources import Source
from framespool.transforms._compose import split

#: Version of the keys of ``stats()``; raised when a key changes its name or meaning.
STATS_VERSION = 2

B = TypeVar("B")


def cores() -> int:
    """Cores that this process may use: its affinity, and the quota of its control group."""
    return _framespool.cores()


@dataclass(frozen=True)
class LoaderOptions:
    """The keywords that all loaders have, as they were given."""

    batch_size: int
    transforms: Sequence[Any] | None
    device: Any
    shuffle: Any
    initial_fill: int
    order: str
    shard_id: int
    num_shards: int
    stick_to_shard: bool
    worker_id: int
    num_workers: int
    seed: int
    last_batch: str
    on_error: str
    num_threads: int | None
    prefetch_batches: int
    dtype: str
    hdr: str

    def validate(self) -> None:
        """Raises :class:`~framespool.ArgumentError` for a word that is none of those known."""
        validate_shuffle(self.shuffle)
        choice("order", self.order, ("framespool", "dali", "torch"))
        choice("dtype", self.dtype, ("uint8", "uint16", "float16", "bfloat16", "float32"))
        choice("hdr", self.hdr, ("warn", "ignore"))
        choice("last_batch", self.last_batch, ("partial", "drop", "fill"))
        choice("on_error", self.on_error, ("raise", "skip", "replace"))

    def order_settings(self) -> dict[str, Any]:
        """What decides the order."""
        return {
            "num_clips": 0,  # known when the videos are
            "batch_size": integer("batch_size", self.batch_size),
            "shuffle": self.shuffle or None,
            "initial_fill": integer("initial_fill", self.initial_fill),
            "order": self.order,
            "shard_id": integer("shard_id", self.shard_id),
            "num_shards": integer("num_shards", self.num_shards),
            "stick_to_shard": boolean("stick_to_shard", self.stick_to_shard),
            "worker_id": integer("worker_id", self.worker_id),
            "num_workers": integer("num_workers", self.num_workers),
            "seed": integer("seed", self.seed, most=2**64 - 1),
            "last_batch": self.last_batch,
            "mix": None,  # by its datasets' clips, once these are known
        }


class BaseLoader(Generic[B]):
    """One or more loaders that go through the same order, and what is told of them."""

    def __init__(self, dataset: Iterable[Any], rule: Any, options: LoaderOptions, own: Mapping[str, Any]) -> None:
        """``own``: settings of this kind of loader, which go before those that all have."""
        options.validate()
        self.dataset = as_dataset(dataset)
        ordered = options.order_settings()
        mixture = self.dataset if isinstance(self.dataset, MixtureDataset) else None
        threads = options.num_threads
        self._settings: dict[str, Any] = {
            "order": ordered,
            "mixture": mixture,
            "on_error": options.on_error,
            "num_threads": cores() if threads is None else integer("num_threads", threads),
            "prefetch_batches": integer("prefetch_batches", options.prefetch_batches),
            "memory_budget": byte_size("memory_budget", own.get("memory_budget", "2GiB")),
            "lookahead_clips": integer("lookahead_clips", own.get("lookahead_clips", 65536)),
            "dtype": options.dtype,
            "layout": own["layout"],
            "index": cache_location(own.get("index")),
            "device": device_number(options.device),
            "decoder": own.get("decoder", "auto"),
            "nvdec_threads": own.get("nvdec_threads"),
            "ignores_hdr": options.hdr == "ignore",
            "of_pictures": own.get("of_pictures", False),
            "stream": self.dataset.stream if own.get("stream") is None else stream_index(own["stream"]),
            "exact": own.get("exact", False),
            "label_fill": None,
        }
        self._rule = rule
        self.batch_size: int = ordered["batch_size"]
        steps, self._finish = split(options.transforms)
        self._native = self._engine(self.dataset, rule, steps, self._settings)
        #: More of them that go along: the same items in the same order, seen otherwise.
        self._companions: list[_framespool.Loader] = []
        self._order = _checkpoint.order(ordered, mixture)
        self._numbers = {
            "seed": ordered["seed"],
            "global_batch_size": self.batch_size * ordered["num_shards"],
            "num_clips": self.num_clips,
        }
        self._configuration: dict[str, Any] | None = None
        self._steps = steps
        # Epoch and batch at which the next iteration begins.
        self._next = (0, 0)
        # Number, epoch and first batch of the pass that began last, until another epoch is chosen.
        self._pass: tuple[int, int, int] | None = None
        # What that pass would have delivered next when set_epoch chose another epoch.
        self._epoch_set_at: int | None = None
        self._max_epoch = max_epoch(options.order, options.shuffle, self.num_clips)
        self._begun: int | None = None
        # The loaders of the pass that began last, each with its own number for it.
        self._running: list[tuple[_framespool.Loader, int]] = []

    def _engine(self, dataset: Dataset, rule: Any, steps: list[Any], settings: dict[str, Any]) -> _framespool.Loader:
        """The machine that makes the batches, or what stands for it."""
        return _framespool.Loader(dataset._for_engine(), rule, steps, settings)

    def _batch(self, made: list[dict[str, Any]]) -> B:
        """A batch of what each native made."""
        raise NotImplementedError

    def __len__(self) -> int:
        """Batches per epoch, the same on all ranks."""
        return len(self._native)

    @property
    def num_clips(self) -> int:
        """Clips in the whole dataset, over all ranks."""
        return self._native.num_clips

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration delivers."""
        return self._next[0]

    @property
    def first_batch(self) -> int:
        """The batch at which the next iteration begins: 0, unless :meth:`load_state_dict` said another one."""
        return self._next[1]

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next iteration.

        Where it is the one that :meth:`load_state_dict` came to, the iteration goes on at the state's batch; any other
        begins at its first.
        """
        number = integer("epoch", epoch, most=self._max_epoch)
        if self._pass is not None and self._is_unconsumed() and number == self._pass[1]:
            self._next = self._pass[1:]  # of an iterator that was thrown away: its place is still to come
        else:
            self._next = (number, self._next[1] if number == self._next[0] else 0)
        # The state is this epoch's from now on, unless batches of the pass under way are still taken.
        self._epoch_set_at = None if self._pass is None else self._next_batch_index()

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is: the epoch, the batch that it delivers next, and what both depend on.

        A small dict of plain numbers and strings, the same on all ranks. Batches that are made but were not delivered
        do not count, so none is lost or comes twice; one in whose place an error was raised counts as delivered. After
        an epoch's last batch it is the begin of the next epoch. Functions, as sampling or as the last transform, are
        known by their names only.
        """
        epoch, batch = self._position()
        return {"format": _checkpoint.FORMAT, "epoch": epoch, "batch": batch, **self._config()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where a state was taken: the next iteration delivers the rest of that epoch, at once, batch by batch
        the same as if it had never been left. ``len(loader)`` stays the length of a whole epoch.

        The state may come from another number of ranks as long as ``batch_size * num_shards`` is the same (but with
        ``stick_to_shard``, and with the orders of other libraries, where each rank has a list of its own), and the
        number of threads, ``memory_budget``, ``prefetch_batches``, ``on_error``, ``dtype`` and ``layout`` may differ. Raises
        :class:`~framespool.ArgumentError`, with all differences, where dataset, sampling, transforms, order or seed
        are others. An iteration that is under way ends.
        """
        place = _checkpoint.position(state, self._config(), len(self), self._max_epoch)
        self._cancel()
        self._next, self._pass = place, None

    def _next_batch_index(self) -> int | None:
        """The batch that the pass that began last delivers next: the one at which the last of its loaders is."""
        numbers = [native.next_batch_index(number) for native, number in self._running]
        known = [number for number in numbers if number is not None]
        return min(known) if known and len(known) == len(numbers) else None

    def _next_delivered(self) -> int | None:
        """The batch that the pass under way delivers next; ``None`` without one, or where an epoch was chosen since."""
        batch = None if self._pass is None else self._next_batch_index()
        return None if batch == self._epoch_set_at else batch

    def _is_unconsumed(self) -> bool:
        """Whether the pass under way has delivered nothing yet."""
        batch = self._next_delivered()
        return self._pass is not None and batch is not None and batch == self._pass[2] < len(self)

    def _position(self) -> tuple[int, int]:
        batch = self._next_delivered()
        if self._pass is None or batch is None:
            return self._next
        epoch = self._pass[1]
        # Behind the last batch: the epoch after it, or the one that was chosen meanwhile.
        return (epoch, batch) if batch < len(self) else self._next

    def _config(self) -> dict[str, Any]:
        if self._configuration is None:
            transforms = [*self._steps, *([] if self._finish is None else [self._finish])]
            self._configuration = _checkpoint.configuration(
                _checkpoint.fingerprint(self.dataset, self._settings["stream"]),
                self._rule,
                transforms,
                self._order,
                **self._numbers,
                **self._extra_config(),
            )
        return self._configuration

    def _extra_config(self) -> dict[str, str]:
        """What else decides about the batches of this kind of loader, as text."""
        return {}

    def _cancel(self) -> None:
        """Ends what is under way."""
        for native in [self._native, *self._companions]:
            native.cancel()

    def _start(self, epoch: int, batch: int) -> tuple[int, Iterator[B]]:
        """Begins a pass: its number, and its batches."""
        self._running = [(native, native.start_epoch(epoch, batch)) for native in [self._native, *self._companions]]
        return self._running[0][1], EpochIterator(self._running, self._batch)

    def __iter__(self) -> Iterator[B]:
        """Begins an epoch; an iteration that is still under way ends.

        One from which nothing was taken begins again: frameworks make iterators that they throw away.
        """
        epoch, batch = self._position() if self._is_unconsumed() else self._next
        number, batches = self._start(epoch, batch)
        self._begun = epoch
        self._pass, self._epoch_set_at = (number, epoch, batch), None
        self._next = (epoch + 1, 0)
        return batches

    def describe_clip(self, clip_id: int, *, epoch: int | None = None, frame: int = 0) -> dict[str, Any]:
        """What is decided about a clip (``batch.clip_ids``) before anything is decoded.

        Returns ``path``, ``video_id``, ``label``, ``indices`` (display index of each frame) and ``transforms``: a dict
        for each, with its ``name`` and the numbers that it draws, as :func:`framespool.transforms.sample_params`. ``epoch``:
        the one begun last, or the one to begin, if not given. ``frame``: place in the clip, which matters with
        ``per_frame=True``. In a mix it is the clip's first time in the epoch.
        """
        if epoch is None:
            epoch = self._next[0] if self._begun is None else self._begun
        clip = integer("clip_id", clip_id, most=2**64 - 1)
        return self._native.describe_clip(integer("epoch", epoch, most=2**64 - 1), clip, integer("frame", frame))

    def cached_batches(self, batches: int = 4) -> Iterator[B]:
        """The speed of the training loop alone: the first ``batches`` batches of the coming epoch, made once and then
        handed out again and again, ``len(loader)`` times in all, while the loader rests.

        Run the training loop over it and over the loader; where both take equally long, faster loading gains nothing.
        Tensors come again as they were left: a loop that changes them in place sees its changes. The epoch to be
        delivered next stays the same; an iteration that is under way ends.
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
        """What failed so far, one dict for each video: ``path`` (``None`` where there is no file), ``video_id``,
        ``kind`` and ``message`` of its first error, ``clips`` that could not be made because of it (0 where the video
        failed when it was indexed), ``part``, the bounds, where only a part of a file is at fault, for a
        :class:`~framespool.datasets.ImageSequence`, whose ``path`` is the folder, ``frames``: its pattern, first and
        count, for a :class:`~framespool.datasets.ArchiveMember`, whose ``path`` is the archive, ``member``: its name,
        offset_bytes and num_bytes, and for a :class:`~framespool.datasets.TableCell` ``cell``: its column and row. Kept for
        65,536 videos; :meth:`stats` counts all.
        """
        failures: list[dict[str, Any]] = []
        for video, path, kind, message, clips in self._native.failures():
            failures.append({"video_id": video, "path": path, "kind": kind, "message": message, "clips": clips})
            failures[-1] |= failure_record(self.dataset.samples[video][0], kind)
        return failures

    def write_failures(self, path: str | os.PathLike[str]) -> int:
        """Writes :meth:`failures` to a file, a JSON object on each line, in place of what was there. Returns how many.

        :meth:`Dataset.exclude` reads it.
        """
        return write_failures(path, self.failures())

    def stats(self) -> dict[str, Any]:
        """Counts since the loader was made. ``version`` changes whenever a key changes its name or meaning.

        Delivered: ``batches``, ``clips``, ``frames``. Decoding: ``frames_decoded``, ``packets_skipped`` (passed
        without being decoded, since nothing wanted depends on them), ``frames_delivered`` (decoded and wanted,
        counted once however many clips want them), ``frames_decoded_per_frame_delivered`` (what a delivered frame costs),
        ``decode_ranges`` (packet ranges decoded), ``gops_shared`` (passes that served several clips), ``decode_ranges_repeated``
        (passes done again with every picture), ``decoders_opened``. Clips made before their turn: ``clip_cache_hits``,
        ``clips_evicted`` (for ones that were due earlier), ``clip_cache_peak_bytes``, ``memory_budget``. Files:
        ``bytes_read``, ``videos_indexed``, ``videos_failed``. URLs: ``remote_requests``, ``remote_bytes``,
        ``remote_retries``, ``remote_cache_hits`` (reads answered from memory). Trouble: ``errors`` by kind, also
        those that ``on_error`` passed over, ``clips_skipped``, ``clips_replaced``. Seconds, summed over worker threads:
        ``worker_busy_seconds``, of which ``planning_seconds`` (with opening files), ``reading_seconds``,
        ``decoding_seconds``, ``transform_seconds`` (the pixels); ``worker_blocked_seconds`` (everything ready, the
        training loop has not taken it) and ``worker_idle_seconds`` (nothing to do). ``consumer_wait_seconds``: how
        long the training loop waited; large means that the loader is the bottleneck. Indices: ``index_hits`` videos
        were found in the persistent index, ``videos_indexed`` were not; ``index_cache_error`` says what keeps indices
        from being kept, or is ``None``. GPU: ``nvdec_threads``, ``frames_decoded_by_gpu`` (among
        ``frames_decoded``), and ``cpu_fallbacks``: why NVDEC or nvJPEG left work to the CPU, and how often.
        """
        return {"version": STATS_VERSION, **self._native.stats()}


def failure_record(source: Source, kind: str) -> dict[str, Any]:
    """What an entry of a list of failures says of its source, for an error of this kind."""
    told: dict[str, Any] = {}
    if kind == "clip_sampling" and isinstance(source, VideoSegment):
        told["part"] = source.bounds()  # the file itself may be sound
    source = source.source if isinstance(source, VideoSegment) else source
    if isinstance(source, ImageSequence):
        # The message names the file; what stands in the dataset is the folder.
        return told | {"path": os.fspath(source.folder), "frames": source._which}
    if isinstance(source, ArchiveMember):
        return told | {"path": os.fspath(source.file), "member": source._which}
    if isinstance(source, TableCell):
        return told | {"path": os.fspath(source.file), "cell": source._which}
    # As the dataset has it: messages leave out what a URL must not tell, and letters that are none.
    return told | {"path": None if isinstance(source, bytes) else os.fspath(source)}


class _LostBatch(Exception):
    """Stands for a batch that was made and did not arrive."""


class EpochIterator(Iterator[B]):
    """One pass over the dataset. After an error the batches behind it can still be had."""

    def __init__(
        self, loaders: list[tuple[_framespool.Loader, int]], make: Callable[[list[dict[str, Any]]], B]
    ) -> None:
        self._loaders = loaders
        self._make = make
        #: What the first of the loaders gave for the coming batch. All stay at the same place, whatever happens to one:
        #: what the others gave is kept until the last one has given its own.
        self._given: list[dict[str, Any] | Exception | None] = []
        #: The number of that batch.
        self._coming: int | None = None

    def __next__(self) -> B:
        while len(self._given) < len(self._loaders):
            if not self._given:
                numbers = [native.next_batch_index(number) for native, number in self._loaders]
                self._coming = min((number for number in numbers if number is not None), default=None)
            native, number = self._loaders[len(self._given)]
            before = native.next_batch_index(number)
            if before is not None and self._coming is not None and before > self._coming:
                # A signal came between the engine's return and the list: the batch went with KeyboardInterrupt, and
                # what the other loaders have for its place goes too.
                self._given.append(_LostBatch())
                continue
            try:
                self._given.append(native.next_batch(number))
            except Exception as error:
                if native.next_batch_index(number) == before:
                    raise  # nothing was taken: the next call asks for the same batch
                self._given.append(error)
        given, self._given = self._given, []
        if any(isinstance(batch, _LostBatch) for batch in given):
            return next(self)
        made = [batch for batch in given if isinstance(batch, dict)]
        for batch in given:
            if isinstance(batch, Exception):
                raise batch
        if len(made) < len(self._loaders) or not made:
            self._loaders = []
            raise StopIteration
        return self._make(made)
