"""Clips as rows of a Ray Data dataset."""

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

#: Decided by what a dataset of Ray Data is: each clip once, in blocks that it puts in order itself.
_NOT_HERE = (
    *("shuffle", "initial_fill", "order", "last_batch", "device"),
    *("shard_id", "num_shards", "stick_to_shard", "worker_id", "num_workers"),
)


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
    """The clips of a dataset as a ``ray.data.Dataset``, one row each, decoded when rows are asked for.

    Columns: ``frames`` (a tensor, T frames in the loader's layout), ``label``, ``indices``, ``pts_seconds``, ``mask``,
    ``video_id``, ``clip_id``, ``view_id`` and ``path`` of the file (``None`` where there is none). Give transforms that
    make all frames the same size, so that ``frames`` has one shape.

    ``dataset``, ``clip_sampler`` and the keywords that are left are those of :class:`framespool.ClipLoader`; rows are the
    clips of its epoch 0, each once. What decides order and ranks (``shuffle``, ``shard_id``, …) is refused: use Ray
    Data's ``random_shuffle`` and ``streaming_split``. For training, where order and resuming matter, use
    :class:`ClipLoader`.

    ``override_num_blocks``: read tasks; each has a stretch of the dataset, so that clips of one video share their
    decoding. ``batch_size``: clips that are made at once; also rows of a block, unless Ray Data joins blocks.
    ``num_cpus``: of each read task, and its threads. ``on_error="skip"`` leaves clips out, ``"replace"`` puts others in
    their places, ``"raise"`` ends the read with the file's error. A rule that counts clips by the videos' lengths is
    counted by each task: files must be readable on all nodes or on none, else stretches overlap.
    """
    data = import_ray("ray.data")
    refused = [name for name in _NOT_HERE if name in keywords]
    if refused:
        raise ArgumentError(
            f"{', '.join(refused)} cannot be chosen here: each clip comes once, and Ray Data orders blocks itself; "
            "use random_shuffle() or streaming_split() of the dataset, or framespool.ray.ClipLoader"
        )
    choice("on_error", keywords.get("on_error", "raise"), ("raise", "skip", "replace"))
    sources = as_dataset(dataset)
    if not len(sources):
        raise ArgumentError("the dataset is empty; give at least one file")
    if not isinstance(clip_sampler, ClipSampler):
        clip_sampler = custom(clip_sampler)
    keywords.setdefault("num_threads", max(1, int(num_cpus)))
    keywords["batch_size"] = integer("batch_size", batch_size, least=1)
    source = _source(sources, clip_sampler, keywords)
    given = {"concurrency": concurrency, "override_num_blocks": override_num_blocks}
    given = {name: value for name, value in given.items() if value is not None}
    return data.read_datasource(source, num_cpus=num_cpus, **dict(ray_remote_args or {}), **given)


def _source(dataset: Any, clip_sampler: Any, keywords: dict[str, Any]) -> Any:
    """What Ray Data can read from. Its class is made here, since the base class is known only once Ray is imported."""
    datasource = import_ray("ray.data.datasource")
    block = import_ray("ray.data.block")
    ray = import_ray()

    def estimate(self: Any) -> None:
        """Only the transforms and the videos could tell."""

    def read_tasks(self: Any, parallelism: int, per_task_row_limit: int | None = None, **_: Any) -> list[Any]:
        """A stretch of the dataset for each."""
        tasks = max(1, min(parallelism, len(dataset)))
        # Sent once, however many tasks there are.
        job = ray.put((os.getcwd(), dataset, clip_sampler, keywords))
        facts = block.BlockMetadata(num_rows=None, size_bytes=None, exec_stats=None, input_files=None)
        return [
            datasource.ReadTask(_ReadTask(job, at, tasks), facts, per_task_row_limit=per_task_row_limit)
            for at in range(tasks)
        ]

    methods = {"estimate_inmemory_data_size": estimate, "get_read_tasks": read_tasks}
    return type("ClipDatasource", (datasource.Datasource,), methods)()


class _ReadTask:
    """What one read task does."""

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
        with contextlib.suppress(OSError):  # where it does not exist, relative paths are files that are not there
            os.chdir(folder)
        try:
            try:
                loader = self._loader(dataset, clip_sampler, keywords, self._tasks)
            except ArgumentError:
                # Videos too short for a clip may leave fewer clips than tasks, and the last of these without work.
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
    """The columns of a batch, without clips that only fill it."""
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
    return {"frames": frames[kept], **rows}


def _path(source: Any) -> str | None:
    """The file, folder or archive of an entry."""
    for name in ("source", "folder", "file"):
        source = getattr(source, name, source)
    return None if isinstance(source, bytes) else os.fspath(source)
