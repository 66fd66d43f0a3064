"""``framespool doctor``: what works on this machine, what does not, why, and what to do."""

from __future__ import annotations

import argparse
import json
from typing import Any

from framespool._doctor import doctor
from framespool.cli._parser import add_json, command

_DESCRIPTION = """\
Looks at this machine before anything else does: the library itself, cores and limits,
the index, GPUs with their video engines, other packages. For what does not work, or
works slower than it could, it says what to do.
"""

_EXAMPLES = """\
  framespool doctor                      what works, what does not, what to do
  framespool doctor --index /fast/disk   whether the index can be kept there
"""


def add(subparsers: Any) -> None:
    """Adds the subcommand."""
    parser = command(
        subparsers,
        "doctor",
        run,
        help="does everything work on this machine?",
        description=_DESCRIPTION,
        examples=_EXAMPLES,
    )
    parser.add_argument("--index", metavar="PLACE", help="folder of the index (default: FRAMESPOOL_INDEX)")
    add_json(parser, "what was found")


def run(arguments: argparse.Namespace) -> int:
    """Does it."""
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
