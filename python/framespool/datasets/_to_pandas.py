"""The samples of a dataset as a table of pandas."""

from __future__ import annotations

import importlib
import os
from typing import Any

from framespool.errors import ArgumentError, UnsupportedError
from framespool.video._sources import ArchiveMember, ImageSequence, Source, TableCell, VideoSegment


def to_pandas(dataset: Any) -> Any:
    """Makes the table of `Dataset.to_pandas()`.

    Args:
        dataset: The `Dataset`.

    Returns:
        A `pandas.DataFrame`.

    Raises:
        ArgumentError: If samples have several sources.
        UnsupportedError: If pandas is not installed.
    """
    if dataset._has_sources:
        raise ArgumentError("to_pandas() has a row for each source, but these samples have several (datasets.Sources)")
    try:
        pandas: Any = importlib.import_module("pandas")
    except ImportError:
        raise UnsupportedError("to_pandas() needs pandas, which is not installed; pip install pandas") from None
    names = ("path", "member", "label", "class", "start", "end", "start_frame", "end_frame")
    rows: dict[str, list[Any]] = {name: [] for name in names}
    classes = dict(enumerate(dataset.classes))
    for source, label in dataset:
        row = {**_described(source), "label": label, "class": classes.get(label) if isinstance(label, int) else None}
        for name in names:
            rows[name].append(row.get(name))
    always = ("path", "label")
    table = {name: rows[name] for name in names if name in always or any(v is not None for v in rows[name])}
    own = {f"columns.{name}" if name in names else name: values for name, values in dataset.columns.items()}
    return pandas.DataFrame({**table, **own})


def _described(source: Source) -> dict[str, Any]:
    """The path of a source, and what selects a part of it."""
    if isinstance(source, VideoSegment):
        bounds = {name.removesuffix("_seconds"): value for name, value in source.bounds().items()}
        return {**_described(source.source), **bounds}
    if isinstance(source, bytes):
        return {"path": None}
    if isinstance(source, ImageSequence):
        return {"path": os.fspath(source.folder)}
    if isinstance(source, ArchiveMember):
        return {"path": os.fspath(source.file), "member": source.name}
    if isinstance(source, TableCell):
        return {"path": os.fspath(source.file), "member": f"{source.column}, row {source.row}"}
    return {"path": os.fspath(source)}
