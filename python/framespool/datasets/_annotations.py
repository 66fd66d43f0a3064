"""Datasets from the lists that other codebases read.

None of these looks whether the videos exist: that takes minutes on a network disk, and a loader says what is missing.
Where the name of a file must be found first, the function says so. Text is UTF-8, with or without a byte order mark,
lines end in LF or CRLF; what cannot be understood is a :class:`~framespool.ArgumentError` that names file and line.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

from framespool import _framespool
from framespool.datasets._dataset import Dataset
from framespool.datasets._sources import FrameFolder, Part, Source

_Path = str | os.PathLike[str]


def _dataset(found: Any) -> Dataset:
    """What the engine read, as a dataset; what was left out is told by warnings."""
    entries, classes, columns, notes = found
    for note in notes:
        warnings.warn(note, stacklevel=3)  # at the line that called the public function
    return Dataset([(_source(path, part, frames), label) for path, label, part, frames in entries], classes, columns)


def _source(path: str, part: tuple[str, Any, Any] | None, frames: tuple[str, int, int | None, Any] | None) -> Source:
    source: str | FrameFolder = path
    if frames is not None:
        pattern, first, count, fps = frames
        source = FrameFolder(path, pattern=pattern, first=first, count=count, fps=fps)
    if part is None:
        return source
    unit, start, end = part
    if unit == "frames":
        return Part(source, start_frame=start, end_frame=end)
    return Part(source, start_seconds=start, end_seconds=end)


def space_list(
    path: _Path, *, root: _Path | None = None, delimiter: str | None = None, multi_label: bool = False
) -> Dataset:
    """The lists of mmaction2, PySlowFast, VideoMAE, V-JEPA 2 and PyTorchVideo: ``path label`` on each line.

    As :func:`file_list`. With ``multi_label`` every whole number at the end of a line is a label:
    ``columns["labels"]`` has a list of them per entry, and the entry's own label is -1. ``delimiter``: what stands
    between the fields instead of white space, such as ``","`` or ``"::"``; with white space, a path that ends in a
    number of its own (``clip 7``) cannot be told from one with another label.
    """
    return _dataset(_framespool.read_space_list(path, root, delimiter, multi_label))
