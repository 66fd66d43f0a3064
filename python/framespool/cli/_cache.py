"""`framespool cache`: lists what disk caches have stored in a folder, and deletes what is no longer used."""

from __future__ import annotations

import argparse
import json
import os
import sys
from datetime import timedelta
from typing import Any

from framespool import _framespool
from framespool._common.format import bytes_text
from framespool.cli import _exit_codes
from framespool.cli._parser import add_json, command
from framespool.errors import ArgumentError

#: As for the runs that loaders delete.
_DAYS = 14.0

_DESCRIPTION = """\
List what the disk caches of loaders have stored in FOLDER. A run is the clips of one
dataset, clip sampler, transforms and seed: its bytes and clips, the epochs in which they
are due, and the time since its last use, or "in use" while a process has it open.

  prune FOLDER             delete the runs that no process has used for 14 days (or
                           --older-than, or --all). Loaders then decode these clips

Runs that a process uses are never deleted, nor files that are not of a disk cache. For a
folder named prune, write ./prune.
"""

_EXAMPLES = """\
  framespool cache /local/clips                        what is stored, and whether it is in use
  framespool cache prune /local/clips                  runs that were not used for 14 days
  framespool cache prune /local/clips --older-than 2   ... for two days
  framespool cache prune /local/clips --all            all runs that are not in use
"""


def add(subparsers: Any) -> None:
    """Adds the subcommand."""
    parser = command(
        subparsers,
        "cache",
        run,
        help="list and delete the clips of disk caches",
        description=_DESCRIPTION,
        examples=_EXAMPLES,
    )
    parser.add_argument("folder", nargs="+", metavar="FOLDER", help="the folder of a disk cache")
    parser.add_argument(
        "--older-than", type=_days, metavar="DAYS", help="with prune: days since the last use (default: 14)"
    )
    parser.add_argument("--all", action="store_true", help="with prune: runs of any age")
    add_json(parser, "the runs")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    words = arguments.folder
    prunes = words[0] == "prune"
    if len(words) != 1 + prunes:
        raise ArgumentError(f"cache takes one FOLDER, got {len(words) - prunes}")
    if not prunes and (arguments.all or arguments.older_than is not None):
        raise ArgumentError("--older-than and --all need prune: framespool cache prune FOLDER")
    if arguments.all and arguments.older_than is not None:
        raise ArgumentError("--older-than and --all exclude each other; give one of them")
    folder = words[-1]
    if not os.path.isdir(folder):
        raise ArgumentError(f"{folder} is not a folder; name the folder of a disk cache")
    return _prune(arguments, folder) if prunes else _list(arguments, folder)


def _list(arguments: argparse.Namespace, folder: str) -> int:
    runs = [_run(values) for values in _framespool.clip_store_runs(folder)]
    if arguments.json:
        print(json.dumps({"command": "cache", "folder": folder, "runs": runs}))
        return _exit_codes.DONE
    for each in runs:
        print(f"{each['run']}  {_text(each)}")
    clips, size = (sum(each[name] for each in runs) for name in ("clips", "bytes"))
    print(f"{len(runs)} runs, {clips} clips, {bytes_text(size)} in {folder}")
    return _exit_codes.DONE


def _prune(arguments: argparse.Namespace, folder: str) -> int:
    days = 0.0 if arguments.all else _DAYS if arguments.older_than is None else arguments.older_than
    pruned = _framespool.prune_clip_store(folder, int(timedelta(days=days).total_seconds()))
    deleted = [_run(values) for values, error in pruned if error is None]
    failed = [{**_run(values), "error": error} for values, error in pruned if error is not None]
    left = [_run(values) for values in _framespool.clip_store_runs(folder)]
    if arguments.json:
        found = {"deleted": deleted, "failed": failed, "left": left}
        print(json.dumps({"command": "cache prune", "folder": folder, **found}))
    else:
        freed, kept = (bytes_text(sum(each["bytes"] for each in runs)) for runs in (deleted, left))
        in_use = sum(each["in_use"] for each in left)
        print(f"deleted {len(deleted)} runs, {freed}; {len(left)} runs left, {kept}, of which {in_use} are in use")
        for each in failed:
            print(f"framespool cache: run {each['run']} cannot be deleted: {each['error']}", file=sys.stderr)
    return _exit_codes.BAD if failed else _exit_codes.DONE


def _run(values: tuple[Any, ...]) -> dict[str, Any]:
    name, size, clips, epochs, every, unused = values
    first, last = epochs or (None, None)
    return {
        "run": name,
        "bytes": size,
        "clips": clips,
        "first_epoch": first,
        "last_epoch": last,
        "has_clips_of_every_epoch": every,
        "in_use": unused is None,
        "unused_seconds": None if unused is None else round(unused),
    }


def _text(run: dict[str, Any]) -> str:
    epochs = [] if run["first_epoch"] is None else [f"epochs {run['first_epoch']} to {run['last_epoch']}"]
    epochs += ["every epoch"] if run["has_clips_of_every_epoch"] else []
    use = "in use" if run["in_use"] else f"unused for {_age(run['unused_seconds'])}"
    return f"{bytes_text(run['bytes'])}, {run['clips']} clips, {' and '.join(epochs) or 'no epoch'}, {use}"


def _age(seconds: int) -> str:
    for unit, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds // unit} {name}"
    return f"{seconds} seconds"


def _days(text: str) -> float:
    """Parses a number of days, from 0 to 36500."""
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not 0 <= days <= 36500:
        raise argparse.ArgumentTypeError(f"must be a number of days from 0 to 36500, got {text!r}")
    return days
