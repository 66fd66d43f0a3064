"""Batches of clips, in order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from framespool._base_loader import BaseLoader, LoaderOptions
from framespool._framespool import Tensor
from framespool._validate_args import choice, integer
from framespool.datasets import Dataset
from framespool.errors import ArgumentError
from framespool.samplers import ClipSampler, custom
from framespool.transforms import Transform
from framespool.transforms._compose import finish


@dataclass(eq=False)
class Batch:
    """Clips with their facts; N clips of T frames.

    ``frames``: Tensor in the loader's layout and dtype (``ThreeCrop`` and ``FiveCrop`` put a dimension of views behind
    N), or a list of N Tensors where the transforms do not make all
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


class ClipLoader(BaseLoader[Batch]):
    """Streams batches of clips out of videos, decoded by worker threads, in an order that only the arguments decide.

    ``dataset``: a :class:`~framespool.datasets.Dataset`, or a list of ``(path, label)`` or of paths; bytes, a
    :class:`~framespool.datasets.ArchiveMember` of an archive, or a :class:`~framespool.datasets.VideoSegment` of a video, may stand
    for a path. ``clip_sampler``: a rule of
    :mod:`framespool.samplers`, or a function ``fn(info, rng)`` that returns the frames of a clip (see
    :func:`framespool.samplers.custom`).

    ``batch_size``: clips per batch. ``transforms``: see :mod:`framespool.transforms`; a callable of your own may come
    last, and is given the frames of each batch on the consumer's thread. ``device``: where
    batches land: ``"cpu"``, or a GPU, ``"cuda:0"``, by its number or as a ``torch.device``. ``decoder``: ``"auto"``
    (with a GPU, its NVDEC engines and the CPU's threads side by side; what NVDEC cannot decode exactly, or not at all,
    is left to the CPU with the same result, and :meth:`stats` says why), ``"cpu"``, or ``"nvdec"`` (no CPU threads
    beside it). ``nvdec_threads``: how many passes NVDEC decodes at a time; by default three for each engine, fewer
    where the GPU's memory is short. ``shuffle``:
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
    worker threads, each with a single-threaded decoder; all cores by default. ``prefetch_batches``: batches made ahead.
    ``memory_budget``: bytes (or ``"512MiB"``) for clips that are made before their turn because another clip needed
    their pictures decoded; more of it means that fewer pictures are decoded twice, and it never changes what is
    delivered. Besides it the loader needs memory for ``prefetch_batches + 1`` batches and 15 to 50 MB per thread for decoding
    1080p. ``lookahead_clips``: how many clips beyond these batches are looked at for ones that share pictures. ``layout``:
    ``"NTHWC"``, ``"NTCHW"`` or ``"NCTHW"``. ``dtype``: ``"uint8"``, ``"uint16"`` (0 to 65535
    whatever the videos' depth), or ``"float16"``, ``"bfloat16"`` or ``"float32"`` (values in 0..1 unless normalised);
    all but ``"uint8"`` keep the depth of video of more than 8 bits.

    ``index``: where indices of videos are looked for and kept, shared by all processes of a machine: ``None`` or
    ``"auto"`` for the default place (``FRAMESPOOL_INDEX``, else a folder in the user's cache; if it cannot be used,
    :meth:`stats` says why in ``index_cache_error``), a folder, or ``False`` for nowhere. ``framespool index`` fills it
    ahead of time.

    ``stream``: which video stream of each file, by its index among all streams, as for :class:`Video`; by default the
    dataset's ``stream``, or else the best one of each file. A file in which it is no video stream fails with
    :class:`~framespool.NoVideoError`. ``hdr``: as :class:`~framespool.Video` has it.

    Iterating begins an epoch: ``set_epoch(n)`` chooses it, otherwise each iteration is the next one.
    :meth:`state_dict` says where it is, after any batch, and :meth:`load_state_dict` goes on from there, in another
    process too, and on another number of ranks if ``batch_size * num_shards`` stays the same. The loader does not
    survive ``os.fork()``: make it in the process that uses it. Batches are taken by one thread at a time; a second one
    that takes them meanwhile gets a ``RuntimeError``.
    """

    def __init__(
        self,
        dataset: Dataset | Iterable[Any],
        clip_sampler: ClipSampler | Callable[[Any, Any], Iterable[int]],
        *,
        batch_size: int,
        transforms: Sequence[Transform | Callable[[Any], Any]] | None = None,
        device: Any = "cpu",
        decoder: Literal["auto", "cpu", "nvdec"] = "auto",
        nvdec_threads: int | None = None,
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
        prefetch_batches: int = 2,
        memory_budget: int | str = "2GiB",
        lookahead_clips: int = 65536,
        layout: Literal["NTHWC", "NTCHW", "NCTHW"] = "NTHWC",
        dtype: Literal["uint8", "uint16", "float16", "bfloat16", "float32"] = "uint8",
        index: str | os.PathLike[str] | Literal[False] | None = None,
        stream: int | None = None,
        hdr: Literal["warn", "ignore"] = "warn",
    ) -> None:
        choice("decoder", decoder, ("auto", "cpu", "nvdec"))
        if not isinstance(clip_sampler, ClipSampler):
            if not callable(clip_sampler):
                raise ArgumentError(
                    f"clip_sampler must come from framespool.samplers or be a function, got {clip_sampler!r}; "
                    "for example framespool.samplers.random(sequence_length=16, stride=4)"
                )
            clip_sampler = custom(clip_sampler)
        choice("layout", layout, ("NTHWC", "NTCHW", "NCTHW"))
        self.clip_sampler = clip_sampler
        options = LoaderOptions(
            batch_size=batch_size,
            transforms=transforms,
            device=device,
            shuffle=shuffle,
            initial_fill=initial_fill,
            order=order,
            shard_id=shard_id,
            num_shards=num_shards,
            stick_to_shard=stick_to_shard,
            worker_id=worker_id,
            num_workers=num_workers,
            seed=seed,
            last_batch=last_batch,
            on_error=on_error,
            num_threads=num_threads,
            prefetch_batches=prefetch_batches,
            dtype=dtype,
            hdr=hdr,
        )
        own = {
            "memory_budget": memory_budget,
            "lookahead_clips": lookahead_clips,
            "layout": layout,
            "index": index,
            "stream": stream,
            "decoder": decoder,
            "nvdec_threads": None
            if nvdec_threads is None
            else integer("nvdec_threads", nvdec_threads, least=1, most=64),
        }
        super().__init__(dataset, clip_sampler._sampler_args(), options, own)

    def _batch(self, made: list[dict[str, Any]]) -> Batch:
        batch = Batch(**{field.name: made[0][field.name] for field in fields(Batch)})
        return replace(batch, frames=finish(self._finish, batch.frames))
