"""A progress bar on stderr, if that is a terminal."""

from __future__ import annotations

import sys
import time

_BAR = 30


class Progress:
    """Called with (done, failed, total); as a context manager it clears the bar at the end."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._began = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._shown = False

    def __call__(self, done: int, failed: int, total: int) -> None:
        if not self._terminal:
            return
        filled = _BAR * done // max(1, total)
        text = self._text(time.monotonic(), done, failed, total)
        sys.stderr.write(f"\r[{'#' * filled}{'.' * (_BAR - filled)}] {text}\x1b[K")
        sys.stderr.flush()
        self._shown = True

    def _text(self, now: float, done: int, failed: int, total: int) -> str:
        seconds = now - self._began
        text = f"{done}/{total} {self._what}"
        if failed:
            text += f", {failed} failed"
        if done and seconds > 0.5:
            rate = done / seconds
            text += f", {rate:.{0 if rate >= 10 else 1}f}/s, {_duration((total - done) * seconds / done)} left"
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
