"""Ctrl-C where it must not raise an exception."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Runs the handler of SIGINT, which raises KeyboardInterrupt, only at the end.

    Locks of the standard library that are written in Python, as those of a thread pool, do not survive an exception at
    an arbitrary line: another thread then fails with "release unlocked lock".

    Yields:
        Nothing.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    arrived: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: arrived.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if arrived:
        handler(*arrived[0])
