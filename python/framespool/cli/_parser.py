"""The parsers of the command line: uniform help, and suggestions for misspelled words."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from framespool.cli import _exit_codes
from framespool.errors import ArgumentError

#: Earlier commands, and what replaces them.
_REPLACED = {"analyze": "probe"}


class Parser(argparse.ArgumentParser):
    """An argparse parser whose error messages suggest the closest valid words."""

    #: What an error says about arguments that are not options.
    argument_hint = ""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        keywords.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*arguments, **keywords)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse; the subcommand reports unrecognized arguments, since it knows its options."""
        parsed, left = self.parse_known_args(args, namespace)
        if left:
            chosen = self.commands().get(getattr(parsed, "command", None) or "", self)
            chosen.error(f"unrecognized arguments: {' '.join(left)}{chosen._meant(left)}")
        return parsed

    def commands(self) -> dict[str, Parser]:
        """The parsers of the subcommands by name."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                return dict(action.choices)
        return {}

    def options(self) -> list[str]:
        """All long options."""
        return [text for action in self._actions for text in action.option_strings if text.startswith("--")]

    def error(self, message: str) -> NoReturn:
        """Prints the error with a suggestion, and exits with code 2."""
        wrong = re.search(r"invalid choice: '?(.*?)'? \(choose from (.*)\)", message)
        if wrong:
            message += _nearest([_REPLACED.get(wrong[1], wrong[1])], re.findall(r"[\w.-]+", wrong[2]))
        print(f"{self.prog}: error: {message}\nTry '{self.prog} --help'.", file=sys.stderr)
        sys.exit(_exit_codes.USAGE)

    def _meant(self, left: Sequence[str]) -> str:
        options = [text.partition("=")[0] for text in left if text.startswith("-")]
        return _nearest(options, self.options()) or self.argument_hint


def _nearest(wrong: Iterable[str], right: Sequence[str]) -> str:
    found = {word: near[0] for word in wrong if (near := difflib.get_close_matches(word, right, 1, 0.5))}
    return f"; did you mean {' and '.join(found.values())}?" if found else ""


def command(
    subparsers: Any,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    help: str,
    description: str,
    examples: str,
) -> Parser:
    """Adds a subcommand with description, examples and exit codes."""
    epilog = f"examples:\n{examples}\n{_exit_codes.of(name)}"
    parser: Parser = subparsers.add_parser(name, help=help, description=description, epilog=epilog)
    parser.set_defaults(run=run)
    return parser


def add_json(parser: argparse.ArgumentParser, what: str) -> None:
    """Adds `--json`, the last option of every command."""
    parser.add_argument("--json", action="store_true", help=f"print {what} as JSON, on one line")


def count(text: str) -> int:
    """Parses an int from 1 to 4096."""
    if not text.isdecimal() or not 0 < int(text) <= 4096:
        raise argparse.ArgumentTypeError(f"must be an int from 1 to 4096, got {text!r}")
    return int(text)


def index(text: str) -> int:
    """Parses an int from 0."""
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"must be an int of at least 0, got {text!r}")
    return int(text)


def check_writable(option: str, path: str) -> None:
    """Raises ArgumentError before a long run if a file cannot be written. An existing file is unchanged."""
    new = not os.path.lexists(path)
    try:
        open(path, "a").close()
        if new:
            os.unlink(path)
    except OSError as error:
        raise ArgumentError(f"{option}: {path} cannot be written: {error.strerror}") from error
