"""Where a loader keeps finished clips until their batch: in memory and on disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from framespool._common.validate_args import byte_size, display_repr, integer, is_url
from framespool.errors import ArgumentError


@dataclass(frozen=True)
class Cache:
    """The clip cache of a loader: memory for the clips of an epoch, and a folder for those of later epochs.

    Clips that share decoded frames are made at the same time, and wait in memory until their batch is due. Less memory
    means more decoding, never another batch. Only the block of a grouped shuffle follows from the memory, once: a
    training that resumes keeps the block of its state.

    With `disk` the loader decodes videos less often. The frames and the random parameters of every epoch are known in
    advance: when a video is decoded for a clip, the loader also makes its clips of the next epochs, and stores them as
    8-bit frames. Each clip is read when its epoch comes, and deleted when that is over. Clips that are the same in
    every epoch, such as those of a validation set, are stored once. Batches are the same with and without it, byte for
    byte: a clip that is missing or damaged is decoded.

    All ranks and loaders of a machine may use the same folder, on a local disk. A run that is resumed finds its clips.
    Runs of which nothing was written for two weeks are deleted, and earlier ones if the space is needed. Videos in
    memory and those of servers that send neither an ETag nor a time are not stored. Batches may be on a GPU.

    Args:
        memory: Memory for clips that wait, in bytes or as `"512MiB"`; 0 keeps none. It also limits suspended decoders,
            but not the open batches. Give all ranks the same.
        device_memory: The same for clips that wait on the GPU, if the loader's `device` is one; `memory` then limits
            only suspended decoders. `None`: as large as `memory`.
        disk: The folder, which is created if it does not exist. Only what framespool has written is deleted. `None`:
            nothing is kept on disk.
        disk_size: Maximum size of all clips in `disk`, in bytes or as `"500GiB"`; required with `disk`. If it is full,
            clips of the latest epochs are not kept.
        epochs: Number of epochs for which a video is decoded at once, if there is a `disk`. With E epochs about E / 2
            clips per video are on disk, and the first epoch decodes (E + 1) / 2 clips per video.
        lookahead: Length of the lookahead window in clips, beyond the prefetched batches; with 0 only clips of these
            share decoded frames.

    Raises:
        ArgumentError: If an argument is invalid, or `disk_size` or `epochs` is given without `disk`.

    Example:
        >>> import framespool as fsp
        >>> loader = fsp.ClipLoader(
        ...     fsp.datasets.folder("videos/"),
        ...     fsp.samplers.RandomClips(sequence_length=4),
        ...     batch_size=2,
        ...     shuffle="full",
        ...     transforms=[fsp.transforms.RandomResizedCrop(32)],
        ...     cache=fsp.Cache("1GiB", disk="clips", disk_size="1GiB", epochs=2),
        ... )
        >>> for epoch in range(4):
        ...     for batch in loader:
        ...         pass
        >>> "disk_clips_read" in loader.stats()
        True
    """

    memory: int | str = "2GiB"
    _: KW_ONLY
    device_memory: int | str | None = None
    disk: str | os.PathLike[str] | None = None
    disk_size: int | str | None = None
    epochs: int = 8
    lookahead: int = 65536

    def __post_init__(self) -> None:
        byte_size("memory", self.memory)
        if self.device_memory is not None:
            byte_size("device_memory", self.device_memory)
        if self.disk is not None:
            folder = os.fspath(self.disk) if isinstance(self.disk, (str, os.PathLike)) else None
            if not isinstance(folder, str) or not folder or is_url(folder) or not _is_unicode(folder):
                raise ArgumentError(
                    f"disk must be a folder on a local disk whose name is Unicode, got {display_repr(self.disk)}"
                )
        if self.disk_size is not None:
            byte_size("disk_size", self.disk_size)
        integer("epochs", self.epochs, least=1, most=1 << 20)
        integer("lookahead", self.lookahead)
        if self.disk is not None and self.disk_size is None:
            raise ArgumentError(
                f"disk={self.disk!r} is given without disk_size; give the maximum size of all clips in the folder, "
                'such as disk_size="500GiB"'
            )
        for name in ("disk_size", "epochs"):
            if self.disk is None and getattr(self, name) != getattr(Cache, name):
                raise ArgumentError(
                    f"{name}={getattr(self, name)!r} is given without disk; give the folder of the clips, such as "
                    f'disk="/local/clips", or omit {name}'
                )

    def _for_engine(self) -> dict[str, Any]:
        """The settings of the engine, by their names there."""
        disk = None
        if self.disk is not None:
            folder = os.path.abspath(os.path.expanduser(self.disk))
            disk = {"folder": folder, "bytes": byte_size("disk_size", self.disk_size), "epochs": int(self.epochs)}
        return {
            "memory_budget": byte_size("memory", self.memory),
            "device_memory_budget": None
            if self.device_memory is None
            else byte_size("device_memory", self.device_memory),
            "clip_store": disk,
            "lookahead_clips": int(self.lookahead),
        }

    def _shared(self, share: Callable[[int], int]) -> Cache:
        """The cache of one of several native loaders, which use the same folder.

        Args:
            share: Returns the part of a number of bytes that one of them gets.
        """
        device = None if self.device_memory is None else share(byte_size("device_memory", self.device_memory))
        return replace(self, memory=share(byte_size("memory", self.memory)), device_memory=device)


def _is_unicode(folder: str) -> bool:
    try:
        folder.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_cache(cache: Cache | int | str) -> Cache:
    """Converts the argument `cache` of a loader.

    Args:
        cache: A `Cache`, or the size of its memory.

    Returns:
        The `Cache`.

    Raises:
        ArgumentError: If it is neither.
    """
    if isinstance(cache, Cache):
        return cache
    try:
        return Cache(byte_size("cache", cache))
    except ArgumentError as error:
        raise ArgumentError(f"{error}; for a folder or other options, use framespool.Cache") from None
