"""The machine that a benchmark runs on: what it is, and how much of it others had meanwhile."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Cores that others may keep busy before a result is marked: this share of all cores, and at least so many.
BUSY_SHARE = 0.1
BUSY_CORES = 0.2
# From <linux/prctl.h>.
PR_SET_CHILD_SUBREAPER = 36
# How long processes that outlived their parents may take to end by themselves.
ORPHANS_SECS = 5.0


def cpu_model() -> str:
    """The processor's name as /proc/cpuinfo has it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def facts() -> dict[str, Any]:
    """What a record says of the machine: nothing that names it, and no paths."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": cpu_model(),
        "cores": cores(),
        "memory_gib": round(memory / (1 << 30), 1),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def in_words(machine: dict[str, Any]) -> str:
    """`AMD EPYC, 2 cores, 8 GiB, Linux 6.1, Python 3.11.7`, without what a record does not say."""
    words = [machine["cpu"], f"{machine['cores']} cores"]
    words += [f"{machine['memory_gib']:.0f} GiB"] if machine.get("memory_gib") else []
    words += [machine["kernel"]] if machine.get("kernel") else []
    words += [f"Python {machine['python']}"] if machine.get("python") else []
    return ", ".join(words)


def adopt_orphans() -> None:
    """Makes this process the parent of its descendants whose own parents have ended.

    Their CPU time then counts as this process's children's, not as somebody else's, and none of them outlives a bench.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap_orphans(patience_secs: float = ORPHANS_SECS) -> None:
    """Waits for the adopted ones, then ends those that are left. Call it when no child of one's own is running."""
    given_up = time.monotonic() + patience_secs
    with contextlib.suppress(ChildProcessError):
        # One that cannot be killed, as it waits for a disk, is left behind.
        while time.monotonic() < given_up + ORPHANS_SECS:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid:
                continue
            if time.monotonic() > given_up:
                for child in _children():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)
            time.sleep(0.05)


def _children() -> list[int]:
    own = os.getpid()
    return [int(pid) for pid in Path(f"/proc/{own}/task/{own}/children").read_text().split()]


def busy_seconds() -> float:
    """CPU seconds that all of the machine's cores have worked since it started, and that its host took from it."""
    user, nice, system, _idle, _wait, irq, soft, steal, *_ = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    )
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    """CPU seconds of this process and of all its descendants that have ended."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def busy_limit(num_cores: int) -> float:
    """Cores that others may use before a result counts as taken on a busy machine."""
    return max(BUSY_CORES, BUSY_SHARE * num_cores)


@dataclass
class Watch:
    """How much others computed between `start()` and `stop()`: the machine's CPU time less one's own."""

    began: float
    busy: float
    own: float
    load_before: float

    @staticmethod
    def start() -> Watch:
        return Watch(time.monotonic(), busy_seconds(), own_seconds(), os.getloadavg()[0])

    def stop(self) -> dict[str, Any]:
        """As a record's `load`. Of orphans, only those that have been reaped count as one's own."""
        seconds = time.monotonic() - self.began
        others = (busy_seconds() - self.busy) - (own_seconds() - self.own)
        elsewhere = max(0.0, others / seconds) if seconds > 0 else 0.0
        return {
            "before": round(self.load_before, 2),
            "after": round(os.getloadavg()[0], 2),
            "elsewhere_cores": round(elsewhere, 2),
            "quiet": elsewhere <= busy_limit(cores()),
        }
