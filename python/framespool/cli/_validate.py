"""`framespool validate`: the files of a dataset that cannot be decoded, with reasons."""

from __future__ import annotations

import argparse
import collections
import json
import sys
from typing import Any

from framespool._common.progress import Progress
from framespool.cli._index import named
from framespool.cli._parser import add_json, check_writable, command, count
from framespool.datasets._dataset import concatenated
from framespool.datasets._source_list import find
from framespool.tools._validate import validate

_DESCRIPTION = """\
Decode every frame of every video and image of DATASET on the CPU and report the files
that cannot be decoded, with reasons, before a training run finds them. With --report a
stopped run continues where it was, and a later run decodes only new and changed files.
"""

_EXAMPLES = """\
  framespool validate videos/ --report videos.check      everything; can be stopped and repeated
  framespool validate videos/ --clips 2                  two random clips per video
  framespool validate train.txt --failures bad.jsonl     a list for Dataset.exclude()
"""


def add(subparsers: Any) -> None:
    """Adds the subcommand."""
    parser = command(
        subparsers,
        "validate",
        run,
        help="find files that cannot be decoded",
        description=_DESCRIPTION,
        examples=_EXAMPLES,
    )
    parser.add_argument(
        "dataset",
        nargs="+",
        metavar="DATASET",
        help="a folder of videos or images, a list file or table (.csv, .jsonl), a file, or a URL",
    )
    parser.add_argument("--clips", type=count, metavar="N", help="N random clips per video instead of every frame")
    parser.add_argument("--report", metavar="FILE", help="record the results in FILE, and continue from there")
    parser.add_argument("--failures", metavar="FILE", help="write the bad files to FILE")
    parser.add_argument("--threads", type=count, metavar="N", help="worker threads (default: all cores)")
    add_json(parser, "the result")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; exit code 1 if a file is bad."""
    for option, path in (("--failures", arguments.failures), ("--report", arguments.report)):
        if path:
            check_writable(option, path)
    found = [find(place) for place in arguments.dataset]
    others = sum((each.other_files for each in found), collections.Counter[str]())
    with Progress("files") as progress:
        report = validate(
            concatenated([each.samples for each in found]),
            clips_per_video=arguments.clips,
            report=arguments.report,
            num_threads=arguments.threads,
            progress=progress,
        )
    if arguments.failures:
        report.write_failures(arguments.failures)
    if arguments.json:
        about = {"samples": report.samples, "checked": report.checked, "frames": report.frames}
        more = {"seconds": report.seconds, "failures": report.failures, "other_files": others}
        print(json.dumps({"command": "validate", **about, **more}))
    else:
        before = f", {report.samples - report.checked} known from {arguments.report}" if arguments.report else ""
        files = "file" if report.samples == 1 else "files"
        bad = len(report.failures)
        print(
            f"{report.samples} {files}: {report.samples - bad} good, {bad} bad{before}; "
            f"{report.frames} frames, {report.seconds:.1f} s"
        )
        if others:
            print(f"not read because of their extensions: {_numbers(others)}", file=sys.stderr)
        kinds = collections.Counter(failure["kind"] for failure in report.failures)
        if kinds:
            print(f"bad: {_numbers(kinds)}", file=sys.stderr)
        named("bad", [failure["message"] for failure in report.failures])
    return 1 if report.failures else 0


def _numbers(counts: collections.Counter[str]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.most_common())
