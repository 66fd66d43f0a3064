"""Lists of labelled videos. A :class:`Dataset` is a plain sequence of ``(path, label)`` and can be pickled."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

from framespool import _framespool
from framespool.errors import ArgumentError

__all__ = ["Dataset", "file_list", "folder"]

#: A path, or the bytes of a video.
Source = str | os.PathLike[str] | bytes


class Dataset(Sequence[tuple[Source, int]]):
    """Videos with integer labels.

    ``entries``: pairs of (path or bytes, label); -1 stands for "no label". ``classes``: names of the labels, empty
    where there are none.
    """

    def __init__(self, entries: Iterable[tuple[Source, int]], classes: Sequence[str] = ()) -> None:
        self.entries: list[tuple[Source, int]] = [_entry(i, entry) for i, entry in enumerate(entries)]
        self.classes: list[str] = list(classes)

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, index: int) -> tuple[Source, int]: ...
    @overload
    def __getitem__(self, index: slice) -> Dataset: ...
    def __getitem__(self, index: int | slice) -> tuple[Source, int] | Dataset:
        if isinstance(index, slice):
            return Dataset(self.entries[index], self.classes)
        return self.entries[index]

    def __iter__(self) -> Iterator[tuple[Source, int]]:
        return iter(self.entries)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dataset):
            return NotImplemented
        return self.entries == other.entries and self.classes == other.classes

    def __repr__(self) -> str:
        return f"Dataset({len(self.entries)} videos, {len(self.classes)} classes)"


def _entry(number: int, entry: Any) -> tuple[Source, int]:
    if isinstance(entry, (str, bytes, os.PathLike)):
        return (entry, -1)
    try:
        source, label = entry
        label = int(label)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"dataset entry {number} must be (path, label) with an integer label, got {entry!r}"
        ) from None
    if not isinstance(source, (str, bytes, os.PathLike)):
        raise ArgumentError(f"dataset entry {number}: a path or bytes is wanted, got {type(source).__name__}")
    return (source, label)


def as_dataset(dataset: Any) -> Dataset:
    """``dataset`` itself, or a list of ``(path, label)`` or of paths made into one."""
    if isinstance(dataset, Dataset):
        return dataset
    if isinstance(dataset, (str, bytes, os.PathLike)):
        raise ArgumentError(
            f"dataset must be a Dataset or a list of (path, label), got {dataset!r}; "
            "use framespool.datasets.folder(...) for a folder"
        )
    return Dataset(dataset)


def folder(root: str | os.PathLike[str], *, extensions: Sequence[str] | None = None) -> Dataset:
    """One class per sub-folder of ``root``, labels 0, 1, … by sorted name; files sorted by path.

    A folder without sub-folders gives unlabelled videos (label -1). ``extensions`` (such as ``["mp4", "mkv"]``,
    case-insensitive) replaces the usual list of video extensions. Raises :class:`~framespool.NotFoundError` for a
    missing folder and :class:`~framespool.ArgumentError` where no video is found.
    """
    entries, classes = _framespool.read_folder(root, None if extensions is None else list(extensions))
    return Dataset(entries, classes)


def file_list(
    path: str | os.PathLike[str], *, root: str | os.PathLike[str] | None = None, delimiter: str | None = None
) -> Dataset:
    """A text file with ``path label`` on each line, split from the right, so that paths may contain spaces.

    The label may be missing (-1). Blank lines and lines that begin with ``#`` are passed over. Relative paths start
    at ``root``, or at the list's own folder. Errors name the line.
    """
    entries, classes = _framespool.read_file_list(path, root, delimiter)
    return Dataset(entries, classes)
