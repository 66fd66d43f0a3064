"""Which share of the machine belongs to this process, and whether it is one of several ranks."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from typing import Any

from framespool._common.validate_args import user_stacklevel
from framespool._framespool import cores

_warned = False
_warned_of_machines = False


def cores_per_rank() -> int:
    """Returns the number of cores for this rank.

    The cores that the process may use are divided among the ranks of this machine, which torchrun counts in
    `LOCAL_WORLD_SIZE`. A rank that is bound to fewer cores than its parent process has its share already, or shares
    these cores with some of the other ranks.

    Returns:
        Number of cores, at least 1.
    """
    ranks, own = _local_world_size(), cores()
    here, outside = len(os.sched_getaffinity(0)), _parent_cores()
    # A quota of CPU time (fewer cores than the affinity mask has) applies to all ranks together.
    if own < here or here >= outside:
        return max(1, own // ranks)
    return max(1, min(own, outside // ranks))


def _local_world_size() -> int:
    """Returns the number of ranks of this machine by `LOCAL_WORLD_SIZE`, 1 without it."""
    words = os.environ.get("LOCAL_WORLD_SIZE", "1")
    return max(1, int(words)) if words.isdecimal() else 1


def _parent_cores() -> int:
    """Returns the number of cores that the process that started this rank may use; 0 if unknown."""
    # A worker of a DataLoader has imported it already.
    trainer = None if data_loader_worker() is None else sys.modules["multiprocessing"].parent_process()
    try:
        if trainer is None or trainer.pid is None:
            return len(os.sched_getaffinity(os.getppid()))
        with open(f"/proc/{trainer.pid}/status", encoding="ascii", errors="replace") as lines:
            starter = next(int(line.split()[1]) for line in lines if line.startswith("PPid:"))
        return len(os.sched_getaffinity(starter))
    except (OSError, StopIteration):
        return 0


def is_first_process(order: Mapping[str, Any]) -> bool:
    """Returns whether this process reports what all ranks and all workers find.

    Args:
        order: The settings of the order of a loader.

    Returns:
        `False` for other ranks than the first one, and for other workers than the first one, also of a `DataLoader`.
    """
    worker = data_loader_worker()
    return order["shard_id"] == order["worker_id"] == 0 and worker in (None, 0)


def data_loader_worker() -> int | None:
    """Returns the number of this process among the workers of a `DataLoader`.

    Returns:
        The number, from 0; `None` in other processes.
    """
    data = sys.modules.get("torch.utils.data")
    info = None if data is None else data.get_worker_info()
    return None if info is None else int(info.id)


def world_size() -> int:
    """Returns the number of ranks to which this process belongs.

    Returns:
        That of `torch.distributed` if it is initialized, else `WORLD_SIZE` if `RANK` is set, else 1.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_world_size()
    words = os.environ.get("WORLD_SIZE", "1")
    return max(1, int(words)) if "RANK" in os.environ and words.isdecimal() else 1


def warn_unsharded(num_shards: int) -> None:
    """Warns once if this process is one of several ranks, but its loader reads the complete dataset.

    Args:
        num_shards: That of the loader.
    """
    global _warned
    if num_shards > 1 or _warned or (ranks := world_size()) == 1:
        return
    _warned = True
    warnings.warn(
        f"this is one of {ranks} ranks, but the loader has num_shards=1, so every rank reads the complete dataset; "
        "pass **framespool.torch.rank_and_world(), or shard_id= and num_shards=",
        stacklevel=user_stacklevel(),
    )


def warn_of_machines(order: Mapping[str, Any]) -> None:
    """Warns once if a loader with a disk cache has ranks on several machines, but lets videos move between them.

    Args:
        order: The settings of the order of the loader.
    """
    global _warned_of_machines
    ranks, here = order["num_shards"], _local_world_size()
    stays = order["num_nodes"] > 1 or order["stick_to_shard"]
    if stays or _warned_of_machines or "LOCAL_WORLD_SIZE" not in os.environ or ranks <= here or ranks % here:
        return
    _warned_of_machines = True
    warnings.warn(
        f"the {ranks} ranks are on {ranks // here} machines, each with a disk cache of its own, but in each epoch most "
        "videos are on another machine than before, which does not have their clips; "
        f"use num_nodes={ranks // here}, or a cache folder that all machines share",
        stacklevel=user_stacklevel(),
    )
