"""The clips of a dataset as a source of Ray Data."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import framespool
from framespool._common.validate_args import display_path, integer
from framespool.datasets._dataset import as_dataset
from framespool.errors import ArgumentError
from framespool.options import Shards
from framespool.options._files import quiet_index
from framespool.options._gpu import as_gpu
from framespool.options._order import resolve_seed
from framespool.ray._errors import import_ray
from framespool.ray._worker import as_arrays

#: Arguments of the loader that Ray Data replaces, with what to use there.
_REPLACED = {
    "shuffle": "random_shuffle() of the Ray dataset",
    **dict.fromkeys(
        ("shard_id", "num_shards"),
        "streaming_split() of the Ray dataset, or override_num_blocks= for the number of read tasks",
    ),
    "device": "iter_torch_batches(device=...), or a function of map_batches(num_gpus=...) that moves its batch",
    "last_batch": "iter_batches(drop_last=...)",
    "repeats": "flat_map() of the Ray dataset",
}

#: Columns of the rows, besides those of the dataset.
_COLUMNS = {"frames", "label", "indices", "pts_seconds", "mask", "video_id", "clip_id", "view_id", "path"}


class ClipSource:
    """The clips of a dataset as a `ray.data.Datasource`, one row per clip, for `ray.data.read_datasource`.

    Columns: `frames` (a tensor of T frames in the loader's layout), `label`, `indices`, `pts_seconds`, `mask`,
    `video_id` (index of the video in the whole dataset), `clip_id`, `view_id` (number of the clip within its video),
    `path` of the file (`None` for bytes), the columns of the dataset, and with `audio=` `audio` (C, S) and
    `audio_mask` (S,). With `group_clips=True` a row is a video with all its clips. Use transforms that give all frames
    the same size, so that `frames` has one shape.

    Rows are those of a `ClipLoader` with `shuffle=False`, each once, also with random clips and transforms, and do not
    depend on the number of read tasks. Each read task has a contiguous range of the clips and makes a block per batch.
    Ray Data may deliver blocks in another order; `sort(["video_id", "view_id"])` restores it. An error ends
    the read: the error of the local loader, which names the file, and which Ray extends by the traceback of the task.

    A clip sampler that counts clips by the lengths of the videos, such as `samplers.Windows()`, indexes all videos in
    each task: build an index cache that all nodes can read (docs/howto/indexing.md), or read few blocks. Files must
    then be readable on all nodes or on none, otherwise the ranges of the tasks overlap.

    Args:
        dataset: As for `framespool.ClipLoader`, but neither `datasets.mix()`, `datasets.weighted()` nor
            `datasets.lerobot()`. Relative paths start from this process's working directory.
        clip_sampler: As for `framespool.ClipLoader`.
        batch_size: Clips that a task makes at once; also the rows of a block, unless Ray Data joins or splits blocks.
        keywords: Other arguments of `framespool.ClipLoader`: `transforms`, `seed`, `layout`, `dtype`, `index`, …
            `num_threads` is by default the number of CPUs that Ray assigns to the task. `on_error="skip"` omits clips
            that cannot be made, `"replace"` replaces them by others.

    Raises:
        ArgumentError: If an argument is invalid or Ray Data replaces it, or the dataset is empty.
        UnsupportedError: If Ray Data is not installed.

    Example:
        >>> source = framespool.ray.ClipSource(  # doctest: +SKIP
        ...     fsp.datasets.folder("videos/"),
        ...     fsp.samplers.UniformClips(sequence_length=4),
        ...     transforms=[fsp.transforms.Resize((32, 32))],
        ... )
        >>> rows = ray.data.read_datasource(source, num_cpus=2)  # doctest: +SKIP
        >>> rows.map_batches(embed, batch_size=64).write_parquet("embeddings/")  # doctest: +SKIP
    """

    def __new__(cls, *_: Any, **__: Any) -> ClipSource:
        """Creates the object with Ray's base class, which is imported on first use."""
        import_ray("ray.data")
        named: Any = cls
        derived: type[ClipSource] = _derived(named)
        return object.__new__(derived)

    def __init__(self, dataset: Any, clip_sampler: Any, *, batch_size: int = 16, **keywords: Any) -> None:
        super().__init__()
        if as_gpu(keywords.get("device", "cpu")) is None:
            keywords.pop("device", None)
        _refuse_replaced(keywords)
        if keywords.get("dtype") == "bfloat16":
            raise ArgumentError('dtype="bfloat16" does not exist in Arrow and NumPy; use "float16" or "uint8"')
        self._dataset = _supported(dataset)
        self._clip_sampler = clip_sampler
        seed = resolve_seed(keywords.get("seed", 0))  # one for all read tasks
        self._keywords = {**keywords, "seed": seed, "batch_size": integer("batch_size", batch_size, least=1)}
        _validate(self._dataset, clip_sampler, self._keywords)

    def __reduce__(self) -> Any:
        return _restored, (vars(self),)

    def get_name(self) -> str:
        """Returns the name that Ray Data shows for the read tasks.

        Returns:
            The name.
        """
        return "ClipSource"

    def estimate_inmemory_data_size(self) -> int | None:
        """Returns the size of all rows in bytes, for Ray Data.

        Returns:
            `None`: the size depends on the videos and the transforms.
        """
        return None

    def get_read_tasks(self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None) -> Any:
        """Returns the read tasks, for Ray Data.

        Args:
            parallelism: Number of tasks; there are no more tasks than videos.
            per_task_row_limit: Maximum number of rows of a task.
            data_context: Not used.

        Returns:
            A list of `ray.data.ReadTask`, each with a contiguous range of the clips.
        """
        datasource, block = import_ray("ray.data.datasource"), import_ray("ray.data.block")
        tasks = max(1, min(parallelism, len(self._dataset)))
        # Sent once for all tasks.
        job = import_ray().put((os.getcwd(), self._dataset, self._clip_sampler, self._keywords))
        metadata = block.BlockMetadata(num_rows=None, size_bytes=None, exec_stats=None, input_files=None)
        return [
            datasource.ReadTask(_ReadTask(job, at, tasks), metadata, per_task_row_limit=per_task_row_limit)
            for at in range(tasks)
        ]


#: Classes with Ray's base class, by the class without it.
_DERIVED: dict[Any, Any] = {}


def _derived(cls: Any) -> Any:
    """Returns the class with Ray's base class, which `cls` cannot name: Ray is imported on first use."""
    base = import_ray("ray.data.datasource").Datasource
    if issubclass(cls, base):
        return cls
    return _DERIVED.setdefault(cls, type(cls.__name__, (cls, base), {"__module__": cls.__module__}))


def _restored(state: dict[str, Any]) -> ClipSource:
    """Returns a copy of a source on another process, where the derived class does not exist yet."""
    source = ClipSource.__new__(ClipSource)
    vars(source).update(state)
    return source


def _refuse_replaced(keywords: dict[str, Any]) -> None:
    """Refuses arguments whose work Ray Data does."""
    names = [name for name in keywords if name in _REPLACED]
    if names:
        hints = "; ".join(dict.fromkeys(_REPLACED[name] for name in names))
        raise ArgumentError(f"{', '.join(names)} cannot be set here, since Ray Data replaces it; use {hints}")


def _supported(dataset: Any) -> Any:
    """Returns the dataset if its clips can be rows."""
    found = as_dataset(dataset)
    if found._robots is not None:
        raise ArgumentError("datasets.lerobot() has no rows of clips; use framespool.ClipLoader")
    if found._weighted:
        raise ArgumentError(
            "a mixture or weighted dataset draws its clips, while each clip is one row here; pass its datasets one by "
            "one, and use union() and random_sample() of the Ray datasets"
        )
    taken = sorted(_COLUMNS & found.columns.keys())
    if taken:
        raise ArgumentError(
            f"rows of clips have columns named {', '.join(taken)}, which the dataset has, too; rename the dataset's"
        )
    if not len(found):
        raise ArgumentError("the dataset is empty; pass at least one file")
    return found


class _Valid(Exception):
    """The arguments of a loader are valid."""


class _UnopenedLoader(framespool.ClipLoader):
    """A loader that validates its arguments and then reads no file: this process may not have the files."""

    def _engine(self, *_: Any, **__: Any) -> Any:
        raise _Valid


def _validate(dataset: Any, clip_sampler: Any, keywords: dict[str, Any]) -> None:
    """Raises what a loader would raise about its arguments."""
    with contextlib.suppress(_Valid):
        _UnopenedLoader(dataset, clip_sampler, shard_id=0, num_shards=2, **keywords)


class _ReadTask:
    """The work of one read task: the shard `at` of `tasks`.

    A shard of the whole dataset, not a loader over a part of it: random clips and transforms depend on the number of a
    clip within the dataset.
    """

    def __init__(self, job: Any, at: int, tasks: int) -> None:
        self._job = job
        self._at = at
        self._tasks = tasks

    def _loader(self, dataset: Any, clip_sampler: Any, keywords: dict[str, Any], tasks: int) -> framespool.ClipLoader:
        return framespool.ClipLoader(
            dataset, clip_sampler, shard_id=self._at, num_shards=Shards(tasks, stick_to_shard=True), **keywords
        )

    def __call__(self) -> Iterator[Any]:
        ray, block = import_ray(), import_ray("ray.data.block")
        folder, dataset, clip_sampler, keywords = ray.get(self._job)
        keywords = {**keywords, "index": quiet_index(keywords.get("index"))}
        if keywords.get("num_threads") is None:
            keywords["num_threads"] = _assigned_cpus()
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


def _assigned_cpus() -> int | None:
    """Returns the CPUs that Ray assigned to this task, at least 1, which the operating system does not know.

    `None` in a process that is no worker: a read task that is called there has the threads of a local loader.
    """
    try:
        assigned = import_ray().get_runtime_context().get_assigned_resources()
    except AssertionError:
        return None
    return max(1, int(assigned.get("CPU", 1)))


def _rows(batch: Any, dataset: Any) -> dict[str, Any]:
    """Returns the columns of a batch, without padding clips."""
    import numpy as np

    kept = ~batch.padding.cpu().numpy()
    kept = slice(None) if kept.all() else kept  # a slice copies nothing
    names = {"labels": "label", "video_ids": "video_id", "clip_ids": "clip_id", "view_ids": "view_id"}
    names |= {name: name for name in ("indices", "pts_seconds", "mask")}
    if batch.audio is not None:
        names |= {"audio": "audio", "audio_mask": "audio_mask"}
    rows = {own: getattr(batch, name).cpu().numpy()[kept] for name, own in names.items()}
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
            column = values.cpu().numpy()
        rows[name] = column[kept]
    return {"frames": frames[kept], **rows}


def _path(source: Any) -> str | None:
    """Returns the path of the file, folder or archive of a sample."""
    for name in ("source", "folder", "file"):
        source = getattr(source, name, source)
    return None if isinstance(source, bytes) else display_path(os.fspath(source))
