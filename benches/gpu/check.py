"""Is framespool right on this GPU? Runs the list of what to look at first on real hardware, and the GPU tests.

    python benches/gpu/check.py                          # everything: table, and a record under benches/record/<gpu>
    python benches/gpu/check.py --only 'decode|strided'  # items by regular expression; --list names them
    python benches/gpu/check.py --match hevc --out a.json

Ends with 0 where everything asked is right, 1 where something is not, 2 where it was called wrongly, and 3 where there
is no GPU. What a machine cannot do (a codec, a library that is not installed) is said, and is no failure.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import sys
import time
from dataclasses import asdict
from pathlib import Path

import checks
from common import devices_or_exit, is_simulated, machine, record_place, short, table, write
from items import FAILED, IMPOSSIBLE, OK, REGISTRY, Context, Row, run_in_process, run_in_subprocess, selected


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="items to run, a regular expression")
    parser.add_argument("--list", action="store_true", help="the items and their budgets")
    parser.add_argument("--match", default="", help="clips to use, a regular expression")
    parser.add_argument("--budget", type=float, help="seconds for each item; what is left out for time says so")
    parser.add_argument("--total", type=float, default=570, help="seconds for everything; items behind are left out")
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
            arguments.child, Context(device, arguments.budget, arguments.match, time.monotonic()), arguments.into
        )
        return 0
    place = record_place(device, "check", arguments.out)
    print(f"{device.name}, {device.engines} NVDEC engines; the record goes to {place}")
    if is_simulated(device):
        print("THE DRIVER IS SIMULATED: this tries the script, and says nothing of any GPU.")
    rows = run(arguments)
    record = {
        "what": "check",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine(device),
        "verdicts": verdicts(rows),
        "rows": [asdict(row) for row in rows],
    }
    write(place, record)
    print(report(rows))
    return 1 if any(row.verdict == FAILED for row in rows) else 0


def run(arguments: argparse.Namespace) -> list[Row]:
    begun = time.monotonic()
    rows: list[Row] = []
    passed_on = ["--match", arguments.match]
    for entry in selected(arguments.only):
        left = arguments.total - (time.monotonic() - begun)
        if left < 15:
            why = f"the {arguments.total:.0f} s of --total were up; --only '{entry.name}' runs it"
            rows.append(Row(entry.name, "the item runs", IMPOSSIBLE, why, item=entry.name))
            continue
        budget = min(arguments.budget or entry.budget_seconds, left)
        started = time.monotonic()
        found = run_in_subprocess(entry, Path(__file__).resolve(), passed_on, budget, extra_seconds=min(60, left))
        counts = collections.Counter(row.verdict for row in found)
        told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        print(f"{entry.name:20} {time.monotonic() - started:6.1f} s  {told}", flush=True)
        rows += found
    return rows


def verdicts(rows: list[Row]) -> dict[str, int]:
    counts = collections.Counter(row.verdict for row in rows)
    return {verdict: counts[verdict] for verdict in (OK, FAILED, IMPOSSIBLE)}


def report(rows: list[Row]) -> str:
    """The table; what failed comes once more at the end, where nobody overlooks it."""
    lines = [
        [row.verdict, row.item, row.name, row.asked, "; ".join(filter(None, [row.why, short(row.figures)]))]
        for row in rows
        if "decodes" not in row.figures
    ]
    text = [table(lines, ["verdict", "item", "what", "asked", "found"], most=220), ""]
    for row in rows:
        if row.verdict == FAILED:
            text.append(f"FAILED  {row.item}: {row.name}: {row.asked}\n        {row.why}")
    counts = verdicts(rows)
    text.append(f"{len(rows)} rows: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return "\n".join(text)


if __name__ == "__main__":
    sys.exit(main())
