"""Worker processes of a comparison: one per library, because their FFmpegs and thread pools would disturb one another.

CPU time of a process then belongs to its library alone, with all threads that it starts. A worker reads one request per
line on stdin and answers each with a line of JSON on stdout; its first line has its version.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import IO


class WorkerError(RuntimeError):
    """A library cannot do the job; the others continue."""


def worker_environment() -> dict[str, str]:
    """One thread for libraries that count cores themselves, no existing index, and the FFmpeg that setup.sh linked."""
    libraries = [Path(sys.prefix) / "lib" / "ffmpeg", Path(sysconfig.get_paths()["platlib"]) / "av.libs"]
    inherited = os.environ.get("LD_LIBRARY_PATH")
    return {
        **os.environ,
        # A measurement uses its own index or none, not the user's.
        "FRAMESPOOL_INDEX": os.environ.get("FRAMESPOOL_INDEX", "off"),
        "OMP_NUM_THREADS": "1",
        "LD_LIBRARY_PATH": ":".join([*map(str, libraries), *([inherited] if inherited else [])]),
    }


class WorkerProcess:
    """The starting side of a worker.

    Args:
        command: The program and its arguments.
        environment: Further environment variables.

    Raises:
        WorkerError: If the program does not exist, or the library cannot be imported.
    """

    def __init__(self, command: list[str], environment: dict[str, str] | None = None) -> None:
        try:
            self.process = subprocess.Popen(
                command,
                env={**worker_environment(), **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        except OSError as error:
            raise WorkerError(f"{command[0]}: {error.strerror}; run setup.sh to create it") from None
        self.version: str = self.answer()["version"]

    def send(self, request: dict | str) -> None:
        """Sends a request, as JSON or as it is."""
        line = request if isinstance(request, str) else json.dumps(request)
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the process has ended: reading its answer reports the status

    def answer(self) -> dict:
        """Waits for the next answer. Raises `WorkerError` if it is an error, or the process has ended."""
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"error": f"its process ended with status {self.process.wait()}"}
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def ask(self, request: dict | str) -> dict:
        """Sends a request and waits for its answer."""
        self.send(request)
        return self.answer()

    def close(self) -> None:
        """Ends the process."""
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class Answers:
    """The worker's side: stdout for answers alone. What libraries print to stdout goes to stderr."""

    def __init__(self) -> None:
        self._file: IO[str] = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def send(self, **fields: object) -> None:
        """Sends one answer."""
        print(json.dumps(fields), file=self._file, flush=True)

    def send_error(self, error: Exception) -> None:
        """Sends an error as the answer."""
        self.send(error=f"{type(error).__name__}: {error}")


def memory_bytes(what: str = "VmRSS") -> int:
    """Current resident memory of this process; "VmHWM" for its peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(what + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {what}")
