"""Times JPEG preprocessing: framespool against its peers on the CPU, two threads, in one run.

    benches/images/.venv/bin/python benches/images/run.py --json out.json
    benches/images/.venv/bin/python benches/images/run.py --tasks train,eval --sets imagenet --rounds 9
    benches/images/.venv/bin/python benches/images/run.py --check --sides dali,torchvision --baseline "DALI"

README.md describes the measurement and its limits.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import checks
import image_sets
from checks import Entry
from processes import WorkerError, WorkerProcess, start
from tasks import TASKS, Job, timed

# Appended to the path: modules that all benches share.
sys.path.append(str(Path(__file__).resolve().parents[1]))
from harness.folders import corpus  # noqa: E402
from suite.machine import cpu_model  # noqa: E402

#: Numbers of worker processes that a DataLoader may have, by thread count of the others.
WORKERS = {1: (0, 1), 2: (0, 1, 2, 4)}
# Prefetched batches: two of framespool and DALI, SPDL's own number, and two per worker of a DataLoader.
AHEAD = 4
AHEAD_BY_WORKER = 2
# Minimum number of batches to choose a number of workers: complete rounds of the largest number.
CALIBRATION = 8


@dataclass(frozen=True)
class Table:
    task: str
    pictures: str
    threads: int = 2
    shards: int = 1

    @property
    def title(self) -> str:
        shards = f", {self.shards} shards in one process each" if self.shards > 1 else ""
        return f"{self.task}, {self.pictures}, {self.threads} thread{'s' * (self.threads > 1)}{shards}"


@dataclass
class Line:
    """An entry in a table, with its turns."""

    entry: Entry
    workers: int = 0
    notes: list[str] = field(default_factory=list)
    turns: list[dict] = field(default_factory=list)

    @property
    def warm_up(self) -> int:
        """Batches before the timed ones: all prefetched batches, so that the timed ones are created while timing."""
        return max(AHEAD, AHEAD_BY_WORKER * self.workers) + 1

    @property
    def label(self) -> str:
        return self.entry.label + (f", {self.workers} workers" if self.entry.by_loader else "")

    def to_json(self) -> dict:
        return {"label": self.label, "entry": self.entry.label, "note": self.entry.note, "turns": self.turns}


def run_round(workers: list[WorkerProcess], jobs: list[Job], batches: int, warm_up: int) -> dict:
    """All shards get ready, then start together; the turn's wall time is that of the slowest."""
    for worker, job in zip(workers, jobs, strict=True):
        worker.send({"do": "prepare", "job": job.to_json()})
    for worker in workers:
        worker.answer()
    for worker in workers:
        worker.send({"do": "go", "warm_up": warm_up, "batches": batches})
    answers = [worker.answer() for worker in workers]
    images = sum(answer["images"] for answer in answers)
    return {
        "images_per_s": images / max(answer["wall_s"] for answer in answers),
        "cpu_ms": 1e3 * sum(answer["cpu_s"] for answer in answers) / images,
        "peak_bytes": sum(answer["peak_bytes"] for answer in answers),
    }


class Run:
    def __init__(self, arguments: argparse.Namespace, folder: Path) -> None:
        self.arguments = arguments
        self.folder = folder
        self.left_out: dict[str, str] = {}
        self.versions: dict[str, str] = {}
        self.results: dict[Entry, dict[str, checks.Result]] = {}

    def entries(self, task: str) -> list[Entry]:
        chosen = self.arguments.sides
        return [entry for entry in checks.ENTRIES[task] if not chosen or entry.side in chosen]

    def start(self, side: str) -> WorkerProcess | None:
        if side in self.left_out:
            return None
        try:
            worker = start(side)
        except WorkerError as error:
            self.left_out[side] = str(error)
            return None
        self.versions[side] = worker.version
        return worker

    def jobs(self, table: Table, line: Line, batches: int) -> list[Job]:
        count = (1 + 2 * line.warm_up + batches) * self.arguments.batch * table.shards
        job = Job(
            table.task,
            image_sets.make(table.pictures, self.arguments.pictures, self.folder, count),
            line.entry.variant,
            table.threads,
            line.workers,
            self.arguments.batch,
            draws=timed(table.task),
            num_shards=table.shards,
        ).to_json()
        return [Job.from_json({**job, "shard_id": shard}) for shard in range(table.shards)]

    def calibrate(self, table: Table, line: Line, workers: list[WorkerProcess]) -> None:
        """The number of workers with the highest throughput."""
        rates = {}
        for line.workers in WORKERS[table.threads]:
            batches = max(CALIBRATION, self.arguments.batches // 2)
            rates[line.workers] = run_round(workers, self.jobs(table, line, batches), batches, line.warm_up)
        line.workers = max(rates, key=lambda count: rates[count]["images_per_s"])
        listed = ", ".join(f"{count}: {rate['images_per_s']:.0f}" for count, rate in rates.items())
        line.notes.append(f"images/s by workers: {listed}")

    def measure(self, table: Table, workers: dict[str, list[WorkerProcess]]) -> list[Line]:
        """Each line has one turn per round, in rotating order, so that noise affects all equally."""
        lines = [
            Line(entry)
            for entry in self.entries(table.task)
            if entry.side in workers and not any(result.wrong for result in self.results.get(entry, {}).values())
        ]
        batches = self.arguments.batches
        for line in list(lines):
            try:
                if line.entry.by_loader:
                    self.calibrate(table, line, workers[line.entry.side])
            except WorkerError as error:
                self.left_out[f"{line.entry.label}, {table.title}"] = str(error)
                lines.remove(line)
        order = list(lines)
        for _ in range(self.arguments.rounds):
            for line in list(order):
                try:
                    jobs = self.jobs(table, line, batches)
                    line.turns.append(run_round(workers[line.entry.side], jobs, batches, line.warm_up))
                except WorkerError as error:
                    self.left_out[f"{line.entry.label}, {table.title}"] = str(error)
                    order.remove(line)
                    lines.remove(line)
            order.append(order.pop(0)) if order else None
        return lines

    def print_table(self, table: Table, lines: list[Line]) -> None:
        print(f"\n{table.title}: {TASKS[table.task]}")
        base = next((line for line in lines if line.entry.label == self.arguments.baseline), lines[0])
        print(f"  {'side':<42}{'images/s':>9}{'CPU ms':>8}{'speed ratio':>13}{'CPU ratio':>11}  answers")
        for line in lines:
            rate, cpu = (statistics.median(turn[what] for turn in line.turns) for what in ("images_per_s", "cpu_ms"))
            pairs = list(zip(line.turns, base.turns, strict=True))
            faster = statistics.median(own["images_per_s"] / other["images_per_s"] for own, other in pairs)
            cpu_ratio = statistics.median(own["cpu_ms"] / other["cpu_ms"] for own, other in pairs)
            summary = "; ".join(str(result) for result in self.results.get(line.entry, {}).values())
            print(f"  {line.label:<42}{rate:>9.0f}{cpu:>8.2f}{faster:>13.2f}{cpu_ratio:>11.2f}  {summary}")
        for line in lines:
            for note in [line.entry.note, *line.notes] if self.arguments.notes else [line.entry.note]:
                if note:
                    print(f"    {line.entry.label}: {note}")


def check(run: Run, task: str) -> None:
    """Stores the run's results and returns errors."""
    entries = run.entries(task)
    for side in dict.fromkeys(entry.side for entry in entries):
        worker = run.start(side)
        if worker is None:
            continue
        for entry in entries:
            if entry.side == side:
                run.results[entry] = checks.check(worker, entry, run.arguments.pictures, run.folder)
                for name, result in run.results[entry].items():
                    mark = "WRONG" if result.wrong else "right"
                    print(f"  {mark}  {task:<8}{entry.label:<42}{name}: {result}", flush=True)
        worker.close()


def tables(arguments: argparse.Namespace) -> list[Table]:
    made = []
    for task in arguments.tasks:
        for name in arguments.sets:
            if task == "square":
                made += [Table(task, name, threads, shards) for shards in (1, 2) for threads in (1, 2)]
            else:
                made.append(Table(task, name))
    return made


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: text.split(",")  # noqa: E731
    parser.add_argument("--tasks", type=words, default=list(TASKS), help="comma-separated (default: all)")
    parser.add_argument("--sets", type=words, default=list(image_sets.SETS), help="photos, imagenet (default: both)")
    parser.add_argument("--sides", type=words, help="framespool,dali,torchvision,pillow,opencv,spdl (default: all)")
    parser.add_argument("--baseline", default="framespool", help="reference line of the ratios (default framespool)")
    parser.add_argument("--rounds", type=int, default=7, help="turns per line (default 7)")
    parser.add_argument(
        "--batches",
        type=int,
        default=16,
        help="timed batches per turn (default 16; use multiples of 4 for 4 workers)",
    )
    parser.add_argument("--batch", type=int, default=32, help="images per batch (default 32)")
    parser.add_argument("--check", action="store_true", help="verify the output only")
    parser.add_argument("--notes", action="store_true", help="also print the settings tried for each line")
    parser.add_argument("--pictures", type=Path, help="JPEG files in class folders (default: the corpus' photographs)")
    parser.add_argument("--work", type=Path, help="folder to keep generated files (default: not kept)")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    arguments = parser.parse_args()
    for kind, known in (("tasks", TASKS), ("sets", image_sets.SETS)):
        for name in getattr(arguments, kind):
            if name not in known:
                parser.error(f"--{kind}: no {name!r}; there are {', '.join(known)}")
    arguments.pictures = arguments.pictures or corpus() / "images" / "classes"
    return arguments


def main() -> None:
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.work or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        run = Run(arguments, folder)
        loads = [os.getloadavg()[0]]
        print("answers")
        for task in arguments.tasks:
            check(run, task)
        record = []
        for table in [] if arguments.check else tables(arguments):
            workers: dict[str, list[WorkerProcess]] = {}
            for side in dict.fromkeys(entry.side for entry in run.entries(table.task)):
                started = [run.start(side) for _ in range(table.shards)]
                if all(started):
                    workers[side] = started
            lines = run.measure(table, workers)
            for worker in (worker for of in workers.values() for worker in of):
                worker.close()
            if lines:
                run.print_table(table, lines)
            record.append({"table": vars(table), "lines": [line.to_json() for line in lines]})
            sys.stdout.flush()
        loads.append(os.getloadavg()[0])
        print(f"\n{cpu_model()}, {os.cpu_count()} cores; load {loads[0]:.1f} before, {loads[1]:.1f} after")
        sizes = {
            name: image_sets.properties(image_sets.make(name, arguments.pictures, folder, 1)) for name in arguments.sets
        }
        for name, words in sizes.items():
            print(f"{name}: {words}")
        print("; ".join(run.versions.values()))
        for name, reason in run.left_out.items():
            print(f"{name}: omitted ({reason})")
        if arguments.json:
            answers = {
                entry.task + " " + entry.label: {n: vars(r) for n, r in of.items()} for entry, of in run.results.items()
            }
            properties = {"cpu": cpu_model(), "loads": loads, "versions": run.versions, "left_out": run.left_out}
            properties |= {"pictures": sizes, "tasks": {task: TASKS[task] for task in arguments.tasks}}
            arguments.json.write_text(json.dumps({**properties, "answers": answers, "tables": record}, indent=1))
    if any(result.wrong for of in run.results.values() for result in of.values()):
        sys.exit("some lines have wrong output and were not timed")


if __name__ == "__main__":
    main()
