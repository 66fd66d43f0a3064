"""Checks the options that determine the order of clips."""

from __future__ import annotations

import random
import sys
from typing import Any

from framespool._common.validate_args import integer
from framespool.errors import ArgumentError

MAX_U64 = 2**64 - 1

#: Limit of DALI's random numbers that are replayed to reach an epoch; takes some minutes.
_MAX_REPLAYED = 2**35


def validate_shuffle(shuffle: Any) -> None:
    """Checks a value of `shuffle`.

    Args:
        shuffle: The value.

    Raises:
        ArgumentError: If it is not `"grouped"`, `"full"`, `"buffer"` or a bool.
    """
    if not isinstance(shuffle, bool) and shuffle not in ("grouped", "full", "buffer"):
        raise ArgumentError(f'shuffle must be "grouped", "full", "buffer" or a bool, got {shuffle!r}')


def resolve_shuffle(shuffle: Any, order: str, *, can_group: bool) -> Any:
    """The shuffle that `True` selects.

    Args:
        shuffle: A valid value of `shuffle`.
        order: As for `BatchSampler`.
        can_group: Whether a grouped shuffle is possible: not with `stick_to_shard`, not for a mixture with
            replacement, and only where the clips of each video are known.

    Returns:
        `"grouped"`, `"full"`, `"buffer"` or `None`.
    """
    if shuffle is True:
        return {"torch": "full", "dali": "buffer"}.get(order, "grouped" if can_group else "full")
    return shuffle or None


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


def worker_settings(worker_id: Any, num_workers: Any, remedy: str) -> dict[str, int]:
    """Checks which worker of a rank makes the batches.

    Args:
        worker_id: The worker, or `None` if the caller did not state it.
        num_workers: Workers of the rank.
        remedy: What to write instead if the worker is missing.

    Returns:
        Both settings by name.

    Raises:
        ArgumentError: If one is not an int in its range, or several workers are stated but not which one this is.
    """
    return _one_of("worker_id", worker_id, "num_workers", num_workers, "one worker makes only 1 of {} batches", remedy)


def shard_settings(shard_id: Any, num_shards: Any) -> dict[str, int]:
    """Checks which rank gets the batches.

    Args:
        shard_id: The rank, or `None` if the caller did not state it.
        num_shards: Number of ranks.

    Returns:
        Both settings by name.

    Raises:
        ArgumentError: If one is not an int in its range, or several ranks are stated but not which one this is.
    """
    remedy = "give shard_id, the rank of this process; **framespool.torch.rank_and_world() gives both"
    return _one_of("shard_id", shard_id, "num_shards", num_shards, "one rank gets only 1 of {} clips", remedy)


def _one_of(name: str, number: Any, count_name: str, count: Any, loss: str, remedy: str) -> dict[str, int]:
    several = integer(count_name, count)
    if number is None and several > 1:
        raise ArgumentError(f"{count_name}={several} is given without {name}: {loss.format(several)}; {remedy}")
    return {name: 0 if number is None else integer(name, number), count_name: several}


def max_epoch(order: str, shuffle: Any, num_clips: int) -> int:
    """The last epoch that can be chosen; shuffles of DALI are replayed from the first one.

    Args:
        order: As for `BatchSampler`.
        shuffle: As for `BatchSampler`.
        num_clips: Clips of the dataset.

    Returns:
        Number of the epoch.
    """
    return 2**63 if order != "dali" or not shuffle else _MAX_REPLAYED // max(num_clips, 1)


def grouped_settings(block_size: Any, num_streams: Any, max_chunk: Any) -> dict[str, Any]:
    """Checks the arguments of a grouped shuffle.

    Args:
        block_size: Value of `shuffle_block_size`.
        num_streams: Value of `num_streams`.
        max_chunk: Value of `max_chunk`.

    Returns:
        The settings by name, as the engine takes them.

    Raises:
        ArgumentError: If one is not an int in its range.
    """
    return {
        "shuffle_block_size": None if block_size is None else integer("shuffle_block_size", block_size, most=MAX_U64),
        "num_streams": None if num_streams is None else integer("num_streams", num_streams, least=1),
        "max_chunk": integer("max_chunk", max_chunk, least=1),
    }
