"""Reads samples of several videos and images from a JSON-lines file."""

from __future__ import annotations

import json
import os
import urllib.parse
from collections.abc import Sequence
from typing import Any

from framespool._common.validate_args import display_repr, is_url
from framespool.datasets._columns import uniform_labels
from framespool.datasets._dataset import Dataset
from framespool.datasets._readers import with_classes
from framespool.errors import ArgumentError, NotFoundError, ReadError
from framespool.video._sources import KINDS, Sources


def read_sources(
    path: str | os.PathLike[str],
    root: str | os.PathLike[str] | None,
    keys: Sequence[str | None],
    label: str,
    classes: Sequence[str] | None,
) -> Dataset:
    """Reads an object per line with any number of videos and images.

    Args:
        path: Text file.
        root: Folder that relative paths start from; `None` for the folder of the file.
        keys: Keys of the videos and of the images; `None` for none.
        label: Key of the label.
        classes: Class names in the order of their labels.

    Returns:
        A dataset of `Sources`.

    Raises:
        NotFoundError: If the file does not exist.
        ReadError: If the file cannot be read.
        ArgumentError: If a line is no object, or a path or label of it is none; the message names file and line.
    """
    name = os.fspath(path)
    folder = os.path.dirname(name) if root is None else os.fspath(root)
    samples: list[tuple[Sources, Any]] = []
    columns: dict[str, list[Any]] = {}
    try:
        file = open(name, encoding="utf-8-sig")  # noqa: SIM115 (closed below)
    except FileNotFoundError:
        raise NotFoundError(f"{name}: no such file; check the path") from None
    except OSError as error:
        raise ReadError(f"{name}: {error.strerror}") from error
    with file:
        for number, line in enumerate(_lines(file, name), 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line, object_pairs_hook=_object)
                if not isinstance(row, dict):
                    raise ValueError(f"is {display_repr(row)[:60]}, not an object")
                found = [_paths(row, key, folder) for key in keys]
                samples.append((Sources(**dict(zip(KINDS, found, strict=True))), _label(row.get(label))))
            except ValueError as error:  # also of JSON
                raise ArgumentError(f"{name}, line {number}: {error}") from None
            for column, value in row.items():
                if column not in (*keys, label):
                    values = columns.setdefault(column, [])
                    values += [None] * (len(samples) - 1 - len(values))
                    values.append(value)
    if not samples:
        raise ArgumentError(f"{name} lists no samples; write an object per line, such as {_EXAMPLE}")
    for values in columns.values():
        values += [None] * (len(samples) - len(values))
    # Labels that are no names are numbers of the classes, which with_classes() checks.
    known = list(classes or ()) if any(isinstance(found, str) for _, found in samples) else []
    _, names, wrong = uniform_labels(samples, known)
    if wrong is not None:
        raise ArgumentError(f"{name}: {wrong}")
    return with_classes(Dataset(samples, names, columns), classes)


_EXAMPLE = '{"videos": ["a.mp4"], "images": [], "conversations": [...]}'


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys differ; `json` alone keeps the last value of a key and loses the others."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise ValueError(f"key {display_repr(twice)[:60]} appears twice")
    return made


def _lines(file: Any, name: str) -> Any:
    try:
        yield from file
    except UnicodeDecodeError as error:
        raise ArgumentError(f"{name} is not UTF-8 text: {error}") from None


def _paths(row: dict[str, Any], key: str | None, folder: str) -> list[str]:
    """The paths under a key, which may be missing, null, a path or a list of paths."""
    value = None if key is None else row.get(key)
    if value is None or value == "":
        return []
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list):
        raise ValueError(f'"{key}" is {display_repr(value)[:60]}, expected a path or a list of paths')
    for place, text in enumerate(listed):
        if not isinstance(text, str) or not text:
            raise ValueError(f'entry {place} of "{key}" is {display_repr(text)[:60]}, expected a path')
    return [_resolved(text, folder) for text in listed]


def _resolved(text: str, folder: str) -> str:
    parts = urllib.parse.urlsplit(text) if text.lower().startswith("file://") else None
    if parts is not None:
        if parts.netloc not in ("", "localhost"):
            raise ValueError(f"{text!r} is not on a disk of this machine; copy the file and write its path")
        return os.path.join(folder, urllib.parse.unquote(parts.path))
    return text if is_url(text) else os.path.join(folder, text)


def _label(value: Any) -> Any:
    """The label of a line; `None` without one."""
    if value is None or (isinstance(value, (int, str)) and not isinstance(value, bool)):
        return value
    raise ValueError(f"the label is {display_repr(value)[:60]}, expected an integer or the name of a class")
