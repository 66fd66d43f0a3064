"""Measures framespool's throughput on this GPU against its NVDEC engines and against peers.

    python benches/gpu/bench.py                              # everything that fits into --total seconds
    python benches/gpu/bench.py --only 'ceiling|dense'       # items by regular expression; --list names them
    python benches/gpu/bench.py --only workers --seconds 60    # budget per item

There is one record file per day. An item that runs again replaces its earlier result, and later items use the recorded
ceilings. So a GPU that is available for ten minutes at a time can be used in parts.
Exit status: 0, 1 if a result was wrong, 2 for wrong arguments, 3 if there is no GPU.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import measurements
from common import devices_or_exit, is_simulated, machine, record_place, short, table, write
from items import FAILED, IMPOSSIBLE, REGISTRY, Context, Row, run_in_process, run_in_subprocess, selected


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="run only items that match this regular expression")
    parser.add_argument("--list", action="store_true", help="list the items and their budgets")
    parser.add_argument("--seconds", type=float, help="seconds for each item, instead of its own budget")
    parser.add_argument("--total", type=float, default=570, help="total seconds; later items are skipped")
    parser.add_argument("--arguments", type=json.loads, default={}, help="the items' parameters, as JSON")
    parser.add_argument("--out", help="the record's file")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--budget", type=float, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    if arguments.list:
        measurements.load()
        for entry in REGISTRY.values():
            print(f"{entry.name:20} {entry.budget_seconds:4.0f} s")
        return 0
    device = devices_or_exit()[0]
    measurements.load()
    if arguments.child:
        run_in_process(
            arguments.child,
            Context(device, arguments.budget, "", time.monotonic(), arguments.arguments),
            arguments.into,
        )
        return 0
    place = record_place(device, "bench", arguments.out)
    print(f"{device.name}, {device.engines} NVDEC engines; writing the record to {place}")
    if is_simulated(device):
        print("SIMULATED DRIVER: this tests the script; the figures are not those of any GPU.")
    rows = run(arguments, place, machine(device))
    print(report(rows))
    return 1 if any(row.result == FAILED for row in rows) else 0


def run(arguments: argparse.Namespace, place: Path, properties: dict[str, Any]) -> list[Row]:
    """Runs the items; writes the record after each, so that an interrupted run loses only the last one."""
    from measurements.measured_ceilings import collect

    begun = time.monotonic()
    rows: list[Row] = []
    for entry in selected(arguments.only):
        left = arguments.total - (time.monotonic() - begun)
        if left < 20:
            print(f"{entry.name:20}   skipped: the {arguments.total:.0f} s of --total are used up")
            continue
        record = earlier(place)
        os.environ["FRAMESPOOL_CEILINGS"] = json.dumps(collect(record.get("rows", [])))
        budget = min(arguments.seconds or entry.budget_seconds, left)
        started = time.monotonic()
        passed_on = ["--arguments", json.dumps(arguments.arguments)]
        found = run_in_subprocess(entry, Path(__file__).resolve(), passed_on, budget, extra_seconds=max(60.0, budget))
        rows += found
        kept = [row for row in record.get("rows", []) if row["item"] != entry.name]
        stamp = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        made = {"what": "bench", "date": stamp, "machine": properties, "rows": kept + [asdict(row) for row in found]}
        write(place, made)
        print(f"{entry.name:20} {time.monotonic() - started:6.1f} s  {len(found)} rows", flush=True)
    return rows


def earlier(place: Path) -> dict[str, Any]:
    """The items already in today's record."""
    try:
        return json.loads(place.read_text())
    except (OSError, ValueError):
        return {}


FIRST = (
    "percent_of_ceiling",
    "ceiling_per_s",
    "pictures_per_s",
    "clips_per_s",
    "peer_over_framespool",
    "cores",
    "images_per_s",
)


def report(rows: list[Row]) -> str:
    """The table; the most important figures come first."""
    lines = []
    for row in rows:
        keys = [key for key in FIRST if key in row.figures]
        keys += [key for key in row.figures if key not in keys and key != "file"]
        figures = ", ".join(f"{key} {short(row.figures[key])}" for key in keys)
        shown = row.why if row.result in (FAILED, IMPOSSIBLE) else figures
        lines.append([row.item, row.name, row.result, row.asked, shown])
    return table(lines, ["item", "what", "result", "asked", "found"], most=260)


if __name__ == "__main__":
    sys.exit(main())
