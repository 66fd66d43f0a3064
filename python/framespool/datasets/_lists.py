"""Reads lists of videos in text files, in the formats of other codebases, as datasets.

The readers do not check that the videos exist: that takes minutes on a network disk, and a loader reports what is
missing. A reader that must look up file names says so. Text is UTF-8, with or without a byte order mark; lines end in
LF or CRLF. A line that cannot be parsed is a `ArgumentError` that names file and line.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from framespool import _framespool
from framespool._common.validate_args import as_sequence, boolean, choice
from framespool.datasets._annotation_table import Label, Layout, Segment, Table, filters, read, text
from framespool.datasets._dataset import Dataset
from framespool.datasets._in_memory import matching_rows
from framespool.datasets._json_sources import read_sources
from framespool.datasets._readers import (
    Fps,
    StrPath,
    annotated_dataset,
    class_names,
    numbered_frames,
    string_list,
    warn_notes,
    with_classes,
)
from framespool.errors import ArgumentError
from framespool.video._sources import KINDS, ImageSequence, Source, VideoSegment
from framespool.video._video import Video


def annotation_file(
    path: StrPath,
    *,
    root: StrPath | None = None,
    columns: Sequence[str] = ("label",),
    delimiter: str | None = None,
    extension: str | None = None,
    pattern: str = "img_{:05}.jpg",
    first: int = 1,
    fps: Fps = 30,
    classes: Sequence[str] | None = None,
) -> Dataset:
    r"""Reads a text file with a path and other fields on each line, by default `path label`.

    `columns` are the fields after the path:

    | lists of | columns |
    |---|---|
    | mmaction2, PySlowFast, VideoMAE, V-JEPA 2, PyTorchVideo | `("label",)`, `("labels",)` |
    | GluonCV, VideoMAE's pretraining, TSN (video files) | `("duration", "label")` |
    | mmaction2, TSN (folders of frames) | `("total", "label")`, `("offset", "total", "label")`, `("total", "labels")` |
    | VideoMAEv2's pretraining | `("start", "total")` |

    Lines are split from the right, so that paths may contain spaces. Blank lines and lines that start with `#` are
    skipped.

    Args:
        path: Text file.
        root: Folder that relative paths start from. By default the folder of the text file.
        columns: The fields after the path, of these. `"label"`: an integer; as the only column it may be missing, and
            is then -1. `"labels"`: all integers at the end of the line; they become `columns["labels"]`, with -1 as
            the sample's own label. `"duration"`: a number in any unit; it becomes `columns["duration"]`. `"total"`:
            number of frames; the path is then a folder, and the source an `ImageSequence`, or the file of a video if
            the number is -1. `"start"`: number in the first frame's file name. `"offset"`: number that is added to
            `first`.
        delimiter: Separator of the fields, such as `","` or `"::"`. By default white space; with `"labels"`, a path
            that ends in a number of its own (`clip 7`) is then read as one with another label.
        extension: File extension, such as `"mp4"`, that is appended to names of files without one.
        pattern: File name of a frame, as in `ImageSequence`.
        first: Number of the first frame, as in `ImageSequence`.
        fps: Frame rate of folders of frames, as in `ImageSequence`.
        classes: Names of the labels, in their order. By default labels have no names.

    Returns:
        A dataset with one sample per line, in the order of the lines.

    Raises:
        NotFoundError: If the text file does not exist.
        ReadError: If the text file cannot be read.
        ArgumentError: If a line cannot be parsed; the message names file and line. Also if the columns are ambiguous,
            or a label is not the number of one of `classes`.

    Example:
        >>> import framespool as fsp
        >>> from pathlib import Path
        >>> _ = Path("train.txt").write_text("a.mp4 0\nvideos/bird/bird.mkv 1\n")
        >>> [label for _, label in fsp.datasets.annotation_file("train.txt")]
        [0, 1]
        >>> _ = Path("train.csv").write_text("a.mp4,0,3\nphone.mp4,2\n")
        >>> dataset = fsp.datasets.annotation_file("train.csv", columns=("labels",), delimiter=",")
        >>> dataset.columns["labels"]
        [[0, 3], [2]]
        >>> _ = Path("frames.txt").write_text("frames 8 2\n")
        >>> dataset = fsp.datasets.annotation_file("frames.txt", columns=("total", "label"), pattern="img_{:05}.png")
        >>> len(fsp.Video(dataset[0][0])), dataset[0][1]
        (8, 2)
    """
    names = as_sequence(columns)
    if names is None or not all(isinstance(name, str) for name in names):
        raise ArgumentError(f'columns must be a list such as ("total", "label"), got {columns!r}')
    frames = numbered_frames(pattern, first, fps)
    return annotated_dataset(
        _framespool.read_annotation_file(path, root, list(names), delimiter, extension, frames), classes
    )


#: Whether start and end are rounded up, for each of DALI's names.
_ROUNDING = {
    "start_down_end_up": (False, True),
    "start_up_end_down": (True, False),
    "all_up": (True, True),
    "all_down": (False, False),
}


def dali_file_list(
    path: StrPath,
    *,
    root: StrPath | None = None,
    frames: bool = False,
    rounding: Literal["times", "start_down_end_up", "start_up_end_down", "all_up", "all_down"] = "times",
    fps: Fps | None = None,
    classes: Sequence[str] | None = None,
) -> Dataset:
    r"""Reads the `file_list` of DALI's video readers: `file label [start [end]]` on each line, no spaces in names.

    Lines with a start are `VideoSegment`, without the end itself. With `rounding="times"` a segment has the
    frames that appear at or after the start and before the end, by the file's own presentation times; at a constant
    rate that is `"all_up"`. DALI calculates frames from a rate instead; its `rounding` and `fps` give the same
    segments, in frames. Rounding is exact for up to nine decimals; DALI rounds floats.

    `"start_up_end_down"` is the default of `readers.video`. `"start_down_end_up"` is `readers.video` with
    `file_list_include_preceding_frame=True`, and the default of `experimental.readers.video` in DALI 2.4.

    Segments without frames (the start is the end, or rounding leaves none) are skipped with a warning that counts them,
    as in DALI: the order of a run that is compared with DALI's depends on the number of samples. Blank lines and lines
    that start with `#` are skipped.

    Args:
        path: Text file.
        root: Folder that relative paths start from. By default the folder of the list.
        frames: `True`: start and end are frames (DALI's `file_list_frame_num=True`, or
            `file_list_format="frames"`), and negative numbers count from the end. Only videos with negative numbers
            are opened here, to look up their length. `False`: they are seconds.
        rounding: How seconds become frames: `"times"`, or one of DALI's modes.
        fps: Frame rate for DALI's modes; not allowed with `rounding="times"`.
        classes: Names of the labels, in their order. By default labels have no names.

    Returns:
        A dataset with one sample per line, in the order of the lines.

    Raises:
        ArgumentError: If a line cannot be parsed; the message names file and line. Also if the arguments contradict
            each other, or a label is not the number of one of `classes`.

    Example:
        >>> import framespool as fsp
        >>> from pathlib import Path
        >>> _ = Path("train.txt").write_text("a.mp4 0 0.5 2\nphone.mp4 1\n")
        >>> dataset = fsp.datasets.dali_file_list("train.txt", rounding="start_up_end_down", fps=24)
        >>> dataset[0][0].bounds(), dataset[1][1]
        ({'start_frame': 12, 'end_frame': 48}, 1)
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
        return annotated_dataset(_framespool.read_dali_file_list(path, root, up), classes)
    listed, names, notes = _framespool.read_dali_frames(path, root)
    entries, empty = _counted_from_begin(listed)
    if empty:
        note = f"{len(empty)} segments have no frames and are skipped, as DALI does; the first is {empty[0]}"
        notes.append(f"{os.fspath(path)}: {note}")
    warn_notes(notes, 3)
    return with_classes(Dataset(entries, names), classes)


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


def json_lines(
    path: StrPath,
    *,
    root: StrPath | None = None,
    source: str = "uri",
    label: str = "label",
    start: str = "start",
    end: str = "end",
    in_frames: bool = False,
    where: Mapping[str, Any] | None = None,
    classes: Sequence[str] | None = None,
    videos: str | None = None,
    images: str | None = None,
) -> Dataset:
    r"""Reads a JSON object per line: `{"uri": "a.mp4", "label": 3, "start": 1.5, "end": 4.0, "caption": "…"}`.

    Only the source is required. All other keys become `columns`, with `None` where an object lacks a key or has
    `null`. Blank lines are skipped.

    With `videos=` or `images=` each object is a sample of any number of videos and images, or of text only, as records
    of conversations are: `{"videos": ["a.mp4"], "images": [], "conversations": […]}`. Each sample is then a `Sources`,
    and the objects have no other source, start and end. See docs/howto/mixed-samples.md.

    Args:
        path: Text file.
        root: Folder that relative paths start from. By default the folder of the list.
        source: Key of the source: a path or a `file:` URI.
        label: Key of the label: an integer, or the name of a class. A list of integers is stored in `columns[label]`,
            with -1 as the sample's own label.
        start: Key of the segment's start; the sample is then a `VideoSegment`.
        end: Key of the segment's end, which is not part of the segment.
        in_frames: `True`: start and end are frames, from 0. `False`: they are seconds.
        where: Selects lines, as in `csv()`; the keys are the label and the other columns.
        classes: Class names in the order of their labels, as in `csv()`.
        videos: Key of the videos of a sample: a list of paths, or one path; it may be missing or `null`.
        images: Key of the images of a sample, as `videos`.

    Returns:
        A dataset with one sample per line, in the order of the lines.

    Raises:
        ArgumentError: If a line cannot be parsed, or has a class that is not one of `classes`; the message names file
            and line. Also if no line matches `where`, or `videos` or `images` is combined with `source`, `start`, `end`
            or `in_frames`.

    Example:
        >>> import framespool as fsp
        >>> from pathlib import Path
        >>> line = '{"uri": "a.mp4", "label": 3, "start": 1, "end": 2.5, "caption": "a street"}'
        >>> _ = Path("train.jsonl").write_text(line)
        >>> dataset = fsp.datasets.json_lines("train.jsonl")
        >>> dataset[0][0].bounds(), dataset.columns
        ({'start_seconds': 1.0, 'end_seconds': 2.5}, {'caption': ['a street']})
    """
    keys = (source, label, start, end)
    for name, key in zip(("source", "label", "start", "end"), keys, strict=True):
        if not isinstance(key, str):
            raise ArgumentError(f"{name} must be a key of the objects, got {key!r}")
    by_frames = boolean("in_frames", in_frames)
    if videos is None and images is None:
        found = _framespool.read_json_lines(path, root, keys, by_frames, class_names(classes))
        dataset = annotated_dataset(found, classes)
    else:
        of_kinds = tuple(
            text(kind, key) if key is not None else None for kind, key in zip(KINDS, (videos, images), strict=True)
        )
        if (source, start, end, by_frames) != ("uri", "start", "end", False):
            raise ArgumentError("videos= and images= take complete files; omit source, start, end and in_frames")
        dataset = read_sources(path, root, of_kinds, label, class_names(classes))
    if where is None:
        return dataset
    read: dict[str, Sequence[Any]] = dict(dataset.columns)
    names = {-1: None, **dict(enumerate(dataset.classes))}
    read.setdefault(label, [names.get(number, number) for _, number in dataset])
    return dataset.subset(matching_rows(read, where, os.fspath(path)))


def csv(
    path: StrPath,
    *,
    source: str = "path",
    label: str = "label",
    where: Mapping[str, Any] | None = None,
    classes: Sequence[str] | None = None,
    start: str = "start",
    end: str = "end",
    in_frames: bool = False,
    columns: str | Sequence[str] | None = None,
    root: StrPath | None = None,
    delimiter: str | None = None,
) -> Dataset:
    r"""Reads a CSV file with a header: a video or image per row.

    Fields with delimiters, quotation marks or line breaks are quoted, as spreadsheets and data frames write them. A
    column whose fields are all numbers has numbers, except the source and columns named `id` or `…_id`. An empty field
    is a missing value. Spaces around fields, and rows without any value, are skipped.

    Args:
        path: Text file.
        source: Column of the paths or URLs.
        label: Column of the labels, if it exists: integers (`3`, or `3.0` as data frames write them), numbers with a
            fraction, or else names of classes. Without a value the label is -1, or NaN with a fraction.
        where: Selects rows: by column, the value that a row must have, or a list of such values, for example
            `{"split": "train"}`. Classes are those of all rows, so that all parts of a file number them equally.
        classes: Class names in the order of their labels, such as `train.classes` for a file that lacks some classes.
            By default the names that occur, sorted.
        start: Column of the segments' starts, if it exists.
        end: Column of the segments' ends, if it exists.
        in_frames: `True`: start and end are frames, from 0. `False`: they are seconds.
        columns: Columns to keep in `Dataset.columns`. By default all others.
        root: Folder that relative paths start from. By default the folder of the text file.
        delimiter: Separator of the fields. By default a tab if the name ends in `.tsv`, else a comma.

    Returns:
        A dataset with one sample per row, in the order of the rows.

    Raises:
        NotFoundError: If the text file does not exist.
        ReadError: If the text file cannot be read.
        ArgumentError: If a column does not exist, if a row has another number of fields than the header, or if it has
            no path, or a wrong label, class or segment; the message names file and line. Also if no row matches
            `where`.

    Example:
        >>> import framespool as fsp
        >>> from pathlib import Path
        >>> rows = ["video,label,split", 'a.mp4,"open, close",train', "phone.mp4,walk,val"]
        >>> _ = Path("all.csv").write_text("\n".join(rows))
        >>> train = fsp.datasets.csv("all.csv", source="video", where={"split": "train"})
        >>> train[0], train.classes, train.columns
        (('a.mp4', 0), ['open, close', 'walk'], {'split': ['train']})
    """
    if delimiter is None:
        delimiter = "\t" if os.fspath(path).lower().endswith(".tsv") else ","
    if not isinstance(delimiter, str) or len(delimiter) != 1 or not delimiter.isascii():
        raise ArgumentError(f"delimiter must be one ASCII character, got {delimiter!r}")
    if where is not None and not isinstance(where, Mapping):
        raise ArgumentError(f'where must be a dict such as {{"split": "train"}}, got {where!r}')
    roles = {text(role, name): role for role, name in zip(_ROLES, (source, label, start, end), strict=True)}
    named = {name: role for name, role in roles.items() if role == "source" or name != role}
    wanted = [columns] if isinstance(columns, str) else string_list("columns", columns) if columns else columns
    known = class_names(classes)
    table = Table(
        layout=Layout(delimiter=delimiter),
        infer_lists=False,
        path=source,
        label=Label(label, content="names_or_numbers", classes=known),
        segment=Segment(start, end, unit="frames" if boolean("in_frames", in_frames) else "seconds", required=False),
        filters=filters("where", where or {}),
        keep=None if wanted is None else tuple(wanted),
        drop=tuple(roles),
        arguments=(*named.items(), *((name, "columns") for name in wanted or () if name not in named)),
    )
    dataset = read(path, table, root)
    numbers = dataset.columns.get(label, ())
    if not any(isinstance(value, float) for value in numbers) or any(number != -1 for _, number in dataset):
        return dataset
    # The engine has labels with a fraction as a column, and -1 as the label of each sample.
    columns_kept = {
        name: values for name, values in dataset.columns.items() if name != label or label in (wanted or ())
    }
    return Dataset([(path, value) for (path, _), value in zip(dataset, numbers, strict=True)], (), columns_kept)


_ROLES = ("source", "label", "start", "end")
