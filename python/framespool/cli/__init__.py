"""The command ``framespool``: one module per subcommand, each with ``add(subparsers)`` and ``run(arguments)``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from framespool import __version__
from framespool.cli import _analyze, _bench, _completions, _doctor, _exit_codes, _index, _preview, _transcode, _validate
from framespool.cli._parser import Parser
from framespool.errors import ArgumentError, ClipSamplingError, Error

__all__ = ["main", "parser"]

#: In the order in which a newcomer needs them.
_COMMANDS = (_doctor, _analyze, _validate, _preview, _bench, _index, _transcode, _completions)

_DESCRIPTION = """\
Video clips for training: decoded once, delivered shuffled.

The commands, in the order in which they are needed for a new set of videos:
"""

_EPILOG = f"""\
a first look at your videos:
  framespool doctor                    does everything work here?
  framespool analyze videos/a.mp4        what is in a file, and what does a random clip of it cost?
  framespool validate videos/             are there files that cannot be decoded?
  framespool preview videos/           what would a training run see?

Each command explains itself: framespool COMMAND --help. With --json each prints one
JSON object a line and nothing else on stdout. Progress is shown on a terminal only.

{_exit_codes.table()}
"""


def parser() -> Parser:
    """The parser of the whole command line."""
    made = Parser(prog="framespool", description=_DESCRIPTION, epilog=_EPILOG)
    made.add_argument("--version", action="version", version=f"framespool {__version__}")
    subparsers = made.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=Parser)
    for command in _COMMANDS:
        command.add(subparsers)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line. The exit code is one of :data:`framespool.cli._exit_codes.CODES`."""
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read along has seen enough (`| head`). Nothing is left that the interpreter could flush at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _exit_codes.DONE


def _run(arguments: Sequence[str] | None) -> int:
    whole = parser()
    parsed = whole.parse_args(arguments)
    if parsed.command is None:
        whole.print_help()
        return _exit_codes.DONE
    try:
        return int(parsed.run(parsed))
    except BrokenPipeError:
        raise
    except (Error, OSError) as error:
        print(f"framespool {parsed.command}: {error}", file=sys.stderr)
        wrong_words = isinstance(error, ArgumentError) and not isinstance(error, ClipSamplingError)
        return _exit_codes.USAGE if wrong_words else _exit_codes.BAD
    except KeyboardInterrupt:
        print(f"\nframespool {parsed.command}: stopped", file=sys.stderr)
        return _exit_codes.STOPPED
