"""Descriptions of annotation files, one for each published dataset, and the reader that takes them.

A description states where the records of a file are, which of their columns are path, label and segment, and how
classes are numbered. The engine reads the records (`datasets/src/annotation_table.rs`).

Text is UTF-8, with or without a byte order mark. Whether a video exists is checked only if its name must be looked up:
more takes minutes on a network disk, and a loader reports what is missing. A value that cannot be parsed is an
`ArgumentError` that names file, line and column.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from framespool import _framespool
from framespool.datasets._dataset import Dataset
from framespool.datasets._in_memory import wanted_values
from framespool.datasets._readers import Fps, StrPath, numbered_frames, warn_notes, with_classes
from framespool.datasets._sample_list import SampleList
from framespool.errors import ArgumentError, NotFoundError, ReadError


@dataclass(frozen=True)
class Json:
    """Where the records of a JSON document are."""

    record: str = "video"  #: What a record is called in messages.
    at: str | None = None  #: Key of the records; by default they are the document.
    keyed: bool = False  #: The records are the values of an object; its keys are the column `id`. Otherwise a list.
    id: str = "id"  #: The column that identifies a record.
    value: str | None = None  #: The column of records that are no objects; by default all must be objects.
    #: Key of a list of parts, and the name of a part. Each part is a record with the columns of both; a column of a
    #: part that the record has too begins with that name.
    parts: tuple[str, str] | None = None


@dataclass(frozen=True)
class Layout:
    """Where the records of a file are; by default it is a CSV file with a header."""

    delimiter: str | None = ","  #: Separator of the fields; `None` for white space.
    #: `"quoted"`: at every delimiter, with quotes as in RFC 4180. `"left"` or `"right"`: from there on, so that the
    #: last or the first field may contain delimiters; from the right, an optional last field is a number.
    split: str = "quoted"
    names: tuple[str, ...] | None = None  #: The columns; by default the first record has their names.
    min_fields: int = 0  #: Minimum number of fields, if `names` has the columns.
    json: Json | None = None  #: For a JSON document; the other fields then do not apply.


@dataclass(frozen=True)
class ClassFile:
    """A file with the names of classes."""

    path: str
    layout: Layout
    name: str  #: Column of the names.
    number: str | None = None  #: Column of the numbers; by default classes are in their order.
    first: int = 0  #: Number of the first class, which has label 0.


@dataclass(frozen=True)
class Label:
    """Where the label is, and how classes are numbered; by default names, which are sorted."""

    column: str  #: The column. If it does not exist, samples have no labels.
    #: `"names"`, `"numbers"`, `"folder"` (paths that begin with the name), or `"names_or_numbers"`: names if one is not
    #: a number, or all are classes of the user; numbers with a fraction become a column.
    content: str = "names"
    remove: str = ""  #: Characters that are removed from names.
    classes: list[str] | None = None  #: Names in the order of their labels, such as those of the user.
    class_file: ClassFile | None = None  #: The file with the names.
    number: str | None = None  #: A column that repeats the number in `class_file`.


@dataclass(frozen=True)
class Segment:
    """Which segment of its video a sample is; a record without values is the complete video."""

    start: str  #: Column of the start. If it is also that of the end, its values are lists of both.
    end: str  #: Column of the end.
    unit: str = (
        "seconds"  #: `"seconds"`, `"clock"` (`01:02:03.4`), `"frames"`, or `"frames_from1"` with the end itself.
    )
    required: bool = True  #: Columns and values must exist; only a JSON record without parts has none.
    skip_empty: bool = False  #: A segment whose end is not after its start is skipped with a warning, not an error.
    around: tuple[float, float] | None = None  #: `start` is the middle: length, and second at which the file starts.


@dataclass(frozen=True)
class Group:
    """Records that are joined to one sample, in the order of the first records."""

    by: tuple[str, ...]  #: Columns that are equal in the records of a sample.
    #: Columns with a list per sample: name, columns whose values a record adds, and the value of an empty field, if it
    #: may be empty. A record in which all these columns are empty adds nothing.
    lists: tuple[tuple[str, tuple[str, ...], int | None], ...]


@dataclass(frozen=True)
class Filter:
    """Records that are samples: those with one of the values."""

    argument: str  #: The argument of the user.
    column: str
    values: list[Any]


@dataclass(frozen=True, kw_only=True)
class Table:
    """How annotation files become a dataset."""

    layout: Layout = field(default_factory=Layout)
    file_column: tuple[str, str] | None = None  #: A column with the name of the file, and the ending to remove from it.
    #: Columns that must be `"integer"`, `"number"` or `{"one_of": words}`. Others become numbers if all fields are.
    types: tuple[tuple[str, str | dict[str, list[str]]], ...] = ()
    infer_lists: bool = True  #: A column whose fields are all lists of integers has lists.
    group: Group | None = None
    path: str | None = None  #: Column of the paths or URLs.
    #: Instead of `path`: paths with columns in braces, `{start:06}` with leading zeros, `{label:_}` with underscores in
    #: place of spaces. The first file that exists is taken; a single one is looked up only if it ends in `.*`.
    templates: tuple[str, ...] = ()
    template_columns: tuple[str, ...] = ()  #: Columns that templates may have.
    frames: tuple[str, int, int | None, tuple[int, int]] | None = None  #: `numbered_frames()`, if paths are folders.
    missing: str | None = None  #: `"error"` or `"skip"`, if the user can choose what to do about missing files.
    label: Label | None = None
    segment: Segment | None = None
    filters: tuple[Filter, ...] = ()  #: Classes are those of all records.
    keep: tuple[str, ...] | None = None  #: Columns of the dataset; by default all except those of `drop`.
    drop: tuple[str, ...] = ()
    arguments: tuple[tuple[str, str], ...] = ()  #: Columns that the user names, which must exist, and the arguments.


def read(
    files: StrPath | Sequence[StrPath], table: Table, root: StrPath | None, classes: Sequence[str] | None = None
) -> Dataset:
    """Reads annotation files; warns of skipped records at the line that called the public function.

    Args:
        files: The file, or several.
        table: Their description.
        root: Base of the paths, by default the folder of the file.
        classes: As for `with_classes()`.

    Returns:
        The dataset.

    Raises:
        ArgumentError: If a file cannot be parsed; the message names file, line and column.
    """
    paths = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    described = dataclasses.asdict(table)
    samples, names, columns, notes = _framespool.read_annotation_table(paths, root, described)
    warn_notes(notes)
    return with_classes(Dataset(SampleList(samples), names, columns), classes)


def file_names(folder: StrPath) -> list[str]:
    """Lists a folder of annotation files.

    Args:
        folder: The folder.

    Returns:
        The names of its files.

    Raises:
        NotFoundError: If it does not exist.
        ReadError: If it cannot be read.
    """
    try:
        return os.listdir(folder)
    except FileNotFoundError as reason:
        raise NotFoundError(f"{os.fspath(folder)}: {reason.strerror}") from reason
    except OSError as reason:
        raise ReadError(f"{os.fspath(folder)}: {reason.strerror}") from reason


def filters(argument: str, wanted: Mapping[str, Any]) -> tuple[Filter, ...]:
    """Makes the filters of an argument of the user.

    Args:
        argument: Name of the argument.
        wanted: By column, a value, a list of values, or `None` for all.

    Returns:
        The filters.
    """
    lists = {name: wanted_values(value) for name, value in wanted.items()}
    # Values of NumPy become those of Python.
    return tuple(
        Filter(argument, str(name), [getattr(value, "item", lambda value=value: value)() for value in values])
        for name, values in lists.items()
        if values != [None] or argument == "where"
    )


def videos(name: str, extension: str | None, pattern: str | None, first: int, fps: Fps) -> dict[str, Any]:
    """Makes the fields of a table whose videos are either files or folders of frames.

    Args:
        name: Template of the path without an extension.
        extension: File extension, if the videos are files.
        pattern: File name of a frame, if the videos are folders.
        first: Number of the first frame.
        fps: Frame rate of folders of frames.

    Returns:
        `templates` and `frames`.

    Raises:
        ArgumentError: If a value has a wrong type or is out of range.
    """
    if pattern is not None:
        return {"templates": (name,), "frames": numbered_frames(pattern, first, fps)}
    return {"templates": (name + text("extension", extension or ""),)}


def text(name: str, value: Any) -> str:
    """Checks an argument that is a string.

    Args:
        name: Name of the argument.
        value: Its value.

    Returns:
        The value.

    Raises:
        ArgumentError: If it is not a string.
    """
    if not isinstance(value, str):
        raise ArgumentError(f"{name} must be a string, got {value!r}")
    return value
