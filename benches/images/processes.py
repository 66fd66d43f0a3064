"""Starts the adapters' processes and communicates with them (worker.py is the other end)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

HERE = Path(__file__).resolve().parent
DALI_PYTHON = HERE / ".venv-dali" / "bin" / "python"


class WorkerError(RuntimeError):
    """An adapter cannot do the job; the others continue."""


def environment() -> dict[str, str]:
    """One thread for libraries that count cores themselves, no existing index, and the FFmpeg that setup.sh linked."""
    libraries = [Path(sys.prefix) / "lib" / "ffmpeg", Path(sysconfig.get_paths()["platlib"]) / "av.libs"]
    inherited = os.environ.get("LD_LIBRARY_PATH")
    return {
        **os.environ,
        "FRAMESPOOL_INDEX": "off",
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
        "LD_LIBRARY_PATH": ":".join([*map(str, libraries), *([inherited] if inherited else [])]),
    }


class Worker:
    def __init__(self, side: str) -> None:
        python = str(DALI_PYTHON) if side == "dali" else sys.executable
        try:
            self.process = subprocess.Popen(
                [python, str(HERE / "worker.py"), side],
                env=environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        except OSError as error:
            raise WorkerError(f"{python}: {error.strerror}; run setup.sh to create it") from None
        self.version = self.answer()["version"]

    def send(self, request: dict) -> None:
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the process has ended: reading its answer reports the status

    def answer(self) -> dict:
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"error": f"its process ended with status {self.process.wait()}"}
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def ask(self, request: dict) -> dict:
        self.send(request)
        return self.answer()

    def close(self) -> None:
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()
