"""What all loaders share: epochs, states, errors, counts."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from framespool import _framespool, _state
from framespool._check import choice, device_number, flag, size, stream_index, whole
from framespool._index import place
from framespool._order import check_shuffle, most_epoch
from framespool.datasets import Cell, Dataset, FrameFolder, Member, Mixture, Part
from framespool.datasets._dataset import as_dataset, write_quarantine
from framespool.datasets._sources import Source
from framespool.transforms._lists import split

B = TypeVar("B")


def cores() -> int:
    """Cores that this process may use: its affinity, and the quota of its control group."""
    return _framespool.cores()


@dataclass(frozen=True)
class Common:
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
    prefetch: int
    dtype: str
    hdr: str

    def check(self) -> None:
        """Raises :class:`~framespool.ArgumentError` for a word that is none of those known."""
        check_shuffle(self.shuffle)
        choice("order", self.order, ("framespool", "dali", "torch"))
        choice("dtype", self.dtype, ("uint8", "uint16", "float16", "bfloat16", "float32"))
        choice("hdr", self.hdr, ("warn", "ignore"))
        choice("last_batch", self.last_batch, ("partial", "drop", "fill"))
        choice("on_error", self.on_error, ("raise", "skip", "replace"))

    def ordered(self) -> dict[str, Any]:
        """What decides the order."""
        return {
            "num_clips": 0,  # known when the videos are
            "batch_size": whole("batch_size", self.batch_size),
            "shuffle": self.shuffle or None,
            "initial_fill": whole("initial_fill", self.initial_fill),
            "order": self.order,
            "shard_id": whole("shard_id", self.shard_id),
            "num_shards": whole("num_shards", self.num_shards),
            "stick_to_shard": flag("stick_to_shard", self.stick_to_shard),
            "worker_id": whole("worker_id", self.worker_id),
            "num_workers": whole("num_workers", self.num_workers),
            "seed": whole("seed", self.seed, most=2**64 - 1),
            "last_batch": self.last_batch,
            "mix": None,  # by its datasets' clips, once these are known
        }


class Loader(Generic[B]):
    """One or more loaders that go through the same order, and what is told of them."""

    def __init__(self, dataset: Iterable[Any], rule: Any, common: Common, own: Mapping[str, Any]) -> None:
        """``own``: settings of this kind of loader, which go before those that all have."""
        common.check()
        self.dataset = as_dataset(dataset)
        ordered = common.ordered()
        mixture = self.dataset if isinstance(self.dataset, Mixture) else None
        threads = common.num_threads
        self._settings: dict[str, Any] = {
            "order": ordered,
            "mixture": mixture,
            "on_error": common.on_error,
            "num_threads": cores() if threads is None else whole("num_threads", threads),
            "prefetch": whole("prefetch", common.prefetch),
            "memory_budget": size("memory_budget", own.get("memory_budget", "2GiB")),
            "look_ahead": whole("look_ahead", own.get("look_ahead", 65536)),
            "dtype": common.dtype,
            "layout": own["layout"],
            "index": place(own.get("index")),
            "device": device_number(common.device),
            "decoder": own.get("decoder", "auto"),
            "nvdec_threads": own.get("nvdec_threads"),
            "ignores_hdr": common.hdr == "ignore",
            "of_pictures": own.get("of_pictures", False),
            "stream": self.dataset.stream if own.get("stream") is None else stream_index(own["stream"]),
            "exact": own.get("exact", False),
            "label_fill": None,
        }
        self._rule = rule
        self.batch_size: int = ordered["batch_size"]
        steps, self._finish = split(common.transforms)
        self._native = self._engine(self.dataset, rule, steps, self._settings)
        #: More of them that go along: the same items in the same order, seen otherwise.
        self._companions: list[_framespool.Loader] = []
        self._order = _state.order(ordered, mixture)
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
        self._chosen_at: int | None = None
        self._most_epoch = most_epoch(common.order, common.shuffle, self.num_clips)
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
        number = whole("epoch", epoch, most=self._most_epoch)
        if self._pass is not None and self._untouched() and number == self._pass[1]:
            self._next = self._pass[1:]  # of an iterator that was thrown away: its place is still to come
        else:
            self._next = (number, self._next[1] if number == self._next[0] else 0)
        # The state is this epoch's from now on, unless batches of the pass under way are still taken.
        self._chosen_at = None if self._pass is None else self._next_number()

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is: the epoch, the batch that it delivers next, and what both depend on.

        A small dict of plain numbers and strings, the same on all ranks. Batches that are made but were not delivered
        do not count, so none is lost or comes twice; one in whose place an error was raised counts as delivered. After
        an epoch's last batch it is the begin of the next epoch. Functions, as sampling or as the last transform, are
        known by their names only.
        """
        epoch, batch = self._where()
        return {"format": _state.FORMAT, "epoch": epoch, "batch": batch, **self._what()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where a state was taken: the next iteration delivers the rest of that epoch, at once, batch by batch
        the same as if it had never been left. ``len(loader)`` stays the length of a whole epoch.

        The state may come from another number of ranks as long as ``batch_size * num_shards`` is the same (but with
        ``stick_to_shard``, and with the orders of other libraries, where each rank has a list of its own), and the
        number of threads, ``memory_budget``, ``prefetch``, ``on_error``, ``dtype`` and ``layout`` may differ. Raises
        :class:`~framespool.ArgumentError`, with all differences, where dataset, sampling, transforms, order or seed
        are others. An iteration that is under way ends.
        """
        place = _state.position(state, self._what(), len(self), self._most_epoch)
        self._rest()
        self._next, self._pass = place, None

    def _next_number(self) -> int | None:
        """The batch that the pass that began last delivers next: the one at which the last of its loaders is."""
        numbers = [native.next_number(number) for native, number in self._running]
        known = [number for number in numbers if number is not None]
        return min(known) if known and len(known) == len(numbers) else None

    def _delivers(self) -> int | None:
        """The batch that the pass under way delivers next; ``None`` without one, or where an epoch was chosen since."""
        batch = None if self._pass is None else self._next_number()
        return None if batch == self._chosen_at else batch

    def _untouched(self) -> bool:
        """Whether the pass under way has delivered nothing yet."""
        batch = self._delivers()
        return self._pass is not None and batch is not None and batch == self._pass[2] < len(self)

    def _where(self) -> tuple[int, int]:
        batch = self._delivers()
        if self._pass is None or batch is None:
            return self._next
        epoch = self._pass[1]
        # Behind the last batch: the epoch after it, or the one that was chosen meanwhile.
        return (epoch, batch) if batch < len(self) else self._next

    def _what(self) -> dict[str, Any]:
        if self._configuration is None:
            transforms = [*self._steps, *([] if self._finish is None else [self._finish])]
            self._configuration = _state.configuration(
                _state.fingerprint(self.dataset, self._settings["stream"]),
                self._rule,
                transforms,
                self._order,
                **self._numbers,
                **self._more(),
            )
        return self._configuration

    def _more(self) -> dict[str, str]:
        """What else decides about the batches of this kind of loader, as text."""
        return {}

    def _rest(self) -> None:
        """Ends what is under way."""
        for native in [self._native, *self._companions]:
            native.rest()

    def _start(self, epoch: int, batch: int) -> tuple[int, Iterator[B]]:
        """Begins a pass: its number, and its batches."""
        self._running = [(native, native.begin(epoch, batch)) for native in [self._native, *self._companions]]
        return self._running[0][1], Epoch(self._running, self._batch)

    def __iter__(self) -> Iterator[B]:
        """Begins an epoch; an iteration that is still under way ends.

        One from which nothing was taken begins again: frameworks make iterators that they throw away.
        """
        epoch, batch = self._where() if self._untouched() else self._next
        number, batches = self._start(epoch, batch)
        self._begun = epoch
        self._pass, self._chosen_at = (number, epoch, batch), None
        self._next = (epoch + 1, 0)
        return batches

    def explain(self, clip_id: int, *, epoch: int | None = None, frame: int = 0) -> dict[str, Any]:
        """What is decided about a clip (``batch.clip_ids``) before anything is decoded.

        Returns ``path``, ``video_id``, ``label``, ``indices`` (display index of each frame) and ``transforms``: a dict
        for each, with its ``name`` and the numbers that it draws, as :func:`framespool.transforms.explain`. ``epoch``:
        the one begun last, or the one to begin, if not given. ``frame``: place in the clip, which matters with
        ``per_frame=True``. In a mix it is the clip's first time in the epoch.
        """
        if epoch is None:
            epoch = self._next[0] if self._begun is None else self._begun
        clip = whole("clip_id", clip_id, most=2**64 - 1)
        return self._native.explain(whole("epoch", epoch, most=2**64 - 1), clip, whole("frame", frame))

    def headspace(self, batches: int = 4) -> Iterator[B]:
        """The speed of the training loop alone: the first ``batches`` batches of the coming epoch, made once and then
        handed out again and again, ``len(loader)`` times in all, while the loader rests.

        Run the training loop over it and over the loader; where both take equally long, faster loading gains nothing.
        Tensors come again as they were left: a loop that changes them in place sees its changes. The epoch to be
        delivered next stays the same; an iteration that is under way ends.
        """
        count = whole("batches", batches, least=1)
        if self._untouched():
            self._next = self._where()
        self._pass = None
        _, first = self._start(self._next[0], 0)
        ready = list(itertools.islice(first, count))
        self._rest()
        return itertools.islice(itertools.cycle(ready), len(self))

    def failures(self) -> list[dict[str, Any]]:
        """What failed so far, one dict for each video: ``path`` (``None`` where there is no file), ``video_id``,
        ``kind`` and ``message`` of its first error, ``clips`` that could not be made because of it (0 where the video
        failed when it was indexed), ``part``, the bounds, where only a part of a file is at fault, for a
        :class:`~framespool.datasets.FrameFolder`, whose ``path`` is the folder, ``frames``: its pattern, first and
        count, for a :class:`~framespool.datasets.Member`, whose ``path`` is the archive, ``member``: its name,
        offset_bytes and num_bytes, and for a :class:`~framespool.datasets.Cell` ``cell``: its column and row. Kept for
        65,536 videos; :meth:`stats` counts all.
        """
        failures: list[dict[str, Any]] = []
        for video, path, kind, message, clips in self._native.failures():
            failures.append({"video_id": video, "path": path, "kind": kind, "message": message, "clips": clips})
            failures[-1] |= blamed(self.dataset.entries[video][0], kind)
        return failures

    def write_quarantine(self, path: str | os.PathLike[str]) -> int:
        """Writes :meth:`failures` to a file, a JSON object on each line, in place of what was there. Returns how many.

        :meth:`Dataset.without` reads it.
        """
        return write_quarantine(path, self.failures())

    def stats(self) -> dict[str, Any]:
        """Counts since the loader was made.

        Delivered: ``batches``, ``clips``, ``frames``. Decoding: ``pictures_decoded``, ``pictures_skipped`` (passed
        without being decoded, since nothing wanted depends on them), ``pictures_delivered`` (decoded and wanted,
        counted once however many clips want them), ``pictures_decoded_per_frame`` (what a delivered frame costs),
        ``runs`` (decoding passes), ``gops_shared`` (passes that served several clips), ``runs_repeated``
        (passes done again with every picture), ``decoders_opened``. Clips made before their turn: ``clip_cache_hits``,
        ``clips_evicted`` (for ones that were due earlier), ``clip_cache_peak_bytes``, ``memory_budget``. Files:
        ``bytes_read``, ``videos_indexed``, ``videos_failed``. URLs: ``remote_requests``, ``remote_bytes``,
        ``remote_retries``, ``remote_cache_hits`` (reads answered from memory). Trouble: ``errors`` by kind, also
        those that ``on_error`` passed over, ``clips_skipped``, ``clips_replaced``. Seconds, summed over worker threads:
        ``worker_busy_seconds``, of which ``planning_seconds`` (with opening files), ``reading_seconds``,
        ``decoding_seconds``, ``transform_seconds`` (the pixels); ``worker_blocked_seconds`` (everything ready, the
        training loop has not taken it) and ``worker_idle_seconds`` (nothing to do). ``consumer_wait_seconds``: how
        long the training loop waited; large means that the loader is the bottleneck. Indices: ``index_hits`` videos
        were found in the persistent index, ``videos_indexed`` were not; ``index_trouble`` says what keeps indices
        from being kept, or is ``None``. GPU: ``nvdec_threads``, ``pictures_decoded_by_gpu`` (among
        ``pictures_decoded``), and ``cpu_fallbacks``: why NVDEC or nvJPEG left work to the CPU, and how often.
        """
        return self._native.stats()


def blamed(source: Source, kind: str) -> dict[str, Any]:
    """What an entry of a list of failures says of its source, for an error of this kind."""
    told: dict[str, Any] = {}
    if kind == "clip" and isinstance(source, Part):
        told["part"] = source.bounds()  # the file itself may be sound
    source = source.source if isinstance(source, Part) else source
    if isinstance(source, FrameFolder):
        # The message names the file; what stands in the dataset is the folder.
        return told | {"path": os.fspath(source.folder), "frames": source._which}
    if isinstance(source, Member):
        return told | {"path": os.fspath(source.file), "member": source._which}
    if isinstance(source, Cell):
        return told | {"path": os.fspath(source.file), "cell": source._which}
    # As the dataset has it: messages leave out what a URL must not tell, and letters that are none.
    return told | {"path": None if isinstance(source, bytes) else os.fspath(source)}


class _Lost(Exception):
    """Stands for a batch that was made and did not arrive."""


class Epoch(Iterator[B]):
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
                numbers = [native.next_number(number) for native, number in self._loaders]
                self._coming = min((number for number in numbers if number is not None), default=None)
            native, number = self._loaders[len(self._given)]
            before = native.next_number(number)
            if before is not None and self._coming is not None and before > self._coming:
                # A signal came between the engine's return and the list: the batch went with KeyboardInterrupt, and
                # what the other loaders have for its place goes too.
                self._given.append(_Lost())
                continue
            try:
                self._given.append(native.next_batch(number))
            except Exception as error:
                if native.next_number(number) == before:
                    raise  # nothing was taken: the next call asks for the same batch
                self._given.append(error)
        given, self._given = self._given, []
        if any(isinstance(batch, _Lost) for batch in given):
            return next(self)
        made = [batch for batch in given if isinstance(batch, dict)]
        for batch in given:
            if isinstance(batch, Exception):
                raise batch
        if len(made) < len(self._loaders) or not made:
            self._loaders = []
            raise StopIteration
        return self._make(made)
