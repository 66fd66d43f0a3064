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
from typing import Any

#: The change of a file is visible in its times once the file system's clock has moved on (`stable_after` in
#: src/index/cache/record.rs): an index of a file that changed more recently is not stored. More time does no harm.
SETTLED_SECONDS = 0.05


def wait_until(condition: Callable[[], object]) -> None:
    """Returns when a condition is true."""
    while not condition():
        time.sleep(0.01)


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
