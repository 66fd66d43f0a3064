"""Items of a check or a benchmark. Each runs in its own process.

An item may crash, hang or lose its GPU without losing the results of the others.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cuda import busy

OK = "ok"
FAILED = "FAILED"
IMPOSSIBLE = "not possible"


@dataclass
class Row:
    """One row of the table."""

    name: str
    asked: str
    result: str
    #: The reason if it is not "ok"; otherwise an optional remark.
    why: str = ""
    figures: dict[str, Any] = field(default_factory=dict)
    item: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Context:
    """Arguments of the items."""

    device: Any
    #: Seconds for work that can be shortened; the item reports how far it got.
    budget_seconds: float
    match: str
    begun: float
    #: Values of the item's parameters, in place of its defaults.
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def left(self) -> float:
        return self.budget_seconds - (time.monotonic() - self.begun)


Item = Callable[[Context], Iterator[Row]]


@dataclass(frozen=True)
class RegisteredItem:
    name: str
    run: Item
    budget_seconds: float
    #: Entry of the hardware checklist that it covers, or "".
    checklist: str


REGISTRY: dict[str, RegisteredItem] = {}


def item(name: str, *, seconds: float = 60, checklist: str = "") -> Callable[[Item], Item]:
    """Registers an item; `seconds` is its budget."""

    def register(run: Item) -> Item:
        REGISTRY[name] = RegisteredItem(name, run, seconds, checklist)
        return run

    return register


def selected(only: str | None) -> list[RegisteredItem]:
    """Items whose name matches the regular expression, in order of registration."""
    chosen = [entry for entry in REGISTRY.values() if not only or re.search(only, entry.name)]
    if not chosen:
        raise SystemExit(f"--only {only} matches no item; there are: {', '.join(REGISTRY)}")
    return chosen


def run_in_process(name: str, context: Context, into: Path) -> None:
    """In the child process: runs one item and writes each row as a line immediately."""
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(into.open("a"))
        if context is not None and context.arguments.get("with_load"):
            stack.enter_context(busy())
        rows = REGISTRY[name].run(context)
        while True:
            try:
                row = next(rows)
            except StopIteration:
                break
            except Exception as error:  # an item that fails is a result
                text = f"{type(error).__name__}: {error}"
                row = Row(name, "the item completes", FAILED, " ".join(text.split())[:600])
                rows = iter(())
            row.item, row.seconds = name, round(time.monotonic() - begun, 3)
            # A record has no paths of the machine that wrote it.
            row.why = " ".join(row.why.replace(os.environ.get("FRAMESPOOL_MEDIA", "\0") + "/", "").split())
            begun = time.monotonic()
            file.write(json.dumps(asdict(row)) + "\n")
            file.flush()


def run_in_subprocess(
    entry: RegisteredItem,
    script: Path,
    arguments: list[str],
    budget_seconds: float,
    extra_seconds: float,
    environment: Mapping[str, str] | None = None,
) -> list[Row]:
    """In the parent process: the rows that the child wrote, and an additional one if it failed."""
    with tempfile.TemporaryDirectory() as scratch:
        into = Path(scratch) / "rows"
        into.touch()
        command = [sys.executable, str(script), "--child", entry.name, "--into", str(into)]
        command += ["--budget", str(budget_seconds), *arguments]
        log = Path(scratch) / "log"
        with log.open("wb") as output:
            child = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
            try:
                code = child.wait(timeout=budget_seconds + extra_seconds)
                ended = "" if code == 0 else describe(code)
            except subprocess.TimeoutExpired:
                ended = f"did not finish within {budget_seconds + extra_seconds:.0f} s and was killed"
                stop(child)
            except BaseException:
                stop(child)
                raise
        rows = [Row(**json.loads(line)) for line in into.read_text().splitlines() if line.endswith("}")]
        if ended:
            said = " ".join(log.read_text(errors="replace").split())[-500:]
            rows.append(
                Row(
                    entry.name, "the item's process exits normally", FAILED, f"{ended}. Output: {said}", item=entry.name
                )
            )
        return rows


def describe(code: int) -> str:
    """A process' exit status as text."""
    if code >= 0:
        return f"the process exited with code {code}"
    with contextlib.suppress(ValueError):
        return f"the process was killed by {signal.Signals(-code).name}"
    return f"the process was killed by signal {-code}"


def stop(child: subprocess.Popen[bytes]) -> None:
    """Kills a child that was started in its own session, with its descendants."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    # A process that hangs in the driver ends late or never.
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=5)


def python(code: str, *, timeout: float = 120, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a program in a fresh interpreter; a hang raises subprocess.TimeoutExpired."""
    environment = {**os.environ, **(env or {})}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout, env=environment
    )
