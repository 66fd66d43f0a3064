"""Progress of the steps of the demo."""

from __future__ import annotations

import sys
import time


class Progress:
    """One line that is updated on a terminal, otherwise an occasional line.

    Args:
        what: What is done.
        total: Number of its steps.
    """

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total = what, max(1, total)
        self.live = sys.stdout.isatty()
        self.shown = time.monotonic() if self.live else -1.0

    def step(self, done: int, note: str = "") -> None:
        """Shows the progress.

        Args:
            done: Number of steps that are done.
            note: Shown after it.
        """
        last, now = done >= self.total, time.monotonic()
        if self.live:
            if last or now > self.shown + 0.1:
                bar = "#" * (30 * done // self.total)
                print(f"\r{self.what:<28} [{bar:<30}] {done}/{self.total} {note:<32.32}", end="\n" if last else "")
                sys.stdout.flush()
                self.shown = now
        elif last or now > self.shown + 5:
            print(f"{self.what}: {done}/{self.total} {note}", flush=True)
            self.shown = now
