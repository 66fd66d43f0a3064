"""How far a long work is: a bar on a terminal, a line now and then elsewhere; always on stderr."""

from __future__ import annotations

import sys
import time

#: Seconds between two lines where there is no terminal.
_LINE_EVERY = 10.0
_BAR = 30


class Progress:
    """Called with (done, failed, total) as work goes on; used as a context, it ends the bar's line."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._began = self._told = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._shown = False

    def __call__(self, done: int, failed: int, total: int) -> None:
        now = time.monotonic()
        if self._terminal:
            filled = _BAR * done // max(1, total)
            sys.stderr.write(f"\r[{'#' * filled}{'.' * (_BAR - filled)}] {self._text(now, done, failed, total)}\x1b[K")
            self._shown = True
        elif now - self._told >= _LINE_EVERY:
            self._told = now
            sys.stderr.write(self._text(now, done, failed, total) + "\n")
        sys.stderr.flush()

    def _text(self, now: float, done: int, failed: int, total: int) -> str:
        seconds = now - self._began
        text = f"{done}/{total} {self._what}"
        if failed:
            text += f", {failed} failed"
        if done and seconds > 0.5:
            text += f", {done / seconds:.0f}/s, {_duration((total - done) * seconds / done)} left"
        return text

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
