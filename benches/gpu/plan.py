"""Runs checks and measurements within minutes, for a GPU that is available for a short time: smoke, core, peers.

    python benches/gpu/plan.py smoke     # 4 min: is everything correct, and what must be turned off
    python benches/gpu/plan.py core      # 8 min: framespool's throughput against the engines'
    python benches/gpu/plan.py peers     # 8 min: the same clips with other libraries, which must be installed

Each job is a process of check.py or bench.py with a time limit. Jobs of correctness run side by side, measurements one
after another. A job writes its record after each item, into the folder of --out, so a plan that is killed keeps what it
has found. If a check of `smoke` fails, it runs again with each mechanism turned off (FRAMESPOOL_GPU_DISABLE), and the
last lines say which of them helps. Exit status: 0, 1 if a check failed, 3 if there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import HERE, devices_or_exit, record_place, write
from items import FAILED, OK, stop

#: Mechanisms that FRAMESPOOL_GPU_DISABLE turns off.
SWITCHES = (
    "decode-status",
    "reconfigure",
    "decoder-reuse",
    "skipping",
    "parallel-sessions",
    "early-unmap",
    "nvjpeg-hardware",
    "locked-upload",
    "code-upload",
)
#: Seconds for the checks of `smoke` that run again with a mechanism turned off.
AGAIN_SECONDS = 20
#: Seconds after its time before a job is killed.
GRACE_SECONDS = 15


@dataclass(frozen=True)
class Job:
    """One process of a program, for items that match a regular expression."""

    program: str
    only: str
    seconds: float
    #: Seconds per item. Those of measurements are their own budgets; verification and warm-up take as long again.
    budget: float
    #: A mechanism to turn off, or "nothing" for a repetition.
    without: str = ""

    def command(self, out: Path) -> list[str]:
        budget = {"check": "--budget", "bench": "--seconds"}[self.program]
        arguments = ["--only", self.only, budget, str(self.budget), "--total", str(self.seconds), "--out", str(out)]
        return [sys.executable, str(HERE / f"{self.program}.py"), *arguments]


def checks(seconds: float, budget: float, *groups: str) -> list[Job]:
    return [Job("check", group, seconds, budget) for group in groups]


def measured(*items: tuple[str, float]) -> list[list[Job]]:
    return [[Job("bench", f"^{name}$", 2 * budget + 20, budget)] for name, budget in items]


#: Stages of jobs that run side by side.
PLANS: dict[str, list[list[Job]]] = {
    "smoke": [
        checks(
            110,
            45,
            "^properties|^decode-hevc|^decode-others|^decode-vp8",
            "^decode-h264",
            "^random-access|^strided",
            "^pixels",
            "^loaders|^two-loaders",
            "^held-stream|^torch-|^host-batches|^interface|^others",
            "^jpeg|^damage",
        ),
        checks(50, 40, "^sessions$", "^(parser|maps|open|fork|close)$", "^training$", "^sanitizer$", "^pytest$"),
        # Alone, since it measures time.
        checks(60, 45, "^epochs-ahead$"),
        # Alone, since it takes the memory of the device.
        checks(60, 25, "^memory$"),
    ],
    "core": measured(
        ("ceilings", 16),
        ("dense", 32),
        ("random", 25),
        ("published-shape", 40),
        ("workers", 10),
        ("fixed-cost", 10),
        ("first-batch", 15),
        ("uploads", 20),
        ("images", 16),
        ("shuffled-epochs", 12),
    ),
    "peers": measured(("ceilings", 10), ("peer-torchcodec", 60), ("peer-pynvvideocodec", 60), ("peer-dali", 60)),
}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", choices=PLANS)
    parser.add_argument("--out", type=Path, help="folder of the records (default: that of the day's record)")
    parser.add_argument("--only", default="", help="only jobs whose items contain this text")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of all times, to try a plan")
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    device = devices_or_exit()[0]
    folder = arguments.out or record_place(device, "check", None).parent
    folder.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    failed: set[tuple[str, str, str]] = set()
    for stage in PLANS[arguments.plan]:
        jobs = [scaled(job, arguments.scale) for job in stage if arguments.only in job.only]
        for job, rows in zip(jobs, run_stage(jobs, folder, begun), strict=True):
            if job.program == "check":
                failed |= {identity(row) for row in rows if row["result"] == FAILED}
    if arguments.plan == "smoke":
        print("\n".join(conclusion(sorted(failed), folder, arguments.scale, begun)), flush=True)
    return 1 if failed else 0


def scaled(job: Job, scale: float) -> Job:
    return Job(job.program, job.only, max(job.seconds * scale, 25), job.budget * scale, job.without)


def run_stage(jobs: list[Job], folder: Path, begun: float) -> list[list[dict[str, Any]]]:
    """Runs jobs side by side; the rows of each, also of one that was killed."""
    running = []
    for number, job in enumerate(jobs):
        name = f"{job.program}-{'without-' + job.without + '-' if job.without else ''}{slug(job.only)}"
        out = folder / f"{name}.json"
        out.unlink(missing_ok=True)
        environment = dict(os.environ)
        if job.without in SWITCHES:
            environment["FRAMESPOOL_GPU_DISABLE"] = job.without
        log = (folder / f"{name}.txt").open("wb")
        command = job.command(out)
        child = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
        running.append((number, job, out, log, child, time.monotonic() + job.seconds + GRACE_SECONDS))
    found: list[list[dict[str, Any]]] = [[] for _ in jobs]
    for number, job, out, log, child, until in running:
        ended = ""
        try:
            child.wait(timeout=max(until - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            ended = "  killed after its time"
            stop(child)
        log.close()
        found[number] = rows_of(out)
        if job.program == "check" and (ended or child.returncode not in (0, 1)):
            why = ended.strip() or f"code {child.returncode}, see {name}.txt"
            lost = {"item": job.only, "name": "the job", "asked": "ends in its time", "result": FAILED, "why": why}
            found[number].append(lost)
        results = [row["result"] for row in found[number]]
        counts = ", ".join(f"{results.count(result)} {result}" for result in dict.fromkeys(results)) or "no rows"
        without = f" without {job.without}" if job.without else ""
        print(f"{time.monotonic() - begun:5.0f} s  {job.program} {job.only}{without}: {counts}{ended}", flush=True)
        for row in found[number]:
            if row["result"] == FAILED:
                print(f"         FAILED {row['item']}: {row['name']}: {row['why'][:300]}", flush=True)
    return found


def conclusion(failed: list[tuple[str, str, str]], folder: Path, scale: float, begun: float) -> list[str]:
    """Which mechanism to turn off, by trying each with the items that failed; also written to smoke.json.

    A mechanism is named only if a row that fails again with everything on passes without it.
    """
    if not failed:
        lines = ["conclusion: nothing failed, nothing need be turned off"]
    else:
        only = "^(" + "|".join(sorted({item for item, _, _ in failed})) + ")$"
        seconds, budget = AGAIN_SECONDS * max(scale, 1), AGAIN_SECONDS * max(scale, 1) / 2
        jobs = [Job("check", only, seconds, budget, switch) for switch in ("nothing", *SWITCHES)]
        control, *others = run_stage(jobs, folder, begun)
        again = {identity(row) for row in control if row["result"] == FAILED} & set(failed)
        lines = [] if again else ["conclusion: nothing failed again, so no mechanism can be named; run check alone"]
        for job, rows in zip(jobs[1:], others, strict=True) if again else ():
            helped = sorted(identity(row)[:2] for row in rows if identity(row) in again and row["result"] == OK)
            names = ", ".join(f"{item} {name}" for item, name in helped)
            effect = f"off recommended: {names} then pass" if helped else "makes no difference"
            lines.append(f"conclusion: {job.without}: {effect}")
    write(folder / "smoke.json", {"what": "smoke", "failed": failed, "conclusion": lines})
    return lines


def identity(row: dict[str, Any]) -> tuple[str, str, str]:
    return (row["item"], row["name"], row["asked"])


def rows_of(record: Path) -> list[dict[str, Any]]:
    try:
        return json.loads(record.read_text())["rows"]
    except (OSError, ValueError, KeyError):
        return []


def slug(only: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in only.strip("^$()")).strip("-")[:60]


if __name__ == "__main__":
    sys.exit(main())
