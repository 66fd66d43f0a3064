"""Exit codes: one table for the code, the help and the tests."""

from __future__ import annotations

DONE, BAD, USAGE, STOPPED = 0, 1, 2, 130

#: What each code means, for every command.
CODES = {
    DONE: "done, without errors",
    BAD: "something failed or is bad; it is reported",
    USAGE: "the command line is wrong; nothing was done",
    STOPPED: "stopped by Ctrl-C; finished results are kept",
}

#: What `BAD` means for each command.
MEANS = {
    "doctor": "something does not work on this machine",
    "probe": "a file could not be read; the others were reported",
    "validate": "a file is bad",
    "preview": "no contact sheet was written",
    "bench": "nothing could be measured",
    "index": "a file could not be indexed, or an index was wrong or could not be stored",
    "cache": "a run could not be deleted",
    "shots": "a video could not be split; the shots of the others are written",
    "transcode": "a video could not be transcoded, or the run was declined; finished ones are kept",
    "completions": "the script could not be printed",
}


def of(command: str) -> str:
    """The table for the help of one command."""
    lines = [f"  {code:<3}  {MEANS[command] if code == BAD else text}" for code, text in CODES.items()]
    return "\n".join(["exit codes:", *lines])


def table() -> str:
    """The table for the help of all commands."""
    return "\n".join(["exit codes, of all commands:", *(f"  {code:<3}  {text}" for code, text in CODES.items())])
