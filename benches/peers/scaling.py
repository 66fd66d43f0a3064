"""Measures how framespool's loader scales: threads, memory under a budget, and a million clip requests.

    benches/peers/.venv/bin/python benches/peers/scaling.py --json out.json
    benches/peers/.venv/bin/python benches/peers/scaling.py --parts threads --videos 2 --repeats 5

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
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import long_gop
import oneshot
from random_clips import SIZE, corpus, cpu_model, default_work_folder
from shuffled_epochs import BATCH, FRAMES, TASKS

PARTS = ("threads", "memory", "tickets")
# A million clip requests: many videos with one clip each, and few with many.
CLIP_REQUESTS = ((1_000_000, 1), (1_000, 1_000))
MIB = 1 << 20


def epoch(files: list[Path], sampling: dict, **more) -> dict:
    """One epoch in its own process."""
    with tempfile.TemporaryDirectory() as index:
        request = {
            "side": "framespool",
            "files": [str(path) for path in files],
            "sampling": sampling,
            "batch_size": BATCH,
            "size": SIZE,
            "seed": 0,
            "initial_fill": None,
            "index": index,
        }
        return oneshot.ask("epoch_worker.py", request | more)


def threads(files: list[Path], sampling: dict, counts: list[int], repeats: int) -> dict:
    """The same epoch by number of threads, in alternation, and by as many concurrent processes of one thread.

    Each process runs a complete epoch and they share nothing: together they show the limit of the machine.
    """
    runs: dict[str, list[dict]] = {}
    digests = set()

    def measure(num_threads: int, num_processes: int) -> dict:
        with ThreadPoolExecutor(num_processes) as pool:
            answers = list(pool.map(lambda _: epoch(files, sampling, threads=num_threads), range(num_processes)))
        digests.update(answer["digest"] for answer in answers)
        usages = [answer["usage"] for answer in answers]
        return {
            # Of one epoch, if several run concurrently.
            "wall_s": 1 / sum(1 / usage["wall_s"] for usage in usages),
            "cpu_s": statistics.mean(usage["cpu_s"] for usage in usages),
        }

    settings = [(f"{count} thread{'s' * (count > 1)}", count, 1) for count in counts]
    settings += [(f"{count} processes", 1, count) for count in counts if count > 1]
    first = settings[0][0]
    for repeat in range(repeats):
        for name, num_threads, num_processes in settings:
            runs.setdefault(name, []).append(measure(num_threads, num_processes))
        settings.append(settings.pop(0))
        print(f"threads: repeat {repeat + 1} of {repeats} done", file=sys.stderr)
    print(f"\nthreads: {len(files)} videos, {sampling}")
    print(f"  {'':<14}{'epoch s':>9}{'CPU s':>9}{'cores':>7}{'speedup':>9}  least to most")
    rows = {}
    for name, own in runs.items():
        wall, cpu = (statistics.median(run[what] for run in own) for what in ("wall_s", "cpu_s"))
        cores = statistics.median(run["cpu_s"] / run["wall_s"] for run in own)
        paired = sorted(a["wall_s"] / b["wall_s"] for a, b in zip(runs[first], own, strict=True))
        speedup = statistics.median(paired)
        print(f"  {name:<14}{wall:>9.2f}{cpu:>9.2f}{cores:>7.2f}{speedup:>9.2f}  {paired[0]:.2f} to {paired[-1]:.2f}")
        rows[name] = {"wall_s": wall, "cpu_s": cpu, "cores": cores, "speedup": speedup, "speedups": paired, "runs": own}
    print(f"  answers: {'the same bytes' if len(digests) == 1 else 'WRONG: different bytes'} from all of them")
    return {"rows": rows, "same_bytes": len(digests) == 1}


def memory(files: list[Path], sampling: dict, budgets: list[int]) -> list[dict]:
    """Peak resident memory of an epoch by budget, and the part of it allocated after the loader was created."""
    rows = []
    print(f"\nmemory: {len(files)} videos, {sampling}")
    print(f"  {'budget MiB':<14}{'epoch s':>9}{'peak RSS MiB':>14}{'of epoch MiB':>14}{'store MiB':>11}")
    for budget in [None, *budgets]:
        answer = epoch(files, sampling, memory=None if budget is None else budget * MIB)
        if "cache" in answer["unknown"]:
            print("  skipped: this build has no cache=")
            break
        store = answer["stats"].get("clip_cache_peak_bytes")
        held = "-" if store is None else f"{store / MIB:.0f}"
        peak = answer["peak_memory_bytes"]
        name = "default" if budget is None else budget
        over = "" if budget is None or store is None or store <= budget * MIB else "  OVER BUDGET"
        grown = peak - answer["memory_before_bytes"]
        wall = answer["usage"]["wall_s"]
        print(f"  {name:<14}{wall:>9.2f}{peak / MIB:>14.0f}{grown / MIB:>14.0f}{held:>11}{over}")
        rows.append({"budget_mib": budget, "peak_bytes": peak, "epoch_bytes": grown, "store_peak_bytes": store})
    return rows


def tickets(files: list[Path], repeats: int) -> list[dict]:
    rows = []
    print(f"\ntickets: random clips of {len(files)} videos, listed repeatedly")
    columns = (
        f"{'to make s':>11}{'first batch s':>15}{'bytes/ticket':>14}{'first batch MiB':>17}{'the list, B/entry':>19}"
    )
    print(f"  {'entries x clips':<18}{columns}")
    for videos, clips in CLIP_REQUESTS:
        answers = []
        for _ in range(repeats):
            with tempfile.TemporaryDirectory() as index:
                request = {"videos": videos, "clips_per_video": clips, "index": index}
                answers.append(
                    oneshot.ask("clip_requests_worker.py", request | {"files": [str(path) for path in files]})
                )
        num_clips = answers[0]["clips"]
        row = {
            "videos": videos,
            "clips": num_clips,
            "to_make_s": statistics.median(answer["building"]["wall_s"] for answer in answers),
            "first_batch_s": statistics.median(answer["first_batch"]["wall_s"] for answer in answers),
            "bytes_per_ticket": statistics.median(answer["loader_bytes"] for answer in answers) / num_clips,
            "first_batch_bytes": statistics.median(answer["first_batch_bytes"] for answer in answers),
            "list_bytes_per_entry": statistics.median(answer["list_bytes"] for answer in answers) / videos,
        }
        memory = f"{row['first_batch_bytes'] / MIB:>17.0f}{row['list_bytes_per_entry']:>19.0f}"
        print(
            f"  {f'{videos} x {clips}':<18}{row['to_make_s']:>11.3f}{row['first_batch_s']:>15.3f}"
            f"{row['bytes_per_ticket']:>14.1f}{memory}"
        )
        rows.append(row)
    return rows


def parse_arguments() -> argparse.Namespace:
    whole_list = lambda text: [int(word) for word in text.split(",")]  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS), help="comma-separated (default: all)")
    parser.add_argument("--task", default="windows_1_16", choices=TASKS, help="the sampling of threads and memory")
    parser.add_argument("--videos", type=int, default=4, help="videos of 300 frames for them (default 4)")
    parser.add_argument(
        "--threads", type=whole_list, default=[1, 2], help="the first one is the reference (default 1,2)"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--budgets", type=whole_list, default=[0, 64, 256, 1024, 2048], help="in MiB")
    parser.add_argument("--work", type=Path, default=default_work_folder(), help="folder of the encodes")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    arguments = parser.parse_args()
    for option in ("videos", "repeats"):
        if getattr(arguments, option) < 1:
            parser.error(f"--{option} must be at least 1, got {getattr(arguments, option)}")
    arguments.parts = arguments.parts.split(",")
    if set(arguments.parts) - set(PARTS):
        parser.error(f"unknown {', '.join(sorted(set(arguments.parts) - set(PARTS)))}; choose from {', '.join(PARTS)}")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    sources = sorted((corpus() / "video" / "1080p").glob("*.m*"))
    if not sources:
        sys.exit(f"no videos in {corpus()}: set FRAMESPOOL_CORPUS")
    sampling = TASKS[arguments.task]
    print(f"{cpu_model()}, {os.cpu_count()} cores; Python {platform.python_version()}; load {os.getloadavg()[0]:.1f}")
    report: dict = {"cpu": cpu_model(), "python": platform.python_version()}
    report["versions"] = {"framespool": version("framespool")}
    if set(arguments.parts) & {"threads", "memory"}:
        files = long_gop.dataset(sources, arguments.videos, FRAMES, arguments.work)
        if "threads" in arguments.parts:
            report["threads"] = threads(files, sampling, arguments.threads, arguments.repeats)
        if "memory" in arguments.parts:
            report["memory"] = memory(files, sampling, arguments.budgets)
    if "tickets" in arguments.parts:
        short = sorted((corpus() / "video" / "action").glob("*.mp4"))
        report["tickets"] = tickets(short, arguments.repeats)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
