"""`framespool doctor`: what works on this machine, what does not, and how to fix it."""

from __future__ import annotations

import argparse
import json
from typing import Any

from framespool.cli._parser import add_json, command
from framespool.tools._doctor import doctor

_DESCRIPTION = """\
Check this machine: the library, cores and limits, the index cache, GPUs with their
NVDEC engines, other packages. Print a remedy for each problem. `framespool probe`
reports on a dataset, and `framespool bench` whether a GPU decodes it.
"""

_EXAMPLES = """\
  framespool doctor                      what works, what does not, how to fix it
  framespool doctor --index /fast/disk   whether the index cache can be there
"""


def add(subparsers: Any) -> None:
    """Adds the subcommand."""
    parser = command(
        subparsers,
        "doctor",
        run,
        help="check this machine: libraries, limits, index cache, GPUs",
        description=_DESCRIPTION,
        examples=_EXAMPLES,
    )
    parser.argument_hint = "; the commands for a dataset are framespool probe and framespool bench"
    parser.add_argument("--index", metavar="FOLDER", help="folder of the index cache (default: FRAMESPOOL_INDEX)")
    add_json(parser, "the findings")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    findings = doctor(arguments.index)
    if arguments.json:
        print(json.dumps({"command": "doctor", "findings": [finding.as_dict() for finding in findings]}))
    else:
        wide = max(len(finding.name) for finding in findings)
        for finding in findings:
            print(f"{finding.state:4}  {finding.name:{wide}}  {finding.text}")
            if finding.remedy:
                print(f"{'':{wide + 8}}-> {finding.remedy}")
    return 1 if any(finding.state == "bad" for finding in findings) else 0
