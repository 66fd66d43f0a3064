"""Which part of the data is this process'."""

from __future__ import annotations

import os
from typing import Any

from framespool._common.pytorch import torch
from framespool.errors import ArgumentError


def is_initialized() -> bool:
    """Reports whether this process is in a process group of `torch.distributed`.

    Returns:
        `False` also if PyTorch is not installed.
    """
    return torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized()


def rank_and_world(group: Any = None) -> dict[str, int]:
    """Returns the shard of this rank, as keyword arguments of a loader.

    They come from `torch.distributed` if it is initialized, else from the variables `RANK` and `WORLD_SIZE` that
    `torchrun` sets, else there is one rank.

    Args:
        group: Process group over which the data is sharded, or one dimension of a `DeviceMesh`, such as `mesh["dp"]`;
            by default all ranks. With tensor or pipeline parallelism the ranks of one model must read the same data.

    Returns:
        `{"shard_id": rank, "num_shards": number of ranks}`.

    Raises:
        ArgumentError: If the process is not in `group`, `group` is a mesh of several dimensions, `torch.distributed` is
            not initialized but `group` is given, or the variables contradict each other.

    Example:
        >>> import framespool.torch
        >>> framespool.torch.rank_and_world()
        {'shard_id': 0, 'num_shards': 1}
    """
    if is_initialized():
        if hasattr(group, "mesh_dim_names"):
            group = _mesh_group(group)
        rank, ranks = torch.distributed.get_rank(group), torch.distributed.get_world_size(group)
        if rank < 0:
            raise ArgumentError(
                "this process is not in the given group; pass the process group over which its data is sharded"
            )
        return {"shard_id": rank, "num_shards": ranks}
    if group is not None:
        raise ArgumentError(
            "a group was given, but torch.distributed is not initialized; call init_process_group first"
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
        raise ArgumentError(f"RANK and WORLD_SIZE must be integers, got {words[0]!r} and {words[1]!r}") from None
    if not 0 <= rank < ranks:
        raise ArgumentError(f"RANK must be from 0 to WORLD_SIZE - 1 = {ranks - 1}, got {rank}")
    return {"shard_id": rank, "num_shards": ranks}


def _mesh_group(mesh: Any) -> Any:
    """Returns the process group of a one-dimensional `DeviceMesh`."""
    if mesh.ndim != 1:
        names = mesh.mesh_dim_names or range(mesh.ndim)
        raise ArgumentError(
            f"group is a DeviceMesh with the dimensions {', '.join(map(str, names))}; pass the one over which the data "
            'is sharded, for example mesh["dp"]'
        )
    return mesh.get_group()
