"""`framespool shots`: the shots of videos, as a list for a loader."""

from __future__ import annotations

import argparse
import json
import warnings
from typing import Any

from framespool._common.progress import Progress
from framespool.cli._dataset_options import labelled
from framespool.cli._index import named
from framespool.cli._parser import add_json, check_writable, command, count, index
from framespool.tools._shots import MIN_FRAMES, THRESHOLD, split_shots

_DESCRIPTION = """\
Find the hard cuts of the videos of DATASET and write one line per shot to a file for
datasets.json_lines(FILE, in_frames=True), so that no clip crosses a cut. Threshold and
the least length of a shot mean the same as in PySceneDetect's ContentDetector.
"""

_EXAMPLES = """\
  framespool shots videos/ --output shots.jsonl                  a folder, with or without class folders
  framespool shots movie.mp4 --output shots.jsonl --threshold 20  also weaker cuts
  framespool shots train.txt --output shots.jsonl --failures bad.jsonl
"""


def add(subparsers: Any) -> None:
    """Adds the subcommand."""
    parser = command(
        subparsers,
        "shots",
        run,
        help="split videos at cuts",
        description=_DESCRIPTION,
        examples=_EXAMPLES,
    )
    parser.add_argument(
        "dataset",
        nargs="+",
        metavar="DATASET",
        help="a folder of videos, a list file (path label), a table (.csv, .jsonl), a file, or a URL",
    )
    parser.add_argument("--output", metavar="FILE", required=True, help="write the shots to FILE")
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="X",
        default=THRESHOLD,
        help=f"least difference of a cut, up to 255 (default: {THRESHOLD:g})",
    )
    parser.add_argument(
        "--min-frames",
        type=count,
        metavar="N",
        default=MIN_FRAMES,
        help=f"least number of frames of a shot (default: {MIN_FRAMES})",
    )
    parser.add_argument(
        "--stream", type=index, metavar="N", help="index of the video stream (default: the one that FFmpeg selects)"
    )
    parser.add_argument("--failures", metavar="FILE", help="write the bad files to FILE")
    parser.add_argument("--threads", type=count, metavar="N", help="worker threads (default: all cores)")
    add_json(parser, "the numbers and the failures")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; exit code 1 if a file could not be split."""
    for option, path in (("--output", arguments.output), ("--failures", arguments.failures)):
        if path:
            check_writable(option, path)
    dataset = labelled(arguments.dataset)
    with Progress("videos") as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about failures, which are printed below
        report = split_shots(
            dataset if arguments.stream is None else dataset.with_stream(arguments.stream),
            threshold=arguments.threshold,
            min_frames=arguments.min_frames,
            num_threads=arguments.threads,
            progress=progress,
        )
    report.save(arguments.output)
    if arguments.failures:
        report.write_failures(arguments.failures)
    shots, bad = len(report.dataset), len(report.failures)
    if arguments.json:
        about = {"samples": report.samples, "shots": shots, "frames": report.frames, "compared": report.compared}
        print(json.dumps({"command": "shots", **about, "seconds": report.seconds, "failures": report.failures}))
    else:
        print(
            f"{report.samples} videos: {shots} shots, {bad} bad; {report.frames} frames, {report.compared} compared, "
            f"{report.seconds:.1f} s; shots in {arguments.output}"
        )
        named("bad", [failure["message"] for failure in report.failures])
    return 1 if report.failures else 0
