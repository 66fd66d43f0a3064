"""Batches of clips, in order."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from framespool import _framespool, _state
from framespool._check import choice, device_number, flag, size, whole
from framespool._framespool import Tensor
from framespool._index import place
from framespool._order import check_shuffle, most_epoch
from framespool.datasets import Dataset, Mixture, Part, as_dataset
from framespool.errors import ArgumentError
from framespool.sampling import Sampling, custom
from framespool.transforms import Transform
from framespool.transforms._lists import finish, split


@dataclass(eq=False)
class Batch:
    """Clips with their facts; N clips of T frames.

    ``frames``: Tensor in the loader's layout and dtype, or a list of N Tensors where the transforms do not make all
    frames the same size, or what a callable at the end of the transforms made of the Tensor. ``labels``: (N,) int64.
    ``indices``: (N, T) int64, display index of each frame. ``pts_seconds``: (N, T) float64, when each frame is shown,
    in seconds. ``mask``: (N, T) bool, false for frames that stand in for ones past the end. Where clips differ in
    length, T is the longest one's, and the rows of the others are filled up with -1, NaN and false. ``video_ids``,
    ``clip_ids``: (N,) int64, places in the dataset. ``view_ids``: (N,) int64, which clip of its video it is, from 0.
    ``requested_ids``: (N,) int64, the clip that the order asked for; differs from ``clip_ids`` where another one took
    its place. ``padding``: (N,) bool, true for clips that only fill a batch or make ranks equal.

    Tensors leave by DLPack without a copy: ``torch.from_dlpack(batch.frames)``, ``np.from_dlpack(batch.frames)``,
    or ``.torch()`` and ``.numpy()`` for short.
    """

    frames: Tensor | list[Tensor]
    labels: Tensor
    indices: Tensor
    pts_seconds: Tensor
    mask: Tensor
    video_ids: Tensor
    clip_ids: Tensor
    requested_ids: Tensor
    view_ids: Tensor
    padding: Tensor

    def __len__(self) -> int:
        return len(self.labels)


def _cores() -> int:
    """Cores that this process may use: its affinity, and the quota of its control group."""
    return _framespool.cores()


class ClipLoader:
    """Streams batches of clips out of videos, decoded by worker threads, in an order that only the arguments decide.

    ``dataset``: a :class:`~framespool.datasets.Dataset`, or a list of ``(path, label)`` or of paths; bytes, or
    a :class:`~framespool.datasets.Part` of a video, may stand for a path. ``sampling``: a rule of
    :mod:`framespool.sampling`, or a function ``fn(info, rng)`` that returns the frames of a clip (see
    :func:`framespool.sampling.custom`).

    ``batch_size``: clips per batch. ``transforms``: see :mod:`framespool.transforms`; a callable of your own may come
    last, and is given the frames of each batch on the consumer's thread. ``device``: where
    batches land: ``"cpu"``, or a GPU, ``"cuda:0"``, by its number or as a ``torch.device``. ``decoder``: ``"auto"``
    (with a GPU, its NVDEC engines and the CPU's threads side by side; what NVDEC cannot decode exactly, or not at all,
    is left to the CPU with the same result, and :meth:`stats` says why), ``"cpu"``, or ``"nvdec"`` (no CPU threads
    beside it). ``nvdec_lanes``: how many passes NVDEC decodes at a time; by default three for each engine, fewer where
    the GPU's memory is short. ``shuffle``:
    ``"full"`` (a new permutation of all clips each epoch), ``"buffer"`` (each clip moves by less than 1.5 times
    ``initial_fill`` places, so that clips that are neighbours in the dataset still come near each other) or ``False``.
    ``shard_id`` of ``num_shards``: this rank's part; all ranks get the same number of batches of the same sizes. The
    ranks' parts are drawn anew each epoch; with ``stick_to_shard`` each keeps its own stretch of the dataset and
    shuffles that. ``seed``: decides the shuffle and all random clips. ``order``: ``"framespool"``, or the order of
    another library, for runs that must be compared: ``"torch"`` (``DistributedSampler`` and ``DataLoader`` with this
    seed and epoch; ``last_batch="drop"`` is their ``drop_last``) or ``"dali"`` (its readers with ``pad_last_batch`` and
    this seed; ``shuffle="buffer"`` is their ``random_shuffle``). ``worker_id`` of ``num_workers``: makes the batches
    ``worker_id``, ``worker_id + num_workers``, … of the rank; :class:`framespool.torch.ClipDataset` sets them.
    ``last_batch``: ``"partial"`` (shorter), ``"drop"`` or ``"fill"`` (clips from the head of the order, marked
    in ``batch.padding``). ``on_error``: when a clip's file fails, ``"raise"`` in place of its batch, ``"skip"`` the
    clip, or ``"replace"`` it by another, chosen by (seed, epoch, clip) and told by ``batch.requested_ids``; counted in
    :meth:`stats`, told in :meth:`failures`. All ranks deliver ``len(loader)`` batches under each: where ``"skip"``
    leaves nothing of a batch, it holds one other clip, marked in ``batch.padding``. (A rule that counts clips by the
    videos' lengths looks at all videos first; a file that fails then, on one rank only, leaves that rank with fewer
    clips: compare ``num_clips`` over the ranks.) A failing GPU is no file's fault: its
    :class:`~framespool.errors.GpuError` is always raised, in place of the batch; only where there is no memory for a
    whole batch none is lost, and ``next`` asks for the same one again. ``num_threads``:
    worker threads, each with a single-threaded decoder; all cores by default. ``prefetch``: batches made ahead.
    ``memory_budget``: bytes (or ``"512MiB"``) for clips that are made before their turn because another clip needed
    their pictures decoded; more of it means that fewer pictures are decoded twice, and it never changes what is
    delivered. Besides it the loader needs memory for ``prefetch + 1`` batches and some 60 MB per thread for decoding
    1080p. ``look_ahead``: how many clips beyond these batches are looked at for ones that share pictures. ``layout``:
    ``"NTHWC"``, ``"NTCHW"`` or ``"NCTHW"``. ``dtype``: ``"uint8"``, or ``"float16"``, ``"bfloat16"`` or ``"float32"``
    (values in 0..1 unless normalised).

    ``index``: where indices of videos are looked for and kept, shared by all processes of a machine: ``None`` or
    ``"auto"`` for the default place (``FRAMESPOOL_INDEX``, else a folder in the user's cache; if it cannot be used,
    :meth:`stats` says why in ``index_trouble``), a folder, or ``False`` for nowhere. ``framespool index`` fills it
    ahead of time.

    Iterating begins an epoch: ``set_epoch(n)`` chooses it, otherwise each iteration is the next one.
    :meth:`state_dict` says where it is, after any batch, and :meth:`load_state_dict` goes on from there, in another
    process too, and on another number of ranks if ``batch_size * num_shards`` stays the same. The loader does not
    survive ``os.fork()``: make it in the process that uses it.
    """

    def __init__(
        self,
        dataset: Dataset | Iterable[Any],
        sampling: Sampling | Callable[[Any, Any], Iterable[int]],
        *,
        batch_size: int,
        transforms: Sequence[Transform | Callable[[Any], Any]] | None = None,
        device: Any = "cpu",
        decoder: Literal["auto", "cpu", "nvdec"] = "auto",
        nvdec_lanes: int | None = None,
        shuffle: Literal["full", "buffer", False] = False,
        initial_fill: int = 1024,
        order: Literal["framespool", "dali", "torch"] = "framespool",
        shard_id: int = 0,
        num_shards: int = 1,
        stick_to_shard: bool = False,
        worker_id: int = 0,
        num_workers: int = 1,
        seed: int = 0,
        last_batch: Literal["partial", "drop", "fill"] = "partial",
        on_error: Literal["raise", "skip", "replace"] = "raise",
        num_threads: int | None = None,
        prefetch: int = 2,
        memory_budget: int | str = "2GiB",
        look_ahead: int = 65536,
        layout: Literal["NTHWC", "NTCHW", "NCTHW"] = "NTHWC",
        dtype: Literal["uint8", "float16", "bfloat16", "float32"] = "uint8",
        index: str | os.PathLike[str] | Literal[False] | None = None,
    ) -> None:
        choice("decoder", decoder, ("auto", "cpu", "nvdec"))
        check_shuffle(shuffle)
        if not isinstance(sampling, Sampling):
            if not callable(sampling):
                raise ArgumentError(
                    f"sampling must come from framespool.sampling or be a function, got {sampling!r}; "
                    "for example framespool.sampling.random(sequence_length=16, stride=4)"
                )
            sampling = custom(sampling)
        choice("order", order, ("framespool", "dali", "torch"))
        choice("dtype", dtype, ("uint8", "float16", "bfloat16", "float32"))
        choice("layout", layout, ("NTHWC", "NTCHW", "NCTHW"))
        choice("last_batch", last_batch, ("partial", "drop", "fill"))
        choice("on_error", on_error, ("raise", "skip", "replace"))
        self.dataset = as_dataset(dataset)
        ordered: dict[str, Any] = {
            "num_clips": 0,  # known when the videos are
            "batch_size": whole("batch_size", batch_size),
            "shuffle": shuffle or None,
            "initial_fill": whole("initial_fill", initial_fill),
            "order": order,
            "shard_id": whole("shard_id", shard_id),
            "num_shards": whole("num_shards", num_shards),
            "stick_to_shard": flag("stick_to_shard", stick_to_shard),
            "worker_id": whole("worker_id", worker_id),
            "num_workers": whole("num_workers", num_workers),
            "seed": whole("seed", seed, most=2**64 - 1),
            "last_batch": last_batch,
            "mix": None,  # by its datasets' clips, once these are known
        }
        mixture = self.dataset if isinstance(self.dataset, Mixture) else None
        settings: dict[str, Any] = {
            "order": ordered,
            "mixture": mixture,
            "on_error": on_error,
            "num_threads": _cores() if num_threads is None else whole("num_threads", num_threads),
            "prefetch": whole("prefetch", prefetch),
            "memory_budget": size("memory_budget", memory_budget),
            "look_ahead": whole("look_ahead", look_ahead),
            "dtype": dtype,
            "layout": layout,
            "index": place(index),
            "device": device_number(device),
            "decoder": decoder,
            "nvdec_lanes": None if nvdec_lanes is None else whole("nvdec_lanes", nvdec_lanes, least=1, most=64),
        }
        self.sampling = sampling
        self.batch_size: int = ordered["batch_size"]
        steps, self._finish = split(transforms)
        self._spool = _framespool.Spool(self.dataset.entries, sampling._rule(), steps, settings)
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
        self._most_epoch = most_epoch(order, shuffle, self.num_clips)
        self._begun: int | None = None

    def __len__(self) -> int:
        """Batches per epoch, the same on all ranks."""
        return len(self._spool)

    @property
    def num_clips(self) -> int:
        """Clips in the whole dataset, over all ranks."""
        return self._spool.num_clips

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
        self._next = (number, self._next[1] if number == self._next[0] else 0)
        # The state is this epoch's from now on, unless batches of the pass under way are still taken.
        self._chosen_at = None if self._pass is None else self._spool.next_number(self._pass[0])

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
        self._spool.rest()
        self._next, self._pass = place, None

    def _delivers(self) -> int | None:
        """The batch that the pass under way delivers next; ``None`` without one, or where an epoch was chosen since."""
        batch = None if self._pass is None else self._spool.next_number(self._pass[0])
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
        return (epoch, batch) if batch < len(self) else (epoch + 1, 0)

    def _what(self) -> dict[str, Any]:
        if self._configuration is None:
            transforms = [*self._steps, *([] if self._finish is None else [self._finish])]
            self._configuration = _state.configuration(
                _state.fingerprint(self.dataset), self.sampling._rule(), transforms, self._order, **self._numbers
            )
        return self._configuration

    def __iter__(self) -> Iterator[Batch]:
        """Begins an epoch; an iteration that is still under way ends.

        One from which nothing was taken begins again: frameworks make iterators that they throw away.
        """
        epoch, batch = self._where() if self._untouched() else self._next
        number = self._spool.begin(epoch, batch)
        self._begun = epoch
        self._pass, self._chosen_at = (number, epoch, batch), None
        self._next = (epoch + 1, 0)
        return _Epoch(self._spool, number, self._finish)

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
        return self._spool.explain(whole("epoch", epoch, most=2**64 - 1), clip, whole("frame", frame))

    def headspace(self, batches: int = 4) -> Iterator[Batch]:
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
        number = self._spool.begin(self._next[0], 0)
        ready = list(itertools.islice(_Epoch(self._spool, number, self._finish), count))
        self._spool.rest()
        return itertools.islice(itertools.cycle(ready), len(self))

    def failures(self) -> list[dict[str, Any]]:
        """What failed so far, one dict for each video: ``path`` (``None`` where there is no file), ``video_id``,
        ``kind`` and ``message`` of its first error, ``clips`` that could not be made because of it (0 where the video
        failed when it was indexed), and ``part``, the bounds, where only a part of a file is at fault. Kept for 65,536
        videos; :meth:`stats` counts all.
        """
        failures: list[dict[str, Any]] = []
        for video, path, kind, message, clips in self._spool.failures():
            failures.append({"video_id": video, "path": path, "kind": kind, "message": message, "clips": clips})
            source = self.dataset.entries[video][0]
            if kind == "clip" and isinstance(source, Part):
                failures[-1]["part"] = source.bounds()  # the file itself may be sound
        return failures

    def write_quarantine(self, path: str | os.PathLike[str]) -> int:
        """Writes :meth:`failures` to a file, a JSON object on each line, in place of what was there. Returns how many.

        :meth:`Dataset.without` reads it.
        """
        failures = [failure for failure in self.failures() if failure["path"] is not None]
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.writelines(json.dumps(failure) + "\n" for failure in failures)
        return len(failures)

    def stats(self) -> dict[str, Any]:
        """Counts since the loader was made.

        Delivered: ``batches``, ``clips``, ``frames``. Decoding: ``pictures_decoded``, ``pictures_skipped`` (passed
        without being decoded, since nothing wanted depends on them), ``pictures_delivered`` (decoded and wanted,
        counted once however many clips want them), ``pictures_decoded_per_frame`` (what a delivered frame costs),
        ``runs`` (decoding passes), ``gops_shared`` (passes that served several clips), ``runs_repeated``
        (passes done again with every picture), ``decoders_opened``. Clips made before their turn: ``clip_store_hits``,
        ``clips_given_up`` (for ones that were due earlier), ``clip_store_peak_bytes``, ``memory_budget``. Files:
        ``bytes_read``, ``videos_indexed``, ``videos_failed``. Trouble: ``errors`` by kind, also those that
        ``on_error`` passed over, ``clips_skipped``, ``clips_replaced``. Seconds, summed over worker threads:
        ``lane_busy_seconds``, of which ``planning_seconds`` (with opening files), ``reading_seconds``,
        ``decoding_seconds``, ``painting_seconds`` (the pixels); ``lane_blocked_seconds`` (everything ready, the
        training loop has not taken it) and ``lane_starved_seconds`` (nothing to do). ``consumer_wait_seconds``: how
        long the training loop waited; large means that the loader is the bottleneck. Indices: ``index_hits`` videos
        were found in the persistent index, ``videos_indexed`` were not; ``index_trouble`` says what keeps indices
        from being kept, or is ``None``. GPU: ``nvdec_lanes``, ``pictures_decoded_by_gpu`` (among
        ``pictures_decoded``), and ``left_to_cpu``: why NVDEC left work to the CPU, and how often.
        """
        return self._spool.stats()


class _Epoch(Iterator[Batch]):
    """One pass over the dataset. After an error the batches behind it can still be had."""

    def __init__(self, spool: _framespool.Spool, number: int, finish: Callable[[Any], Any] | None) -> None:
        self._spool: _framespool.Spool | None = spool
        self._number = number
        self._finish = finish

    def __next__(self) -> Batch:
        if self._spool is None:
            raise StopIteration
        made = self._spool.next_batch(self._number)
        if made is None:
            self._spool = None
            raise StopIteration
        batch = Batch(**made)
        return replace(batch, frames=finish(self._finish, batch.frames))
