"""The keyword arguments that all loaders share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from framespool._common.index_cache import cache_location
from framespool._common.ranks import cores_per_rank
from framespool._common.validate_args import check_dtype, choice, integer
from framespool.errors import ArgumentError
from framespool.options._batch_size import clips_per_batch
from framespool.options._cache import as_cache
from framespool.options._files import Index, OnError
from framespool.options._gpu import NO_GPU, Gpu, as_gpu
from framespool.options._order import as_shards, is_sampler, order_settings, resolve_seed, shuffle_for_engine

#: Keywords of other libraries, and earlier ones, for the arguments of loaders.
KEYWORD_HINTS = {
    **dict.fromkeys(("rank", "process_index"), "shard_id="),
    **dict.fromkeys(("world_size", "num_replicas", "process_count"), "num_shards="),
    **dict.fromkeys(("transform", "transform_fn"), "transforms=, a list"),
    "drop_last": 'last_batch="drop"',
    "last_batch_policy": "last_batch=",
    **dict.fromkeys(("random_shuffle", "shuffle_after_epoch"), "shuffle="),
    "collate_fn": 'collate=, which is "stack", "pad" or "list", or a callable at the end of transforms=',
    "non_blocking": "batch.to(device, non_blocking=True)",
    **dict.fromkeys(("prefetch_factor", "prefetch_queue_depth"), "prefetch_batches="),
    **dict.fromkeys(("persistent_workers", "worker_init_fn"), "nothing: a loader decodes on threads, not in processes"),
    "generator": "seed=",
    **dict.fromkeys(("device_id", "ctx"), 'device="cuda:0"'),
    "memory_budget": 'cache=, a size such as "2GiB"',
    "device_memory_budget": "cache=framespool.Cache(device_memory=...)",
    "disk_cache": "cache=framespool.Cache(disk=..., disk_size=...)",
    "lookahead_clips": "cache=framespool.Cache(lookahead=...)",
    "batch_pixels": "batch_size=framespool.PixelBudget(...)",
    "batch_tokens": "batch_size=framespool.TokenBudget(...)",
    "decoder": "device=framespool.Gpu(0, decoder=...)",
    "strict": 'device=framespool.Gpu(0, on_fallback="raise")',
    "nvdec_threads": "device=framespool.Gpu(0, threads=...)",
    "initial_fill": "shuffle=framespool.BufferShuffle(initial_fill=...)",
    "shuffle_block_size": "shuffle=framespool.GroupedShuffle(block_size=...)",
    **{name: f"shuffle=framespool.GroupedShuffle({name}=...)" for name in ("num_streams", "max_chunk")},
    "order": "shuffle=, which takes a DistributedSampler; for DALI's order, the sampler of examples/orders/dali.py",
    "stick_to_shard": "num_shards=framespool.options.Shards(..., stick_to_shard=True)",
    "num_nodes": "num_shards=framespool.options.Shards(..., num_nodes=...)",
    "worker_id": "num_shards=framespool.options.Shards(..., worker_id=..., num_workers=...)",
    "num_workers": (
        "num_threads=, since a loader decodes on threads; framespool.torch.ClipDataset and ImageDataset are for the "
        "workers of a DataLoader, and other programs with several processes for each rank use "
        "num_shards=framespool.options.Shards(..., worker_id=..., num_workers=...)"
    ),
    "on_outage": 'on_error=framespool.options.OnError("raise", outage=...)',
    "index_progress": "index=framespool.options.Index(progress=...)",
    "stream": "dataset.with_stream(...)",
    "hdr": 'warnings.filterwarnings("ignore", category=framespool.errors.HdrWarning)',
    "deinterlace": "framespool.transforms.Deinterlace(...) at the begin of transforms=",
}


@dataclass(frozen=True, kw_only=True)
class LoaderOptions:
    """The keyword arguments that all loaders share, checked and with an object for each that may be a plain value.

    Raises:
        ArgumentError: If a value is invalid.
    """

    batch_size: Any
    transforms: Sequence[Any] | None
    device: Any
    shuffle: Any
    shard_id: int | None
    num_shards: Any
    seed: int | None
    last_batch: str
    on_error: Any
    num_threads: int | None
    prefetch_batches: int
    cache: Any
    layout: str
    dtype: str
    collate: str
    repeats: int
    pin_memory: Any
    index: Any
    buckets: Any = None
    #: The audio of clips, as the engine takes it.
    audio: Any = None
    deinterlace: str = "weave"

    @classmethod
    def of(cls, arguments: Mapping[str, Any], **more: Any) -> LoaderOptions:
        """Takes the arguments of a loader.

        Args:
            arguments: Arguments by name; those that other options have are ignored.
            more: Values in place of arguments.

        Returns:
            The options.
        """
        return cls(**({each.name: arguments[each.name] for each in fields(cls) if each.name in arguments} | more))

    def __post_init__(self) -> None:
        shards = as_shards(self.num_shards)
        shuffle_for_engine(self.shuffle, can_group=False)
        if is_sampler(self.shuffle) and shards.num_shards > 1:
            raise ArgumentError(
                f"shuffle={self.shuffle!r} makes the order of this rank, so omit shard_id and num_shards; a "
                "DistributedSampler has num_replicas and rank for that"
            )
        on_error, index = self.on_error, self.index
        if not isinstance(index, Index):
            cache_location(index)
            index = Index(index)
        gpu = as_gpu(self.device)
        settled = {
            "device": gpu or "cpu",
            "num_shards": shards,
            # Drawn once: the settings of the order are requested several times.
            "seed": resolve_seed(self.seed, integer("num_shards", shards.num_shards)),
            "on_error": on_error if isinstance(on_error, OnError) else OnError(on_error),
            "num_threads": _threads(gpu) if self.num_threads is None else integer("num_threads", self.num_threads),
            "cache": as_cache(self.cache),
            "index": index,
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)
        clips_per_batch(self.batch_size)
        integer("prefetch_batches", self.prefetch_batches)
        check_dtype(self.dtype)
        choice("last_batch", self.last_batch, ("partial", "drop", "fill"))
        choice("collate", self.collate, ("auto", "stack", "pad", "list"))

    @property
    def gpu(self) -> Gpu | None:
        """The GPU; `None` without one."""
        return self.device if isinstance(self.device, Gpu) else None

    def shared(self, parts: int) -> LoaderOptions:
        """The options of each of several native loaders, which have an equal part of the threads and of the memory.

        Args:
            parts: Number of native loaders.

        Returns:
            The options.
        """

        def share(total: int) -> int:
            return total if total == 0 else max(1, total // parts)

        return replace(self, num_threads=share(self.num_threads or 0), cache=self.cache._shared(share))

    def order_settings(self, *, can_group: bool) -> dict[str, Any]:
        """The settings that determine the order of clips, as the engine takes them.

        Args:
            can_group: Whether `shuffle=True` may be a grouped shuffle.

        Returns:
            The settings by name.
        """
        return order_settings(
            batch_size=clips_per_batch(self.batch_size),
            shuffle=self.shuffle,
            can_group=can_group,
            shard_id=self.shard_id,
            shards=self.num_shards,
            seed=int(self.seed or 0),
            last_batch=self.last_batch,
            repeats=self.repeats,
        )

    def frame_settings(self, **more: Any) -> dict[str, Any]:
        """What is made of frames besides the transforms, as the engine takes it.

        Args:
            more: Values in place of those of a loader of videos.

        Returns:
            The settings by name.
        """
        return {
            "dtype": self.dtype,
            "layout": self.layout,
            "ignores_hdr": False,
            "deinterlace": self.deinterlace,
            "exact": False,
            "label_fill": None,
            **more,
        }

    def engine_settings(self, stream: int | None, **more: Any) -> dict[str, Any]:
        """The other settings of the engine.

        Args:
            stream: The stream of each file.
            more: Values in place of those of a loader of videos.

        Returns:
            The settings by name.
        """
        return {
            "images": False,
            "stream": stream,
            "group_clips": False,
            **self.on_error._for_engine(),
            "collate": {"pad": 0} if self.collate == "pad" else self.collate,
            "num_threads": self.num_threads,
            "prefetch_batches": int(self.prefetch_batches),
            **self.cache._for_engine(),
            "gpu": NO_GPU if self.gpu is None else self.gpu._for_engine(),
            "audio": self.audio,
            **more,
        }


def _threads(gpu: Gpu | None) -> int:
    """One thread per core of this rank. With NVDEC, its threads and the training keep two cores."""
    with_nvdec = gpu is not None and gpu.decoder == "auto"
    return max(1, cores_per_rank() - (2 if with_nvdec else 0))
