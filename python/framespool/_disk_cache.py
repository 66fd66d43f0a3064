"""Where a loader keeps clips on disk."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from framespool._ranks import data_loader_worker, is_first_process
from framespool._validate_args import byte_size, integer
from framespool.errors import ArgumentError

#: How a loader gets a disk cache, for messages.
OPTION = "disk_cache=framespool.DiskCache(folder, size, epochs=8)"

#: With shorter groups of pictures, the frames before a clip are few.
_LONG_GOP = 30


@dataclass(frozen=True)
class DiskCache:
    """A folder in which a `ClipLoader` keeps finished clips of later epochs, so that it decodes videos less often.

    The frames and the random parameters of every epoch are known in advance. When a video is decoded for a clip, the
    loader also makes its clips of the next epochs, and stores them as 8-bit frames. Each clip is read when its epoch
    comes, and deleted when that is over. Clips that are the same in every epoch, such as those of a validation set, are
    stored once. Batches are the same with and without it, byte for byte: a clip that is missing or damaged is decoded.

    All ranks and loaders of a machine may use the same folder, on a local disk. A run that is resumed finds its clips.
    Runs of which nothing was written for two weeks are deleted, and earlier ones if the space is needed. Videos in
    memory and those of servers that send neither an ETag nor a time are not stored.

    Args:
        folder: The folder, which is created if it does not exist. Only what framespool has written is deleted.
        size: Maximum size of all clips in it, in bytes or as `"500GiB"`. If it is full, clips of the latest epochs
            are not kept.
        epochs: Number of epochs for which a video is decoded at once. With E epochs about E / 2 clips per video are on
            disk, and the first epoch decodes (E + 1) / 2 clips per video.

    Raises:
        ArgumentError: If an argument is invalid.

    Example:
        >>> import framespool as fsp
        >>> loader = fsp.ClipLoader(
        ...     fsp.datasets.folder("videos/"),
        ...     fsp.samplers.random(sequence_length=4),
        ...     batch_size=2,
        ...     shuffle="full",
        ...     transforms=[fsp.transforms.RandomResizedCrop(32)],
        ...     disk_cache=fsp.DiskCache("clips", "1GiB", epochs=2),
        ... )
        >>> for epoch in range(4):
        ...     for batch in loader:
        ...         pass
        >>> loader.stats()["disk_clips_read"] > 0
        True
    """

    folder: str | os.PathLike[str]
    size: int | str
    epochs: int = 8

    def __post_init__(self) -> None:
        if not isinstance(self.folder, (str, os.PathLike)) or not os.fspath(self.folder):
            raise ArgumentError(f"folder must be a path, got {self.folder!r}")
        byte_size("size", self.size)
        integer("epochs", self.epochs, least=1, most=1 << 20)

    def settings(self) -> tuple[str, int, int]:
        """Returns the settings as the engine takes them.

        Returns:
            Folder, bytes and epochs.
        """
        return os.path.abspath(os.fspath(self.folder)), byte_size("size", self.size), self.epochs


def disk_settings(cache: object) -> tuple[str, int, int] | None:
    """Checks the argument `disk_cache` of a loader.

    Args:
        cache: The argument.

    Returns:
        Folder, bytes and epochs; `None` if nothing is kept on disk.

    Raises:
        ArgumentError: If it is neither a `DiskCache` nor `None`.
    """
    if cache is None:
        return None
    if not isinstance(cache, DiskCache):
        raise ArgumentError(
            f'disk_cache must be a DiskCache, such as framespool.DiskCache("/local/clips", "500GiB"), got {cache!r}'
        )
    return cache.settings()


def wants_disk_cache_advice(settings: Mapping[str, Any]) -> bool:
    """Returns whether a loader without a disk cache logs what one would change.

    Args:
        settings: The settings of the loader.

    Returns:
        `False` in other processes than the first rank, and if it was logged before or level INFO is not enabled.
    """
    # A program that has not imported `logging` has not enabled level INFO, and importing it takes milliseconds.
    if settings["disk_cache"] is not None or "logging" not in sys.modules:
        return False
    from framespool import _logs

    if not _logs.wants_disk_cache_advice():
        return False
    return (
        is_first_process(settings["order"]) and settings["order"]["num_workers"] == 1 and data_loader_worker() is None
    )


def advise_disk_cache(native: Any, is_random: bool, stats: Mapping[str, Any]) -> None:
    """Logs what a disk cache would change, if it would save decoding.

    Args:
        native: The native loader, after an epoch.
        is_random: The clip sampler is known to be random.
        stats: Its counters.
    """
    # Engines on Ray have indexes in other processes.
    inspect = getattr(native, "gop_without_disk_cache", None)
    gop = None if inspect is None else inspect(is_random)
    if gop is not None and gop > _LONG_GOP:
        from framespool import _logs

        _logs.disk_cache_advice(stats["frames_decoded"] / max(1, stats["clips"]), gop, OPTION)
