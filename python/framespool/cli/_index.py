"""`framespool index`: fills the index cache ahead of time, checks, exports, imports and prunes it."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from datetime import date
from typing import Any

from framespool import _framespool
from framespool._common.format import bytes_text
from framespool._common.progress import Progress
from framespool._common.validate_args import display_path
from framespool.cli._parser import add_json, check_writable, command, count
from framespool.cli._parser import index as stream_index
from framespool.datasets._source_list import AUDIO, VIDEOS, find
from framespool.errors import ArgumentError
from framespool.video._sources import full_source

#: Ordinal of 1970-01-01.
_EPOCH = date(1970, 1, 1).toordinal()
#: Limit of printed names per kind of error; --json has all.
_MAX_NAMES = 20

_DESCRIPTION = """\
Fill the index cache, so that loaders need not index videos: packets, random access
points and presentation times. Loaders index a video when they first open it; indexing
ahead of time makes the first epoch as fast as later ones. Videos that are indexed and
unchanged are skipped. A bad file is reported and does not stop the run. With --audio,
files without audio are counted, and are no failures unless --stream selects a stream.

In place of DATASET, one of these words (for a folder of that name, ./stats):

  stats                    print number and size of the stored indexes
  prune [FOLDER ...]       remove indexes of missing files, and the least recently used
                           ones above FRAMESPOOL_INDEX_MAX_BYTES (default 1 GiB); shrink
                           the file. If the folder of a file is missing too, its file
                           system may not be mounted: name FOLDER to remove those below
  export FILE [FOLDER ...] write all stored indexes, or those of files below FOLDER
"""

_EXAMPLES = """\
  framespool index videos/                             all videos below a folder
  framespool index videos/ --audio                     of their audio; also folders of audio files
  framespool index videos/ --export videos.jsonl       write their indexes to a file ...
  framespool index /data/videos --import videos.jsonl  ... and import it on another machine
  framespool index videos/ --check                     build all again and compare
"""


def add(subparsers: Any) -> None:
    """Adds the subcommand."""
    parser = command(
        subparsers,
        "index",
        run,
        help="fill the index cache ahead of time",
        description=_DESCRIPTION,
        examples=_EXAMPLES,
    )
    parser.add_argument(
        "dataset",
        nargs="+",
        metavar="DATASET",
        help="a folder of videos, a list file or table (.csv, .jsonl), a video, or a URL",
    )
    parser.add_argument(
        "--index",
        metavar="FOLDER",
        help="folder of the index cache (default: FRAMESPOOL_INDEX, else in the user's cache)",
    )
    parser.add_argument(
        "--audio",
        action="store_true",
        help="index the audio of the files in place of their video, for audio= of loaders and AudioLoader",
    )
    parser.add_argument("--threads", type=count, metavar="N", help="worker threads (default: all cores)")
    parser.add_argument(
        "--stream",
        type=stream_index,
        metavar="N",
        help="index of the video stream, or of the audio stream (default: the best one of each file)",
    )
    parser.add_argument("--check", action="store_true", help="build existing indexes again and compare")
    parser.add_argument(
        "--export", metavar="FILE", help="write the indexes of DATASET as lines of JSON; not with --audio"
    )
    parser.add_argument("--import", metavar="FILE", dest="import_", help="import such a file before indexing the rest")
    parser.add_argument(
        "--root", metavar="DIR", help="folder that paths in exports are relative to (default: common folder of DATASET)"
    )
    add_json(parser, "the summary")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    action = _ACTIONS.get(arguments.dataset[0])
    if action is not None:
        return action(arguments, arguments.dataset[1:])
    if arguments.audio and (arguments.export or arguments.import_):
        raise ArgumentError("exports have the indexes of videos only; omit --audio, or --export and --import")
    began = time.monotonic()
    paths, root = _files(arguments.dataset, arguments.root, AUDIO if arguments.audio else VIDEOS)
    index = _framespool.Index(arguments.index)
    summary: dict[str, Any] = {"command": "index", "index": os.fspath(index.file), "videos": len(paths)}
    if arguments.import_:
        imported, unfit = index.import_(arguments.import_, root)
        index.flush()
        summary |= {"imported": imported, "import_unfit": _left(unfit)}
    threads = arguments.threads or len(os.sched_getaffinity(0))
    try:
        with Progress("files" if arguments.audio else "videos") as progress:
            filled = index.fill(paths, (arguments.stream, arguments.audio), threads, arguments.check, progress)
    finally:
        index.flush()  # keeps finished indexes after Ctrl-C
    failed = [{"path": path, "kind": kind, "error": error} for path, kind, error in filled["failed"]]
    without_audio = []
    if arguments.stream is None:  # a stream that was requested must be audio
        without_audio = [entry["path"] for entry in failed if entry["kind"] == "no_audio"]
        failed = [entry for entry in failed if entry["kind"] != "no_audio"]
    summary |= {**filled, "failed": failed, "without_audio": without_audio}
    if arguments.check:
        summary["gone"] = sum(index.prune(place) for place in arguments.dataset if os.path.isdir(place))
        index.flush()
    if arguments.export:
        exported, left = index.export(arguments.export, root, paths, arguments.stream)
        bad = {entry["path"] for entry in failed}
        summary |= {"exported": exported, "export_unfit": [e for e in _left(left) if e["path"] not in bad]}
    summary |= {"not_kept": index.lost, "index_cache_error": index.last_error}
    summary["seconds"] = round(time.monotonic() - began, 3)
    if arguments.json:
        print(json.dumps(summary))
    else:
        _print(summary, arguments)
    is_bad = failed or summary["wrong"] or summary["not_kept"] or summary.get("export_unfit")
    return 1 if is_bad else 0


def _stats(arguments: argparse.Namespace, rest: list[str]) -> int:
    if rest:
        raise ArgumentError(f"index stats takes no DATASET, got {' '.join(map(display_path, rest))}")
    index = _framespool.Index(arguments.index)
    found = index.summary()
    summary = {"command": "index stats", "index": os.fspath(index.file), **found}
    if arguments.json:
        print(json.dumps(summary))
        return 0
    print(f"index: {summary['index']}")
    print(f"{found['entries']} indexes, {bytes_text(found['bytes'])} of at most {bytes_text(found['max_bytes'])}")
    if found["oldest_day"] is not None:
        print(f"the least recently used one was last used on {date.fromordinal(_EPOCH + found['oldest_day'])}")
    return 0


def _prune(arguments: argparse.Namespace, folders: list[str]) -> int:
    index = _framespool.Index(arguments.index)
    before = index.summary()["bytes"]
    gone = index.prune(None) + sum(index.prune(folder) for folder in folders)
    index.flush()
    unused = index.shrink(None)
    after = index.summary()
    summary = {"command": "index prune", "index": os.fspath(index.file), "gone": gone, "unused": unused}
    summary |= {"bytes_before": before, **after}
    if arguments.json:
        print(json.dumps(summary))
    else:
        print(f"removed {gone} indexes of missing files and {unused} of those unused for the longest time")
        print(f"{after['entries']} indexes left, {bytes_text(after['bytes'])} (before: {bytes_text(before)})")
        print(f"index: {summary['index']}")
    return 0


def _export(arguments: argparse.Namespace, rest: list[str]) -> int:
    if not rest:
        raise ArgumentError("index export needs a FILE to write")
    file, *folders = rest
    check_writable("export", file)
    index = _framespool.Index(arguments.index)
    paths = sorted({path for folder in folders or [os.sep] for path in index.paths(folder)})
    root = arguments.root or (os.path.commonpath([os.path.dirname(path) for path in paths]) if paths else os.sep)
    exported, left = index.export(file, root, paths, arguments.stream)
    summary = {"command": "index export", "index": os.fspath(index.file), "root": root, "exported": exported}
    summary["export_unfit"] = _left(left)
    if arguments.json:
        print(json.dumps(summary))
    else:
        print(f"exported {exported}, skipped {len(left)}; paths are relative to {root}")
        named("not exported", [f"{path}: {why}" for path, why in left])
    return 1 if left else 0


_ACTIONS: dict[str, Callable[[argparse.Namespace, list[str]], int]] = {
    "stats": _stats,
    "prune": _prune,
    "export": _export,
}


def _left(left: list[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"path": path, "reason": why} for path, why in left]


def _files(datasets: list[str], root: str | None, extensions: frozenset[str]) -> tuple[list[str], str]:
    """The distinct files, and the folder that the local ones share."""
    paths: dict[str, None] = {}
    roots = []
    for dataset in datasets:
        found = find(dataset, extensions)
        paths |= dict.fromkeys(os.fspath(full_source(source)) for source, _ in found.samples)
        if found.root is not None:
            roots.append(os.path.abspath(found.root))
    if root is not None and not os.path.isdir(root):
        raise ArgumentError(f"--root must be a folder, got {root!r}")
    return list(paths), root or (os.path.commonpath(roots) if roots else os.curdir)


def _print(summary: dict[str, Any], arguments: argparse.Namespace) -> None:
    parts = [f"{summary['found']} {'correct' if arguments.check else 'found'}", f"{summary['indexed']} indexed"]
    if arguments.check:
        parts += [f"{len(summary['wrong'])} wrong and replaced", f"{summary['gone']} missing and removed"]
    parts.append(f"{len(summary['failed'])} failed")
    if summary["without_audio"]:
        parts.append(f"{len(summary['without_audio'])} without audio")
    files, frames = "videos", f"{summary['frames']} frames, "
    if arguments.audio:
        files, frames = "files", ""
    print(f"{summary['videos']} {files}: {', '.join(parts)}; {frames}{summary['seconds']:.1f} s")
    for what in ("imported", "exported"):
        if what in summary:
            print(f"{what} {summary[what]}, skipped {len(summary[what[:6] + '_unfit'])}")
    print(f"index: {summary['index']}")
    named("failed", [entry["error"] for entry in summary["failed"]])
    named("wrong", summary["wrong"])
    for what in ("import", "export"):
        named(f"not {what}ed", [f"{e['path']}: {e['reason']}" for e in summary.get(f"{what}_unfit", [])])
    if summary["not_kept"]:
        print(f"framespool index: {summary['not_kept']} indexes could not be stored", file=sys.stderr)
    if summary["index_cache_error"]:
        print(f"framespool index: {summary['index_cache_error']}", file=sys.stderr)


def named(what: str, names: list[str]) -> None:
    """Prints messages to stderr, one per line, at most `_MAX_NAMES`."""
    for name in names[:_MAX_NAMES]:
        print(f"{what}: {name}", file=sys.stderr)
    if len(names) > _MAX_NAMES:
        print(f"{what}: {len(names) - _MAX_NAMES} more; --json lists all", file=sys.stderr)
