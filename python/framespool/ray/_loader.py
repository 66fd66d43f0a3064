"""Loaders whose batches are made on a Ray cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import framespool
from framespool import _framespool
from framespool._validate_args import boolean, device_number, integer, number
from framespool.datasets import Dataset
from framespool.errors import ArgumentError
from framespool.ray._remote_engine import RemoteEngine
from framespool.ray._worker_pool import PoolOptions, WorkerPool


class _Distributed:
    """What both loaders have in common: their loaders are made here."""

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
        """Checks the keywords that are not the local loader's, and the ones among those that mean something else."""
        if "worker_id" in keywords:
            raise ArgumentError("worker_id is chosen by the loader, which gives each of its num_workers a number")
        if keywords.get("dtype") == "uint16":
            # Arrays of uint16 stand for bfloat16 on the way through the object store.
            raise ArgumentError('dtype "uint16" cannot be had from Ray\'s workers; use "float32" or "float16"')
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
        if device_number(keywords.get("device", "cpu")) is not None:
            raise ArgumentError(
                f'device must be "cpu", got {keywords["device"]!r}: batches of workers arrive in memory of the host; '
                "move them with batch.frames.torch().to(device)"
            )
        if keywords.get("num_threads") is None:
            # Ray's promise of CPUs is not one that a process could ask the operating system for.
            keywords["num_threads"] = max(1, int(pool_options.num_cpus))

    def _engine(self, dataset: Dataset, rule: Any, steps: list[Any], settings: dict[str, Any]) -> _framespool.Loader:
        if self._pool_options is None:
            return _framespool.Loader(dataset._for_engine(), rule, steps, settings)
        if self._pool is None:
            self._pool = WorkerPool(self._pool_options)
        try:
            native = RemoteEngine(self._pool, dataset, rule, steps, settings, self._in_flight, self._copy)
        except BaseException:
            self.close()
            raise
        return cast(_framespool.Loader, native)

    def close(self) -> None:
        """Ends the workers, or the work of a local loader. The loader delivers nothing after that."""
        if self._pool is not None:
            self._pool.close()
        elif hasattr(self, "_native"):
            self._cancel()  # type: ignore[attr-defined]

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ClipLoader(_Distributed, framespool.ClipLoader):
    """:class:`framespool.ClipLoader` on a Ray cluster: the same batches in the same order, made by ``num_workers``
    processes on any of its machines.

    Takes all keywords of the local loader, which mean the same, and delivers the same :class:`~framespool.Batch`, bit
    for bit, in every epoch; states are the local loader's, and fit either. Only the order of other things differs:
    ``num_threads``, ``prefetch_batches``, ``memory_budget`` and ``lookahead_clips`` are each worker's (by default as many threads as
    ``num_cpus_per_worker``), ``device`` must be ``"cpu"``, and a callable at the end of the transforms runs here, on
    the consumer's thread.

    ``num_workers``: actors, of which worker *w* makes the batches *w*, *w* + ``num_workers``, … ``num_cpus_per_worker``
    and ``resources``: what each asks of the cluster. ``address``: of the cluster, as in ``ray.init``, which is called
    where the program has not done so; Ray is never shut down. ``in_flight``: batches that each worker may have made or
    be making beyond what was delivered; Ray's object store holds up to ``num_workers * in_flight`` of them.
    ``scheduling_strategy``: as in Ray; by default workers are put wherever there is room, outside a placement group
    that the program may run in. Inside Ray Train leave CPUs for them beyond those of the trainers
    (``ScalingConfig(resources_per_worker=...)``), or name the group in the strategy. ``runtime_env``: Ray's, for the
    workers. ``start_timeout``: seconds after which it is an error that no worker has come.

    ``copy=True``: a batch is copied from Ray's object store, where it is read-only and takes room from others, into
    memory of its own. ``copy=False``: it stays there as long as anything refers to it; ``.numpy()`` is then read-only,
    and ``.torch()`` and DLPack make the copy. Tensors are :class:`framespool.ray.Tensor`, which has the names of
    :class:`framespool.Tensor`.

    Paths must be good on every node that has workers; relative ones are taken from this process' folder. Errors of
    files are raised here in place of their batches, as locally, and say on which node they happened. A worker that is
    lost, alone or with its node, is replaced and its batches are made again; meanwhile others take its turns. A batch
    whose workers are lost three times is given up with a :class:`WorkerError` in its place.

    With several trainers each has a loader of its own, with ``shard_id`` and ``num_shards``, and workers of its own.
    :meth:`stats` adds up all workers, the lost ones too as far as they told, and has ``bytes_received``,
    ``receiving_seconds`` (out of the object store, and copying), ``workers_by_node`` and ``workers_lost`` besides.
    :meth:`close`, the end of a ``with`` block, and the end of the loader itself end the workers.
    ``distribute_mode=False`` makes it a local loader: what is said of workers is then ignored.
    """

    def __init__(
        self,
        dataset: Any,
        clip_sampler: Any,
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
    """:class:`framespool.ImageLoader` on a Ray cluster; what :class:`ClipLoader` says of workers holds here too.

    Masks are made by the same workers, in turn with their images.
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
