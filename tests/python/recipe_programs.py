"""Runs the programs of examples/recipes for their tests."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

RECIPES = Path(__file__).resolve().parents[2] / "examples" / "recipes"
FILES = [
    "derived/base_640x360.mp4",
    "action/street_960x540.mp4",
    "action/street_426x240.mp4",
    "action/phone_176x144.mp4",
    "action/long_384x164_90s.mp4",
]


def run(program: Path, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, program, *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "FRAMESPOOL_INDEX": "off", **environment},
    )


def speeds(table: str, *loaders: str) -> list[float]:
    """The samples per second of the last rows of a table, which must be those of the given loaders."""
    rows = table.splitlines()[-len(loaders) :]
    assert all(row.startswith(loader) for row, loader in zip(rows, loaders, strict=True)), table
    return [float(row.split()[-3]) for row in rows]


def need(*packages: str) -> None:
    """Skips the test without these packages; it does not import them, which takes long."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")
