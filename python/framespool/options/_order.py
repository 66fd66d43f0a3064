"""The options that determine the order of clips."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, Literal

from framespool._common.validate_args import boolean, choice, integer
from framespool.errors import ArgumentError

MAX_U64 = 2**64 - 1

#: The last epoch that can be chosen.
MAX_EPOCH = 2**63


@dataclass(frozen=True, kw_only=True)
class GroupedShuffle:
    """A new permutation of all videos each epoch, which decodes each video once at any dataset size.

    In place of `shuffle="grouped"`. The clips of a video stay on one rank, spread over as many batches as the clip
    cache permits.

    What is left open is chosen when a training starts, and kept in its states: see `ClipLoader.load_state_dict()`.

    Args:
        block_size: Positions over which the clips of a video are spread, over all ranks. With twice the number of clips
            or more, the clips of each stream are shuffled fully. `None`: derived from the memory of the clip cache, the
            size of a clip, the clips per video, the batch size and the number of ranks, or that of a loaded state.
        max_chunk: Longer videos are cut into chunks of at most this many clips.
        num_streams: Number of streams. On any number of ranks that divides it, each video is on one rank. `None`: the
            number of ranks times up to 8.

    Raises:
        ArgumentError: If an argument is invalid.

    Example:
        >>> import framespool as fsp
        >>> loader = fsp.ClipLoader(
        ...     fsp.datasets.folder("videos/"),
        ...     fsp.samplers.RandomClips(sequence_length=8, clips_per_video=4),
        ...     batch_size=2,
        ...     shuffle=fsp.GroupedShuffle(block_size=64),
        ... )
    """

    block_size: int | None = None
    max_chunk: int = 64
    num_streams: int | None = None

    def __post_init__(self) -> None:
        if self.block_size is not None:
            integer("block_size", self.block_size, most=MAX_U64)
        integer("max_chunk", self.max_chunk, least=1)
        if self.num_streams is not None:
            integer("num_streams", self.num_streams, least=1)

    def _for_engine(self) -> Any:
        return {"grouped": {field.name: getattr(self, field.name) for field in fields(self)}}


@dataclass(frozen=True)
class BufferShuffle:
    """A local shuffle: each clip moves by less than 1.5 times `initial_fill` positions.

    In place of `shuffle="buffer"`. Neighbors in the dataset stay close.

    Args:
        initial_fill: Size of the shuffle buffer in clips.

    Raises:
        ArgumentError: If it is not an int in its range.

    Example:
        >>> import framespool as fsp
        >>> sampler = fsp.order.BatchSampler(num_clips=100, batch_size=4, shuffle=fsp.BufferShuffle(initial_fill=8))
        >>> max(sampler.batch(0)) < 16
        True
    """

    initial_fill: int = 1024

    def __post_init__(self) -> None:
        integer("initial_fill", self.initial_fill, least=1)

    def _for_engine(self) -> Any:
        return {"buffer": {"initial_fill": self.initial_fill}}


@dataclass(frozen=True)
class Shards:
    """How an epoch is divided among processes and machines.

    In place of the number `num_shards`.

    Args:
        num_shards: Number of ranks. All ranks get the same number of batches of the same sizes.
        num_nodes: Number of machines, if each has a disk cache of its own. It divides `num_shards`, and the ranks of a
            machine are consecutive. The videos are divided among the machines once, at random, and each epoch is
            shuffled within these parts, so that a machine finds the clips of its videos on its disk. A run may continue
            on other machines with the same `num_nodes`. Not with weights, `mix()` and `stick_to_shard`.
        stick_to_shard: Each rank keeps its own contiguous part of the dataset and shuffles that. `False`: all clips are
            distributed again each epoch.
        worker_id: Worker of this rank, from 0, for processes that share the batches of a rank; `torch.ClipDataset` sets
            it. Required if there are several.
        num_workers: Workers of this rank. Worker `w` makes only the batches `w`, `w + num_workers`, and so on, as in
            PyTorch's `DataLoader`. The number of decoding threads is the loader's `num_threads`.

    Raises:
        ArgumentError: If an argument is invalid, or several workers are stated but not which one this is.

    Example:
        >>> import framespool as fsp
        >>> loader = fsp.ClipLoader(
        ...     fsp.datasets.folder("videos/"),
        ...     fsp.samplers.RandomClips(sequence_length=8),
        ...     batch_size=2,
        ...     shuffle="full",
        ...     shard_id=5,
        ...     num_shards=fsp.options.Shards(8, num_nodes=2),
        ... )
    """

    num_shards: int = 1
    _: KW_ONLY
    num_nodes: int = 1
    stick_to_shard: bool = False
    worker_id: int | None = None
    num_workers: int = 1

    def __post_init__(self) -> None:
        integer("num_shards", self.num_shards)
        integer("num_nodes", self.num_nodes)
        boolean("stick_to_shard", self.stick_to_shard)
        remedy = (
            "give worker_id, from 0; a loader decodes on threads, so for more of them use num_threads=, or "
            "framespool.torch.ClipDataset or ImageDataset for the workers of a DataLoader"
        )
        loss = "one worker makes only 1 of {} batches"
        worker = _one_of("worker_id", self.worker_id, "num_workers", self.num_workers, loss, remedy)
        object.__setattr__(self, "worker_id", worker)


def as_shards(num_shards: Any) -> Shards:
    """Converts the argument `num_shards` of a loader.

    Args:
        num_shards: A `Shards`, or the number of ranks.

    Returns:
        The `Shards`.

    Raises:
        ArgumentError: If it is neither.
    """
    return num_shards if isinstance(num_shards, Shards) else Shards(num_shards)


#: What a loader accepts as its `shuffle`.
Shuffle = Literal["grouped", "full", "buffer"] | bool | GroupedShuffle | BufferShuffle | Iterable[int]

#: The objects that stand for an order of the engine, and the words for those without options.
_ORDERS = (GroupedShuffle, BufferShuffle)
_WORDS: dict[str, Any] = {
    "grouped": GroupedShuffle()._for_engine(),
    "full": "full",
    "buffer": BufferShuffle()._for_engine(),
}


def is_sampler(shuffle: Any) -> bool:
    """Whether a value of `shuffle` is an object that yields the clips of each epoch.

    Args:
        shuffle: The value.

    Returns:
        Whether it is.
    """
    return not isinstance(shuffle, (bool, str, *_ORDERS)) and hasattr(shuffle, "__iter__")


def shuffle_for_engine(shuffle: Any, *, can_group: bool) -> Any:
    """The shuffle that a value of `shuffle` selects.

    Args:
        shuffle: The value.
        can_group: Whether `True` may select a grouped shuffle: not with `stick_to_shard`, not for a mixture with
            replacement, and only where the clips of each video are known.

    Returns:
        It, as the engine reads it.

    Raises:
        ArgumentError: If it is none.
    """
    if isinstance(shuffle, _ORDERS):
        return shuffle._for_engine()
    if shuffle is False or is_sampler(shuffle):
        return "off"
    if shuffle is True:
        return _WORDS["grouped" if can_group else "full"]
    if isinstance(shuffle, str) and shuffle in _WORDS:
        return _WORDS[shuffle]
    raise ArgumentError(
        'shuffle must be a bool, "grouped", "full" or "buffer", one of the classes GroupedShuffle and BufferShuffle, '
        f"or an iterable of the clips of each epoch, got {shuffle!r}"
    )


def shuffle_name(settings: Mapping[str, Any]) -> str | None:
    """The name of a shuffle.

    Args:
        settings: Settings of the order, as the engine takes them.

    Returns:
        `"grouped"`, `"full"`, `"buffer"` or `None`.
    """
    shuffle = settings["shuffle"]
    name = shuffle if isinstance(shuffle, str) else next(iter(shuffle))
    return None if name == "off" else name


def order_settings(
    *,
    batch_size: int,
    shuffle: Any,
    can_group: bool,
    shard_id: int | None,
    shards: Shards,
    seed: int,
    last_batch: str,
    repeats: int,
) -> dict[str, Any]:
    """The settings that determine the order of clips, as the engine takes them.

    Args:
        batch_size: As for a loader.
        shuffle: As for a loader.
        can_group: As for `shuffle_for_engine`.
        shard_id: As for a loader.
        shards: The shards.
        seed: The seed.
        last_batch: As for a loader.
        repeats: As for a loader.

    Returns:
        The settings by name. The number of clips, the clips of each video, a mixture and weights are open.

    Raises:
        ArgumentError: If a value is invalid.
    """
    how = shuffle_for_engine(shuffle, can_group=can_group and not shards.stick_to_shard)
    ranks = integer("num_shards", shards.num_shards)
    remedy = "give shard_id, the rank of this process; **framespool.torch.rank_and_world() gives both"
    return {
        "num_clips": 0,
        "shuffle": how,
        "seed": int(seed),
        "shard_id": _one_of("shard_id", shard_id, "num_shards", ranks, "one rank gets only 1 of {} clips", remedy),
        "num_shards": ranks,
        "stick_to_shard": shards.stick_to_shard,
        "num_nodes": int(shards.num_nodes),
        "worker_id": shards.worker_id,
        "num_workers": int(shards.num_workers),
        "batch_size": integer("batch_size", batch_size),
        "repeats": integer("repeats", repeats, least=1, most=1024),
        "clips_per_group": 1,
        "last_batch": choice("last_batch", last_batch, ("partial", "drop", "fill")),
        "mix": None,
        "video_clips": None,
        "weights": None,
    }


def _one_of(name: str, number: Any, count_name: str, count: Any, loss: str, remedy: str) -> int:
    several = integer(count_name, count)
    if number is None and several > 1:
        raise ArgumentError(f"{count_name}={several} is given without {name}: {loss.format(several)}; {remedy}")
    return 0 if number is None else integer(name, number)


class DrawnSeed(int):
    """A seed that `seed=None` has drawn. A loader with one takes the seed of a state that it loads."""

    __slots__ = ()


def resolve_seed(seed: Any, num_shards: int = 1) -> int:
    """Checks a seed, or draws one for `None`.

    It is drawn from PyTorch's default generator if PyTorch is imported, else from Python's `random`. Several ranks use
    the one of rank 0.

    Args:
        seed: The seed, or `None`.
        num_shards: Number of ranks that must have the same seed. If there are several, all of them call this.

    Returns:
        The seed; a `DrawnSeed` if it was drawn, now or before.

    Raises:
        ArgumentError: If it is not an int in its range, or ranks that do not know each other would have to agree.
    """
    if seed is not None:
        return seed if isinstance(seed, DrawnSeed) else integer("seed", seed, most=MAX_U64)
    torch, distributed = sys.modules.get("torch"), sys.modules.get("torch.distributed")
    known = distributed is not None and distributed.is_available() and distributed.is_initialized()
    ranks = distributed.get_world_size() if distributed is not None and known else 1
    if num_shards not in (1, ranks):
        raise ArgumentError(
            f"seed=None with num_shards={num_shards} needs torch.distributed with {num_shards} ranks, which share the "
            f"drawn seed, but it has {f'{ranks} ranks' if known else 'not been initialized'}; pass a seed, the same on "
            "all ranks"
        )
    drawn = [random.getrandbits(63) if torch is None else int(torch.randint(2**63 - 1, ()))]
    if num_shards > 1 and distributed is not None:
        distributed.broadcast_object_list(drawn, src=0)
    return DrawnSeed(drawn[0])
