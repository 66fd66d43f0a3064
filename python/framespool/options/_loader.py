"""The keyword arguments that all loaders share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from framespool._common.validate_args import boolean, check_dtype, choice, integer, number
from framespool.options._order import (
    grouped_settings,
    resolve_seed,
    resolve_shuffle,
    shard_settings,
    validate_shuffle,
    worker_settings,
)

#: Keywords of other libraries for the arguments of loaders.
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
}

#: What to write instead of `num_workers=` alone, which means processes elsewhere.
_WORKER_REMEDY = (
    "a loader decodes on threads, so use num_threads=, or framespool.torch.ClipDataset or ImageDataset "
    "for the workers of a DataLoader"
)


@dataclass(frozen=True)
class LoaderOptions:
    """The keyword arguments that all loaders share, as the caller gave them."""

    batch_size: int
    transforms: Sequence[Any] | None
    device: Any
    shuffle: Any
    initial_fill: int
    order: str
    shard_id: int | None
    num_shards: int
    stick_to_shard: bool
    worker_id: int | None
    num_workers: int
    seed: int | None
    last_batch: str
    on_error: str
    on_outage: str | float
    num_threads: int | None
    prefetch_batches: int
    dtype: str
    hdr: str
    deinterlace: str = "weave"
    num_nodes: int = 1
    shuffle_block_size: int | None = None
    num_streams: int | None = None
    max_chunk: int = 64
    repeats: int = 1
    pin_memory: Any = "auto"
    collate: str = "auto"

    def __post_init__(self) -> None:
        shards = integer("num_shards", self.num_shards) if self.seed is None else 1
        # Drawn once: the settings of the order are requested several times.
        object.__setattr__(self, "seed", resolve_seed(self.seed, shards))

    def validate(self) -> None:
        """Checks the arguments that take one of several words.

        Raises:
            ArgumentError: If a value is not one of the known words.
        """
        validate_shuffle(self.shuffle)
        choice("order", self.order, ("framespool", "dali", "torch"))
        check_dtype(self.dtype)
        choice("hdr", self.hdr, ("warn", "ignore"))
        choice("deinterlace", self.deinterlace, ("weave", "bob", "linear"))
        choice("last_batch", self.last_batch, ("partial", "drop", "fill"))
        choice("collate", self.collate, ("auto", "stack", "pad", "list"))
        choice("on_error", self.on_error, ("raise", "skip", "replace"))
        self.error_settings()

    def error_settings(self) -> dict[str, Any]:
        """The settings that determine what happens to clips that cannot be read.

        Returns:
            `on_error`, and `outage_timeout`: how long in seconds an unavailable server is waited for, or `None` for the
            default.

        Raises:
            ArgumentError: If `on_outage` is neither a known word nor a number of seconds.
        """
        if isinstance(self.on_outage, str):
            choice("on_outage", self.on_outage, ("wait", "raise"))
            timeout = 0.0 if self.on_outage == "raise" else None
        else:
            timeout = number("on_outage", self.on_outage, least=0, most=1e9)
        return {"on_error": self.on_error, "outage_timeout": timeout}

    def order_settings(self, *, replacement: bool) -> dict[str, Any]:
        """The settings that determine the order of clips.

        Args:
            replacement: Whether the dataset is a mixture whose clips are drawn with replacement.

        Returns:
            The settings by name, as the engine takes them.
        """
        return {
            "num_clips": 0,  # set when the videos are known
            "batch_size": integer("batch_size", self.batch_size),
            "repeats": integer("repeats", self.repeats, least=1, most=1024),
            "shuffle": resolve_shuffle(self.shuffle, self.order, can_group=not replacement and not self.stick_to_shard),
            **grouped_settings(self.shuffle_block_size, self.num_streams, self.max_chunk),
            "clips_per_video": None,  # set when the videos are known
            "initial_fill": integer("initial_fill", self.initial_fill),
            "order": self.order,
            **shard_settings(self.shard_id, self.num_shards),
            "stick_to_shard": boolean("stick_to_shard", self.stick_to_shard),
            "num_nodes": integer("num_nodes", self.num_nodes),
            **worker_settings(self.worker_id, self.num_workers, _WORKER_REMEDY),
            "seed": int(self.seed or 0),
            "last_batch": self.last_batch,
            "mix": None,  # set when the clips of its datasets are known
            "weights": None,  # set by the dataset
        }
