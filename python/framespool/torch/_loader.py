"""Loaders whose batches are PyTorch tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from framespool._common.pytorch import needed, page_locked, record_copies, tensors, torch
from framespool._common.tensor_methods import map_nested
from framespool.errors import ArgumentError
from framespool.loaders import _clips, _images
from framespool.loaders._base import BaseLoader
from framespool.loaders._lightning_epoch import LightningSampler
from framespool.options._order import is_sampler
from framespool.torch._distributed import rank_and_world


class ClipLoader(_clips.ClipLoader):
    """A `framespool.ClipLoader` for the process of one rank, whose batches hold `torch.Tensor`.

    `shard_id` and `num_shards` are those of `rank_and_world()` unless they are given. Create it after
    `torch.distributed.init_process_group`, or under torchrun.

    Args:
        dataset: As for `framespool.ClipLoader`.
        clip_sampler: As for `framespool.ClipLoader`.
        group: Process group, or one dimension of a `DeviceMesh`, over which the data is sharded; by default all ranks.
        keywords: All other arguments of `framespool.ClipLoader`.

    Raises:
        ArgumentError: As `rank_and_world()` and `framespool.ClipLoader`.
        UnsupportedError: If PyTorch is not installed.

    Example:
        >>> import framespool as fsp
        >>> import framespool.torch
        >>> dataset = fsp.datasets.folder("videos/")
        >>> loader = framespool.torch.ClipLoader(
        ...     dataset,
        ...     fsp.samplers.RandomClips(sequence_length=8),
        ...     batch_size=1,
        ...     transforms=[fsp.transforms.Resize((64, 64))],
        ... )
        >>> frames, labels = next(iter(loader))
        >>> type(frames), labels
        (<class 'torch.Tensor'>, tensor([0]))
    """

    def __init__(self, dataset: Any, clip_sampler: Any = None, *, group: Any = None, **keywords: Any) -> None:
        super().__init__(dataset, clip_sampler, **{**_shard(group, keywords), **keywords})

    def _batch(self, epoch: int, made: list[dict[str, Any]]) -> _clips.Batch:
        return super()._batch(epoch, made).torch()


class ImageLoader(_images.ImageLoader):
    """A `framespool.ImageLoader` for the process of one rank, whose batches hold `torch.Tensor`; see `ClipLoader`.

    Args:
        dataset: As for `framespool.ImageLoader`.
        group: As for `ClipLoader`.
        keywords: All other arguments of `framespool.ImageLoader`.

    Raises:
        ArgumentError: As `rank_and_world()` and `framespool.ImageLoader`.
        UnsupportedError: If PyTorch is not installed.

    Example:
        >>> import framespool as fsp
        >>> import framespool.torch
        >>> photos = fsp.datasets.image_folder("photos/")
        >>> loader = framespool.torch.ImageLoader(photos, batch_size=4, transforms=[fsp.transforms.Resize((64, 64))])
        >>> next(iter(loader)).images.shape
        torch.Size([4, 3, 64, 64])
    """

    def __init__(self, dataset: Any, *, group: Any = None, **keywords: Any) -> None:
        super().__init__(dataset, **{**_shard(group, keywords), **keywords})

    def _batch(self, epoch: int, made: list[dict[str, Any]]) -> _images.ImageBatch:
        return super()._batch(epoch, made).torch()


def _shard(group: Any, keywords: Mapping[str, Any]) -> dict[str, int]:
    """Returns the shard of this rank, unless the caller gives one."""
    needed()
    given = [name for name in ("shard_id", "num_shards") if name in keywords]
    if not given and is_sampler(keywords.get("shuffle")):
        given = ["shuffle"]  # divides the clips itself
    if not given:
        return rank_and_world(group)
    if group is not None:
        raise ArgumentError(f"group= and {given[0]}= both select the shard of this rank; pass one of them")
    return {}


class TorchLoader:
    """Wraps a loader so that its batches are dicts of `torch.Tensor`.

    The names in a batch are those of `Batch` or `ImageBatch`. If the transforms give frames of different sizes, there
    is a list of tensors. `len`, `set_epoch()`, `state_dict()` and `load_state_dict()` are the loader's own.

    Args:
        loader: A `framespool.ClipLoader` or `framespool.ImageLoader`; available as attribute `loader`.
        device: Device that tensors are moved to (`non_blocking`). By default they stay on the loader's device and
            share its memory.
        epoch: Function that returns the epoch of an iteration, called when it starts, for frameworks that count epochs
            themselves. By default each iteration is the next epoch.

    Raises:
        ArgumentError: If `loader` is not a loader.
        UnsupportedError: If PyTorch is not installed.

    Example:
        >>> loader = fsp.ClipLoader(  # doctest: +SKIP
        ...     dataset,
        ...     fsp.samplers.RandomClips(sequence_length=16),
        ...     batch_size=8,
        ...     transforms=[fsp.transforms.Resize((112, 112))],
        ... )
        >>> for batch in framespool.torch.TorchLoader(loader, device="cuda"):  # doctest: +SKIP
        ...     print(batch["frames"].shape)  # torch.Size([8, 16, 3, 112, 112])
    """

    def __init__(self, loader: BaseLoader[Any], *, device: Any = None, epoch: Callable[[], int] | None = None) -> None:
        needed()
        if not isinstance(loader, BaseLoader):
            raise ArgumentError(f"loader must be a ClipLoader or an ImageLoader, got {loader!r}")
        self.loader = loader
        self._device = device
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if self._epoch is not None:
            self.loader.set_epoch(self._epoch())
        # The loader starts now, not when the first batch is requested.
        return self._batches(self._start())

    def _start(self) -> Iterator[Any]:
        return iter(self.loader)

    def _batches(self, batches: Iterator[Any]) -> Iterator[dict[str, Any]]:
        # Not a generator, which would end at an error: the batches after it are still available.
        return map(self._placed, batches)

    def _placed(self, batch: Any) -> dict[str, Any]:
        converted = tensors(batch)
        if self._device is None:
            return converted
        placed = {name: _moved(value, self._device) for name, value in converted.items()}
        record_copies(page_locked(batch), self._device)
        return placed

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration delivers; see `ClipLoader.epoch`."""
        return self.loader.epoch if self._epoch is None else self._epoch()

    @property
    def batch_sampler(self) -> LightningSampler:
        """For Lightning; see `ClipLoader.batch_sampler`."""
        return LightningSampler(self, self.loader, self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """Selects the epoch; see `ClipLoader.set_epoch()`.

        Args:
            epoch: Epoch, from 0.
        """
        self.loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Returns the loader's position; see `ClipLoader.state_dict()`.

        Returns:
            A state for `load_state_dict()`.
        """
        return self.loader.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restores a position; see `ClipLoader.load_state_dict()`.

        Args:
            state_dict: What `state_dict()` returned.
        """
        self.loader.load_state_dict(state_dict)

    def stats(self, *, flat: bool = False) -> dict[str, Any]:
        """Returns counters; see `ClipLoader.stats()`.

        Args:
            flat: As there.

        Returns:
            Counters by name.
        """
        return self.loader.stats(flat=flat)


def _moved(value: Any, device: Any) -> Any:
    # Without a synchronization, a non-blocking copy to the host could be read before it completes.
    non_blocking = torch.device(device).type != "cpu"
    return map_nested(value, "to", lambda tensor: tensor.to(device, non_blocking=non_blocking))
