"""How commands end: one table of exit codes, for the code, the help and the tests."""

from __future__ import annotations

DONE, BAD, USAGE, STOPPED = 0, 1, 2, 130

#: What each code means, whatever the command.
CODES = {
    DONE: "done, and nothing is wrong",
    BAD: "something failed or was found to be bad, and is named",
    USAGE: "the command line is wrong; nothing was done",
    STOPPED: "stopped by Ctrl-C; what was finished is kept",
}

#: What :data:`BAD` means for each command.
MEANS = {
    "doctor": "something does not work on this machine",
    "analyze": "a file could not be read; the others are told of",
    "validate": "a file is bad",
    "preview": "no picture was made",
    "bench": "nothing could be measured",
    "index": "a file could not be indexed, an index was wrong, or one could not be kept",
    "transcode": "a video could not be made anew, or you said no; the finished ones are kept",
    "completions": "the script could not be made",
}


def of(command: str) -> str:
    """The table for the help of a command."""
    lines = [f"  {code:<3}  {MEANS[command] if code == BAD else text}" for code, text in CODES.items()]
    return "\n".join(["exit codes:", *lines])


def table() -> str:
    """The table for the help of all."""
    return "\n".join(["exit codes, of all commands:", *(f"  {code:<3}  {text}" for code, text in CODES.items())])
