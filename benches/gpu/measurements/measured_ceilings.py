"""Ceilings measured by earlier items of the same record."""

from __future__ import annotations

import json
import os
from pathlib import Path


def ceiling_of(path: Path | str) -> float | None:
    """Pictures per second that the engines reach with this video without further work; None if not measured."""
    return ceilings().get(Path(path).name)


def ceilings() -> dict[str, float]:
    return json.loads(os.environ.get("FRAMESPOOL_CEILINGS", "{}"))


def collect(rows: list[dict]) -> dict[str, float]:
    """The best rate of each video among the rows of a record."""
    best: dict[str, float] = {}
    for row in rows:
        file, rate = row["figures"].get("file"), row["figures"].get("ceiling_per_s")
        if file and rate:
            best[file] = max(best.get(file, 0.0), rate)
    return best
