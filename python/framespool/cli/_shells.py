"""Completion scripts for bash, zsh and fish, from words alone."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Option:
    """An option by its names. ``takes``: a value follows, which is one of ``choices``, a file, or anything."""

    names: list[str]
    help: str
    takes: bool
    choices: list[str]
    is_file: bool


@dataclass(frozen=True)
class Command:
    """A subcommand, or with an empty name what stands before any. ``positional``: words, or files (``None``)."""

    name: str
    help: str
    options: list[Option]
    positional: list[str] | None


def bash(commands: list[Command]) -> str:
    """For ``complete -F``; a value that may be anything is completed by nothing."""
    top, *others = commands
    cases = [_bash_case(command) for command in others]
    first = " ".join([*(command.name for command in others), *_names(top)])
    values = "\n".join(_bash_values(command) for command in others)
    return f"""\
# bash completion for framespool; made by: framespool completions bash
_framespool() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD - 1]}} command= word options words
  COMPREPLY=()
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD - 1}}"; do
    case $word in
      {"|".join(command.name for command in others)}) command=$word; break ;;
    esac
  done
  case "$command $prev" in
{values}
  esac
  case $command in
{chr(10).join(cases)}
    *) COMPREPLY=($(compgen -W {shlex.quote(first)} -- "$cur")); return ;;
  esac
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$cur"))
  elif [[ $words == : ]]; then
    compopt -o filenames 2>/dev/null
    local IFS=$'\\n'
    COMPREPLY=($(compgen -f -- "$cur"))
  else
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
  fi
}}
complete -F _framespool framespool
"""


def _bash_case(command: Command) -> str:
    words = ":" if command.positional is None else " ".join(command.positional)
    return f"    {command.name}) options={shlex.quote(' '.join(_names(command)))} words={shlex.quote(words)} ;;"


def _bash_values(command: Command) -> str:
    lines = []
    for option in command.options:
        if not option.takes:
            continue
        patterns = "|".join(f"'{command.name} {name}'" for name in option.names)
        if option.is_file:
            does = "compopt -o filenames 2>/dev/null; local IFS=$'\\n'; COMPREPLY=($(compgen -f -- \"$cur\")); return"
        elif option.choices:
            does = f'COMPREPLY=($(compgen -W {shlex.quote(" ".join(option.choices))} -- "$cur")); return'
        else:
            does = "return"
        lines.append(f"    {patterns}) {does} ;;")
    return "\n".join(lines)


def zsh(commands: list[Command]) -> str:
    """For ``compinit``; it can be sourced too."""
    top, *others = commands
    named = "\n".join(f"    {shlex.quote(f'{_colons(each.name)}:{each.help}')}" for each in others)
    cases = "\n".join(_zsh_case(command) for command in others)
    options = " ".join(_zsh_option(option) for option in top.options)
    return f"""\
#compdef framespool
# zsh completion for framespool; made by: framespool completions zsh
_framespool() {{
  local context state state_descr line
  typeset -A opt_args
  local -a commands=(
{named}
  )
  _arguments -C {options} '1: :->command' '*:: :->rest'
  case $state in
    command) _describe command commands ;;
    rest)
      case $words[1] in
{cases}
      esac ;;
  esac
}}
if [ "$funcstack[1]" = _framespool ]; then
  _framespool "$@"
else
  compdef _framespool framespool
fi
"""


def _zsh_case(command: Command) -> str:
    specs = [_zsh_option(option) for option in command.options]
    if command.positional is None:
        specs.append("'*:file:_files'")
    elif command.positional:
        specs.append(shlex.quote(f"1:word:({' '.join(command.positional)})"))
    return f"        {command.name}) _arguments {' '.join(specs)} ;;"


def _zsh_option(option: Option) -> str:
    does = f"({' '.join(option.choices)})" if option.choices else "_files" if option.is_file else " "
    value = f":value:{does}" if option.takes else ""
    text = option.help.translate({ord(letter): f"\\{letter}" for letter in "[]:\\"})
    return " ".join(shlex.quote(f"{name}[{text}]{value}") for name in option.names)


def _colons(text: str) -> str:
    return text.replace(":", "\\:")


def fish(commands: list[Command]) -> str:
    """One ``complete`` for each word."""
    top, *others = commands
    seen = " ".join(command.name for command in others)
    lines = ["# fish completion for framespool; made by: framespool completions fish", "complete -c framespool -f"]
    lines += [_fish_option("not __fish_seen_subcommand_from " + seen, option) for option in top.options]
    for command in others:
        lines.append(
            f"complete -c framespool -n {shlex.quote('not __fish_seen_subcommand_from ' + seen)} "
            f"-a {command.name} -d {shlex.quote(command.help)}"
        )
        here = f"__fish_seen_subcommand_from {command.name}"
        lines += [_fish_option(here, option) for option in command.options]
        if command.positional is None:
            lines.append(f"complete -c framespool -n {shlex.quote(here)} -F")
        elif command.positional:
            lines.append(
                f"complete -c framespool -n {shlex.quote(here)} -a {shlex.quote(' '.join(command.positional))}"
            )
    return "\n".join(lines) + "\n"


def _fish_option(when: str, option: Option) -> str:
    parts = ["complete -c framespool -n", shlex.quote(when)]
    for name in option.names:
        parts.append(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}")
    parts.append(f"-d {shlex.quote(option.help)}")
    if option.takes:
        parts.append("-r -F" if option.is_file else "-x")
    if option.choices:
        parts.append(f"-a {shlex.quote(' '.join(option.choices))}")
    return " ".join(parts)


def _names(command: Command) -> list[str]:
    return [name for option in command.options for name in option.names if name.startswith("--")]


#: What makes the script of each shell.
SHELLS: dict[str, Callable[[list[Command]], str]] = {"bash": bash, "fish": fish, "zsh": zsh}
