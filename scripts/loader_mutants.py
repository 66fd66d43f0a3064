#!/usr/bin/env python3
"""Tests that the model of the loader detects bugs: injects one bug at a time into a copy of the sources.

    scripts/dynamic_analysis.sh mutants [NAME...]        all bugs, or the named ones

Every bug is a plausible mistake: a missing wake-up, a missing check, two steps in the wrong order. All are compiled
into one program; the environment variable FRAMESPOOL_MUTANT selects one. Exits with 1 if the model misses one.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
COPY = ROOT / "target" / "mutants"
#: Longer than any run: a run of the unchanged loader takes seconds.
TIMEOUT_SECONDS = 300


class Mutant(NamedTuple):
    name: str
    file: str
    #: Code that occurs exactly once in the file, however it is wrapped, and its replacement; `{on}` is true if this
    #: mutant is selected.
    old: str
    new: str

    def pattern(self) -> re.Pattern[str]:
        """What matches `old` with any white space between its tokens, and a trailing comma where rustfmt adds one."""
        tokens = re.findall(r"\w+|\S", self.old)
        escaped = (rf",?\s*{re.escape(token)}" if token in ")]}" else re.escape(token) for token in tokens)
        return re.compile(r"\s*".join(escaped))


SCHEDULER, LOOKAHEAD, WORKER, BUDGET, DECODE_TASK = (
    f"src/loader/{name}.rs" for name in ("scheduler", "lookahead", "worker", "budget", "decode_task")
)
MUTANTS = [
    Mutant(
        "batches-are-complete-in-silence",
        SCHEDULER,
        "b.clips_remaining == 0) {\n            self.complete.notify_all();",
        "b.clips_remaining == 0) && !{on} {\n            self.complete.notify_all();",
    ),
    Mutant(
        "workers-are-not-notified-of-the-end",
        SCHEDULER,
        "Ordering::Release);\n        self.work.iter().for_each(Condvar::notify_all);",
        "Ordering::Release);\n        if !{on} { self.work.iter().for_each(Condvar::notify_all); }",
    ),
    Mutant(
        "workers-are-not-notified-of-work",
        SCHEDULER,
        "&& (earliest != NO_DEADLINE\n|| state.suspended_for(kind).next().is_some()",
        "&& ((!{on} && earliest != NO_DEADLINE)\n|| state.suspended_for(kind).next().is_some()",
    ),
    Mutant(
        "a-lone-idle-worker-is-not-notified",
        SCHEDULER,
        "if state.idle[kind as usize] > 0",
        "if state.idle[kind as usize] > usize::from({on})",
    ),
    Mutant(
        "what-nvdec-leaves-is-lost",
        WORKER,
        "return self.scheduler.requeue_for(kind, pass, requests);",
        "return if !{on} { self.scheduler.requeue_for(kind, pass, requests) };",
    ),
    Mutant(
        "the-end-is-looked-for-once",
        SCHEDULER,
        "        loop {\n            if state.closed {",
        """\
        let mut first = true;
        loop {
            let looks = !{on} || std::mem::take(&mut first);
            if state.closed && looks {""",
    ),
    Mutant(
        "clips-of-an-earlier-pass-are-taken",
        SCHEDULER,
        "filter(|p| p.pass == pass) {\n            change(epoch_state);",
        "filter(|p| {on} || p.pass == pass) {\n            change(epoch_state);",
    ),
    Mutant(
        "what-is-given-back-stays-in-hand",
        SCHEDULER,
        "(entry.state, entry.stored) = (RequestState::Pending, false);",
        "if !{on} { entry.state = RequestState::Pending; }\n                    entry.stored = false;",
    ),
    Mutant(
        "complete-but-for-one",
        SCHEDULER,
        "is_some_and(|front| front.clips_remaining == 0)\n        };",
        "is_some_and(|front| front.clips_remaining <= usize::from({on} && front.clips.len() > 2))\n        };",
    ),
    Mutant(
        "what-is-given-up-is-not-made-again",
        LOOKAHEAD,
        "self.get(last) {\n            (entry.state, entry.evicted) = (RequestState::Pending, true);",
        "self.get(last) {\n            let state = if {on} { RequestState::Done } else { RequestState::Pending };\n"
        "            (entry.state, entry.evicted) = (state, true);",
    ),
    Mutant(
        "an-open-batch-has-no-place-for-what-was-cached",
        SCHEDULER,
        "            entry.slot = slot;",
        "            let cached = matches!(entry.state, RequestState::Cached(_));\n"
        "            entry.slot = slot.filter(|_| !({on} && cached));",
    ),
    Mutant(
        "what-was-reserved-stays-reserved",
        BUDGET,
        "        self.budget.used.fetch_sub(self.bytes, Ordering::AcqRel);",
        "        if !{on} { self.budget.used.fetch_sub(self.bytes, Ordering::AcqRel); }",
    ),
    Mutant(
        "requests-that-do-not-fit-are-forgotten",
        WORKER,
        "scheduler.requeue(pass, returned, failed);",
        "if !{on} { scheduler.requeue(pass, returned, failed); }",
    ),
    Mutant(
        "the-budget-is-read-and-written-in-two-steps",
        BUDGET,
        "        let before = self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).ok()?;",
        """\
        let before = if {on} {
            let used = self.used.load(Ordering::Acquire);
            fits(used)?;
            self.used.fetch_add(bytes, Ordering::AcqRel)
        } else {
            self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).ok()?
        };""",
    ),
    Mutant(
        "a-worker-that-panics-loses-its-requests",
        WORKER,
        "self.scheduler.fail_clip(pass, seq, self.internal_error(sampled.clip, &*panic));",
        "if !{on} { self.scheduler.fail_clip(pass, seq, self.internal_error(sampled.clip, &*panic)); }",
    ),
    Mutant(
        "notified-before-the-slot-is-back",
        WORKER,
        "let ClipRequest { seq, sampled, slot, .. } = request;\n        drop(slot);",
        "let ClipRequest { seq, sampled, slot, .. } = request;\n"
        "        let _late = if {on} { Some(slot) } else { drop(slot); None };",
    ),
    Mutant(
        "a-clip-one-of-whose-frames-failed-is-forgotten",
        DECODE_TASK,
        "context.scheduler.requeue(self.pass, failed.into_iter().collect(), true);",
        "if !{on} { context.scheduler.requeue(self.pass, failed.into_iter().collect(), true); }",
    ),
    Mutant(
        "work-is-counted-after-its-clips-are-handed-over",
        DECODE_TASK,
        "if !complete.is_empty() {\n            self.count(",
        "if !{on} && !complete.is_empty() {\n            self.count(",
    ),
    Mutant(
        "a-clip-is-handed-over-for-its-neighbour-too",
        DECODE_TASK,
        "Ok(Some(pixels)) => scheduler.complete_clip(pass, seq, clip.metadata, pixels),",
        """\
Ok(Some(pixels)) => {
            if {on} && matches!(pixels, ClipData::InBatch) {
                scheduler.complete_clip(pass, seq + 1, clip.metadata.clone(), ClipData::InBatch);
            }
            scheduler.complete_clip(pass, seq, clip.metadata, pixels);
        }""",
    ),
]

SWITCH = """
/// Whether this mutant is selected.
pub(crate) fn mutant(name: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("FRAMESPOOL_MUTANT").ok()).as_deref() == Some(name)
}
"""


def die(text: str) -> None:
    sys.exit(f"loader_mutants: {text}")


def inapplicable() -> list[str]:
    """Mutants whose text no longer occurs in the sources, or occurs more than once."""
    return [m.name for m in MUTANTS if len(m.pattern().findall((ROOT / m.file).read_text())) != 1]


def copy_sources_with_mutants() -> None:
    """The sources with all mutants in them, each active only if it is selected."""
    if lost := inapplicable():
        die(f"the sources of these mutants have changed, update them: {', '.join(lost)}")
    shutil.rmtree(COPY, ignore_errors=True)
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, tracked.split("\0")):
        if (ROOT / name).is_file():
            place = COPY / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place)
    for mutant in MUTANTS:
        file = COPY / mutant.file
        switch = f'crate::sync::mutant("{mutant.name}")'
        new = mutant.new.replace("{on}", switch)
        file.write_text(mutant.pattern().sub(lambda _: new, file.read_text()))  # noqa: B023 (called at once)
    file = COPY / "src" / "sync.rs"
    file.write_text(file.read_text() + SWITCH)


def build_program() -> str:
    command = ["cargo", "test", "--features", "model", "--lib", "--no-run", "--message-format=json-render-diagnostics"]
    env = dict(os.environ, CARGO_TARGET_DIR=os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target")))
    done = subprocess.run(command, cwd=COPY, env=env, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        die("the copy does not compile")
    messages = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    [program] = (m["executable"] for m in messages if m.get("executable"))
    return str(program)


def run_mutant(program: str, name: str) -> tuple[bool, str]:
    """Whether the model passed with this mutant, and its message otherwise."""
    env = dict(os.environ, FRAMESPOOL_MUTANT=name, RUST_BACKTRACE="0")
    begun = time.monotonic()
    try:
        done = subprocess.run(
            [program, "loader::shuttle_tests"], cwd=COPY, env=env, capture_output=True, timeout=TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return False, f"did not finish within {TIMEOUT_SECONDS} s"
    took = time.monotonic() - begun
    if not done.returncode:
        return True, f"{took:.0f} s"
    lines = (done.stdout + done.stderr).decode(errors="replace").splitlines()
    # The line after "thread … panicked at …" is the failure; deliberate panics have other messages.
    panics = (after for line, after in itertools.pairwise(lines) if "panicked at" in line and "on purpose" not in after)
    said = next(panics, f"ended with {done.returncode}")
    return False, f"{took:.0f} s: {said[:90]}"


def main() -> int:
    wanted = sys.argv[1:]
    names = [mutant.name for mutant in MUTANTS]
    if unknown := set(wanted) - set(names):
        die(f"no mutant {', '.join(sorted(unknown))}; one of {', '.join(names)}")
    copy_sources_with_mutants()
    program = build_program()
    passed, said = run_mutant(program, "none")
    print(f"{'unchanged':50} {'passes' if passed else 'FAILS'}, {said}", flush=True)
    survivors = []
    for name in wanted or names:
        survived, said = run_mutant(program, name)
        print(f"{name:50} {'NOT NOTICED' if survived else 'noticed'}, {said}", flush=True)
        if survived:
            survivors.append(name)
    print(f"{len(wanted or names) - len(survivors)} of {len(wanted or names)} noticed")
    return 1 if survivors or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
