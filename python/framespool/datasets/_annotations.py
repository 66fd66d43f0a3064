"""Reads the annotation files of other codebases as datasets.

The readers do not check that the videos exist: that takes minutes on a network disk, and a loader reports what is
missing. A reader that must look up file names says so. Text is UTF-8, with or without a byte order mark; lines end in
LF or CRLF. A line that cannot be parsed is a :class:`~framespool.ArgumentError` that names file and line.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any, Literal

from framespool import _framespool
from framespool._sources import ImageSequence, Source, VideoSegment
from framespool._validate_args import as_sequence, boolean, choice, integer, number
from framespool._video import Video
from framespool.datasets._dataset import Dataset
from framespool.datasets._sample_list import SampleList
from framespool.errors import ArgumentError

_Path = str | os.PathLike[str]
_Fps = float | tuple[int, int]


def _dataset(found: Any) -> Dataset:
    """Wraps what the engine read in a dataset, and emits its notes on skipped lines as warnings."""
    table, classes, columns, notes = found
    _warn(notes)
    return Dataset(SampleList(table), classes, columns)


def _warn(notes: list[str], stacklevel: int = 4) -> None:
    for note in notes:
        warnings.warn(note, stacklevel=stacklevel)  # at the line that called the public function


def _frames(pattern: str, first: int, fps: _Fps) -> tuple[str, int, int | None, tuple[int, int]]:
    """Validates the frames of folders as :class:`ImageSequence` does."""
    if not isinstance(pattern, str):
        raise ArgumentError(f"pattern must be a string, got {pattern!r}")
    checked = ImageSequence("", pattern=pattern, first=first, fps=fps)
    return pattern, integer("first", checked.first), None, checked._fps


def _kind(extension: str | None, pattern: str | None, first: int, fps: _Fps) -> tuple[Any, Any]:
    """Converts the arguments for video files or for folders of frames to the engine's form."""
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
    """Reads ``path label`` lines, the lists of mmaction2, PySlowFast, VideoMAE, V-JEPA 2 and PyTorchVideo.

    The format is that of :func:`file_list`; several labels per line are possible.

    Args:
        path: Text file.
        root: Folder that relative paths start from. By default the folder of the list.
        delimiter: Separator of the fields, such as ``","`` or ``"::"``. By default white space; a path that ends in a
            number of its own (``clip 7``) is then read as one with another label.
        multi_label: Whether every integer at the end of a line is a label. ``columns["labels"]`` then has a list of
            labels per sample, and the sample's own label is -1.

    Returns:
        A dataset with one sample per line, in the order of the lines.

    Raises:
        ArgumentError: If a line cannot be parsed; the message names file and line.
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
    """Reads ``folder total_frames label`` lines, the lists of mmaction2 and VideoMAEv2 for folders of frames.

    Sources are :class:`ImageSequence`. Blank lines and lines that start with ``#`` are skipped.

    Columns ``("start", "total")`` are VideoMAEv2's list for pretraining, in which ``path 0 -1`` is the file of a
    complete video. ``("offset", "total", "label")`` is mmaction2's list with offsets.

    Args:
        path: Text file.
        root: Folder that relative paths start from. By default the folder of the list.
        pattern: File name of a frame, as in :class:`ImageSequence`.
        first: Number of the first frame, as in :class:`ImageSequence`.
        fps: Frame rate, as in :class:`ImageSequence`.
        columns: The integer fields after the folder. ``"total"``: number of frames. ``"label"``, or ``"labels"`` for
            one or more, which become ``columns["labels"]`` with -1 as the sample's own label. ``"start"``: number in
            the first file's name. ``"offset"``: number that is added to ``first``.

    Returns:
        A dataset with one sample per line, in the order of the lines.

    Raises:
        ArgumentError: If a line cannot be parsed; the message names file and line.
    """
    names = as_sequence(columns)
    if names is None or not all(isinstance(name, str) for name in names):
        raise ArgumentError(f'columns must be a list such as ("total", "label"), got {columns!r}')
    return _dataset(_framespool.read_rawframes(path, root, _frames(pattern, first, fps), list(names)))


def gluon_list(path: _Path, *, root: _Path | None = None, extension: str | None = None) -> Dataset:
    """Reads ``path duration label`` lines, the lists of GluonCV, VideoMAE's pretraining and TSN for video files.

    Blank lines and lines that start with ``#`` are skipped. For folders of frames, ``folder total_frames label``, see
    :func:`rawframes`.

    Args:
        path: Text file.
        root: Folder that relative paths start from. By default the folder of the list.
        extension: File extension, such as ``"mp4"``, that is appended to names without one.

    Returns:
        A dataset with one sample per line. ``columns["duration"]`` has the durations of the list, in its unit; they are
        not used.

    Raises:
        ArgumentError: If a line cannot be parsed; the message names file and line.
    """
    return _dataset(_framespool.read_gluon_list(path, root, extension))


#: Whether start and end are rounded up, for each of DALI's names.
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
    """Reads the ``file_list`` of DALI's video readers: ``file label [start [end]]`` on each line, no spaces in names.

    Lines with a start are :class:`VideoSegment`, without the end itself. With ``rounding="times"`` a segment has the
    frames that appear at or after the start and before the end, by the file's own presentation times; at a constant
    rate that is ``"all_up"``. DALI calculates frames from a rate instead; its ``rounding`` and ``fps`` give the same
    segments, in frames. Rounding is exact for up to nine decimals; DALI rounds floats.

    ``"start_up_end_down"`` is the default of ``readers.video``. ``"start_down_end_up"`` is ``readers.video`` with
    ``file_list_include_preceding_frame=True``, and the default of ``experimental.readers.video`` in DALI 2.4.

    Segments without frames (the start is the end, or rounding leaves none) are skipped with a warning that counts them,
    as in DALI: the order of a run that is compared with DALI's depends on the number of samples. Blank lines and lines
    that start with ``#`` are skipped.

    Args:
        path: Text file.
        root: Folder that relative paths start from. By default the folder of the list.
        frames: ``True``: start and end are frames (DALI's ``file_list_frame_num=True``, or
            ``file_list_format="frames"``), and negative numbers count from the end. Only videos with negative numbers
            are opened here, to look up their length. ``False``: they are seconds.
        rounding: How seconds become frames: ``"times"``, or one of DALI's modes.
        fps: Frame rate for DALI's modes; not allowed with ``rounding="times"``.

    Returns:
        A dataset with one sample per line, in the order of the lines.

    Raises:
        ArgumentError: If a line cannot be parsed; the message names file and line. Also if the arguments contradict
            each other.
    """
    choice("rounding", rounding, ("times", *_ROUNDING))
    if boolean("frames", frames) and (rounding != "times" or fps is not None):
        raise ArgumentError("frames=True takes no rounding; remove rounding and fps")
    if (fps is None) != (rounding == "times"):
        raise ArgumentError(
            f'rounding="{rounding}" with fps={fps!r}: DALI\'s rounding needs a frame rate such as fps=30, and '
            'rounding="times" takes none'
        )
    if not frames:
        up = None if fps is None else (*_ROUNDING[rounding], ImageSequence("", fps=fps)._fps)
        return _dataset(_framespool.read_dali_file_list(path, root, up))
    listed, classes, notes = _framespool.read_dali_frames(path, root)
    entries, empty = _counted_from_begin(listed)
    if empty:
        note = f"{len(empty)} segments have no frames and are left out, as DALI does; the first is {empty[0]}"
        notes.append(f"{os.fspath(path)}: {note}")
    _warn(notes, 3)
    return Dataset(entries, classes)


def _counted_from_begin(
    entries: Sequence[tuple[str, int, tuple[int, int | None] | None]],
) -> tuple[list[tuple[Source, int]], list[str]]:
    """Resolves negative frames, and returns the samples and the segments without frames."""
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
                raise ArgumentError(
                    f"{source} has {length} frames, the segment from {first} to {last} starts before frame 0"
                )
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
    """Reads Kinetics-400, -600 and -700: a table ``label,youtube_id,time_start,time_end,split`` and the clips.

    A clip is the file ``{youtube_id}_{time_start:06}_{time_end:06}{extension}``, in ``root`` or in a folder of ``root``
    with the name of its class, with spaces or with underscores. Each of these folders is listed once.

    Labels are 0, 1, … by sorted class over the complete table; in a table without labels, as for a test split,
    all are -1.

    Args:
        annotations: The table, a CSV file.
        root: Folder of the clips.
        extension: File extension of the clips.
        split: Split of the rows to use (``"train"``, ``"validate"``, …); by default all rows.
        classes: Class names in the order of their labels, such as ``train.classes`` for a table that lacks some
            classes. By default sorted.
        missing: What to do about clips without a file, which every copy of Kinetics has: ``"error"``, or ``"skip"``
            them with a warning that counts them.

    Returns:
        A dataset with one sample per row; ``columns`` has all columns of the table except ``label``.

    Raises:
        ArgumentError: If a row cannot be parsed, with file and line, or if a clip is missing.
    """
    choice("missing", missing, ("error", "skip"))
    return _dataset(_framespool.read_kinetics(annotations, root, extension, split, _names(classes), missing))


def ucf101(annotations: _Path, root: _Path, *, split: int = 1, train: bool = True) -> Dataset:
    """Reads UCF101: ``classInd.txt``, and ``trainlist01.txt`` or ``testlist01.txt`` of a split.

    Videos are ``root/Class/name.avi``. Labels are the numbers of ``classInd.txt`` minus one, so that they start at 0.

    Args:
        annotations: Folder of the text files.
        root: Folder of the videos.
        split: Split 1, 2 or 3.
        train: ``True`` for the training list, ``False`` for the test list.

    Returns:
        A dataset with one sample per line.

    Raises:
        ArgumentError: If a line cannot be parsed, or its number is not that of its class folder; the message names the
            line.
    """
    split = integer("split", split, least=1, most=99)
    return _dataset(_framespool.read_ucf101(annotations, root, split, boolean("train", train)))


def hmdb51(annotations: _Path, root: _Path, *, split: int = 1, train: bool = True) -> Dataset:
    """Reads HMDB51: the files ``{class}_test_split{split}.txt``.

    A line ``name.avi 1`` is a video for training, ``2`` one for testing, and ``0`` neither. Videos are
    ``root/class/name.avi``; labels are 0, 1, … by sorted class.

    Args:
        annotations: Folder of the text files.
        root: Folder of the videos.
        split: Split 1, 2 or 3.
        train: ``True`` for the videos for training, ``False`` for those for testing.

    Returns:
        A dataset with one sample per video.

    Raises:
        ArgumentError: If a line cannot be parsed; the message names file and line.
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
    """Reads Something-Something V2: a list of ``{"id", "template", …}``, and ``labels.json``.

    A video's class is its template without the brackets; its label is the number that ``labels`` assigns to it. A video
    without a template, as in the test split, has -1.

    Args:
        annotations: ``train.json`` or another of the dataset's lists.
        labels: ``labels.json``.
        root: Folder of the videos, ``root/{id}{extension}``.
        extension: File extension of the videos.
        pattern: File name of a frame, if videos are folders ``root/{id}`` of images; see :class:`ImageSequence`.
        first: Number of the first frame, as in :class:`ImageSequence`.
        fps: Frame rate of folders of images, as in :class:`ImageSequence`.

    Returns:
        A dataset with one sample per object; ``columns`` has ``id``, ``label`` (the description), ``template`` and
        ``placeholders``.

    Raises:
        ArgumentError: If an object cannot be parsed; the message names the file.
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
    """Reads Jester or Something-Something V1: ``id;label`` lines, and a file with one label on each line.

    Labels are numbered from 0 in the order of their file. A line without a label, as in the test split, has -1.

    Args:
        annotations: File with the ``id;label`` lines.
        labels: File with one label on each line.
        root: Folder of the videos, which are folders ``root/{id}`` of images.
        extension: File extension, if videos are files ``root/{id}{extension}``.
        pattern: File name of a frame, as in :class:`ImageSequence`.
        first: Number of the first frame, as in :class:`ImageSequence`.
        fps: Frame rate of folders of images, as in :class:`ImageSequence`.

    Returns:
        A dataset with one sample per line.

    Raises:
        ArgumentError: If a line cannot be parsed; the message names file and line.
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
    """Reads a JSON object per line: ``{"uri": "a.mp4", "label": 3, "start": 1.5, "end": 4.0, "caption": "…"}``.

    Only the source is required. All other keys become ``columns``, with ``None`` where an object lacks a key or has
    ``null``. Blank lines are skipped.

    Args:
        path: Text file.
        root: Folder that relative paths start from. By default the folder of the list.
        source: Key of the source: a path or a ``file:`` URI.
        label: Key of the label: an integer, or a name; names are sorted into ``classes``. A list of integers is stored
            in ``columns[label]``, with -1 as the sample's own label.
        start: Key of the segment's start; the sample is then a :class:`VideoSegment`.
        end: Key of the segment's end, which is not part of the segment.
        in_frames: ``True``: start and end are frames, from 0. ``False``: they are seconds.

    Returns:
        A dataset with one sample per line, in the order of the lines.

    Raises:
        ArgumentError: If a line cannot be parsed; the message names the line.
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
    """Reads EPIC-KITCHENS: tables such as ``EPIC_100_train.csv``; each action is a :class:`VideoSegment`.

    Actions go from ``start_timestamp`` up to but not including ``stop_timestamp``, in seconds. With ``in_frames`` they
    go from ``start_frame``, counted from 1, up to and including ``stop_frame``. Actions whose end is not after their
    start are skipped with a warning.

    Args:
        annotations: The table, a CSV file.
        root: Folder of the videos.
        label: Whose class is the label: ``"verb"`` (``verb_class``) or ``"noun"`` (``noun_class``). The label is -1
            with ``None``, and if the table has none, as for the test split.
        classes: Table of the class names, such as ``EPIC_100_verb_classes.csv``.
        file: Path of a video below ``root``. By default ``"{participant_id}/videos/{video_id}.MP4"``, or
            ``"{participant_id}/rgb_frames/{video_id}"`` with a ``pattern``. If it ends in ``.*``, its folder is listed
            to find the extension.
        in_frames: Whether to use the frame columns. By default only with a ``pattern``.
        pattern: File name of a frame, such as ``"frame_{:010}.jpg"``, if videos are folders of frames; see
            :class:`ImageSequence`.
        fps: Frame rate of folders of frames, as in :class:`ImageSequence`.

    Returns:
        Dataset: One sample per action. ``columns`` has all columns of the table, both classes included:
        ``narration_id``, ``video_id``, ``narration``, ``verb``, ``noun``, ``all_noun_classes``, …

    Raises:
        ArgumentError: If a row cannot be parsed; the message names file and line.
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
    """Reads ActivityNet and other datasets in its format (HACS, THUMOS, FineAction).

    The file is JSON with a ``database`` of videos and their ``annotations``. Each ``segment``, in seconds, is a
    :class:`VideoSegment` of its video; segments whose end is not after their start are skipped with a warning. A video
    without annotations, as in the testing subset, is one sample: the complete video, with label -1.

    Labels are 0, 1, … by sorted class over all subsets.

    Args:
        annotations: The JSON file.
        root: Folder of the videos.
        subset: Subset to use (``"training"``, ``"validation"``, ``"testing"``); by default all.
        file: Path of a video below ``root``. If it ends in ``.*``, its folder is listed to find the extension.
        classes: Class names in the order of their labels. By default sorted.
        missing: What to do about videos without a file: ``"error"``, or ``"skip"`` them with a warning that counts
            them.

    Returns:
        A dataset with one sample per segment. ``columns`` has the video's ``id`` and the other values of the video and
        of the segment (``duration``, ``subset``, ``url``, …).

    Raises:
        ArgumentError: If the file cannot be parsed, or a video is missing; the message names file and video.
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
    """Reads AVA: ``video_id,second,x1,y1,x2,y2,action_id,person_id`` lines.

    Each annotated second is a :class:`VideoSegment` of its video with that second in the middle. Rows of the same video
    and second are one sample, with label -1.

    Args:
        annotations: The CSV file.
        root: Folder of the videos.
        file: Path of a video below ``root``, as in :func:`activitynet`.
        span_seconds: Length of a segment in seconds.
        begin_seconds: Second of the movie at which the files start, such as 900 if they were cut to the annotated part.
        missing: What to do about videos without a file, as in :func:`activitynet`.

    Returns:
        Dataset: One sample per annotated second. ``columns``: ``video_id``, ``second``, and lists with one value
        per row: ``boxes`` ((x1, y1, x2, y2), from 0 to 1), ``actions`` (numbers of AVA's list of actions, from 1) and
        ``persons`` (-1 if the row has none).

    Raises:
        ArgumentError: If a line cannot be parsed, or a video is missing; the message names file and line.
    """
    choice("missing", missing, ("error", "skip"))
    span, begin = number("span_seconds", span_seconds, above=0), number("begin_seconds", begin_seconds)
    return _dataset(_framespool.read_ava(annotations, root, file, span, begin, missing))
