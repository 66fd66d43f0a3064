"""The command `framespool`: one module per subcommand, each with `add(subparsers)` and `run(arguments)`."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence

from framespool import __version__
from framespool.cli import (
    _bench,
    _cache,
    _completions,
    _doctor,
    _exit_codes,
    _index,
    _preview,
    _probe,
    _shots,
    _transcode,
    _validate,
)
from framespool.cli._parser import Parser
from framespool.errors import ArgumentError, ClipSamplingError, Error

__all__ = ["main", "parser"]

#: In the order in which a new user needs them.
_COMMANDS = (_doctor, _probe, _validate, _preview, _bench, _index, _cache, _shots, _transcode, _completions)

_DESCRIPTION = """\
Load video clips for training. The commands, in the order in which a new dataset needs them:
"""

_EPILOG = f"""\
a first look at your videos:
  framespool doctor                    check this machine
  framespool probe videos/             report what the dataset contains, and what will be slow
  framespool validate videos/          find files that cannot be decoded
  framespool preview videos/           write a contact sheet of the clips of a training run

Help for a command: framespool COMMAND --help. With --json each prints one JSON object
per line and nothing else on stdout. Progress is shown only on a terminal.

{_exit_codes.table()}
"""


def parser() -> Parser:
    """Returns the parser of the complete command line."""
    made = Parser(prog="framespool", description=_DESCRIPTION, epilog=_EPILOG)
    made.set_defaults(top=made)  # for completions
    made.add_argument("--version", action="version", version=f"framespool {__version__}")
    subparsers = made.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=Parser)
    for command in _COMMANDS:
        command.add(subparsers)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line and returns its exit code, one of `framespool.cli._exit_codes.CODES`."""
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the pipe has closed it (`| head`). The interpreter must not flush stdout again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _exit_codes.DONE


def _run(arguments: Sequence[str] | None) -> int:
    # Commands report failures themselves; without a handler, warnings would be printed in addition.
    logging.getLogger("framespool").addHandler(logging.NullHandler())
    top = parser()
    parsed = top.parse_args(arguments)
    if parsed.command is None:
        top.print_help()
        return _exit_codes.DONE
    try:
        return int(parsed.run(parsed))
    except BrokenPipeError:
        raise
    except (Error, OSError) as error:
        print(f"framespool {parsed.command}: {error}", file=sys.stderr)
        bad_argument = isinstance(error, ArgumentError) and not isinstance(error, ClipSamplingError)
        return _exit_codes.USAGE if bad_argument else _exit_codes.BAD
    except KeyboardInterrupt:
        print(f"\nframespool {parsed.command}: stopped", file=sys.stderr)
        return _exit_codes.STOPPED
