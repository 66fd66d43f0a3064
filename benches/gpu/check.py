"""Checks that framespool is correct on this GPU: runs the checklist for real hardware, and the GPU tests.

    python benches/gpu/check.py                          # everything: table, and a record under benches/record/<gpu>
    python benches/gpu/check.py --only 'decode|strided'  # items by regular expression; --list names them
    python benches/gpu/check.py --match hevc --out a.json

Exit status: 0 if every check passed, 1 if one failed, 2 for wrong arguments, 3 if there is no GPU. A check that a
machine cannot run (a missing codec or library) is reported and does not count as a failure.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import checks
from common import devices_or_exit, is_simulated, machine, record_place, short, table, write
from items import FAILED, IMPOSSIBLE, OK, REGISTRY, Context, Row, run_in_process, run_in_subprocess, selected


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="run only items that match this regular expression")
    parser.add_argument("--list", action="store_true", help="list the items and their budgets")
    parser.add_argument("--match", default="", help="use only clips that match this regular expression")
    parser.add_argument("--budget", type=float, help="seconds per item; checks skipped for lack of time are reported")
    parser.add_argument("--total", type=float, default=570, help="total seconds; later items are skipped")
    parser.add_argument("--arguments", type=json.loads, default={}, help="the items' parameters, as JSON")
    parser.add_argument("--out", help="the record's file")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    if arguments.list:
        checks.load()
        for entry in REGISTRY.values():
            print(f"{entry.name:20} {entry.budget_seconds:4.0f} s   nvdec.md: {entry.checklist or '-'}")
        return 0
    device = devices_or_exit()[0]
    checks.load()
    if arguments.child:
        run_in_process(
            arguments.child,
            Context(device, arguments.budget, arguments.match, time.monotonic(), arguments.arguments),
            arguments.into,
        )
        return 0
    place = record_place(device, "check", arguments.out)
    print(f"{device.name}, {device.engines} NVDEC engines; writing the record to {place}")
    if is_simulated(device):
        print("SIMULATED DRIVER: this tests the script, not a GPU.")
    rows = run(arguments, place, machine(device))
    print(report(rows))
    return 1 if any(row.result == FAILED for row in rows) else 0


def run(arguments: argparse.Namespace, place: Path, properties: dict[str, Any]) -> list[Row]:
    """Runs the items; writes the record after each, so that an interrupted run keeps the earlier ones."""
    begun = time.monotonic()
    rows: list[Row] = []
    passed_on = ["--match", arguments.match, "--arguments", json.dumps(arguments.arguments)]
    for entry in selected(arguments.only):
        left = arguments.total - (time.monotonic() - begun)
        if left < 15:
            why = f"the {arguments.total:.0f} s of --total were used up; --only '{entry.name}' runs it"
            rows.append(Row(entry.name, "the item runs", IMPOSSIBLE, why, item=entry.name))
            write(place, record_of(rows, properties))
            continue
        budget = min(arguments.budget or entry.budget_seconds, left)
        started = time.monotonic()
        found = run_in_subprocess(entry, Path(__file__).resolve(), passed_on, budget, extra_seconds=min(60, left))
        counts = collections.Counter(row.result for row in found)
        summary = ", ".join(f"{count} {result}" for result, count in counts.items())
        print(f"{entry.name:20} {time.monotonic() - started:6.1f} s  {summary}", flush=True)
        rows += found
        write(place, record_of(rows, properties))
    return rows


def record_of(rows: list[Row], properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "what": "check",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": properties,
        "results": count_results(rows),
        "rows": [asdict(row) for row in rows],
    }


def count_results(rows: list[Row]) -> dict[str, int]:
    counts = collections.Counter(row.result for row in rows)
    return {result: counts[result] for result in (OK, FAILED, IMPOSSIBLE)}


def report(rows: list[Row]) -> str:
    """The table; failures are repeated at the end."""
    lines = [
        [row.result, row.item, row.name, row.asked, "; ".join(filter(None, [row.why, short(row.figures)]))]
        for row in rows
        if "decodes" not in row.figures
    ]
    text = [table(lines, ["result", "item", "what", "asked", "found"], most=220), ""]
    for row in rows:
        if row.result == FAILED:
            text.append(f"FAILED  {row.item}: {row.name}: {row.asked}\n        {row.why}")
    counts = count_results(rows)
    text.append(f"{len(rows)} rows: " + ", ".join(f"{count} {result}" for result, count in counts.items()))
    return "\n".join(text)


if __name__ == "__main__":
    sys.exit(main())
