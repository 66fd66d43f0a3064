"""Datasets from the lists that other codebases read.

None of these looks whether the videos exist: that takes minutes on a network disk, and a loader says what is missing.
Where the name of a file must be found first, the function says so. Text is UTF-8, with or without a byte order mark,
lines end in LF or CRLF; what cannot be understood is a :class:`~framespool.ArgumentError` that names file and line.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any, Literal

from framespool import _framespool
from framespool._validate_args import as_sequence, boolean, choice, integer, number
from framespool.datasets._dataset import Dataset
from framespool.datasets._sample_list import SampleList
from framespool.datasets._sources import ImageSequence, Source, VideoSegment
from framespool.errors import ArgumentError

_Path = str | os.PathLike[str]
_Fps = float | tuple[int, int]


def _dataset(found: Any) -> Dataset:
    """What the engine read, as a dataset; what was left out is told by warnings."""
    table, classes, columns, notes = found
    _warn(notes)
    return Dataset(SampleList(table), classes, columns)


def _warn(notes: list[str], stacklevel: int = 4) -> None:
    for note in notes:
        warnings.warn(note, stacklevel=stacklevel)  # at the line that called the public function


def _frames(pattern: str, first: int, fps: _Fps) -> tuple[str, int, int | None, tuple[int, int]]:
    """The frames of folders, checked as :class:`ImageSequence` checks them."""
    if not isinstance(pattern, str):
        raise ArgumentError(f"pattern must be a string, got {pattern!r}")
    checked = ImageSequence("", pattern=pattern, first=first, fps=fps)
    return pattern, integer("first", checked.first), None, checked._fps


def _kind(extension: str | None, pattern: str | None, first: int, fps: _Fps) -> tuple[Any, Any]:
    """Files with an extension, or folders of frames, as the engine takes them."""
    if extension is not None and not isinstance(extension, str):
        raise ArgumentError(f"extension must be a string, got {extension!r}")
    return extension, None if pattern is None else _frames(pattern, first, fps)


def _names(classes: Sequence[str] | None) -> list[str] | None:
    if classes is None:
        return None
    names = as_sequence(classes)
    if names is None or not all(isinstance(name, str) for name in names):
        raise ArgumentError(f"classes must be a list of names, got {classes!r}")
    return list(names)


def annotation_file(
    path: _Path, *, root: _Path | None = None, delimiter: str | None = None, multi_label: bool = False
) -> Dataset:
    """The lists of mmaction2, PySlowFast, VideoMAE, V-JEPA 2 and PyTorchVideo: ``path label`` on each line.

    As :func:`file_list`. With ``multi_label`` every whole number at the end of a line is a label:
    ``columns["labels"]`` has a list of them per entry, and the entry's own label is -1. ``delimiter``: what stands
    between the fields instead of white space, such as ``","`` or ``"::"``; with white space, a path that ends in a
    number of its own (``clip 7``) cannot be told from one with another label.
    """
    return _dataset(_framespool.read_annotation_file(path, root, delimiter, multi_label))


def rawframes(
    path: _Path,
    *,
    root: _Path | None = None,
    pattern: str = "img_{:05}.jpg",
    first: int = 1,
    fps: _Fps = 30,
    columns: Sequence[str] = ("total", "label"),
) -> Dataset:
    """Videos that were taken apart into pictures: ``folder total_frames label`` on each line, as mmaction2 and
    VideoMAEv2 have it. Entries are :class:`ImageSequence`.

    ``columns``: what stands behind the folder, whole numbers all: ``"total"`` frames; ``"label"``, or ``"labels"`` for
    one or more, which become ``columns["labels"]`` with -1 as the entry's own label; ``"start"``, the number in the
    first file's name, or ``"offset"``, which is added to ``first``. So ``("start", "total")`` is VideoMAEv2's list for
    pretraining, in which ``path 0 -1`` is a whole video's file, and ``("offset", "total", "label")`` mmaction2's with
    offsets. ``pattern``, ``first`` and ``fps`` as in :class:`ImageSequence`. Relative paths start at ``root``, or at the
    list's own folder; blank lines and lines that begin with ``#`` are passed over. Errors name the line.
    """
    names = as_sequence(columns)
    if names is None or not all(isinstance(name, str) for name in names):
        raise ArgumentError(f'columns must be a list such as ("total", "label"), got {columns!r}')
    return _dataset(_framespool.read_rawframes(path, root, _frames(pattern, first, fps), list(names)))


def gluon_list(path: _Path, *, root: _Path | None = None, extension: str | None = None) -> Dataset:
    """``path duration label`` on each line, as GluonCV, VideoMAE's pretraining and TSN have it for video files.

    ``columns["duration"]`` is what the list says, in its unit; nothing here depends on it. ``extension`` (such as
    ``"mp4"``) is put behind names that have none. Relative paths start at ``root``, or at the list's own folder; blank
    lines and lines that begin with ``#`` are passed over. Errors name the line. For folders of frames,
    ``folder total_frames label``, see :func:`rawframes`.
    """
    return _dataset(_framespool.read_gluon_list(path, root, extension))


#: Whether start and end are rounded up, by DALI's words.
_ROUNDING = {
    "start_down_end_up": (False, True),
    "start_up_end_down": (True, False),
    "all_up": (True, True),
    "all_down": (False, False),
}


def dali_file_list(
    path: _Path,
    *,
    root: _Path | None = None,
    frames: bool = False,
    rounding: Literal["times", "start_down_end_up", "start_up_end_down", "all_up", "all_down"] = "times",
    fps: _Fps | None = None,
) -> Dataset:
    """The ``file_list`` of DALI's video readers: ``file label [start [end]]`` on each line, no spaces in names.

    Lines with a start are :class:`VideoSegment`; the end is not in it. With ``frames`` (DALI's ``file_list_frame_num=True``, or
    ``file_list_format="frames"``) they are in frames, and a negative number counts from the end: such videos are opened
    here, and their length looked up, no others. Without it they are seconds. With ``rounding="times"`` a part has the
    frames that appear from start on and before end, by the file's own presentation times, which at a constant rate
    is ``"all_up"``. DALI calculates frames by a rate instead: ``rounding`` in its words and ``fps`` give the same
    parts, in frames. ``"start_up_end_down"`` is the default of ``readers.video``, and ``"start_down_end_up"`` that with
    ``file_list_include_preceding_frame=True`` and the default of ``experimental.readers.video`` in DALI 2.4. Rounding
    is exact for up to nine decimals, DALI's by floats.

    Parts without frames (start is end, or nothing is left by rounding) are left out with a warning that counts them, as
    DALI does: the order of a run that is compared with it depends on the number of entries. Blank lines and lines that
    begin with ``#`` are passed over. Relative paths start at ``root``, or at the list's own folder. Errors name the
    line.
    """
    choice("rounding", rounding, ("times", *_ROUNDING))
    if boolean("frames", frames) and (rounding != "times" or fps is not None):
        raise ArgumentError("frames=True reads frames as they are; leave rounding and fps out")
    if (fps is None) != (rounding == "times"):
        raise ArgumentError(
            f'rounding="{rounding}" with fps={fps!r}: DALI\'s rounding needs the rate, as fps=30, and rounding="times" '
            "takes none"
        )
    if not frames:
        up = None if fps is None else (*_ROUNDING[rounding], ImageSequence("", fps=fps)._fps)
        return _dataset(_framespool.read_dali_file_list(path, root, up))
    listed, classes, notes = _framespool.read_dali_frames(path, root)
    entries, empty = _counted_from_begin(listed)
    if empty:
        told = f"{len(empty)} parts have no frames and are left out, as DALI does; the first is {empty[0]}"
        notes.append(f"{os.fspath(path)}: {told}")
    _warn(notes, 3)
    return Dataset(entries, classes)


def _counted_from_begin(
    entries: Sequence[tuple[str, int, tuple[int, int | None] | None]],
) -> tuple[list[tuple[Source, int]], list[str]]:
    """Entries with negative frames replaced by what they stand for, and those of which nothing is left."""
    from framespool._video import Video  # which imports the datasets

    lengths: dict[str, int] = {}
    kept: list[tuple[Source, int]] = []
    empty = []
    for source, label, part in entries:
        if part is None:
            kept.append((source, label))
            continue
        first, last = part
        start, end = part
        if first < 0 or (last is not None and last < 0):
            if source not in lengths:
                lengths[source] = len(Video(source))
            length = lengths[source]
            start = first + length if first < 0 else first
            end = last + length if last is not None and last < 0 else last
            if start < 0 or (end is not None and end < 0):
                raise ArgumentError(f"{source} has {length} frames, a part from {first} to {last} begins before them")
            if end is not None and end <= start:
                empty.append(f"{source} from {first} to {last}")
                continue
        kept.append((VideoSegment(source, start_frame=start, end_frame=end), label))
    return kept, empty


def kinetics(
    annotations: _Path,
    root: _Path,
    *,
    extension: str = ".mp4",
    split: str | None = None,
    classes: Sequence[str] | None = None,
    missing: Literal["error", "skip"] = "error",
) -> Dataset:
    """Kinetics-400, -600 and -700: a table ``label,youtube_id,time_start,time_end,split`` and the clips.

    A clip is the file ``{youtube_id}_{time_start:06}_{time_end:06}{extension}``, in ``root`` or in a folder of ``root``
    with the name of its class, with spaces or with underscores; these folders are listed, each once. ``missing``: what
    to do about clips that are not there, which no copy of Kinetics is without: ``"error"``, or ``"skip"`` them with a
    warning that counts them. ``split``: only the rows of this split (``"train"``, ``"validate"``, …).

    Labels are 0, 1, … by sorted class, over the whole table; ``classes`` gives the names in another order, such as
    ``train.classes`` where a table does not have all of them. In a table without labels, as for a test split, all are
    -1. ``columns`` has all columns of the table but ``label``. Raises :class:`~framespool.ArgumentError` with file and
    line for what cannot be understood.
    """
    choice("missing", missing, ("error", "skip"))
    return _dataset(_framespool.read_kinetics(annotations, root, extension, split, _names(classes), missing))


def ucf101(annotations: _Path, root: _Path, *, split: int = 1, train: bool = True) -> Dataset:
    """UCF101: ``classInd.txt`` and, of split 1, 2 or 3, ``trainlist01.txt`` or ``testlist01.txt`` in ``annotations``.

    Videos are ``root/Class/name.avi``. Labels are the numbers of ``classInd.txt`` less one, so they begin with 0; a
    line whose number is not that of its class folder is an :class:`~framespool.ArgumentError` that names it.
    """
    split = integer("split", split, least=1, most=99)
    return _dataset(_framespool.read_ucf101(annotations, root, split, boolean("train", train)))


def hmdb51(annotations: _Path, root: _Path, *, split: int = 1, train: bool = True) -> Dataset:
    """HMDB51: the files ``{class}_test_split{split}.txt`` in ``annotations``, which say ``name.avi 1`` of videos for
    training, ``2`` for testing, and ``0`` for neither.

    Videos are ``root/class/name.avi``; labels are 0, 1, … by sorted class. Errors name file and line.
    """
    split = integer("split", split, least=1, most=99)
    return _dataset(_framespool.read_hmdb51(annotations, root, split, boolean("train", train)))


def something_something(
    annotations: _Path,
    labels: _Path,
    root: _Path,
    *,
    extension: str = ".webm",
    pattern: str | None = None,
    first: int = 1,
    fps: _Fps = 12,
) -> Dataset:
    """Something-Something V2: ``train.json`` or another list of ``{"id", "template", …}``, and ``labels.json``.

    Videos are ``root/{id}{extension}``; with a ``pattern`` they are folders ``root/{id}`` of pictures, for which
    ``pattern``, ``first`` and ``fps`` are as in :class:`ImageSequence`. A video's class is its template without the
    brackets, its label the number that ``labels`` gives it; one without a template, as in the test split, has -1.
    ``columns`` has what the list says: ``id``, ``label`` (the description), ``template``, ``placeholders``.
    """
    return _dataset(
        _framespool.read_something_something(annotations, labels, root, *_kind(extension, pattern, first, fps))
    )


def jester(
    annotations: _Path,
    labels: _Path,
    root: _Path,
    *,
    extension: str | None = None,
    pattern: str = "{:05}.jpg",
    first: int = 1,
    fps: _Fps = 12,
) -> Dataset:
    """Jester, and Something-Something V1: ``id;label`` on each line, and a file with one label on each line.

    Videos are folders ``root/{id}`` of pictures, for which ``pattern``, ``first`` and ``fps`` are as in
    :class:`ImageSequence`; with an ``extension`` they are files ``root/{id}{extension}``. Labels are numbered from 0 in
    the order of their file. A line without a label, as in the test split, has -1. Errors name file and line.
    """
    kind = _kind(extension, pattern if extension is None else None, first, fps)
    return _dataset(_framespool.read_jester(annotations, labels, root, *kind))


def json_lines(
    path: _Path,
    *,
    root: _Path | None = None,
    source: str = "uri",
    label: str = "label",
    start: str = "start",
    end: str = "end",
    in_frames: bool = False,
) -> Dataset:
    """A JSON object on each line: ``{"uri": "a.mp4", "label": 3, "start": 1.5, "end": 4.0, "caption": "…"}``.

    ``source``, ``label``, ``start``, ``end``: the keys that say these; only the source must be there, a path or a
    ``file:`` URI. Labels are whole numbers, or names, which are sorted into ``classes``; a list of whole numbers is in
    ``columns[label]``, with -1 as the entry's own label. Parts are in seconds, or ``in_frames`` from 0, up to and
    without the end (see :class:`VideoSegment`). All other keys become ``columns``, ``None`` where an object lacks them or has
    ``null``. Blank lines are passed over. Relative paths start at ``root``, or at the file's own folder. Errors name
    the line.
    """
    keys = (source, label, start, end)
    for name, key in zip(("source", "label", "start", "end"), keys, strict=True):
        if not isinstance(key, str):
            raise ArgumentError(f"{name} must be a key of the objects, got {key!r}")
    return _dataset(_framespool.read_json_lines(path, root, keys, boolean("in_frames", in_frames)))


def epic_kitchens(
    annotations: _Path,
    root: _Path,
    *,
    label: Literal["verb", "noun"] | None = "verb",
    classes: _Path | None = None,
    file: str | None = None,
    in_frames: bool | None = None,
    pattern: str | None = None,
    fps: _Fps = 60,
) -> Dataset:
    """EPIC-KITCHENS: tables such as ``EPIC_100_train.csv``; each action is a :class:`VideoSegment` of its video.

    ``label``: whose class is the label, ``verb_class`` or ``noun_class``; -1 with ``None``, or where the table has
    none, as for the test split. Both are in ``columns`` with all else that the table has: ``narration_id``,
    ``video_id``, ``narration``, ``verb``, ``noun``, ``all_noun_classes``, … ``classes``: the table of the classes,
    ``EPIC_100_verb_classes.csv``, for their names.

    ``file``: a video's path below ``root``, ``"{participant_id}/videos/{video_id}.MP4"`` by default; if it ends in
    ``.*`` its folder is listed to find the extension. With a ``pattern``, such as ``"frame_{:010}.jpg"``, videos are
    folders of frames (see :class:`ImageSequence` for it and ``fps``),
    ``"{participant_id}/rgb_frames/{video_id}"`` by default. Actions go from ``start_timestamp`` up to and without
    ``stop_timestamp``, in seconds; ``in_frames``, as with a ``pattern``, from ``start_frame``, counted from 1, up to
    and with ``stop_frame``. Actions that end where they begin, or before, are left out with a warning. Errors name file
    and line.
    """
    if label is not None:
        choice("label", label, ("verb", "noun"))
    folders = pattern is not None
    name = file or ("{participant_id}/rgb_frames/{video_id}" if folders else "{participant_id}/videos/{video_id}.MP4")
    by_frames = folders if in_frames is None else boolean("in_frames", in_frames)
    frames = None if pattern is None else _frames(pattern, 1, fps)
    return _dataset(_framespool.read_epic_kitchens(annotations, root, name, label, classes, by_frames, frames))


def activitynet(
    annotations: _Path,
    root: _Path,
    *,
    subset: str | None = None,
    file: str = "v_{id}.*",
    classes: Sequence[str] | None = None,
    missing: Literal["error", "skip"] = "error",
) -> Dataset:
    """ActivityNet, and what has its format (HACS, THUMOS, FineAction): a JSON file with a ``database`` of videos and
    their ``annotations``; each ``segment``, in seconds, is a :class:`VideoSegment` of its video.

    A video without annotations, as in the testing subset, is an entry by itself, whole and with label -1. ``subset``:
    only videos of this one (``"training"``, ``"validation"``, ``"testing"``). ``file``: a video's path below ``root``;
    if it ends in ``.*`` its folder is listed to find the extension, and ``missing`` says what to do about videos that
    are not there: ``"error"``, or ``"skip"`` them with a warning that counts them. Labels are 0, 1, … by sorted class,
    over all subsets; ``classes`` gives the names in another order. ``columns`` has the video's ``id``, and what else is
    said of it and of the segment (``duration``, ``subset``, ``url``, …). Segments that end where they begin, or before,
    are left out with a warning. Errors name file and video.
    """
    choice("missing", missing, ("error", "skip"))
    return _dataset(_framespool.read_activitynet(annotations, root, subset, file, _names(classes), missing))


def ava(
    annotations: _Path,
    root: _Path,
    *,
    file: str = "{video_id}.*",
    span_seconds: float = 3.0,
    begin_seconds: float = 0.0,
    missing: Literal["error", "skip"] = "error",
) -> Dataset:
    """AVA: ``video_id,second,x1,y1,x2,y2,action_id,person_id`` on each line; each key second is a :class:`VideoSegment` of its
    video, ``span_seconds`` long, with the second in its middle.

    Rows of the same video and second are one entry, with label -1. ``columns``: ``video_id``, ``second``, and of each
    row one in ``boxes`` ((x1, y1, x2, y2) as a list, from 0 to 1), ``actions`` (numbers as in AVA's list of actions,
    from 1) and ``persons`` (-1 where the row has none). ``begin_seconds``: the second of the movie at which the files
    begin, such as 900 where they were cut to what is annotated. ``file`` and ``missing`` as in :func:`activitynet`.
    Errors name file and line.
    """
    choice("missing", missing, ("error", "skip"))
    span, begin = number("span_seconds", span_seconds, above=0), number("begin_seconds", begin_seconds)
    return _dataset(_framespool.read_ava(annotations, root, file, span, begin, missing))
