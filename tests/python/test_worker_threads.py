"""Functions on threads: which results they return, and Ctrl-C at any line."""

import logging
import signal
import sys
import threading

import pytest
from framespool._common.worker_threads import completed


def test_each_item_has_its_result_or_its_error():
    found = {item: future for item, future in completed(lambda item: 12 // item, range(7), 3)}
    assert list(sorted(found)) == list(range(7))
    assert isinstance(found[0].exception(), ZeroDivisionError)
    assert [found[item].result() for item in range(1, 7)] == [12, 6, 4, 3, 2, 2]


def test_it_takes_items_only_as_threads_need_them():
    taken = []
    results = completed(str, (taken.append(item) or item for item in range(100)), 2)
    for _ in range(5):
        next(results)
    assert len(taken) <= 8
    results.close()


def test_a_caller_that_leaves_stops_running_calls():
    stop = threading.Event()
    results = completed(lambda item: item == 0 or stop.wait(), range(3), 2, stop.set)
    assert next(results)[0] == 0
    results.close()
    assert stop.is_set()


class Interrupt:
    """Sends SIGINT to this thread at a line of `threading` or of the thread pool: the line of that number."""

    def __init__(self, line):
        self.line, self.seen = line, 0

    def __call__(self, frame, event, argument):
        name = frame.f_code.co_filename
        if not name.endswith(("/threading.py", "/concurrent/futures/thread.py", "/concurrent/futures/_base.py")):
            return None
        if event == "line":
            self.seen += 1
            if self.seen == self.line:
                signal.raise_signal(signal.SIGINT)
        return self


@pytest.fixture
def interrupts():
    """SIGINT raises KeyboardInterrupt, also where the tests run in the background, which ignores the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_at_any_line_leaves_the_locks_intact(caplog, interrupts):
    """Its thread pool logs "release unlocked lock" if one of its locks is broken."""
    before = sys.gettrace()
    lines = 0
    for line in range(1, 10_000, 3):
        interrupt = Interrupt(line)
        sys.settrace(interrupt)
        try:
            for _ in completed(str, range(4), 2):
                pass
        except KeyboardInterrupt:
            lines += 1
        finally:
            sys.settrace(before)
        if interrupt.seen < line:
            break
    assert lines == (line - 1) // 3 > 20
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_another_handler_of_sigint_is_called_once_the_locks_are_free():
    calls = []
    before = signal.signal(signal.SIGINT, lambda *_: calls.append(threading.current_thread()))
    try:
        sys.settrace(Interrupt(40))
        found = sorted(item for item, _ in completed(str, range(4), 2))
    finally:
        sys.settrace(None)
        signal.signal(signal.SIGINT, before)
    assert found == [0, 1, 2, 3] and calls == [threading.main_thread()]


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_a_handler_that_is_no_function_stays(handler):
    before = signal.signal(signal.SIGINT, handler)
    try:
        assert len(list(completed(str, range(4), 2))) == 4
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
