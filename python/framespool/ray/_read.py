"""Reads clips as rows of a Ray Data dataset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framespool.ray._clip_source import ClipSource
from framespool.ray._errors import import_ray


def read_clips(
    dataset: Any,
    clip_sampler: Any,
    *,
    batch_size: int = 16,
    override_num_blocks: int | None = None,
    concurrency: int | None = None,
    num_cpus: float = 1,
    ray_remote_args: Mapping[str, Any] | None = None,
    **keywords: Any,
) -> Any:
    """Returns the clips of a dataset as a `ray.data.Dataset`, one row per clip, decoded on demand.

    The same as `ray.data.read_datasource` with a `ClipSource`, which describes the columns and the order of the rows.
    For training, where order and checkpoints matter, use `ClipLoader`.

    Args:
        dataset: As for `ClipSource`.
        clip_sampler: As for `framespool.ClipLoader`.
        batch_size: Clips that a task makes at once; also the rows of a block, unless Ray Data joins or splits blocks.
        override_num_blocks: Number of read tasks. Each reads a contiguous range of the dataset, so that clips of one
            video share their decoding. By default Ray Data decides.
        concurrency: Maximum number of read tasks at a time, as for `ray.data.read_datasource`.
        num_cpus: CPUs of each read task, and its default `num_threads`.
        ray_remote_args: Further options of the read tasks, as for `ray.data.read_datasource`.
        keywords: Other arguments of `framespool.ClipLoader`, as for `ClipSource`.

    Returns:
        A `ray.data.Dataset`.

    Raises:
        ArgumentError: If an argument is invalid or not available here, or the dataset is empty.
        UnsupportedError: If Ray Data is not installed.

    Example:
        >>> rows = framespool.ray.read_clips(  # doctest: +SKIP
        ...     dataset,
        ...     fsp.samplers.UniformClips(sequence_length=4),
        ...     transforms=[fsp.transforms.Resize((32, 32))],
        ... )
        >>> for row in rows.iter_rows():  # doctest: +SKIP
        ...     print(row["frames"].shape)  # (4, 3, 32, 32)
    """
    data = import_ray("ray.data")
    source = ClipSource(dataset, clip_sampler, batch_size=batch_size, **keywords)
    given = {"concurrency": concurrency, "override_num_blocks": override_num_blocks}
    given = {name: value for name, value in given.items() if value is not None}
    return data.read_datasource(source, num_cpus=num_cpus, **dict(ray_remote_args or {}), **given)
