"""Advice to use a disk cache, for loaders without one."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from framespool import _framespool
from framespool._common.ranks import data_loader_worker, is_first_process
from framespool.loaders._engine import Engine

#: How a loader gets a disk cache, for messages.
OPTION = "cache=framespool.Cache(disk=folder, disk_size=size, epochs=8)"

#: With shorter groups of pictures, the frames before a clip are few.
_LONG_GOP = 30


def wants_disk_cache_advice(settings: Mapping[str, Any]) -> bool:
    """Returns whether a loader without a disk cache logs what one would change.

    Args:
        settings: The settings of the loader.

    Returns:
        `False` in other processes than the first rank, and if it was logged before or level INFO is not enabled.
    """
    # A program that has not imported `logging` has not enabled level INFO, and importing it takes milliseconds.
    if settings["options"]["clip_store"] is not None or "logging" not in sys.modules:
        return False
    from framespool._common import logs

    if not logs.wants_disk_cache_advice():
        return False
    return (
        is_first_process(settings["order"]) and settings["order"]["num_workers"] == 1 and data_loader_worker() is None
    )


def advise_disk_cache(native: Engine, is_random: bool, stats: Mapping[str, Any]) -> None:
    """Logs what a disk cache would change, if it would save decoding.

    Args:
        native: The engine of the loader, after an epoch.
        is_random: The clip sampler is known to be random.
        stats: Its counters.
    """
    # Engines on Ray have indexes in other processes.
    gop = native.gop_without_disk_cache(is_random) if isinstance(native, _framespool.Loader) else None
    if gop is not None and gop > _LONG_GOP:
        from framespool._common import logs

        logs.disk_cache_advice(stats["frames_decoded"] / max(1, stats["clips"]), gop, OPTION)
