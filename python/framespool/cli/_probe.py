"""`framespool probe`: what a dataset contains, and what will be slow in training."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from framespool._common.progress import Progress
from framespool.cli._dataset_options import labelled
from framespool.cli._parser import add_json, check_writable, command, count, index
from framespool.errors import ArgumentError
from framespool.tools import probe

_DESCRIPTION = """\
Report what DATASET contains: files, durations, frame sizes and rates, codecs, colors,
GOPs, classes, the cost of a random clip, and what will be slow in training, with the
reason. To show one frame, all frames since the last random access point must be decoded.
The command opens files and decodes no video; `framespool validate` decodes every frame,
`framespool bench` measures loading. Of a large dataset it reads a random subset, always
the same.
"""

_EXAMPLES = """\
  framespool probe videos/                             a folder, with or without class folders
  framespool probe a.mp4 --frames 8                    one video, and clips of 8 frames, 4 apart
  framespool probe train.txt --max-files all           all files of a list
  framespool probe videos/ --output report.html        also a page with frames of some videos
"""


def add(subparsers: Any) -> None:
    """Adds the subcommand."""
    parser = command(
        subparsers,
        "probe",
        run,
        help="report what a dataset contains, and what will be slow",
        description=_DESCRIPTION,
        examples=_EXAMPLES,
    )
    parser.add_argument(
        "dataset",
        nargs="+",
        metavar="DATASET",
        help="a folder of videos or images, a list file (path label), a table (.csv, .jsonl), a file, or a URL",
    )
    parser.add_argument(
        "--max-files", type=_max_files, metavar="N", default=1000, help="files to read, or all (default: 1000)"
    )
    parser.add_argument("--frames", type=count, metavar="N", default=16, help="frames of a clip (default: 16)")
    parser.add_argument("--stride", type=count, metavar="N", default=4, help="distance between frames (default: 4)")
    parser.add_argument(
        "--stream", type=index, metavar="N", help="index of the video stream (default: the one that FFmpeg selects)"
    )
    parser.add_argument("--threads", type=count, metavar="N", help="worker threads (default: all cores)")
    parser.add_argument("--output", metavar="FILE", help="also write a page (.html) or an image (.png)")
    add_json(parser, "the summary")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; exit code 1 if a file could not be read."""
    if arguments.output:
        if not arguments.output.lower().endswith((".html", ".png")):
            raise ArgumentError(f"--output must end in .png or .html, got {arguments.output!r}")
        check_writable("--output", arguments.output)
    dataset = labelled(arguments.dataset)
    with Progress("files") as progress:
        summary = probe(
            dataset if arguments.stream is None else dataset.with_stream(arguments.stream),
            max_files=arguments.max_files,
            sequence_length=arguments.frames,
            stride=arguments.stride,
            num_threads=arguments.threads,
            progress=progress,
        )
    if arguments.output:
        summary.save(arguments.output)
    if arguments.json:
        print(json.dumps({"command": "probe", **summary.as_dict()}))
    else:
        print(summary)
    if summary.failures:
        print(f"framespool probe: {len(summary.failures)} files cannot be read", file=sys.stderr)
    return 1 if summary.failures else 0


def _max_files(text: str) -> int | None:
    """Parses a number of files, or "all"."""
    if text == "all":
        return None
    if not text.isdecimal() or not 0 < int(text) < 2**32:
        raise argparse.ArgumentTypeError(f"must be an int of at least 1, or all, got {text!r}")
    return int(text)
