"""Datasets from tables: rows of Parquet and Arrow files that name videos, or hold them."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from typing import Any, Literal

from framespool import _framespool
from framespool._validate_args import boolean, choice, is_url
from framespool.datasets._archives import _files, _names, _Paths, _threads, _warn_left_out
from framespool.datasets._dataset import Dataset
from framespool.datasets._sample_list import SampleList, with_segment
from framespool.datasets._sources import ArchiveMember, TableCell
from framespool.errors import ArgumentError


def parquet(
    path: _Paths,
    *,
    source: str = "uri",
    label: str = "label",
    start: str = "start",
    end: str = "end",
    in_frames: bool = False,
    columns: str | Sequence[str] | None = None,
    root: str | os.PathLike[str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> Dataset:
    """Parquet files whose rows are videos or pictures: by their paths, or as the bytes themselves.

    ``path``: a file, a folder (its files ``*.parquet``, by name), a pattern (``"train-*.parquet"``, or with braces as
    in :func:`webdataset`), a URL, perhaps with braces, or a list of them. Rows come in the order of the files and as
    they stand in them.

    ``source``: the column of the videos or pictures. Where it is text, each is a path or a ``file:`` URI; relative
    paths start at ``root``, or at the folder of their file. Where it is binary, or a struct with a field ``bytes`` as
    the library ``datasets`` writes images and videos, it holds the files themselves: a :class:`ArchiveMember` where the
    column is neither compressed nor encoded, which is read where it lies, and otherwise a :class:`TableCell`, whose page
    is unpacked when it is opened. A page holds about 1 MiB or one large video; loaders that shuffle fully unpack one
    for nearly every clip, so write such columns uncompressed (``compression={"image.bytes": "none"}``,
    ``use_dictionary=False``).

    ``label``, ``start``, ``end``: as in :func:`json_lines`: a whole number or a name, or a list of whole numbers,
    which becomes a column; bounds in seconds, or with ``in_frames`` in frames. By default they are what these names
    say, where there are such columns. Names of ``datasets``' class labels are :attr:`Dataset.classes`. ``columns``:
    what else to keep in :attr:`Dataset.columns`; by default every column that has one number, flag or text for each
    row; lists, structs, dates and decimals are kept if they are named. A name with dots is a field of a struct
    (``"image.path"``), unless a column has that very name.

    Videos and pictures are not read, and neither are columns that are not asked for.

    ``on_error="raise"``: raises :class:`~framespool.ArgumentError` for a column that is not there or holds something
    else, and for a row that lacks a source or has a wrong label or bounds, naming file and row;
    :class:`~framespool.InvalidDataError`, :class:`~framespool.TruncatedError` or :class:`~framespool.LimitError` for a
    damaged file, naming the byte; :class:`~framespool.UnsupportedError` for an encrypted file and for columns
    compressed with Brotli or LZO; :class:`~framespool.NotFoundError`. ``"skip"``: leaves out such rows, groups of
    rows or files, and warns once with their number and the first reasons. Where nothing is left,
    :class:`~framespool.ArgumentError` is raised under both. A cell that has nothing in it, or is damaged, is an error
    of its clip."""
    return _read(
        "parquet", path, (source, label, start, end), in_frames=in_frames, columns=columns, root=root, on_error=on_error
    )


def arrow(
    path: _Paths,
    *,
    source: str = "uri",
    label: str = "label",
    start: str = "start",
    end: str = "end",
    in_frames: bool = False,
    columns: str | Sequence[str] | None = None,
    root: str | os.PathLike[str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> Dataset:
    """Arrow files (Feather too) and streams whose rows are videos or pictures: by their paths, or as the bytes.

    What the library ``datasets`` keeps on disk is such files (``dataset.save_to_disk``, and its cache). The arguments
    are those of :func:`parquet`; in a folder its files ``*.arrow`` are meant, by name.

    A binary column, or the field ``bytes`` of a struct, is read where it lies: each row is a :class:`ArchiveMember`. Columns
    with one number, flag or text for each row are kept, categories as the text or number that they stand for, and, if
    they are named, lists of these.

    Errors are those of :func:`parquet`; :class:`~framespool.UnsupportedError` is raised for compressed files
    (``pyarrow.feather.write_feather`` compresses unless it is given ``compression="uncompressed"``), for files with
    the highest byte of numbers first, and for columns of other types that were named. ``"skip"`` leaves out rows,
    batches of rows or files."""
    return _read(
        "arrow", path, (source, label, start, end), in_frames=in_frames, columns=columns, root=root, on_error=on_error
    )


def _read(
    kind: Literal["parquet", "arrow"],
    path: _Paths,
    names: tuple[str, str, str, str],
    *,
    in_frames: bool,
    columns: str | Sequence[str] | None,
    root: str | os.PathLike[str] | None,
    on_error: str,
) -> Dataset:
    files = _tables(path, kind)
    choice("on_error", on_error, ("raise", "skip"))
    source, label, start, end = names
    keys = (
        _names("source", [source])[0],
        _names("label", [label])[0],
        _names("start", [start])[0],
        _names("end", [end])[0],
    )
    kept = None
    if columns is not None:
        kept = [columns] if isinstance(columns, str) else _names("columns", columns) if columns else []
    table, rows, classes, found, left_out, reasons = _framespool.read_tables(
        kind, files, keys, boolean("in_frames", in_frames), kept, root, on_error, _threads()
    )
    _warn_left_out(left_out, reasons)
    if table is not None:
        return Dataset(SampleList(table), classes, found)
    return Dataset(((with_segment(_source(files, where), part), label) for where, label, part in rows), classes, found)


def _tables(path: _Paths, kind: str) -> list[str]:
    """Files, folders and patterns written out."""
    files: list[str] = []
    for place in _files("path", path):
        if is_url(place):
            files.append(place)  # a query begins with a question mark
        elif os.path.isdir(place):
            inside = sorted(glob.glob(os.path.join(glob.escape(place), f"*.{kind}")))
            if not inside:
                raise ArgumentError(f"{place} has no files *.{kind}; give their folder, or the files")
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
