"""Measures one random clip of each short video: framespool against its peers, one thread each, cold and warm.

    benches/peers/.venv/bin/python benches/peers/short_clips.py --repeats 5 --json out.json

README.md describes the measurement and its limits.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from pathlib import Path

import adapters
import numpy as np
import oneshot
import reference
from random_clips import SIZE, corpus, cpu_model, recorded_frames

SEQUENCE_LENGTH = 16
OWN = "framespool"
SIDES = (OWN, "framespool_video", *(name for name in adapters.NAMES if name != OWN))
ALL = "all"
# framespool's counters that are shown with the times.
COUNTS = ("frames_decoded", "packets_skipped", "videos_indexed", "index_hits", "bytes_read")


class Job:
    """The clips, and the request for a library."""

    def __init__(self, files: list[Path], seed: int, stride: int, index: str) -> None:
        self.groups: dict[str, list] = {}
        for path in files:
            self.groups.setdefault(path.suffix[1:], []).append([str(path), None])
        self.request = {
            "sampling": {"rule": "random", "sequence_length": SEQUENCE_LENGTH, "stride": stride, "padding": "error"},
            "size": SIZE,
            "seed": seed,
            "index": index,
        }
        # framespool draws the clips, and its index is warm from now on.
        for group, plan in self.ask(OWN, plan=True)["plan"].items():
            for clip, indices in zip(self.groups[group], plan, strict=True):
                clip[1] = indices

    def ask(self, side: str, **more) -> dict:
        return oneshot.ask("short_clips_worker.py", {"side": side, "groups": self.groups, **self.request, **more})

    def clips(self, group: str) -> int:
        return sum(map(len, self.groups.values())) if group == ALL else len(self.groups[group])

    def check(self, names: list[str]) -> dict[str, dict]:
        """By library: its version, and by group the checked frames, wrong ones, and failed files."""
        checks = {}
        with tempfile.TemporaryDirectory() as scratch:
            folders = {name: Path(scratch) / name for name in names}
            for name, folder in folders.items():
                folder.mkdir()
                try:
                    answer = self.ask(name, save=str(folder))
                except oneshot.WorkerError as error:
                    print(f"{name}: omitted ({error})")
                    continue
                checks[name] = {key: answer[key] for key in ("version", "import_s", "unknown", "failures")}
                checks[name]["groups"] = {group: {"frames": 0, "wrong": 0, "failed": 0} for group in self.groups}
            for group, clips in self.groups.items():
                for number, (path, indices) in enumerate(clips):
                    expected = reference.decode(Path(path), set(indices), SIZE, recorded_frames(Path(path)))
                    for name in checks:
                        counts = checks[name]["groups"][group]
                        for size in (None, SIZE):
                            saved = folders[name] / f"{group}_{number}_{size}.npy"
                            if not saved.exists():
                                counts["failed"] += size is None
                                continue
                            counts["wrong"] += expected.count_wrong(indices, np.load(saved), size)[0]
                            counts["frames"] += len(indices)
        for check in checks.values():
            each = check["groups"].values()
            check["groups"][ALL] = {key: sum(counts[key] for counts in each) for key in ("frames", "wrong", "failed")}
        return checks


def measure(job: Job, names: list[str], repeats: int, passes: int) -> dict[str, list[list[dict]]]:
    """By library and repeat, the passes of one process; the order of libraries and of groups rotates."""
    runs: dict[str, list[list[dict]]] = {name: [] for name in names}
    order = list(names)
    for repeat in range(repeats):
        for name in order:
            answer = job.ask(name, passes=passes, first=repeat % len(job.groups))
            for entry in answer["passes"]:
                each = entry["usage"].values()
                entry["usage"][ALL] = {what: sum(usage[what] for usage in each) for what in ("wall_s", "cpu_s")}
            runs[name].append(answer["passes"])
        order.append(order.pop(0))
        print(f"repeat {repeat + 1} of {repeats} done", file=sys.stderr)
    return runs


def values(runs: list[list[dict]], group: str, what: str, warm: bool) -> list[float]:
    """The first pass of each process, or all the others."""
    return [entry["usage"][group][what] for run in runs for entry in run if (entry["number"] > 0) == warm]


def rows(job: Job, runs: dict, group: str) -> dict[str, dict]:
    """By library: medians of clips/s and CPU ms per clip, and of the paired ratios to framespool."""
    table = {}
    for name, own in runs.items():
        row = table[name] = {}
        for state, warm in (("cold", False), ("warm", True)):
            for what in ("wall_s", "cpu_s"):
                mine = values(own, group, what, warm)
                base = values(runs[OWN], group, what, warm) if OWN in runs else []
                row[f"{state}_{what}"] = statistics.median(mine) / job.clips(group) if mine else None
                ratios = [a / b for a, b in zip(mine, base, strict=False)]
                row[f"{state}_{what}_ratio"] = statistics.median(ratios) if ratios else None
    return table


def print_table(job: Job, table: dict[str, dict], checks: dict[str, dict], group: str) -> None:
    print(f"\n{group} ({job.clips(group)} clips)")
    columns = "".join(f"{state + ' clips/s':>14}{'CPU ms':>8}{'wall x':>8}{'CPU x':>7}" for state in ("cold", "warm"))
    print(f"  {'side':<18}{columns}  answers")

    def place(name: str) -> tuple:
        counts = checks[name]["groups"][group]
        return counts["wrong"] + counts["failed"] > 0, table[name]["cold_wall_s"]

    for name in sorted(table, key=place):
        row = table[name]
        cells = ""
        for state in ("cold", "warm"):
            wall, cpu, *ratios = (row[f"{state}_{key}"] for key in ("wall_s", "cpu_s", "wall_s_ratio", "cpu_s_ratio"))
            if wall is None:
                cells += f"{'-':>14}{'-':>8}{'-':>8}{'-':>7}"
                continue
            shown = ["-" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
            cells += f"{1 / wall:>14.1f}{cpu * 1e3:>8.1f}{shown[0]:>8}{shown[1]:>7}"
        counts = checks[name]["groups"][group]
        words = [f"WRONG {counts['wrong']} of {counts['frames']} frames"] if counts["wrong"] else []
        words += [f"no answer for {counts['failed']} files"] if counts["failed"] else []
        outcome = ", ".join(words) or f"right ({counts['frames']} frames)"
        print(f"  {name:<18}{cells}  {outcome}")


def print_stages(job: Job, own: list[list[dict]]) -> None:
    """framespool's counters for a pass over all clips."""
    clips = job.clips(ALL)
    print(f"\nframespool's own counters ({clips} clips)")
    for state, warm in (("cold", False), ("warm", True)):
        stats = [entry["stats"] for run in own for entry in run if (entry["number"] > 0) == warm]
        if not stats:
            continue
        for name in stats[0]:
            value = statistics.median(each.get(name, 0) for each in stats)
            if name.endswith("_seconds"):
                print(f"  {state}  {name:<28}{value / clips * 1e6:>12.0f} us per clip")
            elif name in COUNTS:
                print(f"  {state}  {name:<28}{value:>12.0f} in a pass")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=Path, nargs="+", help="videos; default: video/action of the corpus")
    parser.add_argument("--sides", default=",".join(SIDES), help="comma-separated (default: all)")
    parser.add_argument("--repeats", type=int, default=5, help="processes per library (default 5)")
    parser.add_argument("--passes", type=int, default=3, help="passes per process, the first one cold (default 3)")
    parser.add_argument("--stride", type=int, default=2, help="stride; 1 for videos under 31 frames (default 2)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write all results to this file")
    arguments = parser.parse_args()
    for option in ("repeats", "passes", "stride"):
        if getattr(arguments, option) < 1:
            parser.error(f"--{option} must be at least 1, got {getattr(arguments, option)}")
    arguments.sides = arguments.sides.split(",")
    if set(arguments.sides) - set(SIDES):
        parser.error(f"unknown {', '.join(sorted(set(arguments.sides) - set(SIDES)))}; choose from {', '.join(SIDES)}")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    files = arguments.files or sorted((corpus() / "video" / "action").rglob("*.*"))
    if not files:
        sys.exit(f"no videos in {corpus()}: set FRAMESPOOL_CORPUS or name files with --files")
    with tempfile.TemporaryDirectory() as index:
        try:
            job = Job([path.resolve() for path in files], arguments.seed, arguments.stride, index)
        except oneshot.WorkerError as error:
            sys.exit(f"framespool, which draws the clips: {error}")
        checks = job.check(arguments.sides)
        runs = measure(job, list(checks), arguments.repeats, arguments.passes)
    print(f"\n{cpu_model()}, {os.cpu_count()} cores; Python {platform.python_version()}; load {os.getloadavg()[0]:.1f}")
    what = f"{SEQUENCE_LENGTH} frames, stride {arguments.stride}, to {SIZE}x{SIZE}"
    print(f"{what}; one thread; {arguments.repeats} repeats")
    for name, check in checks.items():
        print(f"  {name:<18}{check['version']}; imported in {check['import_s'] * 1e3:.0f} ms")
        for path, reason in check["failures"].items():
            print(f"    {Path(path).name}: {reason}")
        if check["unknown"]:
            print(f"    this build does not support {', '.join(check['unknown'])}")
    tables = {group: rows(job, runs, group) for group in (*job.groups, ALL)}
    for group, table in tables.items():
        print_table(job, table, checks, group)
    if OWN in runs:
        print_stages(job, runs[OWN])
    if arguments.json:
        report = {
            "cpu": cpu_model(),
            "python": platform.python_version(),
            "clips": job.groups,
            "checks": checks,
            "tables": tables,
            "runs": runs,
        }
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
