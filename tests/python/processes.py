"""Waiting for events and for other processes, without limits of their own.

The outcome of a test must not depend on how fast the machine is. What never happens is a hang, which `timeout` in
pyproject.toml ends with a stack trace.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any


def wait_until(condition: Callable[[], object]) -> None:
    """Returns when a condition is true."""
    while not condition():
        time.sleep(0.01)


def wait_until_settled(*paths: str | os.PathLike[str]) -> None:
    """Returns when any further change of files would be visible in their times: before, no index of them is stored."""
    for changed in [os.stat(path).st_ctime_ns for path in paths]:
        # As `stable_after` in src/index/cache/record.rs: the file system may keep whole seconds.
        tick = 20_000_000 if changed % 1_000_000_000 else 2_000_000_000
        wait_until(lambda: time.time_ns() - changed >= tick)  # noqa: B023


def engine_threads() -> set[str]:
    """The running threads of loaders, by their number."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            if (task / "comm").read_text().startswith("fsp-worker"):
                found.add(task.name)
    return found


@contextlib.contextmanager
def child_process(command: Sequence[Any], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process that Ctrl-C can end, and that ends with the block, also if the block fails."""
    # A test run in the background of a shell ignores the signal, and its children would too.
    accept_sigint = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, preexec_fn=accept_sigint, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def exit_code(pid: int) -> int:
    """Waits for a forked child and returns its exit code; the child is killed if the test fails first."""
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
