"""Runs all comparisons with framespool's peers in order: `make bench`.

    benches/bench.py                            runs all, in up to four hours on two cores; each is recorded
    benches/bench.py --short                    a trial of all parts in a few minutes; not recorded
    benches/bench.py --only images,pixels       runs only these
    benches/bench.py --run 2026-11-22           continues the run of that day: existing results are not repeated
    benches/bench.py --again --only scaling     repeats it

Results, text and log of each bench are in target/bench/RUN. A finished one is recorded as benches/record/DATE-NAME.json
and .txt. Then README's plot and the tables are regenerated from the newest records. docs/benchmarks.md describes the
measurements.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from pathlib import Path

from suite import machine, record, running
from suite.benches import BENCHES, Bench
from suite.environments import ROOT, environments


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--short", action="store_true", help="a trial: tests that all works, figures are not representative"
    )
    parser.add_argument("--only", type=lambda text: text.split(","), metavar="NAME,…", help=f"of {', '.join(BENCHES)}")
    parser.add_argument("--run", help="name of the run (default: today's date, with -short for a trial)")
    parser.add_argument("--again", action="store_true", help="repeat benches that already have a result in this run")
    parser.add_argument("--no-setup", action="store_true", help="use the environments without updating them")
    parser.add_argument("--no-record", action="store_true", help="do not update benches/record, README and docs")
    parser.add_argument("--list", action="store_true", help="print what would run and its expected duration, and exit")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.only or ()) - set(BENCHES)):
        parser.error(f"--only: no {', '.join(unknown)}; there are {', '.join(BENCHES)}")
    if arguments.run and Path(arguments.run).name != arguments.run:
        parser.error(f"--run must be a name, not a path: {arguments.run}")
    return arguments


def expected_minutes(bench: Bench, records: record.Records, short: bool) -> float:
    """Duration of the last run on such a machine, else the expected one of the list."""
    if short:
        return bench.short_minutes
    properties = machine.properties()
    for _, known in reversed(records.records):
        same = all(known["machine"].get(what) == properties[what] for what in ("cpu", "cores"))
        if known["bench"] == bench.name and same and known.get("seconds"):
            return known["seconds"] / 60
    return bench.minutes


def say_plan(chosen: list[Bench], run: running.Run, records: record.Records) -> None:
    """Prints what will run and its expected duration."""
    made = environments()
    print(f"run {run.name}: {machine.in_words(machine.properties())}; {running.elsewhere_now()}")
    total = 0.0
    for bench in chosen:
        done = run.has(bench)
        minutes = 0.0 if done else expected_minutes(bench, records, run.short)
        total += minutes
        state = "there already" if done else f"about {minutes:.0f} min" if minutes >= 1 else "less than 1 min"
        print(f"  {bench.name:<17}{state:<16}{bench.title}")
    left = [bench for bench in chosen if not run.has(bench)]
    first = sum(bench.first_time_minutes for bench in left)
    more = f", and on the first run up to {first:.0f} more to generate videos" if first else ""
    print(f"expected: {max(total, 1):.0f} minutes on two idle cores{more}")
    wanted = {bench.environment for bench in left}
    if missing := [made[name] for name in made if name in wanted and not made[name].ready()]:
        size = sum(environment.gigabytes for environment in missing)
        print(f"environments to set up first: {', '.join(each.name for each in missing)}: up to {size:.1f} GB on disk")


def keep(run: running.Run, results: list[Path]) -> None:
    """Records the results, then regenerates everything that is derived from records."""
    for result in results:
        kept = record.read(result)
        target = record.free_path(record.FOLDER, kept["date"], kept["bench"])
        kept["text"] = target.with_suffix(".txt").name
        record.write(target, kept)
        target.with_suffix(".txt").write_text(result.with_suffix(".txt").read_text())
        print(f"record: {target.relative_to(ROOT)}")
        run.mark_kept(result)
    for program in ("benches/plots.py", "benches/readme_table.py"):
        if not running.call([sys.executable, program]):
            print(f"{program} failed; run it again separately", file=sys.stderr)


def main() -> int:
    arguments = parse_arguments()
    chosen = [bench for bench in BENCHES.values() if not arguments.only or bench.name in arguments.only]
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    run = running.Run(arguments.run or today + ("-short" if arguments.short else ""), arguments.short, arguments.again)
    say_plan(chosen, run, record.Records())
    if arguments.list:
        return 0
    if not ((corpus := running.corpus()) and corpus.is_dir()):
        print("no corpus: set FRAMESPOOL_CORPUS to its folder (docs/benchmarks.md)", file=sys.stderr)
        return 2
    machine.adopt_orphans()
    failed = {}
    try:
        for bench in chosen:
            if run.has(bench):
                continue
            try:
                result = run.one(bench, setup=not arguments.no_setup)
            except running.BenchError as error:
                failed[bench.name] = str(error)
                print(f"{bench.name}: FAILED: {error}", flush=True)
                continue
            load = json.loads(result.read_text())["load"]
            quiet = "quiet" if load["quiet"] else f"NOT QUIET: {load['said']}"
            print(f"{bench.name}: done, {quiet}", flush=True)
    except KeyboardInterrupt:
        print(
            f"\ninterrupted; finished results are kept. To continue: make bench ARGS='{run.resume_words()}'",
            file=sys.stderr,
        )
        return 130
    results = [path for bench in chosen if (path := run.result(bench)).exists()]
    fresh = [path for path in results if not run.is_kept(path)]
    if fresh and not (arguments.short or arguments.no_record):
        keep(run, fresh)
    print(f"\n{len(results)} of {len(chosen)} there, in {run.folder.relative_to(ROOT)}")
    for name, reason in failed.items():
        print(f"  {name}: {reason}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
