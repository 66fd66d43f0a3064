"""Reports how many videos are indexed: while a loader is created, and in its first epoch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from framespool import _framespool
from framespool._common.progress import Progress, is_terminal
from framespool.errors import Error

#: Shorter waits show nothing, and the interval of updates after that.
_DELAY_SECONDS, _INTERVAL_SECONDS = 1.0, 0.2


class IndexProgress:
    """What `Index.progress` of a loader requests.

    Args:
        option: `None`: a display if stderr is a terminal and `quiet` is false. `True` or `False`: always or never. Or a
            function of (done, total).
        total: Number of samples.
        quiet: Whether other processes of the same terminal display their progress.
    """

    def __init__(self, option: Any, total: int, *, quiet: bool) -> None:
        self._function: Callable[[int, int], object] | None = option if callable(option) else None
        self._displays = option is True or (option is None and not quiet and is_terminal())
        self._total = total
        #: Whether the videos are indexed, or the first epoch has begun.
        self._is_over = False

    @contextmanager
    def creation(self) -> Iterator[Callable[[int, int, int], object] | None]:
        """The time in which a loader is created.

        Yields:
            What the engine calls with (done, failed, total) if it indexes all videos now.
        """
        if self._function is None and not self._displays:
            yield None
            return
        with Progress("videos indexed", delay_seconds=_DELAY_SECONDS, anywhere=self._displays) as display:

            def report(done: int, failed: int, total: int) -> None:
                self._is_over = done == total
                if self._function is not None:
                    self._function(done, total)
                else:
                    display(done, failed, total)

            yield report

    def fetch(self, native: Any) -> Callable[[Any, int], Any] | None:
        """How the batches of a pass are fetched.

        Args:
            native: The loader of the engine.

        Returns:
            A function of a native loader and its number of the pass. `None` if this pass reports nothing.
        """
        if self._is_over or (self._function is None and not self._displays):
            return None
        self._is_over = True
        # The counters of workers on other machines take a request each.
        is_local = isinstance(native, _framespool.Loader)
        return _Reporting(native.stats, self._function, self._total) if is_local else None


class _Reporting:
    """Fetches the batches of the first epoch of a loader that indexes videos when it opens them."""

    def __init__(
        self, stats: Callable[[], Mapping[str, Any]], function: Callable[[int, int], object] | None, total: int
    ) -> None:
        self._stats = stats
        self._function = function
        self._total = total
        self._done = 0
        self._waits = function is None

    def __call__(self, native: Any, number: int) -> Any:
        if self._waits:
            # Only for the first batch: a training loop often has a display of its own.
            self._waits = False
            with _displayed(self._stats):
                return native.next_batch(number)
        batch = native.next_batch(number)
        if self._function is not None:
            stats = self._stats()
            # An index that was dropped from memory and is read again counts twice.
            done = min(self._total, stats["videos_indexed"] + stats["index_hits"] + stats["videos_failed"])
            if done != self._done:
                self._done = done
                self._function(done, self._total)
        return batch


@contextmanager
def _displayed(stats: Callable[[], Mapping[str, Any]]) -> Iterator[None]:
    """Displays how many videos are indexed until the body ends; the engine's call in it blocks this thread."""
    ended = threading.Event()

    def display() -> None:
        # Whether stderr is a terminal was decided before.
        with Progress("", anywhere=True) as line:
            pause = _DELAY_SECONDS
            while not ended.wait(pause):
                pause = _INTERVAL_SECONDS
                try:
                    now = stats()
                except Error:
                    return
                if now["videos_indexed"]:
                    line.show(f"waiting for the first batch: {now['videos_indexed']} videos indexed")

    thread = threading.Thread(target=display, name="fsp-index-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
