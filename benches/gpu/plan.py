"""Runs checks and measurements within minutes, for a GPU that is available for a short time: smoke, core, peers.

    python benches/gpu/plan.py smoke     # 4 min: is everything correct, and what must be turned off
    python benches/gpu/plan.py core      # 9.5 min: experiments, the most important first
    python benches/gpu/plan.py peers     # 8 min: the same clips with other libraries, which must be installed

`core` is the table EXPERIMENTS. Each is a process of its own with a time limit; the record core.json is written
after each. No experiment starts after the time is over.

Of the other plans, each job is a process of check.py or bench.py with a time limit. Jobs of correctness run side by
side, measurements one after another. A job writes its record after each item, into the folder of --out, so a plan that
is killed keeps what it has found. If a check of `smoke` fails, it runs again with each mechanism turned off
(FRAMESPOOL_GPU_DISABLE), and the last lines say which of them helps. Exit status: 0, 1 if a check failed, 3 if there is
no GPU.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import checks
import measurements
from bench import report
from common import HERE, TRY, devices_or_exit, machine, record_place, write
from items import FAILED, IMPOSSIBLE, OK, REGISTRY, Row, run_in_subprocess, stop
from measurements.measured_ceilings import collect

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
    "least-priority",
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


def check_jobs(seconds: float, budget: float, *groups: str) -> list[Job]:
    return [Job("check", group, seconds, budget) for group in groups]


def measured(*items: tuple[str, float]) -> list[list[Job]]:
    return [[Job("bench", f"^{name}$", 2 * budget + 20, budget)] for name, budget in items]


#: Stages of jobs that run side by side.
PLANS: dict[str, list[list[Job]]] = {
    "smoke": [
        check_jobs(
            110,
            45,
            "^properties|^decode-hevc|^decode-others|^decode-vp8",
            "^decode-h264",
            "^random-access|^strided",
            "^pixels",
            "^loaders|^two-loaders",
            "^held-stream|^second-stream|^torch-|^host-batches|^interface|^others",
            "^jpeg|^damage",
        ),
        check_jobs(50, 40, "^sessions$", "^(parser|maps|open|fork|close)$", "^training$", "^sanitizer$", "^pytest$"),
        # Alone, since it measures time.
        check_jobs(60, 45, "^epochs-ahead$"),
        # Alone, since it takes the memory of the device.
        check_jobs(60, 25, "^memory$"),
    ],
    "peers": measured(("ceilings", 10), ("peer-torchcodec", 60), ("peer-pynvvideocodec", 60), ("peer-dali", 60)),
}


#: Seconds of `core`: a command of ten minutes also unpacks the bundle.
CORE_SECONDS = 570


@dataclass(frozen=True)
class Experiment:
    """One process of an item of check.py or bench.py."""

    #: The question, as a number; see README.md.
    number: int
    item: str
    seconds: float
    #: Values of the item's parameters.
    arguments: dict[str, Any] = field(default_factory=dict)
    #: A mechanism to turn off.
    without: str = ""
    #: Seconds for the start, for verification, and to end; then the process is killed.
    extra: float = 15

    @property
    def label(self) -> str:
        return " ".join([str(self.number), self.item, *(f"{key}={value}" for key, value in self.arguments.items())])

    def run(self, seconds: float, extra: float) -> list[Row]:
        entry = REGISTRY[self.item]
        script = HERE / ("check.py" if entry.run.__module__.startswith("checks.") else "bench.py")
        environment = {"FRAMESPOOL_GPU_DISABLE": self.without} if self.without else {}
        passed_on = ["--arguments", json.dumps(self.arguments)]
        return run_in_subprocess(entry, script, passed_on, seconds, extra, environment)


def experiments(number: int, item: str, seconds: float, *each: dict[str, Any], **more: Any) -> list[Experiment]:
    return [Experiment(number, item, seconds, arguments, **more) for arguments in each or ({},)]


#: A random clip of each video, of x264's default GOP of 250.
CLIPS = {"gop": 250, "codec": "h264"}
BUSY = {"with_load": True}
LEAST, GREATEST = {"priority": "least"}, {"priority": "greatest"}


def jpeg(api: str, batch: int, depth: int, threads: int, own_handle: bool = False) -> dict[str, Any]:
    return {"api": api, "batch": batch, "depth": depth, "threads": threads, "own_handle": own_handle}


EXPERIMENTS: list[Experiment] = [
    # 0. The engines' rate, which normalizes all others to this card.
    *experiments(0, "ceiling", 3, {"codec": "h264", "sessions": 7}, {"codec": "hevc", "sessions": 7}),
    # 1. Random clips by decoder and batch size.
    *experiments(
        1,
        "random",
        8,
        *({**CLIPS, "decoder": decoder, "batch": batch} for batch in (8, 32) for decoder in ("nvdec", "auto", "cpu")),
        {**CLIPS, "decoder": "auto", "batch": 64},
        extra=25,
    ),
    # 2. During a training step, by the priority of the loader's streams.
    *experiments(2, "during-training", 8, {"work": "random", **LEAST}, {"work": "dense", **LEAST}),
    *experiments(
        2,
        "during-training",
        8,
        {"work": "random", **GREATEST},
        {"work": "dense", **GREATEST},
        without="least-priority",
    ),
    # 3. Equal bytes while the multiprocessors are saturated.
    *experiments(3, "second-stream", 10, extra=20),
    *experiments(3, "decode-h264", 12, BUSY),
    *experiments(3, "decode-hevc", 10, BUSY),
    *experiments(3, "held-stream", 10, BUSY, extra=20),
    *experiments(3, "auto-order", 12, BUSY, extra=20),
    # 4. JPEG: which calls reach the engines' rate, and the loader.
    *experiments(
        4,
        "nvjpeg-calls",
        1,
        # What framespool does, then with more states.
        jpeg("batched", 1, 2, 1),
        jpeg("batched", 1, 2, 2),
        jpeg("batched", 1, 2, 4),
        jpeg("batched", 1, 2, 4, own_handle=True),
        jpeg("batched", 1, 8, 1),
        jpeg("batched", 1, 8, 4),
        # Batches.
        jpeg("batched", 32, 2, 1),
        jpeg("batched", 128, 2, 1),
        jpeg("batched", 128, 2, 2),
        jpeg("batched", 128, 2, 4),
        jpeg("batched", 128, 2, 4, own_handle=True),
        # What NVIDIA's nvImageCodec does if there are several engines.
        jpeg("decoupled", 1, 2, 1),
        jpeg("decoupled", 1, 8, 1),
        jpeg("decoupled", 1, 8, 2),
        jpeg("decoupled", 1, 4, 4),
        jpeg("decoupled", 1, 4, 8),
        extra=10,
    ),
    *experiments(4, "images", 7, *({"threads": threads} for threads in (1, 2, 8, 16))),
    # 5. A complete dense epoch, and the number of workers.
    *experiments(5, "published-shape", 16, {"shape": "small"}),
    *experiments(5, "random", 8, *({**CLIPS, "threads": threads} for threads in (7, 10, 14)), extra=20),
    # 6. Latency of one frame.
    *experiments(6, "video-latency", 6, *({"gop": 30, "side": side} for side in ("cuda", "cpu", "torchcodec"))),
    # A frame takes about 100 ms.
    *experiments(6, "video-latency", 22, {"gop": 250, "side": "cuda"}),
    *experiments(6, "video-latency", 6, *({"gop": 250, "side": side} for side in ("cpu", "torchcodec"))),
    # 7. Memory.
    *experiments(7, "memory-loader", 12, extra=20),
    *experiments(7, "session-memory", 5, {"sessions": [1, 7]}),
    # 8. Two processes on the GPU.
    *experiments(8, "two-processes", 8, extra=25),
    # 9. Few videos.
    *experiments(9, "random", 6, *({**CLIPS, "files": 2, "threads": threads} for threads in (2, 8))),
    # 10. A disk cache of later epochs.
    *experiments(10, "epochs-ahead", 12, {"ahead": 1, "decoder": "nvdec"}, {"ahead": 8, "decoder": "nvdec"}, extra=20),
]


def run_experiments(
    chosen: list[Experiment], place: Path, seconds: float, scale: float, properties: dict[str, Any]
) -> list[Row]:
    """One after another; the record is written after each, and what did not start is in it."""
    begun = time.monotonic()
    rows: list[Row] = []
    made: list[dict[str, Any]] = []

    def keep(experiment: Experiment, found: list[Row]) -> None:
        rows.extend(found)
        made.extend({**asdict(row), "experiment": asdict(experiment)} for row in found)
        stamp = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        write(place, {"what": "core", "date": stamp, "machine": properties, "rows": made})

    for experiment in chosen:
        budget = experiment.seconds * scale
        # The simulated driver takes long.
        extra = experiment.extra * (10 if TRY else 1)
        left = seconds - (time.monotonic() - begun)
        # Half of the extra time is enough for most.
        if left < budget + experiment.extra / 2:
            why = f"did not start: the {seconds:.0f} s were used up"
            keep(experiment, [Row(experiment.item, "the experiment runs", IMPOSSIBLE, why, item=experiment.item)])
            continue
        os.environ["FRAMESPOOL_CEILINGS"] = json.dumps(collect(made))
        found = experiment.run(budget, min(extra, left - budget))
        keep(experiment, found or [Row(experiment.item, "the experiment runs", FAILED, "no row", item=experiment.item)])
        results = [row.result for row in found]
        counts = ", ".join(f"{results.count(result)} {result}" for result in dict.fromkeys(results)) or "no rows"
        print(f"{time.monotonic() - begun:5.0f} s  {experiment.label}: {counts}", flush=True)
    return rows


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", choices=["smoke", "core", "peers"])
    parser.add_argument("--out", type=Path, help="folder of the records (default: that of the day's record)")
    parser.add_argument("--only", default="", help="only jobs whose items contain this text")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of all times, to try a plan")
    parser.add_argument("--seconds", type=float, default=CORE_SECONDS, help="of core: no experiment starts later")
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    device = devices_or_exit()[0]
    folder = arguments.out or record_place(device, "check", None).parent
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.plan == "core":
        checks.load()
        measurements.load()
        chosen = [each for each in EXPERIMENTS if arguments.only in each.label]
        place = folder / "core.json"
        rows = run_experiments(chosen, place, arguments.seconds, arguments.scale, machine(device))
        # Of the hundred videos that are compared, only those that differ.
        shown = [row for row in rows if row.result == FAILED or not row.item.startswith("decode-")]
        print(report(shown))
        return 1 if any(row.result == FAILED for row in rows) else 0
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
    # The simulated driver takes long.
    shortest = 600 if TRY else 25
    return Job(job.program, job.only, max(job.seconds * scale, shortest), job.budget * scale, job.without)


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
