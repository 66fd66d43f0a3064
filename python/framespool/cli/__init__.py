"""The command ``framespool``: one module per subcommand, each with ``add(subparsers)`` and ``run(arguments)``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from framespool import __version__
from framespool.cli import _bench, _check, _doctor, _index, _preview, _probe
from framespool.errors import Error

__all__ = ["main"]

_COMMANDS = (_probe, _index, _check, _preview, _bench, _doctor)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line; the exit code is 0: done, 1: something failed, 2: wrong usage, 130: stopped by Ctrl-C."""
    parser = argparse.ArgumentParser(prog="framespool", description="framespool: decode once, deliver shuffled.")
    parser.add_argument("--version", action="version", version=f"framespool {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add(subparsers)
    parsed = parser.parse_args(arguments)
    try:
        return int(parsed.run(parsed))
    except Error as error:
        print(f"framespool {parsed.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\nframespool {parsed.command}: stopped", file=sys.stderr)
        return 130
