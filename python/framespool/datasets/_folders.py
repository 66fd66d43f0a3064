"""Datasets from folders and plain lists."""

from __future__ import annotations

import os
from collections.abc import Sequence

from framespool import _framespool
from framespool.datasets._dataset import Dataset
from framespool.datasets._sample_list import SampleList
from framespool.datasets._sources import ImageSequence


def folder(root: str | os.PathLike[str], *, extensions: Sequence[str] | None = None) -> Dataset:
    """One class per sub-folder of ``root``, labels 0, 1, … by sorted name; files sorted by path.

    A folder without sub-folders gives unlabelled videos (label -1). ``extensions`` (such as ``["mp4", "mkv"]``,
    case-insensitive) replaces the usual list of video extensions. Raises :class:`~framespool.NotFoundError` for a
    missing folder and :class:`~framespool.ArgumentError` where no video is found.
    """
    table, classes = _framespool.read_folder(root, None if extensions is None else list(extensions))
    return Dataset(SampleList(table), classes)


def image_folder(root: str | os.PathLike[str], *, extensions: Sequence[str] | None = None) -> Dataset:
    """Pictures in class folders, as torchvision's ``ImageFolder`` has them: a class per sub-folder of ``root``, labels
    0, 1, … by sorted name (``classes``, ``class_to_idx``), the files below each, however deep, sorted by path.

    Files that end in .jpg, .jpeg, .jpe, .jfif or .png, or in one of ``extensions``, in upper or lower case; others
    (.webp, .bmp, … which torchvision lists too) are not read here
    and not listed. A folder without sub-folders gives unlabelled images (label -1). Raises as :func:`folder`.
    """
    wanted = _framespool.image_extensions if extensions is None else extensions
    table, classes = _framespool.read_folder(root, list(wanted))
    return Dataset(SampleList(table), classes)


def frame_folder(
    root: str | os.PathLike[str], *, pattern: str | None = None, fps: float | tuple[int, int] = 30
) -> Dataset:
    """Videos that were taken apart into pictures, in class folders: ``root/class/video/img_00001.jpg``.

    Every folder that holds pictures is a video; labels 0, 1, … by the sorted names of the sub-folders of ``root``.
    Where these hold the pictures themselves, they are unlabelled videos (label -1). ``pattern`` and ``fps`` as in
    :class:`ImageSequence`. Raises as :func:`folder`.
    """
    found, classes = _framespool.read_folder(root, _framespool.image_extensions)
    folders: dict[str, int] = {}
    base = os.path.abspath(os.fspath(root))
    flat = True
    for path, label in SampleList(found):
        assert isinstance(path, str)
        folder = os.path.dirname(path)
        flat &= os.path.dirname(os.path.abspath(folder)) == base
        folders.setdefault(folder, label)
    entries = [
        (ImageSequence(folder, pattern=pattern, fps=fps), -1 if flat else label) for folder, label in folders.items()
    ]
    return Dataset(entries, () if flat else classes)


def file_list(
    path: str | os.PathLike[str], *, root: str | os.PathLike[str] | None = None, delimiter: str | None = None
) -> Dataset:
    """A text file with ``path label`` on each line, split from the right, so that paths may contain spaces.

    ``delimiter``: what stands between the two, for instance ``","``; blanks and tabs by default. The label may be
    missing (-1). Blank lines and lines that begin with ``#`` are passed over. Relative paths start at ``root``, or at
    the list's own folder.

    Raises :class:`~framespool.NotFoundError` and :class:`~framespool.ReadError` for the list itself, and
    :class:`~framespool.ArgumentError`, which names the line, for a label that is no number.
    """
    table, classes = _framespool.read_file_list(path, root, delimiter)
    return Dataset(SampleList(table), classes)
