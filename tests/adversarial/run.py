"""Searches for malformed files that framespool reads wrongly: generated cases, each compared with an oracle.

    python tests/adversarial/run.py --cases 300
    python tests/adversarial/run.py --case 1/234 --keep odd.mp4     repeats one case with all its results
    python tests/adversarial/run.py --cases 20000 --seed 7 --jobs 2 --record benches/record/<date>-adversarial.txt

A case is one base file (``bases.py``: containers and codecs) with one mutation (``mutations.py``), determined by its
name, ``<seed>/<number>``. The oracle (``oracle.py``) is the ffmpeg program of the package imageio-ffmpeg, of another
release than the FFmpeg that framespool links, and stops at the first sign of damage. Two processes (``reader.py``) read
the file with framespool in every way, with 1, 2 and 4 threads. Their fresh memory, and in some cases the
decoders' buffers, are filled with different bytes. ``compare.py`` requires: each frame equals the oracle's or is an
error, is the same for every way of reading, and has the oracle's timestamp; no file takes more than 10 s or 1 GB.

The exit status is 1 if there is a finding that ``known.txt`` does not list, or if a case listed there has none.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import json
import os
import platform
import select
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from adversarial import bases, cases, compare, oracle  # noqa: E402

HERE = Path(__file__).resolve().parent
KNOWN = HERE / "known.txt"
THREADS = [1, 2, 4]
#: Fill byte of fresh memory (glibc) in each of the two reading processes, and of decoders' buffers in poisoned ones.
FILL = ["1", "254"]
#: Codecs whose decoder writes every block or reports that it did not: previous buffer contents must never matter. In
#: one of this many of their cases the buffers are poisoned (``FRAMESPOOL_POISON``).
WHOLE, POISONED = {"h264", "hevc", "vp9", "av1", "mpeg4", "mpeg12"}, 4
#: Frames that a decoder may hold back for reordering.
MAX_FRAMES_AFTER_ERROR = 8
#: Limits of one step of a reader in seconds: of its processor time, and of wall-clock time, which only a process that
#: hangs reaches (as `timeout` in pyproject.toml).
COMPUTED_SECONDS, ANY_SECONDS = compare.SECONDS, 600.0


class ReaderCrashed(Exception):
    """A reading process ended or hung; the message names the step."""


class Reader:
    """A process that reads files (``reader.py``); it is restarted for the next file if it died."""

    def __init__(self, fill: str, poisoned: bool) -> None:
        self._environment = {**os.environ, "GLIBC_TUNABLES": f"glibc.malloc.perturb={fill}", "PYTHONFAULTHANDLER": "1"}
        if poisoned:
            self._environment["FRAMESPOOL_POISON"] = fill
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""

    def _lines(self) -> dict[str, Any]:
        """The next line; raises `ReaderCrashed` at the end, or if one step takes too long."""
        process = self._process
        assert process is not None and process.stdout is not None
        began, computed = time.monotonic(), _cpu_seconds(process.pid)
        while b"\n" not in self._rest:
            if select.select([process.stdout], [], [], 0.5)[0]:
                more = os.read(process.stdout.fileno(), 1 << 20)
                if not more:
                    raise ReaderCrashed(f"the process exited with {process.wait()}")
                self._rest += more
                continue
            waited = time.monotonic() - began
            if waited > ANY_SECONDS or _cpu_seconds(process.pid) - computed > COMPUTED_SECONDS:
                raise ReaderCrashed(f"no answer after {waited:.0f} s")
        line, self._rest = self._rest.split(b"\n", 1)
        return json.loads(line)

    def read(self, path: Path, intact: Path, seed: int) -> dict[str, Any]:
        """The result of `reader.read` for a file; `unfair` reports a process that died."""
        errors = None
        doing = "start"
        try:
            if self._process is None:
                self._process = subprocess.Popen(
                    [sys.executable, str(HERE / "reader.py")],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=self._environment,
                )
                self._rest = b""
                self._lines()
            assert self._process.stdin is not None
            self._process.stdin.write(
                json.dumps({"path": str(path), "intact": str(intact), "threads": THREADS, "seed": seed}).encode()
                + b"\n"
            )
            self._process.stdin.flush()
            while "step" in (said := self._lines()):
                doing = said["step"]
            return said
        except (ReaderCrashed, OSError) as error:
            errors = error
        self.close()
        return {
            "error": f"died: {errors}",
            "length": 0,
            "pts": [],
            "answers": {},
            "errors": {},
            "unfair": [f"died at '{doing}': {errors}"],
            "seconds": {},
            "peak": 0,
        }

    def close(self) -> None:
        """Kills the process."""
        if self._process is not None:
            self._process.kill()
            with contextlib.suppress(BrokenPipeError):
                self._process.communicate()
            self._process = None


def _cpu_seconds(pid: int) -> float:
    """Processor time of a process."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


class Intact:
    """The oracle's results for base files, each computed once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._found: dict[str, oracle.OracleResult] = {}
        self._lock = threading.Lock()

    def of(self, name: str) -> oracle.OracleResult:
        """The result for one base."""
        with self._lock:
            found = self._found.get(name)
        if found is None:
            found = oracle.decode(self._folder / name, has_fields=cases.BASES[name].has_fields)
            with self._lock:
                self._found[name] = found
        return found


class Run:
    """Creates and compares cases on several threads, each with its own readers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._intact = Intact(folder)
        self._own = threading.local()
        self._readers: list[Reader] = []
        self._work = tempfile.TemporaryDirectory(prefix="adversarial-")

    def close(self) -> None:
        """Stops all readers."""
        for reader in self._readers:
            reader.close()
        self._work.cleanup()

    def case(self, name: str, keep: Path | None = None, tell: bool = False) -> tuple[cases.Case, compare.Outcome]:
        """Creates and compares one case.

        Args:
            name: ``<seed>/<number>``.
            keep: path to which the file is written.
            tell: whether to print all its results.
        """
        if not hasattr(self._own, "readers"):
            self._own.readers = [[Reader(fill, poisoned) for fill in FILL] for poisoned in (False, True)]
            self._readers += sum(self._own.readers, [])
        case = cases.draw(name, self._folder)
        path = Path(self._work.name) / f"case-{threading.get_ident()}{case.suffix}"
        path.write_bytes(case.data)
        if keep:
            keep.write_bytes(case.data)
        has_fields = any(cases.BASES[base].has_fields for base in (case.base.name, *case.others))
        decode = functools.partial(oracle.decode, has_fields=has_fields)
        if case.same_frames_as is not None:
            other = path.with_name(f"other-{path.name}")
            other.write_bytes(case.same_frames_as)
            expected = [decode(other)]
            other.unlink()
        else:
            expected = [decode(path, f"0:v:{stream}") for stream in range(2 if case.rule == "streams" else 1)]
        intact = [self._intact.of(base) for base in (case.base.name, *case.others)]
        seed = zlib.crc32(name.encode())
        readers = self._own.readers[case.base.codec in WHOLE and seed % POISONED == 0]
        results = [reader.read(path, self._folder / case.base.name, seed) for reader in readers]
        outcome = compare.check(case, expected, intact, results)
        if any(text.startswith(("times", "order")) for text in outcome.findings):
            for stream, one in enumerate(expected):
                one.packet_times = oracle.packet_times(path, f"0:v:{stream}")
            outcome = compare.check(case, expected, intact, results)
        if any(one.decoder_error for one in expected) and any(text.startswith("damaged") for text in outcome.findings):
            # Frames that were decoded before the damage but not output yet when the oracle stopped.
            for stream, one in enumerate(expected):
                more = decode(path, f"0:v:{stream}", stop=False).frames
                one.frames += more[len(one.frames) :][:MAX_FRAMES_AFTER_ERROR]
            outcome = compare.check(case, expected, intact, results)
        path.unlink()
        if tell:
            print(case)
            for one in expected:
                print(f"  oracle: {len(one.frames)} frames, {one.decoder_error or 'no decoder error'}")
                print("    " + " ".join(f"{pts}:{answer[:6]}" for pts, answer in one.frames))
            for good in intact:
                print("  intact: " + " ".join(f"{pts}:{answer[:6]}" for pts, answer in good.frames))
            print(f"  framespool: {results[0]['length']} frames, {results[0]['error'] or ''} pts {results[0]['pts']}")
            first: dict[str, str | None] = {}
            for way, answers in results[0]["answers"].items():
                listed = sorted(answers.items(), key=lambda pair: int(pair[0]))
                other = [(index, answer) for index, answer in listed if first.setdefault(index, answer) != answer]
                shown = listed if way.startswith("alone, 1") else other
                print(f"    {way}: " + (" ".join(f"{n}:{(answer or '-')[:6]}" for n, answer in shown) or "the same"))
            for way, error in results[0]["errors"].items():
                print(f"    {way}: {error}")
            print(f"  seconds {results[0]['seconds']}, peak {results[0]['peak']:.0f} MiB")
            print("    ".join([f"  {outcome.kind}\n", *(f"{text}\n" for text in outcome.findings)]))
        return case, outcome


def versions() -> str:
    """The programs and their versions, and the generator: its cases have these names in this version only."""
    import framespool

    program = subprocess.run([oracle.make.FFMPEG, "-version"], capture_output=True, text=True).stdout.split()[2]
    linked = framespool._framespool.ffmpeg_version
    content = b"".join(path.read_bytes() for path in sorted(HERE.glob("*.py")))
    generator = hashlib.sha256(content + bases.folder().name.encode()).hexdigest()[:12]
    return (
        f"generator {generator}; framespool {framespool.__version__} with FFmpeg {linked}; oracle: ffmpeg {program}; "
        f"Python {platform.python_version()}, {os.cpu_count()} cores"
    )


@dataclass
class Log:
    """The results of the cases so far."""

    title: str
    began: float = field(default_factory=time.monotonic)
    outcomes: dict[str, list[compare.Outcome]] = field(default_factory=lambda: defaultdict(list))
    findings: list[str] = field(default_factory=list)

    def add(self, mutation: str, text: str, outcome: compare.Outcome) -> None:
        """Records a case."""
        self.outcomes[mutation].append(outcome)
        if outcome.findings:
            self.findings.append("\n    ".join([text, *outcome.findings]))

    def summary(self) -> list[str]:
        """Programs, counts by mutation and outcome."""
        return [
            f"Odd files, {time.strftime('%Y-%m-%d')}: {self.title}, {time.monotonic() - self.began:.0f} s",
            versions(),
            "",
            *compare.tally(self.outcomes),
            "",
            f"{len(self.findings)} cases with findings; to repeat one: python tests/adversarial/run.py --case NAME",
        ]


def run_case(run: Run, name: str) -> tuple[str, str, compare.Outcome]:
    """The mutation, the text and the outcome of a case; an error of this program is a finding too."""
    try:
        case, outcome = run.case(name)
    except Exception as error:
        return "(none)", name, compare.Outcome("finding", [f"generator: {error!r}"])
    return case.mutation, str(case), outcome


def main() -> int:
    """Command line entry point; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--intact", action="store_true", help="only the base files, instead of cases")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, help="number of concurrent cases")
    parser.add_argument("--case", action="append", default=[], help="run only this case, with all its results")
    parser.add_argument("--keep", type=Path, help="path to which the file of --case is written")
    parser.add_argument("--write", type=Path, help="write the files of all cases to this folder, without comparing")
    parser.add_argument("--record", type=Path, help="write the counts and all findings to this file")
    options = parser.parse_args()

    numbers = range(options.first, options.first + options.cases)
    names = [f"intact/{base}" for base in cases.BASES] if options.intact else [f"{options.seed}/{n}" for n in numbers]
    if options.write:
        options.write.mkdir(parents=True, exist_ok=True)
        for name in names:
            case = cases.draw(name, bases.folder())
            (options.write / f"{name.replace('/', '-')}{case.suffix}").write_bytes(case.data)
        return 0
    run = Run(bases.folder())
    try:
        if options.case:
            return int(any(run.case(name, options.keep, tell=True)[1].findings for name in options.case))
        log = Log(f"{len(names)} cases from {names[0]} on, {options.jobs} at a time")
        with ThreadPoolExecutor(options.jobs) as pool:
            for done, judged in enumerate(pool.map(functools.partial(run_case, run), names), 1):
                log.add(*judged)
                if judged[2].findings:
                    print(log.findings[-1], flush=True)
                if done % 500 == 0 or done == len(names):
                    if options.record:  # an interrupted long run keeps its findings
                        options.record.write_text("\n".join([*log.summary(), *log.findings]) + "\n")
                    print(f"... {done} cases, {len(log.findings)} with findings", flush=True)
    finally:
        run.close()
    print("\n".join(log.summary()))
    found, listed = {finding.partition(":")[0] for finding in log.findings}, known()
    fixed = {name for name in listed if name in names} - found
    for name in sorted(found & set(listed)):
        print(f"known: {name}: {listed[name]}")
    for name in sorted(fixed):
        print(f"fixed: {name}: remove it from {KNOWN.name}")
    return 1 if fixed or found - set(listed) else 0


def known() -> dict[str, str]:
    """Cases with a finding that is not fixed yet, each with its reason."""
    lines = [line for line in KNOWN.read_text().splitlines() if not line.startswith("#")]
    return dict(line.split("\t", 1) for line in lines)


if __name__ == "__main__":
    sys.exit(main())
