"""Log levels of decord; framespool prints no log messages."""

from __future__ import annotations

QUIET = -8
PANIC = 0
FATAL = CRITICAL = 8
ERROR = 16
WARNING = 24
INFO = 32
VERBOSE = 40
DEBUG = 48
TRACE = 56


def set_level(lvl: int = ERROR) -> None:
    """Has no effect: damage is reported by exceptions.

    Args:
        lvl: A log level.
    """
