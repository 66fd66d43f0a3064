"""`framespool preview`: a contact sheet of the clips of a training run."""

from __future__ import annotations

import argparse
import json
from typing import Any

from framespool.cli import _dataset_options
from framespool.cli._parser import add_json, check_writable, command, count
from framespool.tools._preview import preview

_DESCRIPTION = """\
Write a contact sheet of the first clips of an epoch: one row per clip, with its label,
file and frames, as a training run with these options would get them. With
--out clips.html the page also lists the random parameters of each transform. Requires
NumPy and Pillow.
"""

_EXAMPLES = """\
  framespool preview videos/ --frames 16 --stride 4 --random-resized-crop 224 --flip
  framespool preview videos/ --preset slowfast --out clips.html
  framespool preview photos/ --random-resized-crop 224 --color-jitter 0.4
"""


def add(subparsers: Any) -> None:
    """Adds the subcommand."""
    parser = command(
        subparsers,
        "preview",
        run,
        help="write a contact sheet of the clips of a training run",
        description=_DESCRIPTION,
        examples=_EXAMPLES,
    )
    _dataset_options.add_options(parser)
    parser.add_argument(
        "--out", metavar="FILE", default="preview.png", help="a PNG, or an HTML page (default: preview.png)"
    )
    parser.add_argument("--clips", type=count, metavar="N", default=8, help="clips to show (default: 8)")
    parser.add_argument("--show", type=count, metavar="N", default=8, help="frames to show per clip (default: 8)")
    parser.add_argument("--epoch", type=int, metavar="N", default=0, help="the epoch to show (default: 0)")
    add_json(parser, "the metadata of the clips")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    check_writable("--out", arguments.out)
    loader = _dataset_options.loader(arguments, batch_size=4)
    metadata = preview(loader, arguments.out, clips=arguments.clips, frames=arguments.show, epoch=arguments.epoch)
    if arguments.json:
        print(json.dumps({"command": "preview", "out": arguments.out, "clips": metadata}))
    else:
        print(f"{arguments.out}: {len(metadata)} clips")
    return 0
