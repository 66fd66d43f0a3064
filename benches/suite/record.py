"""A record: the results of one bench, in a common form. `benches/record/DATE-NAME.json`.

schema, bench, title        1; the bench's name in benches.py, and its one-line description
date, began, seconds        of the run: 2026-11-22; 2026-11-22T20:40:00Z and 812 (absent if unknown)
short                       true for a trial, which is not recorded
source                      origin of the figures: "measured", or a description
text                        the text record with the same name, which has more detail
build                       framespool's revision (absent if unknown)
machine, load               machine.py; `quiet`: whether other processes left the machine idle (null: unknown),
                            `said`: as text
versions                    framespool's and each peer's
command, data               its arguments and its input
answers                     `checked`, and `how`
left_out                    libraries without figures, with the reason
tables                      each with one measure:
  name, title, unit         `unit` is that of the values
  better                    "lower" or "higher"
  baseline, ratio           the row that ratios refer to, and their quantity; above 1 this row takes more
  rows                      label; own (framespool's); value and ratio, each median, low, high, n and spread
                            ("quartiles", "range", or null if only the median is known); right (null if nothing
                            was checked); answers, note
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.record_format import record_text

SCHEMA = 1
FOLDER = Path(__file__).resolve().parents[1] / "record"
#: With fewer values than this, a range is shown instead of quartiles.
QUARTILES_FROM = 5
MEASURED = "measured"

# Required fields and their types. Fields not listed here may be absent.
RECORD = {
    "schema": int, "bench": str, "title": str, "date": str, "short": bool, "source": str, "machine": dict, "load": dict,
    "versions": dict, "command": str, "data": str, "answers": dict, "left_out": dict, "tables": list,
}  # fmt: skip
TABLE = {"name": str, "title": str, "unit": str, "better": str, "rows": list}
ROW = {"label": str, "own": bool, "value": dict}
SPREADS = ("quartiles", "range", None)


@dataclass(frozen=True)
class Spread:
    """A median, with the range of the middle half of the values, or of all."""

    median: float
    low: float | None = None
    high: float | None = None
    n: int = 1
    spread: str | None = None

    @staticmethod
    def of(values: Iterable[float]) -> Spread:
        known = sorted(values)
        middle = _round(statistics.median(known))
        if len(known) < 2:
            return Spread(middle, n=len(known))
        if len(known) < QUARTILES_FROM:
            return Spread(middle, _round(known[0]), _round(known[-1]), len(known), "range")
        low, _, high = statistics.quantiles(known, n=4, method="inclusive")
        return Spread(middle, _round(low), _round(high), len(known), "quartiles")


def _round(value: float) -> float:
    """Six digits: more than the precision of any clock here."""
    return float(f"{value:.6g}")


@dataclass(frozen=True)
class Row:
    label: str
    value: Spread
    own: bool = False
    ratio: Spread | None = None
    right: bool | None = None
    answers: str = ""
    note: str = ""


@dataclass(frozen=True)
class Table:
    name: str
    title: str
    unit: str
    rows: list[Row]
    better: str = "lower"
    baseline: str | None = None
    ratio: str = ""


@dataclass
class Result:
    """The result of a parser: the part of a record that differs from bench to bench."""

    tables: list[Table]
    versions: dict[str, str]
    data: str = ""
    left_out: dict[str, str] = field(default_factory=dict)


def paired(own: Mapping[Hashable, float], base: Mapping[Hashable, float]) -> Spread | None:
    """Ratios of values with the same key, which were measured side by side."""
    ratios = [value / base[key] for key, value in own.items() if base.get(key)]
    return Spread.of(ratios) if ratios else None


def paired_rows(
    values: Mapping[str, Mapping[Hashable, float]], baseline: str, describe: Callable[[str], dict[str, Any]]
) -> list[Row]:
    """A row per library, with its ratios to the baseline. `describe(side)` returns the row's other fields."""
    base = values.get(baseline, {})
    return [
        Row(**{"label": side, **describe(side)}, value=Spread.of(of.values()), ratio=paired(of, base))
        for side, of in values.items()
        if of
    ]


def to_json(result: Result) -> dict[str, Any]:
    """The fields of a record that a Result has."""
    return {
        "versions": result.versions,
        "data": result.data,
        "left_out": result.left_out,
        "tables": [asdict(table) for table in result.tables],
    }


def problems(record: Any) -> list[str]:
    """Differences from the form that this module describes."""
    found = _kinds("record", record, RECORD)
    if found:
        return found
    if record["schema"] != SCHEMA:
        found.append(f"schema {record['schema']}, not {SCHEMA}")
    if not record["tables"]:
        found.append("no tables")
    if "quiet" not in record["load"] or "checked" not in record["answers"]:
        found.append("load lacks quiet, or answers lacks checked")
    for table in record["tables"]:
        found += _kinds("table", table, TABLE)
        if found:
            continue
        where = table["name"]
        if table["better"] not in ("lower", "higher"):
            found.append(f"{where}: better is {table['better']!r}")
        labels = [row.get("label") for row in table["rows"]]
        if not labels or len(set(labels)) < len(labels):
            found.append(f"{where}: no rows, or two with the same label")
        if table.get("baseline") is not None and table["baseline"] not in labels:
            found.append(f"{where}: no row {table['baseline']!r}, which is the baseline")
        for row in table["rows"]:
            found += [f"{where}: {problem}" for problem in _row_problems(row)]
    return found


def _row_problems(row: Any) -> list[str]:
    found = _kinds(f"row {row.get('label') if isinstance(row, dict) else ''}", row, ROW)
    for what in ("value", "ratio") if not found else ():
        spread = row.get(what)
        if spread is None:
            continue
        low, middle, high = spread.get("low"), spread.get("median"), spread.get("high")
        if not isinstance(middle, int | float) or spread.get("spread") not in SPREADS or spread.get("n", 0) < 1:
            found.append(f"{row['label']}: its {what} is no spread")
        elif (low is None) != (spread["spread"] is None) or (low is not None and not low <= middle <= high):
            found.append(f"{row['label']}: its {what}'s median is not between low and high")
    return found


def _kinds(what: str, value: Any, kinds: Mapping[str, type]) -> list[str]:
    if not isinstance(value, dict):
        return [f"{what}: not an object"]
    return [
        f"{what}: {name!r} is missing or not of type {kind.__name__}"
        for name, kind in kinds.items()
        if not isinstance(value.get(name), kind)
    ]


def write(path: Path, record: dict[str, Any]) -> None:
    """Rejects an invalid record, so that a change of a program's JSON is detected at once."""
    found = problems(record)
    if found:
        raise ValueError(f"{path.name}: not a record: {'; '.join(found)}")
    path.write_text(record_text(record), encoding="utf-8")


def read(path: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    found = problems(record)
    if found:
        raise ValueError(f"{path.name}: not a record: {'; '.join(found)}")
    return record


@dataclass(frozen=True)
class Found:
    """A table of a record, with its origin."""

    path: Path
    record: dict[str, Any]
    table: dict[str, Any]

    @property
    def baseline(self) -> dict[str, Any] | None:
        return next((row for row in self.table["rows"] if row["label"] == self.table.get("baseline")), None)


class Records:
    """All records of a folder, in chronological order."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.records = sorted(
            ((path, read(path)) for path in folder.glob("*.json")),
            key=lambda entry: (entry[1]["date"], entry[1].get("began", ""), entry[0].name),
        )

    def newest(self, bench: str, table: str) -> Found | None:
        """The newest record of the bench that has this table: some runs fill only a part of the tables."""
        for path, record in reversed(self.records):
            for each in record["tables"] if record["bench"] == bench else ():
                if each["name"] == table:
                    return Found(path, record, each)
        return None


def free_path(folder: Path, date: str, bench: str) -> Path:
    """DATE-NAME, or DATE-NAME-2 and so on if that exists: records are never overwritten."""
    name = f"{date}-{bench.replace('_', '-')}"
    paths = (folder / f"{name}{'' if number == 1 else f'-{number}'}.json" for number in range(1, 1000))
    return next(path for path in paths if not path.exists() and not path.with_suffix(".txt").exists())
