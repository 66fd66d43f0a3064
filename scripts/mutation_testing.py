#!/usr/bin/env python3
"""Mutation testing on a sample: the share of mutants that the tests kill, in a copy of the sources.

    scripts/dynamic_analysis.sh mutate [--minutes 45] [AREA...]    a sample of plan, index, batch_sampler, batch, pixels

cargo-mutants lists the mutants (`cargo mutants --list`); running it would build every test program for each mutant.
Here an area's unit tests are built and run first, and its other tests only for mutants that survive them. Areas get
equal shares of the time. Mutants are tried in the order of their hashes, so a longer run starts with the same ones.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute()
COPY = TARGET / "mutate"
#: Much longer than the tests take on unchanged code.
TIMEOUT_SECS = 60
OUTCOMES = ("caught", "survived", "unviable", "timeout")


class TestProgram(NamedTuple):
    """A test program, and which of its tests are run."""

    program: str
    names: tuple[str, ...] = ()


class Area(NamedTuple):
    package: str
    files: tuple[str, ...]
    #: Run in order until one fails.
    tests: tuple[TestProgram, ...]


def engine_area(name: str, *more: TestProgram) -> Area:
    return Area("framespool", (f"src/{name}.rs", f"src/{name}/"), (TestProgram("--lib", (f"{name}::",)), *more))


UNIT_TESTS = TestProgram("--lib")
# Kernels: without the scalar reference (tests compare with it) and CUDA launches (see scripts/kernels.py).
PIXEL_PASS = (
    "color",
    "lut",
    "output_spec",
    "geometry",
    "mask",
    "pixel_pass",
    "resample",
    "simd",
    "frame",
    "warp",
    "weights",
    "write",
)
AREAS = {
    "plan": engine_area("plan", UNIT_TESTS),
    "index": engine_area("index", UNIT_TESTS, TestProgram("--test=engine", ("index_cache::",))),
    "batch_sampler": engine_area("batch_sampler", UNIT_TESTS),
    "batch": engine_area("batch", UNIT_TESTS),
    "pixels": Area(
        "framespool-kernels",
        tuple(f"kernels/src/{name}{end}" for name in PIXEL_PASS for end in (".rs", "/")),
        (UNIT_TESTS, TestProgram("--test=pixel_pass")),
    ),
}


def die(text: str) -> None:
    sys.exit(f"mutation_testing: {text}")


def copy_sources() -> None:
    """Restores the sources, with a newer time stamp than the build of an earlier mutant."""
    shutil.rmtree(COPY, ignore_errors=True)
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0"):
        if name and (ROOT / name).is_file():
            place = COPY / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, place)
    (COPY / "target").mkdir()
    (COPY / "target" / "media").symlink_to((ROOT / "target" / "media").resolve())


def mutants(area: Area) -> list[dict]:
    command = ["cargo", "mutants", "--list", "--json", "--diff", "--workspace"]
    listed = subprocess.run(command, cwd=COPY, capture_output=True, text=True)
    if listed.returncode:
        die(f"{listed.stderr.strip()[-300:]}\ninstall it: cargo install --locked cargo-mutants")
    ours = [m for m in json.loads(listed.stdout) if m["file"].startswith(area.files)]
    return sorted(ours, key=lambda m: hashlib.sha256(m["name"].encode()).digest())


def program(area: Area, tests: TestProgram) -> Path | None:
    """The built test program; `None` if the sources do not compile."""
    # Each program runs once: optimizing the engine would take longer than its tests.
    command = ["cargo", "--config", "profile.test.package.framespool.opt-level=0", "test", "--package", area.package]
    command += [tests.program, "--no-run", "--message-format=json"]
    done = subprocess.run(command, cwd=COPY, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if done.returncode:
        return None
    messages = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    return Path(next(m["executable"] for m in messages if m.get("executable")))


def run_tests(area: Area) -> str:
    """One of `OUTCOMES`, for the current sources in the copy."""
    folder = COPY / ("kernels" if area.package == "framespool-kernels" else ".")
    env = dict(os.environ, RUST_BACKTRACE="0", CARGO_MANIFEST_DIR=str(folder))
    for tests in area.tests:
        path = program(area, tests)
        if path is None:
            return "unviable"
        try:
            done = subprocess.run([path, *tests.names], cwd=folder, env=env, capture_output=True, timeout=TIMEOUT_SECS)
        except subprocess.TimeoutExpired:
            return "timeout"
        if done.returncode:
            return "caught"
    return "survived"


def try_mutant(area: Area, mutant: dict) -> str:
    place = COPY / mutant["file"]
    before = place.read_text()
    patch = ["patch", "--silent", "--no-backup-if-mismatch", place]
    try:
        subprocess.run(patch, input=mutant["diff"], text=True, check=True)
        return run_tests(area)
    finally:
        place.write_text(before)


def table(counts: dict[str, Counter], totals: dict[str, int]) -> str:
    heads = "".join(f"{name:>10}" for name in OUTCOMES)
    lines = [f"{'area':8}{'mutants':>9}{'tried':>7}{heads}  survived of viable"]
    for area, count in counts.items():
        viable = count.total() - count["unviable"]
        share = f"{count['survived'] / viable:.0%}" if viable else ""
        numbers = "".join(f"{count[name]:>10}" for name in OUTCOMES)
        lines.append(f"{area:8}{totals[area]:>9,}{count.total():>7}{numbers}{share:>20}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=45)
    parser.add_argument("areas", nargs="*", metavar="AREA", help=", ".join(AREAS))
    arguments = parser.parse_args()
    names = arguments.areas or list(AREAS)
    if unknown := set(names) - set(AREAS):
        die(f"no area {', '.join(sorted(unknown))}; one of {', '.join(AREAS)}")
    copy_sources()
    queues = {name: mutants(AREAS[name]) for name in names}
    totals = {name: len(queue) for name, queue in queues.items()}
    for name in names:
        if (outcome := run_tests(AREAS[name])) != "survived":
            die(f"the tests of {name} fail on the unchanged code ({outcome})")
    end = time.monotonic() + 60 * arguments.minutes
    counts: dict[str, Counter] = {name: Counter() for name in names}
    # Continue with the area that has used the least time: equal shares of time.
    spent = dict.fromkeys(names, 0.0)
    while any(queues.values()) and time.monotonic() < end:
        name = min((name for name in names if queues[name]), key=spent.__getitem__)
        mutant, begun = queues[name].pop(0), time.monotonic()
        outcome = try_mutant(AREAS[name], mutant)
        spent[name] += time.monotonic() - begun
        counts[name][outcome] += 1
        print(f"{outcome:9} {mutant['name']}", flush=True)
    print(table(counts, totals))
    return 0


if __name__ == "__main__":
    sys.exit(main())
