"""Progress of the steps of the demo."""

from __future__ import annotations

import sys
import time


class Progress:
    """One line that is updated on a terminal, otherwise a line every five seconds.

    A context manager, whose end is the end of the line.

    Args:
        what: What is done.
        total: Number of its steps.
    """

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total = what, max(1, total)
        self._live = sys.stdout.isatty()
        self._done, self._printed = 0, 0.0
        self._text = ""

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._print()
        if self._live:
            print()

    def step(self, note: str = "") -> None:
        """Counts a step.

        Args:
            note: Shown after the count.
        """
        self._done += 1
        if self._live:
            bar = "#" * (30 * self._done // self._total)
            self._text = f"\r{self._what:<24} [{bar:<30}] {self._done}/{self._total} {note:<26.26}"
        else:
            self._text = f"{self._what}: {self._done}/{self._total} {note}\n"
        if time.monotonic() > self._printed + (0.1 if self._live else 5):
            self._print()

    def _print(self) -> None:
        print(self._text, end="", flush=True)
        self._text, self._printed = "", time.monotonic()
