"""Engine utilization during a measurement, from `nvidia-smi dmon`."""

from __future__ import annotations

import contextlib
import shutil
import statistics
import subprocess
import threading
from types import TracebackType


class Dmon:
    """Reads the utilization once per second in a thread; a context manager."""

    def __init__(self) -> None:
        self.lines: list[dict[str, float]] = []
        self.process: subprocess.Popen[str] | None = None
        self.thread: threading.Thread | None = None

    def __enter__(self) -> Dmon:
        if tool := shutil.which("nvidia-smi"):
            with contextlib.suppress(OSError):
                command = [tool, "dmon", "-s", "u", "-d", "1", "-i", "0"]
                self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                self.thread = threading.Thread(target=self._read, name="dmon", daemon=True)
                self.thread.start()
        return self

    def _read(self) -> None:
        names: list[str] = []
        assert self.process and self.process.stdout
        for line in self.process.stdout:
            names, row = parse(line, names)
            if row:
                self.lines.append(row)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=5)
        if self.thread:
            self.thread.join(timeout=5)

    def figures(self) -> dict[str, float]:
        """Medians of the samples; the first and last seconds are incomplete and excluded."""
        seen = self.lines[1:-1] or self.lines
        columns = {"dec": "dec_percent", "sm": "sm_percent"}
        return {
            name: statistics.median(line[column] for line in seen if column in line)
            for column, name in columns.items()
            if any(column in line for line in seen)
        }


def parse(line: str, names: list[str]) -> tuple[list[str], dict[str, float] | None]:
    """The column names, which dmon repeats now and then, and a row if the line is one."""
    words = line.lstrip("# ").split()
    if line.startswith("#"):
        return (words, None) if "dec" in words else (names, None)
    row = {}
    for name, word in zip(names, words, strict=False):
        with contextlib.suppress(ValueError):
            row[name] = float(word)  # "-" means that the GPU does not report it
    return names, row or None
