"""Loaders whose batches are made on a Ray cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import framespool
from framespool._common.validate_args import boolean, integer, number
from framespool.datasets import Dataset
from framespool.errors import ArgumentError
from framespool.loaders._engine import Engine
from framespool.options._gpu import as_gpu
from framespool.options._order import as_shards
from framespool.ray._remote_engine import RemoteEngine
from framespool.ray._worker_pool import PoolOptions, WorkerPool


class _Distributed:
    """Common base of both loaders, which creates their engines."""

    _pool: WorkerPool | None = None
    _pool_options: PoolOptions | None = None
    _in_flight = 2
    _copy = True

    def _sign(
        self,
        keywords: dict[str, Any],
        *,
        num_workers: int,
        address: str | None,
        num_cpus_per_worker: float,
        resources: Mapping[str, float] | None,
        scheduling_strategy: Any,
        runtime_env: Mapping[str, Any] | None,
        in_flight: int,
        copy: bool,
        start_timeout: float,
        distribute_mode: bool,
    ) -> None:
        """Validates the arguments that the local loader does not have, and those with another meaning here."""
        if as_shards(keywords.get("num_shards", 1)).num_workers > 1:
            raise ArgumentError(
                "Shards(worker_id=) is set by the loader, which numbers its num_workers workers; remove it"
            )
        if address is not None and not isinstance(address, str):
            raise ArgumentError(f'address must be None, "auto", "ray://host:port" or "host:port", got {address!r}')
        pool_options = PoolOptions(
            address=address,
            num_workers=integer("num_workers", num_workers, least=1, most=65536),
            num_cpus=number("num_cpus_per_worker", num_cpus_per_worker, least=0),
            resources=resources,
            scheduling_strategy=scheduling_strategy,
            runtime_env=runtime_env,
            start_timeout=number("start_timeout", start_timeout, above=0),
        )
        self._in_flight = integer("in_flight", in_flight, least=1, most=1024)
        self._copy = boolean("copy", copy)
        if not boolean("distribute_mode", distribute_mode):
            return
        self._pool_options = pool_options
        if as_gpu(keywords.get("device", "cpu")) is not None:
            raise ArgumentError(
                f'device must be "cpu", got {keywords["device"]!r}: workers deliver batches in host memory; '
                "move them with batch.frames.torch().to(device)"
            )
        if keywords.get("num_threads") is None:
            # The CPUs that Ray reserves cannot be queried from the operating system.
            keywords["num_threads"] = max(1, int(pool_options.num_cpus))

    def _engine(self, dataset: Dataset, sampler_spec: Any, steps: list[Any], settings: dict[str, Any]) -> Engine:
        if self._pool_options is None:
            return cast(Engine, super()._engine(dataset, sampler_spec, steps, settings))  # type: ignore[misc]
        if getattr(self, "_samples", None) is not None:
            raise ArgumentError(
                "workers on Ray need samples of one source; for datasets.Sources use distribute_mode=False, or "
                "framespool.ClipLoader"
            )
        if self._pool is None:
            self._pool = WorkerPool(self._pool_options)
        try:
            return RemoteEngine(self._pool, dataset, sampler_spec, steps, settings, self._in_flight, self._copy)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stops the workers, or the work of a local loader. The loader delivers nothing after that."""
        if self._pool is not None:
            self._pool.close()
        elif hasattr(self, "_native"):
            self._cancel()  # type: ignore[attr-defined]

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ClipLoader(_Distributed, framespool.ClipLoader):
    """`framespool.ClipLoader` on a Ray cluster: the same batches in the same order, made by worker processes.

    It delivers the same `Batch`, bit for bit, in every epoch. States are those of the local loader, and each fits the
    other. Tensors are `ray.Tensor`, with the names of `framespool.video.Tensor`.

    These arguments of the local loader differ: `num_threads`, `prefetch_batches` and the memory of `cache` are per
    worker, `device` must be `"cpu"`, `Index(progress=)` has no effect, and a callable at the end of the transforms runs
    in this process, on the consumer's thread. The workers of a node share the folder `disk` of a `Cache`.

    Paths must be valid on every node with workers; relative ones start from this process's working directory. Errors of
    files are raised here in place of their batches, as locally, and name the node. With several trainers each has its
    own loader, with `shard_id` and `num_shards`, and its own workers.

    A worker that is lost, alone or with its node, is replaced, and its batches are made again; meanwhile other workers
    make its batches. A batch whose workers are lost three times is replaced by a `WorkerError`.

    `stats()` sums the counters of all workers; of lost ones, those that they reported. It adds `bytes_received`,
    `receiving_seconds` (reading from the object store, and copying), `workers_by_node` and `workers_lost`. The
    workers stop at `close()`, at the end of a `with` block, and when the loader is deleted.

    Inside Ray Train reserve CPUs for the workers beyond those of the trainers
    (`ScalingConfig(resources_per_worker=...)`), or name the placement group in `scheduling_strategy`. See
    docs/howto/ray.md.

    Args:
        dataset: As for `framespool.ClipLoader`.
        clip_sampler: As for `framespool.ClipLoader`.
        num_workers: Number of actors. Worker *w* makes the batches *w*, *w* + `num_workers`, …
        address: Address of the cluster, as for `ray.init`, which is called if the program has not called it; Ray is
            never shut down.
        num_cpus_per_worker: CPUs that each worker requests, and its default `num_threads`.
        resources: Further resources that each worker requests, by name.
        scheduling_strategy: Ray's strategy. By default workers run wherever there is room, outside a placement group
            that the program may run in.
        runtime_env: Ray's runtime environment for the workers.
        in_flight: Batches that each worker may make or keep ahead of the delivered ones. Ray's object store holds up to
            `num_workers * in_flight` of them.
        copy: `True`: a batch is copied from Ray's object store, where it is read-only and takes space. `False`: it
            stays there as long as it is referenced; `.numpy()` is then read-only, and `.torch()` and DLPack copy.
        start_timeout: Seconds to wait for the first worker before an error.
        distribute_mode: `False`: a local loader; the arguments about workers are ignored.
        keywords: All other arguments of `framespool.ClipLoader`.

    Raises:
        ArgumentError: If an argument is invalid.
        UnsupportedError: If Ray is not installed.
        WorkerError: If no worker starts within `start_timeout`.

    Example:
        >>> loader = framespool.ray.ClipLoader(  # doctest: +SKIP
        ...     fsp.datasets.folder("videos/"),
        ...     fsp.samplers.RandomClips(sequence_length=8),
        ...     batch_size=2,
        ...     transforms=[fsp.transforms.Resize((64, 64))],
        ...     num_workers=4,
        ... )
        >>> with loader:  # doctest: +SKIP
        ...     for batch in loader:
        ...         print(batch.frames.shape)  # (2, 8, 3, 64, 64)
    """

    def __init__(
        self,
        dataset: Any,
        clip_sampler: Any = None,
        *,
        num_workers: int = 2,
        address: str | None = None,
        num_cpus_per_worker: float = 1,
        resources: Mapping[str, float] | None = None,
        scheduling_strategy: Any = None,
        runtime_env: Mapping[str, Any] | None = None,
        in_flight: int = 2,
        copy: bool = True,
        start_timeout: float = 300.0,
        distribute_mode: bool = True,
        **keywords: Any,
    ) -> None:
        self._sign(
            keywords,
            num_workers=num_workers,
            address=address,
            num_cpus_per_worker=num_cpus_per_worker,
            resources=resources,
            scheduling_strategy=scheduling_strategy,
            runtime_env=runtime_env,
            in_flight=in_flight,
            copy=copy,
            start_timeout=start_timeout,
            distribute_mode=distribute_mode,
        )
        super().__init__(dataset, clip_sampler, **keywords)


class ImageLoader(_Distributed, framespool.ImageLoader):
    """`framespool.ImageLoader` on a Ray cluster; see `ClipLoader` for how workers behave.

    The workers that make the images of a batch also make its masks.

    Args:
        dataset: As for `framespool.ImageLoader`.
        num_workers: Number of actors. Worker *w* makes the batches *w*, *w* + `num_workers`, …
        address: Address of the cluster, as for `ray.init`, which is called if the program has not called it; Ray is
            never shut down.
        num_cpus_per_worker: CPUs that each worker requests, and its default `num_threads`.
        resources: Further resources that each worker requests, by name.
        scheduling_strategy: Ray's strategy. By default workers run wherever there is room, outside a placement group
            that the program may run in.
        runtime_env: Ray's runtime environment for the workers.
        in_flight: Batches that each worker may make or keep ahead of the delivered ones. Ray's object store holds up to
            `num_workers * in_flight` of them.
        copy: `True`: a batch is copied from Ray's object store, where it is read-only and takes space. `False`: it
            stays there as long as it is referenced; `.numpy()` is then read-only, and `.torch()` and DLPack copy.
        start_timeout: Seconds to wait for the first worker before an error.
        distribute_mode: `False`: a local loader; the arguments about workers are ignored.
        keywords: All other arguments of `framespool.ImageLoader`.

    Raises:
        ArgumentError: If an argument is invalid.
        UnsupportedError: If Ray is not installed.
        WorkerError: If no worker starts within `start_timeout`.

    Example:
        >>> import framespool as fsp
        >>> loader = fsp.ray.ImageLoader(  # doctest: +SKIP
        ...     fsp.datasets.image_folder("photos/"),
        ...     batch_size=4,
        ...     transforms=[fsp.transforms.Resize((64, 64))],
        ...     num_workers=2,
        ... )
        >>> for batch in loader:  # doctest: +SKIP
        ...     batch.images.torch()
    """

    def __init__(
        self,
        dataset: Any,
        *,
        num_workers: int = 2,
        address: str | None = None,
        num_cpus_per_worker: float = 1,
        resources: Mapping[str, float] | None = None,
        scheduling_strategy: Any = None,
        runtime_env: Mapping[str, Any] | None = None,
        in_flight: int = 2,
        copy: bool = True,
        start_timeout: float = 300.0,
        distribute_mode: bool = True,
        **keywords: Any,
    ) -> None:
        self._sign(
            keywords,
            num_workers=num_workers,
            address=address,
            num_cpus_per_worker=num_cpus_per_worker,
            resources=resources,
            scheduling_strategy=scheduling_strategy,
            runtime_env=runtime_env,
            in_flight=in_flight,
            copy=copy,
            start_timeout=start_timeout,
            distribute_mode=distribute_mode,
        )
        super().__init__(dataset, **keywords)
