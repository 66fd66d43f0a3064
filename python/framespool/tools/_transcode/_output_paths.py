"""Names of the results, and lists of them."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from framespool._common.validate_args import is_url
from framespool._framespool import image_extensions, video_extensions
from framespool.datasets import Dataset
from framespool.datasets._failures import sample_key
from framespool.video._sources import ArchiveMember, ImageSequence, TableCell, VideoSegment, full_source

_DROPPED = frozenset((*video_extensions, *image_extensions))


def identity(source: Any) -> str:
    """The identity of a video, in this run and in later ones.

    Args:
        source: The video.

    Returns:
        Path and position as text, or a hash of bytes.
    """
    if isinstance(source, bytes):
        return f"sha256 {hashlib.sha256(source).hexdigest()}"
    key = sample_key(source)
    assert key is not None
    path, inside, _ = key
    if isinstance(source, ImageSequence):
        inside = f"{inside}, fps={source._fps}"  # the result contains the times of its frames
    return json.dumps([path if is_url(path) else os.path.abspath(path), inside])


def root_of(sources: Sequence[Any]) -> str:
    """The folder that all sources share.

    Args:
        sources: The videos.

    Returns:
        The folder.
    """
    folders = {os.path.dirname(os.path.abspath(file_of(source))) for source in sources if file_of(source)}
    return os.path.commonpath(folders) if folders else os.sep


def file_of(source: Any) -> str:
    """The path of a source in a file system.

    Args:
        source: The video.

    Returns:
        The path; empty for bytes and URLs.
    """
    if isinstance(source, bytes):
        return ""
    path = source.folder if isinstance(source, ImageSequence) else source
    path = os.fspath(path.file if isinstance(path, (ArchiveMember, TableCell)) else path)
    return "" if is_url(path) else path


def output_names(sources: Sequence[Any], root: str) -> list[str]:
    """The names of the results below the new folder, all different.

    The extension is replaced by ".mp4". If two names differ in the extension only, both keep it before ".mp4".

    Args:
        sources: The videos.
        root: Folder from which names start.

    Returns:
        One name per video.
    """
    long = [_long(source, place, root) for place, source in enumerate(sources)]
    short = [_without_extension(name) for name in long]
    many = Counter(short)
    found: list[str] = []
    taken: set[str] = set()
    for whole_name, name in zip(long, short, strict=True):
        name = whole_name if many[name] > 1 else name
        number = 1
        unique = name
        while unique in taken:
            number += 1
            unique = f"{name}-{number}"
        taken.add(unique)
        found.append(f"{unique}.mp4")
    return found


def _long(source: Any, place: int, root: str) -> str:
    """A name that is safe below any folder: no part leads up or is hidden."""
    if isinstance(source, bytes):
        return f"bytes/{place:06}"
    if isinstance(source, ImageSequence):
        return _safe(_below(os.fspath(source.folder), root)) or "frames"
    if isinstance(source, ArchiveMember):
        inside = source.name or f"{source.offset_bytes}"
        return f"{_without_extension(_safe(_below(os.fspath(source.file), root)), every=True)}/{_safe(inside)}"
    if isinstance(source, TableCell):
        archive = _without_extension(_safe(_below(os.fspath(source.file), root)), every=True)
        return f"{archive}/{_safe(source.column)}/{source.row:06}"
    return _safe(_below(os.fspath(source), root)) or f"video-{place:06}"


def _below(path: str, root: str) -> str:
    if is_url(path):
        parts = urlsplit(path)
        return f"{parts.netloc.rpartition('@')[2]}{unquote(parts.path)}"
    path = os.path.abspath(path)
    below = os.path.relpath(path, root)
    return path if below.split(os.sep)[0] == os.pardir else below


def _safe(name: str) -> str:
    parts = [part for part in PurePosixPath(name.replace("\0", "_")).parts if part not in ("/", ".", "..")]
    return "/".join(f"_{part[1:]}" if part.startswith(".") else part for part in parts)


def _without_extension(name: str, *, every: bool = False) -> str:
    stem, dot, extension = name.rpartition(".")
    known = every or extension.lower() in _DROPPED
    return stem if dot and known and stem and not stem.endswith("/") and "/" not in extension else name


def _finite(value: Any) -> Any:
    """Replaces NaN and infinities, which JSON does not have, by `None`."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return value


def manifest_rows(dataset: Dataset, out: str) -> list[dict[str, Any]] | None:
    """Rows for `datasets.json_lines()`, with paths relative to `out`.

    Args:
        dataset: The dataset of the results.
        out: Folder of the results.

    Returns:
        The rows; `None` if the format cannot express them, as with segments in frames and in seconds, or columns
        whose names have another meaning in it.
    """
    lines: list[dict[str, Any]] = []
    units: set[str] = set()
    labels = dataset.columns.get("label")
    # Several labels of a sample are a column with lists, and the single label is -1.
    several = labels is not None and all(label == -1 for _, label in dataset)
    several = several and all(value is None or isinstance(value, list) for value in labels or ())
    if {"uri", "start", "end", "class"} & dataset.columns.keys() or (labels is not None and not several):
        return None
    for source, label in dataset:
        line: dict[str, Any] = {"uri": os.path.relpath(os.fspath(full_source(source)), out), "label": label}
        if isinstance(source, VideoSegment):
            for name, value in source.bounds().items():
                end, _, unit = name.partition("_")
                line[end] = value
                units.add(unit)
        if isinstance(label, int) and 0 <= label < len(dataset.classes):
            line["class"] = dataset.classes[label]
        for name, values in dataset.columns.items():
            if name != "label" or values[len(lines)] is not None:
                line[name] = _finite(values[len(lines)])
        lines.append(line)
    return None if len(units) > 1 else lines
