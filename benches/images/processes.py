"""Starts the adapters' processes (worker.py is the other end)."""

from __future__ import annotations

import sys
from pathlib import Path

# Appended to the path: modules that all benches share.
sys.path.append(str(Path(__file__).resolve().parents[1]))
from harness.processes import WorkerError, WorkerProcess  # noqa: E402

__all__ = ["WorkerError", "WorkerProcess", "start"]

HERE = Path(__file__).resolve().parent
DALI_PYTHON = HERE / ".venv-dali" / "bin" / "python"


def start(side: str) -> WorkerProcess:
    """Starts the process of an adapter."""
    python = str(DALI_PYTHON) if side == "dali" else sys.executable
    return WorkerProcess(
        [python, str(HERE / "worker.py"), side], {"FRAMESPOOL_INDEX": "off", "PYTHONWARNINGS": "ignore"}
    )
