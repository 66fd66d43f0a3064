"""Functions on several threads, which Ctrl-C ends without an error inside of Python's locks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from framespool._common.interrupts import interrupts_deferred

T = TypeVar("T")
R = TypeVar("R")

#: How long a signal waits at most.
_MAX_WAIT_SECONDS = 0.2


def completed(
    function: Callable[[T], R], items: Iterable[T], num_threads: int, stop: Callable[[], object] = lambda: None
) -> Iterator[tuple[T, Future[R]]]:
    """Calls a function for each item, on threads.

    Args:
        function: The function.
        items: The items, of which one per thread is taken ahead.
        num_threads: Number of threads.
        stop: Ends running calls. It is called if the caller leaves before the last item, and at the end.

    Yields:
        Each item with its result, as soon as it is available.
    """
    waiting = iter(items)
    running: dict[Future[R], T] = {}
    pool = ThreadPoolExecutor(num_threads, "framespool")
    try:
        while True:
            while len(running) < num_threads:
                try:
                    item = next(waiting)
                except StopIteration:
                    break
                with interrupts_deferred():
                    running[pool.submit(function, item)] = item
            if not running:
                return
            with interrupts_deferred():
                ready, _ = wait(running, _MAX_WAIT_SECONDS, FIRST_COMPLETED)
            for future in ready:
                yield running.pop(future), future
    finally:
        stop()
        with interrupts_deferred():
            pool.shutdown(wait=True, cancel_futures=True)
