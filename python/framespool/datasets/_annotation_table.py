"""Descriptions of annotation files, one for each published dataset, and the reader that takes them.

A description states where the records of a file are, which of their columns are path, label and segment, and how
classes are numbered. The engine reads the records. Its type `TableDescription`
(`datasets/src/annotation_table/description.rs`) documents what each field means; the defaults are here.

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
from framespool.datasets._readers import Fps, StrPath, numbered_frames, warn_notes, with_classes
from framespool.datasets._sample_list import SampleList
from framespool.errors import ArgumentError, NotFoundError, ReadError


@dataclass(frozen=True)
class Json:
    """Records in a JSON document."""

    record: str = "video"
    at: str | None = None
    keyed: bool = False
    id: str = "id"
    value: str | None = None
    parts: tuple[str, str] | None = None


@dataclass(frozen=True)
class Layout:
    """Where the records of a file are; by default a CSV file with a header."""

    delimiter: str | None = ","
    split: str = "quoted"
    names: tuple[str, ...] | None = None
    min_fields: int = 0
    json: Json | None = None


@dataclass(frozen=True)
class ClassFile:
    """A file with the names of classes."""

    path: str
    layout: Layout
    name: str
    number: str | None = None
    first: int = 0


@dataclass(frozen=True)
class Label:
    """Where the label is, and how classes are numbered; by default names, which are sorted."""

    column: str
    content: str = "names"
    remove: str = ""
    classes: list[str] | None = None
    class_file: ClassFile | None = None
    number: str | None = None


@dataclass(frozen=True)
class Around:
    """A segment around a second."""

    span_seconds: float
    begin_seconds: float


@dataclass(frozen=True)
class Segment:
    """Which segment of its video a sample is."""

    start: str
    end: str
    unit: str = "seconds"
    required: bool = True
    skip_empty: bool = False
    around: Around | None = None


@dataclass(frozen=True)
class Group:
    """Records that are joined to one sample."""

    by: tuple[str, ...]
    lists: tuple[tuple[str, tuple[str, ...], int | None], ...]


@dataclass(frozen=True)
class Filter:
    """Records to keep."""

    argument: str
    column: str
    values: list[Any]


@dataclass(frozen=True, kw_only=True)
class Table:
    """How annotation files become a dataset; by default all columns are kept."""

    layout: Layout = field(default_factory=Layout)
    file_column: tuple[str, str] | None = None
    types: tuple[tuple[str, str | dict[str, list[str]]], ...] = ()
    infer_lists: bool = True
    group: Group | None = None
    path: str | None = None
    templates: tuple[str, ...] = ()
    template_columns: tuple[str, ...] = ()
    frames: tuple[str, int, int | None, tuple[int, int]] | None = None
    missing: str | None = None
    label: Label | None = None
    segment: Segment | None = None
    filters: tuple[Filter, ...] = ()
    keep: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    arguments: tuple[tuple[str, str], ...] = ()


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
    lists = {
        name: list(value) if isinstance(value, (list, tuple, set, frozenset)) else [value]
        for name, value in wanted.items()
    }
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
