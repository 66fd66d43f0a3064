"""Reads rows of Parquet and Arrow files, which name videos or contain them, as datasets."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from typing import Any, Literal

from framespool import _framespool
from framespool._common.validate_args import boolean, choice, is_url
from framespool.datasets._dataset import Dataset
from framespool.datasets._readers import (
    StrPaths,
    class_names,
    expand_paths,
    listing_threads,
    string_list,
    warn_left_out,
    with_classes,
)
from framespool.datasets._sample_list import SampleList, with_segment
from framespool.errors import ArgumentError
from framespool.video._sources import ArchiveMember, TableCell


def parquet(
    path: StrPaths,
    *,
    source: str = "uri",
    label: str | None = "label",
    start: str = "start",
    end: str = "end",
    in_frames: bool = False,
    classes: Sequence[str] | None = None,
    columns: str | Sequence[str] | None = None,
    root: str | os.PathLike[str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> Dataset:
    """Reads Parquet files whose rows are videos or images: their paths, or the encoded bytes.

    A text column has paths or `file:` URIs. A binary column, or a struct with a field `bytes` as the library `datasets`
    writes images and videos, has the files themselves. If the column is neither compressed nor encoded, a sample is an
    `ArchiveMember`, which is read in place; otherwise a `TableCell`, whose page is unpacked when it is opened.

    A page has about 1 MiB, or one large video; with a full shuffle nearly every clip unpacks one. Write such columns
    uncompressed (`compression={"image.bytes": "none"}`, `use_dictionary=False`).

    Videos and images are not read, and neither are columns that are not requested. An empty or damaged cell is an error
    of its clip.

    Args:
        path: A file, a folder (its files `*.parquet`, by name), a pattern (`"train-*.parquet"`, or with braces as
            in `webdataset()`), a URL, optionally with braces, or a list of them.
        source: Column of the videos or images.
        label: Column of the labels, if it exists: an integer or a name, or a list of integers, which becomes a column.
            Names of `datasets`' class labels are `Dataset.classes`; all files must have the same, unless `classes` is
            given. `None`: there are no labels, and a column `label` is one like the others.
        start: Column of the segments' starts, if it exists.
        end: Column of the segments' ends, if it exists.
        in_frames: `True`: start and end are frames, from 0. `False`: they are seconds.
        classes: Class names in the order of their labels, such as `train.classes` for a table that lacks some classes.
            By default the names of `datasets`' class labels, or else the names that occur, sorted.
        columns: Columns to keep in `Dataset.columns`. By default every column with one number, flag or text per
            row; lists, structs, dates and decimals are kept if they are named, unless they contain bytes. A name with
            dots is a field of a struct (`"image.path"`), unless a column has that exact name.
        root: Folder that relative paths start from. By default the folder of their file.
        on_error: `"raise"`: a bad row or file is an error. `"skip"`: such rows, row groups or files are skipped,
            and one warning has their number and the first reasons.

    Returns:
        A dataset with one sample per row, in the order of the files and rows.

    Raises:
        ArgumentError: If a column does not exist or has another type, or if a row lacks a source or has a wrong label,
            class or bounds (the message names file and row), or if no row remains.
        InvalidDataError: If a file is damaged; the message names the byte.
        TruncatedError: If a file is truncated.
        LimitError: If a damaged file declares sizes beyond the limits.
        UnsupportedError: If a file is encrypted, or a column is compressed with Brotli or LZO.
        NotFoundError: If a file is missing.

    Example:
        >>> import framespool as fsp
        >>> import pyarrow as pa
        >>> import pyarrow.parquet as pq
        >>> pq.write_table(pa.table({"video": ["a.mp4", "phone.mp4"], "action": [1, 0]}), "train.parquet")
        >>> dataset = fsp.datasets.parquet("train.parquet", source="video", label="action")
        >>> [label for _, label in dataset]
        [1, 0]
    """
    keys = (source, label, start, end)
    return _read("parquet", path, keys, in_frames, classes, columns, root, on_error)


def arrow(
    path: StrPaths,
    *,
    source: str = "uri",
    label: str | None = "label",
    start: str = "start",
    end: str = "end",
    in_frames: bool = False,
    classes: Sequence[str] | None = None,
    columns: str | Sequence[str] | None = None,
    root: str | os.PathLike[str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> Dataset:
    """Reads Arrow files (Feather too) and streams whose rows are videos or images: their paths, or the encoded bytes.

    The library `datasets` stores such files on disk (`dataset.save_to_disk`, and its cache). A binary column, or
    the field `bytes` of a struct, is read in place: each row is an `ArchiveMember`.

    Args:
        path: As in `parquet()`; of a folder, its files `*.arrow`, by name.
        source: Column of the videos or images.
        label: Column of the labels, as in `parquet()`.
        start: Column of the segments' starts, if it exists.
        end: Column of the segments' ends, if it exists.
        in_frames: `True`: start and end are frames, from 0. `False`: they are seconds.
        classes: Class names in the order of their labels, such as `train.classes` for a table that lacks some classes.
            By default the names of `datasets`' class labels, or else the names that occur, sorted.
        columns: Columns to keep in `Dataset.columns`. By default every column with one number, flag or text per
            row, categories as the text or number of their category; lists of these if they are named.
        root: Folder that relative paths start from. By default the folder of their file.
        on_error: `"raise"`: a bad row or file is an error. `"skip"`: such rows, record batches or files are
            skipped, with one warning.

    Returns:
        A dataset with one sample per row, in the order of the files and rows.

    Raises:
        ArgumentError: As in `parquet()`.
        InvalidDataError: As in `parquet()`.
        TruncatedError: As in `parquet()`.
        LimitError: As in `parquet()`.
        UnsupportedError: If a file is compressed (`pyarrow.feather.write_feather` compresses unless
            `compression="uncompressed"` is set) or big-endian, or if a named column has an unsupported type.
        NotFoundError: If a file is missing.

    Example:
        >>> import framespool as fsp
        >>> import pyarrow as pa
        >>> table = pa.table({"uri": ["a.mp4", "phone.mp4"], "label": [1, 0]})
        >>> with pa.OSFile("train.arrow", "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        ...     writer.write_table(table)
        >>> dataset = fsp.datasets.arrow("train.arrow")
        >>> [label for _, label in dataset]
        [1, 0]
    """
    keys = (source, label, start, end)
    return _read("arrow", path, keys, in_frames, classes, columns, root, on_error)


def _read(
    kind: Literal["parquet", "arrow"],
    path: StrPaths,
    names: tuple[str, str | None, str, str],
    in_frames: bool,
    classes: Sequence[str] | None,
    columns: str | Sequence[str] | None,
    root: str | os.PathLike[str] | None,
    on_error: str,
) -> Dataset:
    files = _tables(path, kind)
    choice("on_error", on_error, ("raise", "skip"))
    source, label, start, end = names
    keys = (
        string_list("source", [source])[0],
        None if label is None else string_list("label", [label])[0],
        string_list("start", [start])[0],
        string_list("end", [end])[0],
    )
    kept = None
    if columns is not None:
        kept = [columns] if isinstance(columns, str) else string_list("columns", columns) if columns else []
    table, rows, found_classes, found, left_out, reasons = _framespool.read_tables(
        kind,
        files,
        keys,
        boolean("in_frames", in_frames),
        class_names(classes),
        kept,
        root,
        on_error,
        listing_threads(),
    )
    warn_left_out(left_out, reasons)
    samples: Any = (
        ((with_segment(_source(files, where), part), label) for where, label, part in rows)
        if table is None
        else SampleList(table)
    )
    return with_classes(Dataset(samples, found_classes, found), classes)


def _tables(path: StrPaths, kind: str) -> list[str]:
    """Returns the files, with folders and patterns expanded."""
    files: list[str] = []
    for place in expand_paths("path", path):
        if is_url(place):
            files.append(place)  # the question mark of a query is not a wildcard
        elif os.path.isdir(place):
            inside = sorted(glob.glob(os.path.join(glob.escape(place), f"*.{kind}")))
            if not inside:
                raise ArgumentError(f"{place} has no files *.{kind}; pass the folder that contains them, or the files")
            files += inside
        elif glob.has_magic(place) and not os.path.exists(place):
            matching = sorted(glob.glob(place))
            if not matching:
                raise ArgumentError(f"no file matches {place!r}")
            files += matching
        else:
            files.append(place)
    return files


def _source(files: list[str], where: Any) -> Any:
    if not isinstance(where, tuple):
        return where
    if len(where) == 3:
        number, column, row = where
        return TableCell(files[number], column, row)
    number, offset, length, name = where
    return ArchiveMember._listed(files[number], offset, length, name)
