"""`framespool transcode`: transcodes videos for cheap random clips, after an estimate of the gain."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass
from typing import Any

from framespool import datasets
from framespool._common.progress import Progress
from framespool._common.validate_args import is_url
from framespool.cli import _exit_codes
from framespool.cli._index import named
from framespool.cli._parser import add_json, check_writable, command, count
from framespool.datasets._dataset import concatenated
from framespool.datasets._source_list import VIDEOS, find
from framespool.errors import ArgumentError, Error
from framespool.tools._transcode import _estimate, _job
from framespool.tools._transcode._ffmpeg import VARIABLE
from framespool.tools._transcode._options import CODECS, PRESETS, Options
from framespool.video._sources import full_source

_DESCRIPTION = f"""\
Transcode videos to short GOPs, and optionally a smaller size, for training with random
clips: to show one frame, all frames since the last random access point must be decoded.
The estimated gain and cost are printed, and a confirmation is requested. Number, order
and times of frames are unchanged; each file is compared with its source. Encoding loses
quality; the originals are not modified.

FOLDER has the same layout as DATASET: class folders are kept, a list is written there
with the new paths, and dataset.jsonl lists everything. A stopped run can be repeated and
continues where it was. Requires an ffmpeg program: --ffmpeg, the variable
{VARIABLE}, the PATH, or pip install imageio-ffmpeg.
"""

_EXAMPLES = """\
  framespool transcode videos/ --out small/ --size 256          GOPs of 16 frames, shorter side 256
  framespool transcode videos/ --out small/ --dry-run           only print the estimate
  framespool transcode train.txt val.txt --out small/ --gop 8 --crf 18 --yes
"""


def add(subparsers: Any) -> None:
    """Adds the subcommand."""
    parser = command(
        subparsers,
        "transcode",
        run,
        help="transcode videos to short GOPs for cheap random clips",
        description=_DESCRIPTION,
        examples=_EXAMPLES,
    )
    parser.add_argument(
        "dataset",
        nargs="+",
        metavar="DATASET",
        help="a folder of videos, a list file or table (.csv, .jsonl), a video, or a URL",
    )
    parser.add_argument("--out", metavar="FOLDER", required=True, help="folder for the new files")
    parser.add_argument(
        "--gop", type=count, metavar="N", default=16, help="frames per GOP; fewer make larger files (default: 16)"
    )
    parser.add_argument(
        "--b-frames",
        type=int,
        metavar="N",
        default=2,
        help="consecutive B-frames, which clips with a stride can skip (default: 2)",
    )
    parser.add_argument("--size", type=int, metavar="S", help="shorter side in pixels (default: unchanged)")
    parser.add_argument("--long-side", type=int, metavar="S", help="longer side in pixels, instead of --size")
    parser.add_argument("--codec", choices=CODECS, default="h264", help="(default: h264)")
    parser.add_argument(
        "--crf", type=float, metavar="Q", help="quality of the encoder, lower is better (default: 20, hevc 22)"
    )
    parser.add_argument(
        "--preset", choices=PRESETS, metavar="NAME", default="medium", help="ultrafast to veryslow (default: medium)"
    )
    parser.add_argument(
        "--frames", type=count, metavar="N", default=16, help="frames of the clips to estimate for (default: 16)"
    )
    parser.add_argument(
        "--stride", type=count, metavar="N", default=4, help="distance between their frames (default: 4)"
    )
    parser.add_argument("--jobs", type=count, metavar="N", help="videos at the same time (default: one per core)")
    parser.add_argument("--ffmpeg", metavar="PROGRAM", help="the ffmpeg program")
    parser.add_argument(
        "--on-error", choices=("skip", "raise"), default="skip", help="what to do with a bad video (default: skip)"
    )
    parser.add_argument("--failures", metavar="FILE", help="write the bad videos to FILE")
    parser.add_argument("--dry-run", action="store_true", help="print the estimate and exit")
    parser.add_argument("--yes", action="store_true", help="do not ask (implied by --json)")
    add_json(parser, "estimate and result")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    if arguments.failures:
        check_writable("--failures", arguments.failures)
    options = Options.checked(
        arguments.gop,
        arguments.b_frames,
        arguments.size,
        arguments.long_side,
        arguments.codec,
        arguments.crf,
        arguments.preset,
    )
    dataset, root, lists = _given(arguments.dataset, arguments.out)
    plan = _job.TranscodeJob(dataset, arguments.out, options, root, arguments.ffmpeg, arguments.jobs, None)
    estimate = _estimate.estimate(plan, arguments.frames, arguments.stride)
    output: dict[str, Any] = {"command": "transcode", "estimate": estimate, "result": None}
    if estimate is not None and not arguments.json:
        print("\n".join(f"- {sentence}" for sentence in estimate["summary"]), flush=True)
    if arguments.dry_run:
        if arguments.json:
            print(json.dumps(output))
        elif not plan.todo:
            print(f"all {len(plan.videos)} videos are already transcoded")
        return _exit_codes.DONE
    if plan.todo and not arguments.yes and not arguments.json and not _agreed(plan):
        print("nothing was done", file=sys.stderr)
        return _exit_codes.BAD
    with Progress("videos") as progress:
        report = _job.run(plan, arguments.on_error, progress)
    if arguments.failures:
        report.write_failures(arguments.failures)
    written = [_write_list(listed, plan, report) for listed in lists]
    if arguments.json:
        names = ("videos", "transcoded", "found", "frames", "bytes_written", "seconds", "list_file", "failures")
        output["result"] = {name: getattr(report, name) for name in names} | {"lists": written}
        print(json.dumps(output))
    else:
        _print(report, written, plan.out)
    return _exit_codes.BAD if report.failures else _exit_codes.DONE


def _agreed(plan: _job.TranscodeJob) -> bool:
    """Requests confirmation; without a terminal the answer is yes."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    print(f"write {len(plan.todo)} videos to {plan.out}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _print(report: _job.TranscodeReport, written: list[str], out: str) -> None:
    before = f", {report.found} already there" if report.found else ""
    print(
        f"{report.videos} videos: {report.transcoded} transcoded{before}, {len(report.failures)} bad; "
        f"{report.frames} frames, {report.bytes_written / 1e6:.1f} MB, {report.seconds:.1f} s"
    )
    for path in [*written, *([report.list_file] if report.list_file else [])]:
        print(f"list: {path}")
    print(f"check the result: framespool preview {out}")
    named("bad", [failure["message"] for failure in report.failures])


@dataclass
class _List:
    """A list file of the arguments, and the range of its samples in the dataset."""

    path: str
    first: int
    end: int


def _given(places: list[str], out: str) -> tuple[datasets.Dataset, str, list[_List]]:
    """All videos of the arguments, the folder that names start from, and the list files."""
    parts: list[datasets.Dataset] = []
    num_samples = 0
    roots: list[str] = []
    written: dict[str, str] = {}
    lists: list[_List] = []
    for place in places:
        files = find(place, VIDEOS)
        found, start = files.samples, files.root
        if os.path.isdir(place):
            if _is_below(out, place):
                raise ArgumentError(
                    f"--out: {out} is inside {place}, whose videos are read; choose a folder outside of it"
                )
            found = _labelled(place, found, len(places) == 1)
        elif files.is_list:
            if os.path.realpath(os.path.join(out, os.path.basename(place))) == os.path.realpath(place):
                raise ArgumentError(f"--out: the list of the results would replace {place}; choose another folder")
            other = written.setdefault(os.path.basename(place), place)
            if other != place or any(each.path == place for each in lists):
                raise ArgumentError(
                    f"{other} and {place} would both become {os.path.join(out, os.path.basename(place))}; "
                    "rename one, or transcode each to its own folder"
                )
            lists.append(_List(place, num_samples, num_samples + len(found)))
        if not os.path.isdir(place):
            paths = [os.fspath(full_source(source)) for source, _ in found]
            folders = {os.path.dirname(os.path.abspath(path)) for path in paths if not is_url(path)}
            if start is not None and not all(_is_below(folder, start) for folder in folders):
                start = os.path.commonpath(folders)
        parts.append(found)
        num_samples += len(found)
        if start is not None:
            roots.append(os.path.abspath(start))
    return concatenated(parts), os.path.commonpath(roots) if roots else os.curdir, lists


def _labelled(place: str, found: datasets.Dataset, alone: bool) -> datasets.Dataset:
    """The videos of a folder with labels, if it has class folders and is the only argument."""
    if alone:
        try:
            return datasets.folder(place)
        except Error:
            return found
    return found


def _is_below(path: str, folder: str) -> bool:
    path, folder = os.path.realpath(path), os.path.realpath(folder)
    return os.path.commonpath([path, folder]) == folder


def _write_list(listed: _List, plan: _job.TranscodeJob, report: _job.TranscodeReport) -> str:
    """Writes a list with the new paths; bad videos are omitted."""
    path = os.path.join(plan.out, os.path.basename(listed.path))
    lines = []
    for entry in range(listed.first, listed.end):
        new, label = report.paths[entry], plan.dataset[entry][1]
        if new is not None:
            lines.append(f"{os.path.relpath(new, plan.out)}{'' if label == -1 else f' {label}'}\n")
    _job.replace_text(path, "".join(lines))
    return path
