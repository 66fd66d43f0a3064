"""`framespool doctor`: what works on this machine, what does not, and how to fix it."""

from __future__ import annotations

import argparse
import json
from typing import Any

from framespool.cli import _dataset_options
from framespool.cli._parser import add_json, command
from framespool.tools._doctor import dataset_finding, doctor, nvdec_finding

_DESCRIPTION = """\
Check this machine: the library, cores and limits, the index cache, GPUs with their
NVDEC engines, other packages. Print a remedy for each problem. With
DATASET (a folder, list or file), also print what a full and a grouped shuffle of it are
expected to decode, and which of its first files a GPU decodes.
"""

_EXAMPLES = """\
  framespool doctor                      what works, what does not, how to fix it
  framespool doctor --index /fast/disk   whether the index cache can be there
  framespool doctor videos/ --frames 16 --clips-per-video 8 --num-shards 4
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
    _dataset_options.add_options(parser, required=False)
    _dataset_options.add_epoch_options(parser)
    parser.add_argument("--index", metavar="FOLDER", help="folder of the index cache (default: FRAMESPOOL_INDEX)")
    add_json(parser, "the findings")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    findings = doctor(arguments.index)
    if arguments.dataset:
        loader = _dataset_options.epoch_loader(arguments)
        findings += filter(None, [dataset_finding(loader), nvdec_finding(loader)])
    if arguments.json:
        print(json.dumps({"command": "doctor", "findings": [finding.as_dict() for finding in findings]}))
    else:
        wide = max(len(finding.name) for finding in findings)
        for finding in findings:
            print(f"{finding.state:4}  {finding.name:{wide}}  {finding.text}")
            if finding.remedy:
                print(f"{'':{wide + 8}}-> {finding.remedy}")
    return 1 if any(finding.state == "bad" for finding in findings) else 0
