"""Progress on stderr, if that is a terminal."""

from __future__ import annotations

import sys
import time

_BAR = 30


class Progress:
    """Called with (done, failed, total); as a context manager it clears the line at the end.

    Args:
        what: What is counted.
        delay_seconds: Nothing is shown before that.
        anywhere: Show it also where stderr is no terminal, such as in a notebook.
    """

    def __init__(self, what: str, *, delay_seconds: float = 0.0, anywhere: bool = False) -> None:
        self._what = what
        self._began = time.monotonic()
        self._delay_seconds = delay_seconds
        self._visible = anywhere or is_terminal()
        self._shown = False

    def __call__(self, done: int, failed: int, total: int) -> None:
        filled = _BAR * done // max(1, total)
        self.show(f"[{'#' * filled}{'.' * (_BAR - filled)}] {self._text(time.monotonic(), done, failed, total)}")

    def show(self, text: str) -> None:
        """Replaces the line.

        Args:
            text: The new text.
        """
        if not self._visible or time.monotonic() - self._began < self._delay_seconds:
            return
        sys.stderr.write(f"\r{text}\x1b[K")
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


def is_terminal() -> bool:
    """Whether stderr is a terminal.

    Returns:
        `False` also if there is no stderr.
    """
    return sys.stderr is not None and sys.stderr.isatty()


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
