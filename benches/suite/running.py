"""Runs the benches in order, each in its own process group, and records their results."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from suite import machine, record
from suite.benches import CORPUS, Bench
from suite.environments import ROOT, Missing, environments

#: A bench counts as hung after this multiple of its expected duration plus this many minutes.
TIMEOUT_FACTOR = 8
MIN_TIMEOUT_MINUTES = 20
# Seconds to measure the load by others before a run starts.
POLL_SECS = 1.0


class BenchError(RuntimeError):
    """A bench gave no result; the others continue."""


def corpus() -> Path | None:
    place = os.environ.get("FRAMESPOOL_CORPUS")
    return Path(place).resolve() if place else None


def elsewhere_now() -> str:
    """Load of the machine while no bench runs."""
    watch = machine.Watch.start()
    time.sleep(POLL_SECS)
    load = watch.stop()
    words = f"load {load['after']:.1f}, others use {load['elsewhere_cores']:.1f} cores"
    return words if load["quiet"] else words + ": NOT QUIET, the records will state it"


def scrubbed(text: str) -> str:
    """Without this machine's folders: a record states what was measured, not where its files were."""
    places = {
        str(corpus() or ""): "$FRAMESPOOL_CORPUS",
        str(ROOT): ".",
        tempfile.gettempdir(): "$TMPDIR",
        str(Path.home()): "~",
    }
    for folder, word in places.items():
        # Complete names only: /root is not part of /rootless, and a home of / is ignored.
        if len(folder) > 1:
            text = re.sub(re.escape(folder) + r"(?![\w.-])", lambda _, word=word: word, text)
    return text


def scrubbed_json(value: Any) -> Any:
    if isinstance(value, str):
        return scrubbed(value)
    if isinstance(value, dict):
        return {scrubbed(key): scrubbed_json(each) for key, each in value.items()}
    return [scrubbed_json(each) for each in value] if isinstance(value, list) else value


def build() -> str | None:
    """framespool's revision, if git knows it."""
    asked = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return asked.stdout.strip() or None


def call(program: list[str]) -> bool:
    try:
        return subprocess.run(program, cwd=ROOT).returncode == 0
    except OSError as error:
        print(error, file=sys.stderr)
        return False


class Run:
    """A folder of results, which can be continued."""

    def __init__(self, name: str, short: bool, again: bool) -> None:
        self.name = name
        self.short = short
        self.again = again
        self.folder = ROOT / "target" / "bench" / name

    def result(self, bench: Bench) -> Path:
        return self.folder / f"{bench.name}.json"

    def has(self, bench: Bench) -> bool:
        """Whether there is nothing to do. A trial's result does not count as a measurement."""
        path = self.result(bench)
        return not self.again and path.exists() and record.read(path)["short"] == self.short

    def resume_words(self) -> str:
        return f"--run {self.name}" + (" --short" if self.short else "")

    def is_kept(self, result: Path) -> bool:
        mark = result.with_suffix(".kept")
        return mark.exists() and mark.read_text() == json.loads(result.read_text())["began"]

    def mark_kept(self, result: Path) -> None:
        result.with_suffix(".kept").write_text(json.loads(result.read_text())["began"])

    def one(self, bench: Bench, setup: bool) -> Path:
        """Sets up the environment of the bench, runs it, and writes NAME.json, NAME.txt and NAME.log. Raises Failed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        environment = environments()[bench.environment]
        try:
            if setup and not environment.ready():
                log = self.folder / f"{bench.name}.setup.log"
                print(f"setting up {environment.name}: {' '.join(environment.setup)} (log: {log.name})", flush=True)
                environment.make(log)
        except Missing as error:
            raise BenchError(scrubbed(str(error))) from None
        if not environment.python.exists():
            raise BenchError(f"no {bench.environment} environment: {' '.join(environment.setup)} makes it")
        words = bench.short_words if self.short else bench.words
        minutes = bench.short_minutes if self.short else bench.minutes
        limit_secs = 60 * (TIMEOUT_FACTOR * minutes + bench.first_time_minutes * 3 + MIN_TIMEOUT_MINUTES)
        print(f"\n== {bench.name}: {bench.title}", flush=True)
        raw = self.folder / f"{bench.name}.raw.json"
        raw.unlink(missing_ok=True)
        command = [str(environment.python), str(ROOT / "benches" / bench.program)]
        command += [word.replace(CORPUS, str(corpus())) for word in words] + ["--json", str(raw)]
        variables = {**os.environ, **bench.variables, "FRAMESPOOL_CORPUS": str(corpus())}
        began = datetime.datetime.now(datetime.UTC)
        watch, clock = machine.Watch.start(), time.monotonic()
        code, text = self._call(bench, command, variables, limit_secs)
        seconds = time.monotonic() - clock
        machine.reap_orphans()
        load = watch.stop()
        if not raw.exists():
            raise BenchError(f"ended with code {code} and no figures; {(self.folder / bench.name).name}.log says more")
        raw_results = json.loads(raw.read_text())
        result = bench.read(raw_results)
        others = f"others used {load['elsewhere_cores']:.2f} cores"
        load["said"] = f"load {load['before']:.1f} before and {load['after']:.1f} after, {others}"
        shown = f"benches/{bench.program} " + " ".join(words).replace(CORPUS, "$FRAMESPOOL_CORPUS")
        made = {
            "schema": record.SCHEMA,
            "bench": bench.name,
            "title": bench.title,
            "date": began.date().isoformat(),
            "began": began.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "seconds": round(seconds),
            "short": self.short,
            "source": record.MEASURED,
            # Environments that are used without updating may have another build.
            "build": build() if setup else None,
            "machine": machine.properties() | ({"python": raw_results["python"]} if "python" in raw_results else {}),
            "load": load,
            "command": shown,
            "answers": {"checked": True, "how": bench.checked, "ended": code},
            **record.to_json(result),
        }
        made = scrubbed_json({name: value for name, value in made.items() if value is not None})
        self.result(bench).with_suffix(".txt").write_text(heading(made) + "\n" + scrubbed(text))
        record.write(self.result(bench), made)
        return self.result(bench)

    def _call(self, bench: Bench, command: list[str], variables: dict[str, str], limit_secs: float) -> tuple[int, str]:
        """Its exit code and its stdout. Its stderr goes to NAME.log and to the terminal."""
        path = self.folder / f"{bench.name}.log"
        began = time.monotonic()
        with path.open("w") as log, tempfile.TemporaryFile("w+") as printed:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=log,
                start_new_session=True,
            )
            try:
                code = process.wait(timeout=limit_secs)
            except subprocess.TimeoutExpired:
                _end(process)
                raise BenchError(f"hung: ended after {(time.monotonic() - began) / 60:.0f} minutes") from None
            except KeyboardInterrupt:
                _end(process)
                machine.reap_orphans(timeout_secs=0)
                raise
            printed.seek(0)
            text = printed.read()
        print(scrubbed(text), end="")
        if code:
            print("".join(path.read_text(errors="replace").splitlines(keepends=True)[-20:]), end="", file=sys.stderr)
        return code, text


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kills the program and all processes of its group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
            if number == signal.SIGTERM:
                continue
    process.wait()


def heading(made: dict[str, Any]) -> str:
    """The first lines of a text record."""
    quiet = "the machine was quiet" if made["load"]["quiet"] else "NOT QUIET: other processes used the machine"
    lines = [
        f"{made['title']}, {made['date']}" + (" (a trial: figures are not representative)" if made["short"] else ""),
        "",
        f"    {made['command']}",
        "",
        f"{machine.in_words(made['machine'])}; {quiet} ({made['load']['said']}); {made['seconds']} s",
        f"versions: {', '.join(f'{name} {version}' for name, version in made['versions'].items())}",
        f"answers: {made['answers']['how']}",
        "",
    ]
    return "\n".join(lines)
