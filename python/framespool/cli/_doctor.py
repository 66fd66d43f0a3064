"""``framespool doctor``: what works on this machine, what does not, why, and what to do."""

from __future__ import annotations

import argparse
import json
from typing import Any

from framespool._doctor import doctor

_DESCRIPTION = """\
Looks at this machine: the library, cores, limits, the index, GPUs with their video
engines, other packages. Exit code 1 where something does not work.
"""


def add(subparsers: Any) -> None:
    """Adds the subcommand."""
    parser = subparsers.add_parser(
        "doctor",
        help="what works on this machine, and what to do about the rest",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--index", metavar="PLACE", help="folder of the index (default: FRAMESPOOL_INDEX)")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")
    parser.set_defaults(run=run)


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
