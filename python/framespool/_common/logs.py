"""What the package writes to Python's `logging`: failures of loaders and of the index cache.

The engine calls these functions on the thread that takes batches or reads statistics, never on a worker.
"""

from __future__ import annotations

import logging
import os
import threading
import time

_loader = logging.getLogger("framespool.loader")
_index = logging.getLogger("framespool.index")

#: Warnings of failed files in each interval; the others of that interval are omitted.
_MAX_WARNINGS = 20
_INTERVAL_SECONDS = 60.0

_lock = threading.Lock()
_reported_places: set[str] = set()
_disk_cache_advised = False
_interval_start = -_INTERVAL_SECONDS
_num_warnings = 0


def index_cache_error(place: str | os.PathLike[str], reason: str) -> None:
    """Warns that an index cache cannot be used, once per process and folder.

    Args:
        place: Folder of the cache.
        reason: The error, which names the file.
    """
    with _lock:
        if os.fspath(place) in _reported_places:
            return
        _reported_places.add(os.fspath(place))
    _index.warning(
        "the index cache in %s cannot be used, and videos are indexed without it: %s; select another folder with "
        "index= or FRAMESPOOL_INDEX, or index=False for none",
        os.fspath(place),
        reason,
    )


def wants_disk_cache_advice() -> bool:
    """Returns whether `disk_cache_advice()` would write something.

    Returns:
        `False` if it was called before, or if the level INFO is not enabled.
    """
    return not _disk_cache_advised and _loader.isEnabledFor(logging.INFO)


def disk_cache_advice(frames_per_clip: float, gop: float, option: str) -> None:
    """Logs what a disk cache would change, once per process.

    Args:
        frames_per_clip: Frames decoded for each clip so far.
        gop: Mean distance of keyframes in frames.
        option: The option of the loader.
    """
    global _disk_cache_advised
    with _lock:
        if _disk_cache_advised:
            return
        _disk_cache_advised = True
    _loader.info(
        "%.0f frames were decoded for each clip, because keyframes are %.0f frames apart and each video has one clip "
        "per epoch; with %s a video is decoded once for several epochs, and framespool.tools.probe(loader) states what "
        "that saves",
        frames_per_clip,
        gop,
        option,
    )


def loader_failures(replaced: bool, failures: list[tuple[str, str, bool]], omitted: int) -> None:
    """Logs failures: each at level DEBUG, and the first of each file as a warning.

    Args:
        replaced: Whether the loader replaces clips; else it skips them.
        failures: Message, kind, and whether it is the first failure of its file.
        omitted: Number of further failures that were too many to be listed.
    """
    action = "replaced" if replaced else "skipped"
    for message, kind, is_first in failures:
        if is_first and (last := _is_warned()) is not None:
            _loader.warning("clips of a file are %s (%s): %s", action, kind, message)
            if last:
                _loader.warning(
                    "further warnings are omitted for %.0f s; failures() of the loader lists all", _INTERVAL_SECONDS
                )
        else:
            _loader.debug("%s (%s): %s", action, kind, message)
    if omitted:
        _loader.debug("%s: %d more failures", action, omitted)


def _is_warned() -> bool | None:
    """Whether a warning is the last one of its interval; `None` if the interval has enough of them already."""
    global _interval_start, _num_warnings
    with _lock:
        now = time.monotonic()
        if now - _interval_start >= _INTERVAL_SECONDS:
            _interval_start, _num_warnings = now, 0
        _num_warnings += 1
        return None if _num_warnings > _MAX_WARNINGS else _num_warnings == _MAX_WARNINGS
