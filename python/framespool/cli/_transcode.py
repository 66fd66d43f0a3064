"""``framespool transcode``: videos written anew, so that random clips cost less; what that gains is told first."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass
from typing import Any

from framespool import _framespool, datasets
from framespool._transcode import _estimate, _job
from framespool._transcode._ffmpeg import VARIABLE
from framespool._transcode._options import CODECS, PRESETS, Options
from framespool.cli import _exit_codes
from framespool.cli._index import named
from framespool.cli._parser import add_json, check_writable, command, count
from framespool.cli._progress import Progress
from framespool.errors import ArgumentError, Error

_DESCRIPTION = f"""\
Writes videos anew with short groups of pictures, and smaller if you like, for training
that takes random clips: to show one frame, all pictures since the last point where
decoding can start must be decoded. First it says what that gains and costs, and asks.
Frames stay the same in number, order and time; each file is compared with its source.
Encoding loses quality, and the originals are never touched.

The result lies in FOLDER as the videos lie in DATASET: class folders stay, a list is
written there again with the new paths, and dataset.jsonl has all of it. A run that was
stopped, by whatever, goes on where it was. It needs an ffmpeg program: --ffmpeg, the
variable {VARIABLE}, the PATH, or pip install imageio-ffmpeg.
"""

_EXAMPLES = """\
  framespool transcode videos/ --out small/ --size 256          groups of 16, shorter side 256
  framespool transcode videos/ --out small/ --dry-run           only say what it would gain
  framespool transcode train.txt val.txt --out small/ --gop 8 --crf 18 --yes
"""


def add(subparsers: Any) -> None:
    """Adds the subcommand."""
    parser = command(
        subparsers,
        "transcode",
        run,
        help="write videos anew so that random clips cost less",
        description=_DESCRIPTION,
        examples=_EXAMPLES,
    )
    parser.add_argument("dataset", nargs="+", metavar="DATASET", help="a folder of videos, a list file, or a video")
    parser.add_argument("--out", metavar="FOLDER", required=True, help="where the new files go")
    parser.add_argument(
        "--gop", type=count, metavar="N", default=16, help="pictures of a group; fewer cost space (default: 16)"
    )
    parser.add_argument(
        "--b-frames",
        type=int,
        metavar="N",
        default=2,
        help="B-frames in a row, which clips with a stride can skip (default: 2)",
    )
    parser.add_argument("--size", type=int, metavar="S", help="shorter side in pixels (default: as it is)")
    parser.add_argument("--long-side", type=int, metavar="S", help="longer side in pixels, instead of --size")
    parser.add_argument("--codec", choices=CODECS, default="h264", help="(default: h264)")
    parser.add_argument(
        "--crf", type=float, metavar="Q", help="the encoder's quality, less is better (default: 20, hevc 22)"
    )
    parser.add_argument(
        "--preset", choices=PRESETS, metavar="NAME", default="medium", help="ultrafast to veryslow (default: medium)"
    )
    parser.add_argument("--frames", type=count, metavar="N", default=16, help="frames of your clips (default: 16)")
    parser.add_argument("--stride", type=count, metavar="N", default=4, help="from one to the next (default: 4)")
    parser.add_argument("--jobs", type=count, metavar="N", help="videos at a time (default: one for each core)")
    parser.add_argument("--ffmpeg", metavar="PROGRAM", help="the program that encodes")
    parser.add_argument("--on-error", choices=("skip", "raise"), default="skip", help="at a bad video (default: skip)")
    parser.add_argument("--failures", metavar="FILE", help="write the bad videos to FILE")
    parser.add_argument("--dry-run", action="store_true", help="say what it would gain and cost, and end")
    parser.add_argument("--yes", action="store_true", help="do not ask; nor is asked with --json")
    add_json(parser, "estimate and result")


def run(arguments: argparse.Namespace) -> int:
    """Does it."""
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
    said: dict[str, Any] = {"command": "transcode", "estimate": None, "result": None}
    if plan.todo:
        estimate = _estimate.estimate(plan, arguments.frames, arguments.stride)
        said["estimate"] = estimate.as_dict()
        if not arguments.json:
            print("\n".join(f"- {sentence}" for sentence in estimate.summary_lines()), flush=True)
    if arguments.dry_run:
        if arguments.json:
            print(json.dumps(said))
        elif not plan.todo:
            print(f"all {len(plan.videos)} videos are made already")
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
        said["result"] = {name: getattr(report, name) for name in names} | {"lists": written}
        print(json.dumps(said))
    else:
        _print(report, written, plan.out)
    return _exit_codes.BAD if report.failures else _exit_codes.DONE


def _agreed(plan: _job.TranscodeJob) -> bool:
    """Whether whoever sits there says yes; where nobody does, nothing is asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    print(f"write {len(plan.todo)} videos to {plan.out}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _print(report: _job.TranscodeReport, written: list[str], out: str) -> None:
    before = f", {report.found} there already" if report.found else ""
    print(
        f"{report.videos} videos: {report.transcoded} made{before}, {len(report.failures)} bad; "
        f"{report.frames} frames, {report.bytes_written / 1e6:.1f} MB, {report.seconds:.1f} s"
    )
    for path in [*written, *([report.list_file] if report.list_file else [])]:
        print(f"list: {path}")
    print(f"look at it: framespool preview {out}")
    named("bad", [failure["message"] for failure in report.failures])


@dataclass
class _List:
    """A list that was given: its file, and which entries of the dataset are its own."""

    path: str
    first: int
    end: int


def _given(places: list[str], out: str) -> tuple[datasets.Dataset, str, list[_List]]:
    """All videos of the places, the folder that names start from, and which places are lists."""
    entries: list[tuple[Any, int]] = []
    roots: list[str] = []
    written: dict[str, str] = {}
    lists: list[_List] = []
    classes: list[str] = []
    for place in places:
        videos, folder_of = _framespool.find_videos(place)
        start = os.fspath(folder_of)
        found: Any = [(os.fspath(path), -1) for path in videos]
        if os.path.isdir(place):
            if _is_below(out, place):
                raise ArgumentError(
                    f"--out: {out} lies in {place}, whose videos are read; choose a folder outside of it"
                )
            found, classes = _labelled(place, found, len(places) == 1)
        elif [os.fspath(path) for path in videos] != [place]:
            found = list(datasets.file_list(place))
            if os.path.realpath(os.path.join(out, os.path.basename(place))) == os.path.realpath(place):
                raise ArgumentError(
                    f"--out: {place} itself would be replaced by the list of the results; choose another folder"
                )
            other = written.setdefault(os.path.basename(place), place)
            if other != place or any(each.path == place for each in lists):
                raise ArgumentError(
                    f"{other} and {place} would both become {os.path.join(out, os.path.basename(place))}; "
                    "give them other names, or transcode each into a folder of its own"
                )
            lists.append(_List(place, len(entries), len(entries) + len(found)))
            folders = {os.path.dirname(os.path.abspath(path)) for path, _ in found}
            if not all(_is_below(folder, start) for folder in folders):
                start = os.path.commonpath(folders)
        entries += found
        roots.append(os.path.abspath(start))
    return datasets.Dataset(entries, classes), os.path.commonpath(roots), lists


def _labelled(place: str, found: list[tuple[str, int]], alone: bool) -> tuple[Any, list[str]]:
    """A folder's videos with labels, if it has class folders and nothing comes beside it."""
    if alone:
        try:
            labelled = datasets.folder(place)
        except Error:
            return found, []
        return list(labelled), labelled.classes
    return found, []


def _is_below(path: str, folder: str) -> bool:
    path, folder = os.path.realpath(path), os.path.realpath(folder)
    return os.path.commonpath([path, folder]) == folder


def _write_list(listed: _List, plan: _job.TranscodeJob, report: _job.TranscodeReport) -> str:
    """The list again, with the new paths; bad videos are left out."""
    path = os.path.join(plan.out, os.path.basename(listed.path))
    lines = []
    for entry in range(listed.first, listed.end):
        new, label = report.paths[entry], plan.dataset[entry][1]
        if new is not None:
            lines.append(f"{os.path.relpath(new, plan.out)}{'' if label == -1 else f' {label}'}\n")
    _job.replace_text(path, "".join(lines))
    return path
