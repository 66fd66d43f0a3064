"""`framespool completions`: completion scripts for shells, generated from the parser."""

from __future__ import annotations

import argparse
import json
from typing import Any

from framespool.cli import _shells
from framespool.cli._parser import Parser, add_json, command

_DESCRIPTION = """\
Print a script that makes your shell complete framespool's commands, options, their
choices, and files. It is generated from the options, so print it again after an update.
"""

_EXAMPLES = """\
  framespool completions bash > ~/.local/share/bash-completion/completions/framespool
  framespool completions zsh > ~/.zfunc/_framespool      with fpath+=~/.zfunc before compinit
  framespool completions fish > ~/.config/fish/completions/framespool.fish
  source <(framespool completions bash)                  for this shell only
"""


def add(subparsers: Any) -> None:
    """Adds the subcommand."""
    parser = command(
        subparsers,
        "completions",
        run,
        help="print a completion script for your shell",
        description=_DESCRIPTION,
        examples=_EXAMPLES,
    )
    parser.add_argument("shell", choices=sorted(_shells.SHELLS), help="the shell")
    add_json(parser, "the script")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    script = _shells.SHELLS[arguments.shell](words(arguments.top))
    if arguments.json:
        print(json.dumps({"command": "completions", "shell": arguments.shell, "script": script}))
    else:
        print(script, end="")
    return 0


def words(parser: Parser) -> list[_shells.Command]:
    """Commands and options of the parser."""
    helps = {
        choice.dest: choice.help or ""
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for choice in action._choices_actions
    }
    top = _shells.Command("", parser.description or "", *_arguments(parser))
    return [top, *(_shells.Command(name, helps[name], *_arguments(sub)) for name, sub in parser.commands().items())]


#: Metavariables of values that are files or folders.
_FILES = frozenset(("FILE", "FOLDER", "DIR", "DATASET", "PROGRAM"))


def _arguments(parser: Parser) -> tuple[list[_shells.Option], list[str] | None]:
    """Options, and positional arguments: choices, files (`None`), or none."""
    options: list[_shells.Option] = []
    positional: list[str] | None = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            continue
        choices = [str(choice) for choice in action.choices or ()]
        if not action.option_strings:
            positional = choices or None
            continue
        takes = action.nargs != 0
        is_file = takes and not choices and action.metavar in _FILES
        options.append(_shells.Option(list(action.option_strings), action.help or "", takes, choices, is_file))
    return options, positional
