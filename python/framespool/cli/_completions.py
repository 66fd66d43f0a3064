"""``framespool completions``: scripts by which shells complete the command line, made from its parser."""

from __future__ import annotations

import argparse
import json
from typing import Any

from framespool.cli import _shells
from framespool.cli._parser import Parser, add_json, command

_DESCRIPTION = """\
Prints a script that teaches your shell to complete framespool's commands, options,
their choices, and files. It is made from the options themselves, so print it anew
after an update.
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
        help="let your shell complete all of this",
        description=_DESCRIPTION,
        examples=_EXAMPLES,
    )
    parser.add_argument("shell", choices=sorted(_shells.SHELLS), help="which shell it is for")
    add_json(parser, "the script")


def run(arguments: argparse.Namespace) -> int:
    """Does it."""
    from framespool.cli import parser  # which this module is a part of

    script = _shells.SHELLS[arguments.shell](words(parser()))
    if arguments.json:
        print(json.dumps({"command": "completions", "shell": arguments.shell, "script": script}))
    else:
        print(script, end="")
    return 0


def words(parser: Parser) -> list[_shells.Command]:
    """What the parser knows: nothing is listed twice, so nothing is forgotten."""
    helps = {
        choice.dest: choice.help or ""
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for choice in action._choices_actions
    }
    top = _shells.Command("", parser.description or "", *_arguments(parser))
    return [top, *(_shells.Command(name, helps[name], *_arguments(sub)) for name, sub in parser.commands().items())]


#: What stands for a file or a folder where a value is wanted.
_FILES = frozenset(("FILE", "FOLDER", "DIR", "PLACE", "DATASET", "PROGRAM"))


def _arguments(parser: Parser) -> tuple[list[_shells.Option], list[str] | None]:
    """Options, and what stands without one: choices, files (``None``), or nothing."""
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
