"""Reads clips as rows of a Ray Data dataset."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

import framespool
from framespool._validate_args import choice, integer
from framespool.datasets._dataset import as_dataset
from framespool.errors import ArgumentError
from framespool.ray._errors import import_ray
from framespool.ray._worker import as_arrays
from framespool.samplers import ClipSampler, custom

#: Arguments that Ray Data determines: each clip occurs once, in blocks that Ray Data orders itself.
_NOT_HERE = (
    *("shuffle", "initial_fill", "order", "last_batch", "device"),
    *("shard_id", "num_shards", "stick_to_shard", "worker_id", "num_workers"),
)

#: Columns of the rows, besides those of the dataset.
_COLUMNS = {"frames", "label", "indices", "pts_seconds", "mask", "video_id", "clip_id", "view_id", "path"}


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

    Columns: `frames` (a tensor of T frames in the loader's layout), `label`, `indices`, `pts_seconds`,
    `mask`, `video_id`, `clip_id`, `view_id`, `path` of the file (`None` for bytes), and the columns of the dataset. Use
    transforms that give all frames the same size, so that `frames` has one shape.

    Rows are the clips of epoch 0, each once. Arguments about order and ranks (`shuffle`, `shard_id`, …) are
    refused: use Ray Data's `random_shuffle` and `streaming_split`. For training, where order and checkpoints
    matter, use `ClipLoader`.

    A clip sampler whose number of clips depends on the videos' lengths is evaluated by each task: files must be
    readable on all nodes or on none, otherwise the ranges of the tasks overlap.

    Args:
        dataset: As for `framespool.ClipLoader`.
        clip_sampler: As for `framespool.ClipLoader`.
        batch_size: Clips that a task makes at once; also the rows of a block, unless Ray Data joins blocks.
        override_num_blocks: Number of read tasks. Each reads a contiguous range of the dataset, so that clips of one
            video share their decoding. By default Ray Data decides.
        concurrency: Maximum number of read tasks at a time, as for `ray.data.read_datasource`.
        num_cpus: CPUs of each read task, and its default `num_threads`.
        ray_remote_args: Further options of the read tasks, as for `ray.data.read_datasource`.
        keywords: Other arguments of `framespool.ClipLoader`. `on_error="skip"` omits clips that cannot be
            made, `"replace"` replaces them by others, `"raise"` ends the read with the file's error.

    Returns:
        A `ray.data.Dataset`.

    Raises:
        ArgumentError: If an argument is invalid or not available here, or the dataset is empty.
        UnsupportedError: If Ray Data is not installed.

    Example:
        >>> rows = framespool.ray.read_clips(  # doctest: +SKIP
        ...     dataset,
        ...     fsp.samplers.uniform(sequence_length=4),
        ...     transforms=[fsp.transforms.Resize((32, 32))],
        ... )
        >>> for row in rows.iter_rows():  # doctest: +SKIP
        ...     print(row["frames"].shape)  # (4, 3, 32, 32)
    """
    data = import_ray("ray.data")
    refused = [name for name in _NOT_HERE if name in keywords]
    if refused:
        raise ArgumentError(
            f"{', '.join(refused)} cannot be set here: each clip occurs once, and Ray Data orders blocks itself; "
            "use random_shuffle() or streaming_split() of the dataset, or framespool.ray.ClipLoader"
        )
    choice("on_error", keywords.get("on_error", "raise"), ("raise", "skip", "replace"))
    sources = as_dataset(dataset)
    taken = sorted(_COLUMNS & sources.columns.keys())
    if taken:
        raise ArgumentError(
            f"read_clips makes columns named {', '.join(taken)}, which the dataset has, too; rename the dataset's"
        )
    if not len(sources):
        raise ArgumentError("the dataset is empty; pass at least one file")
    if not isinstance(clip_sampler, ClipSampler):
        clip_sampler = custom(clip_sampler)
    keywords.setdefault("num_threads", max(1, int(num_cpus)))
    keywords["batch_size"] = integer("batch_size", batch_size, least=1)
    source = _source(sources, clip_sampler, keywords)
    given = {"concurrency": concurrency, "override_num_blocks": override_num_blocks}
    given = {name: value for name, value in given.items() if value is not None}
    return data.read_datasource(source, num_cpus=num_cpus, **dict(ray_remote_args or {}), **given)


def _source(dataset: Any, clip_sampler: Any, keywords: dict[str, Any]) -> Any:
    """Returns the Ray Data source. Its class is created here, since the base class requires Ray."""
    datasource = import_ray("ray.data.datasource")
    block = import_ray("ray.data.block")
    ray = import_ray()

    def estimate(self: Any) -> None:
        """Unknown: the size depends on the transforms and the videos."""

    def read_tasks(self: Any, parallelism: int, per_task_row_limit: int | None = None, **_: Any) -> list[Any]:
        """Returns read tasks, each with a range of the dataset."""
        tasks = max(1, min(parallelism, len(dataset)))
        # Sent once for all tasks.
        job = ray.put((os.getcwd(), dataset, clip_sampler, keywords))
        metadata = block.BlockMetadata(num_rows=None, size_bytes=None, exec_stats=None, input_files=None)
        return [
            datasource.ReadTask(_ReadTask(job, at, tasks), metadata, per_task_row_limit=per_task_row_limit)
            for at in range(tasks)
        ]

    methods = {"estimate_inmemory_data_size": estimate, "get_read_tasks": read_tasks}
    return type("ClipDatasource", (datasource.Datasource,), methods)()


class _ReadTask:
    """The work of one read task."""

    def __init__(self, job: Any, at: int, tasks: int) -> None:
        self._job = job
        self._at = at
        self._tasks = tasks

    def _loader(self, dataset: Any, clip_sampler: Any, keywords: dict[str, Any], tasks: int) -> framespool.ClipLoader:
        return framespool.ClipLoader(
            dataset, clip_sampler, shard_id=self._at, num_shards=tasks, stick_to_shard=True, **keywords
        )

    def __call__(self) -> Iterator[Any]:
        ray, block = import_ray(), import_ray("ray.data.block")
        folder, dataset, clip_sampler, keywords = ray.get(self._job)
        before = os.getcwd()
        with contextlib.suppress(OSError):  # without this folder, relative paths are missing files
            os.chdir(folder)
        try:
            try:
                loader = self._loader(dataset, clip_sampler, keywords, self._tasks)
            except ArgumentError:
                # Videos too short for a clip may leave fewer clips than tasks; the last tasks then have no work.
                clips = framespool.ClipLoader(dataset, clip_sampler, **keywords).num_clips
                if clips >= self._tasks:
                    raise
                if self._at >= clips:
                    return
                loader = self._loader(dataset, clip_sampler, keywords, clips)
            for batch in loader:
                rows = _rows(batch, dataset)
                if len(rows["label"]):
                    yield block.BlockAccessor.batch_to_block(rows)
        finally:
            os.chdir(before)


def _rows(batch: Any, dataset: Any) -> dict[str, Any]:
    """Returns the columns of a batch, without padding clips."""
    import numpy as np

    kept = ~batch.padding.numpy()
    names = {"labels": "label", "video_ids": "video_id", "clip_ids": "clip_id", "view_ids": "view_id"}
    names |= {name: name for name in ("indices", "pts_seconds", "mask")}
    rows = {own: getattr(batch, name).numpy()[kept] for name, own in names.items()}
    rows["path"] = np.array([_path(dataset.samples[video][0]) for video in rows["video_id"]], dtype=object)
    if isinstance(batch.frames, list):
        frames = np.empty(len(batch.frames), dtype=object)
        for at, clip in enumerate(batch.frames):
            frames[at] = as_arrays(clip)
    else:
        frames = as_arrays(batch.frames) if hasattr(batch.frames, "drop_time") else np.asarray(batch.frames)
    for name, values in batch.columns.items():
        if isinstance(values, list):
            column = np.empty(len(values), dtype=object)
            column[:] = values
        else:
            column = values.numpy()
        rows[name] = column[kept]
    return {"frames": frames[kept], **rows}


def _path(source: Any) -> str | None:
    """Returns the path of the file, folder or archive of a sample."""
    for name in ("source", "folder", "file"):
        source = getattr(source, name, source)
    return None if isinstance(source, bytes) else os.fspath(source)
