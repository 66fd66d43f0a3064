"""The machine of a benchmark: its properties, and how much other processes used it."""

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

#: Cores that other processes may use before a result is marked: this share of all cores, and at least this many.
BUSY_SHARE = 0.1
BUSY_CORES = 0.2
# From <linux/prctl.h>.
PR_SET_CHILD_SUBREAPER = 36
# Time for processes that outlived their parents to end.
ORPHANS_SECS = 5.0


def cpu_model() -> str:
    """The processor's name from /proc/cpuinfo."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def properties() -> dict[str, Any]:
    """The machine's fields of a record: no host name and no paths."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": cpu_model(),
        "cores": cores(),
        "memory_gib": round(memory / (1 << 30), 1),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def in_words(machine: dict[str, Any]) -> str:
    """`AMD EPYC, 2 cores, 8 GiB, Linux 6.1, Python 3.11.7`, without fields that a record lacks."""
    words = [machine["cpu"], f"{machine['cores']} cores"]
    words += [f"{machine['memory_gib']:.0f} GiB"] if machine.get("memory_gib") else []
    words += [machine["kernel"]] if machine.get("kernel") else []
    words += [f"Python {machine['python']}"] if machine.get("python") else []
    return ", ".join(words)


def adopt_orphans() -> None:
    """Makes this process the parent of its descendants whose own parents have ended.

    Their CPU time then counts as that of this process's children, and none of them outlives a bench.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap_orphans(timeout_secs: float = ORPHANS_SECS) -> None:
    """Waits for the adopted ones, then kills the remaining ones. Call it while no child of this process is running."""
    deadline = time.monotonic() + timeout_secs
    with contextlib.suppress(ChildProcessError):
        # A process that cannot be killed, because it waits for a disk, is left behind.
        while time.monotonic() < deadline + ORPHANS_SECS:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid:
                continue
            if time.monotonic() > deadline:
                for child in _children():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)
            time.sleep(0.05)


def _children() -> list[int]:
    own = os.getpid()
    return [int(pid) for pid in Path(f"/proc/{own}/task/{own}/children").read_text().split()]


def busy_seconds() -> float:
    """CPU seconds of all cores since boot, and those stolen by the host."""
    user, nice, system, _idle, _wait, irq, soft, steal, *_ = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    )
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    """CPU seconds of this process and of all its descendants that have ended."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def busy_limit(num_cores: int) -> float:
    """Cores that others may use before a result counts as measured on a busy machine."""
    return max(BUSY_CORES, BUSY_SHARE * num_cores)


@dataclass
class Watch:
    """CPU use of other processes between `start()` and `stop()`: the machine's CPU time minus this process's."""

    began: float
    busy: float
    own: float
    load_before: float

    @staticmethod
    def start() -> Watch:
        return Watch(time.monotonic(), busy_seconds(), own_seconds(), os.getloadavg()[0])

    def stop(self) -> dict[str, Any]:
        """As a record's `load`. Of orphans, only reaped ones count as this process's."""
        seconds = time.monotonic() - self.began
        others = (busy_seconds() - self.busy) - (own_seconds() - self.own)
        elsewhere = max(0.0, others / seconds) if seconds > 0 else 0.0
        return {
            "before": round(self.load_before, 2),
            "after": round(os.getloadavg()[0], 2),
            "elsewhere_cores": round(elsewhere, 2),
            "quiet": elsewhere <= busy_limit(cores()),
        }
