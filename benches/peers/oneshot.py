"""One process per measurement: it gets one request in JSON, answers in JSON and exits.

So a library's caches and threads never affect the next measurement, and the peak memory of the process
is that of the measurement. `UsageMeter` marks the measured part; starting and importing are outside it.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

# Appended to the path: modules that all benches share.
sys.path.append(str(Path(__file__).resolve().parents[1]))
from harness.processes import WorkerError, memory_bytes, worker_environment  # noqa: E402

__all__ = ["UsageMeter", "WorkerError", "ask", "memory_bytes", "serve", "together", "worker_environment"]

HERE = Path(__file__).resolve().parent


def ask(program: str, request: dict, python: Path | str = sys.executable, timeout_s: float = 3600) -> dict:
    """Runs `program` of this folder with the request. Raises WorkerError with its message or exit status."""
    try:
        done = subprocess.run(
            [python, HERE / program],
            input=json.dumps(request),
            env=worker_environment(),
            stdout=subprocess.PIPE,
            text=True,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        raise WorkerError(f"no answer in {timeout_s:.0f} s") from None
    try:
        answer = json.loads(done.stdout)
    except json.JSONDecodeError:
        raise WorkerError(f"its process ended with status {done.returncode}") from None
    if "error" in answer:
        raise WorkerError(answer["error"])
    return answer


def together(folder: str | None, count: int, timeout_s: float = 300) -> None:
    """Waits until ``count`` processes have arrived, so that they are measured in parallel."""
    if folder is None:
        return
    (Path(folder) / str(os.getpid())).touch()
    given_up = time.monotonic() + timeout_s
    while len(os.listdir(folder)) < count:
        if time.monotonic() > given_up:
            raise WorkerError(f"of {count} processes only {len(os.listdir(folder))} came within {timeout_s:.0f} s")
        time.sleep(0.02)


def serve(handle: Callable[[dict], dict]) -> None:
    """The other end of ask()."""
    # Libraries that print to stdout must not break the protocol.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        answer = handle(json.load(sys.stdin))
    except Exception as error:  # noqa: BLE001 - any error of a library is its answer
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), file=answers, flush=True)
    # Skips the interpreter's exit: some libraries hang in it, or take a second to free memory.
    os._exit(0)


class UsageMeter:
    """Resources of a piece of work: wall time, CPU time and bytes read, of this process and the children that ended.

    Bytes read are those returned by read() and similar calls, also from the page cache (`rchar` of /proc/self/io).
    Pages of mapped files are not included; they are in `storage_bytes` (`read_bytes`) if they come from storage.
    """

    def __enter__(self) -> UsageMeter:
        self._before = _counts()
        return self

    def __exit__(self, *_: object) -> None:
        self.usage = {name: value - self._before[name] for name, value in _counts().items()}


def _counts() -> dict[str, float]:
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    io = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return {
        "wall_s": time.perf_counter(),
        "cpu_s": own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime,
        "bytes_read": int(io["rchar"]),
        "reads": int(io["syscr"]),
        "storage_bytes": int(io["read_bytes"]),
    }
