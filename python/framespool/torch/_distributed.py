"""Which part of the data is this process'."""

from __future__ import annotations

import multiprocessing
import os
from typing import Any

from framespool import _framespool
from framespool.errors import ArgumentError
from framespool.torch._torch import get_worker_info, torch


def is_initialized() -> bool:
    """Whether this process is in a process group of ``torch.distributed``."""
    return torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized()


def cores_per_rank() -> int:
    """Cores for this rank: those that the process may use, shared out among the ranks of this machine, as torchrun
    counts them (``LOCAL_WORLD_SIZE``). A rank that is bound to fewer cores than whoever started it may use has its
    share already, or shares these few with some of the others."""
    words = os.environ.get("LOCAL_WORLD_SIZE", "1")
    ranks, own = max(1, int(words) if words.isdecimal() else 1), _framespool.cores()
    here, outside = len(os.sched_getaffinity(0)), _parent_cores()
    # A quota of CPU time (fewer cores than may be run on) is for all ranks together.
    if own < here or here >= outside:
        return max(1, own // ranks)
    return max(1, min(own, outside // ranks))


def _parent_cores() -> int:
    """Cores that whoever started this rank may use; 0 where that is not to be seen from here."""
    is_worker = torch is not None and get_worker_info() is not None
    trainer = multiprocessing.parent_process() if is_worker else None
    try:
        if trainer is None or trainer.pid is None:
            return len(os.sched_getaffinity(os.getppid()))
        with open(f"/proc/{trainer.pid}/status", encoding="ascii", errors="replace") as lines:
            starter = next(int(line.split()[1]) for line in lines if line.startswith("PPid:"))
        return len(os.sched_getaffinity(starter))
    except (OSError, StopIteration):
        return 0


def rank_and_world(group: Any = None) -> dict[str, int]:
    """``{"shard_id": rank, "num_shards": ranks}``, to be given to a loader with ``**``.

    Taken from ``torch.distributed`` where it is is_initialized, else from the variables ``RANK`` and ``WORLD_SIZE`` that
    ``torchrun`` sets, else one rank of one. ``group``: the process group over which data is shared out, where that is
    not all ranks: with tensor or pipeline parallelism the ranks of one model must see the same data.

    A loader's ``num_threads`` are all cores by default: with several ranks on a machine give each its share.
    """
    if is_initialized():
        rank, ranks = torch.distributed.get_rank(group), torch.distributed.get_world_size(group)
        if rank < 0:
            raise ArgumentError("this process is not in the group given; give the group over which it shares data")
        return {"shard_id": rank, "num_shards": ranks}
    if group is not None:
        raise ArgumentError(
            "a group was given, but torch.distributed is not is_initialized; call init_process_group first"
        )
    words = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if words[0] is None and words[1] not in (None, "1"):
        raise ArgumentError(
            f"WORLD_SIZE={words[1]}, but RANK is not set: each rank would get all clips. Call this after "
            "torch.distributed.init_process_group, or set both"
        )
    if None in words:
        return {"shard_id": 0, "num_shards": 1}
    try:
        rank, ranks = (int(word) for word in words if word is not None)
    except ValueError:
        raise ArgumentError(f"RANK and WORLD_SIZE must be whole numbers, got {words[0]!r} and {words[1]!r}") from None
    if not 0 <= rank < ranks:
        raise ArgumentError(f"RANK must be one of the {ranks} ranks that WORLD_SIZE says, got {rank}")
    return {"shard_id": rank, "num_shards": ranks}
