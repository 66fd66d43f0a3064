"""Datasets from folders and plain lists."""

from __future__ import annotations

import os
from collections.abc import Sequence

from framespool import _framespool
from framespool._sources import ImageSequence
from framespool.datasets._dataset import Dataset
from framespool.datasets._sample_list import SampleList


def folder(root: str | os.PathLike[str], *, extensions: Sequence[str] | None = None) -> Dataset:
    """Lists the videos of class folders.

    Each sub-folder of ``root`` is a class, with labels 0, 1, … by sorted name; files are sorted by path. A folder
    without sub-folders gives unlabeled videos (label -1).

    Args:
        root: Folder that contains the class folders.
        extensions: File extensions to list, such as ``["mp4", "mkv"]``, case-insensitive. By default the usual video
            extensions.

    Returns:
        A dataset with one sample per file; its ``classes`` are the names of the sub-folders.

    Raises:
        NotFoundError: If the folder does not exist.
        ArgumentError: If no video is found.

    Example:
        >>> import framespool as fsp
        >>> dataset = fsp.datasets.folder("videos/")
        >>> len(dataset), dataset.classes
        (3, ['again', 'bird', 'book'])
    """
    table, classes = _framespool.read_folder(root, None if extensions is None else list(extensions))
    return Dataset(SampleList(table), classes)


def image_folder(root: str | os.PathLike[str], *, extensions: Sequence[str] | None = None) -> Dataset:
    """Lists the images of class folders, as torchvision's ``ImageFolder`` does.

    Each sub-folder of ``root`` is a class, with labels 0, 1, … by sorted name (``classes``, ``class_to_idx``). The
    files below it, at any depth, are sorted by path. A folder without sub-folders gives unlabeled images (label -1).

    Other formats that torchvision lists too (.webp, .bmp, …) cannot be decoded here and are not listed.

    Args:
        root: Folder that contains the class folders.
        extensions: File extensions to list, case-insensitive. By default .jpg, .jpeg, .jpe, .jfif and .png.

    Returns:
        A dataset with one sample per image.

    Raises:
        NotFoundError: If the folder does not exist.
        ArgumentError: If no image is found.

    Example:
        >>> import framespool as fsp
        >>> fsp.datasets.image_folder("photos/").class_to_idx
        {'cat': 0, 'dog': 1}
    """
    wanted = _framespool.image_extensions if extensions is None else extensions
    table, classes = _framespool.read_folder(root, list(wanted))
    return Dataset(SampleList(table), classes)


def frame_folder(
    root: str | os.PathLike[str], *, pattern: str | None = None, fps: float | tuple[int, int] = 30
) -> Dataset:
    """Lists videos stored as folders of images, in class folders: ``root/class/video/img_00001.jpg``.

    Every folder that contains images is a video; labels are 0, 1, … by the sorted names of the sub-folders of ``root``.
    If these sub-folders contain the images themselves, each is an unlabeled video (label -1).

    Args:
        root: Folder that contains the class folders.
        pattern: File name of a frame, as in :class:`ImageSequence`. By default all images of a folder, sorted by name.
        fps: Frame rate of the videos, as in :class:`ImageSequence`.

    Returns:
        A dataset with one :class:`ImageSequence` per video.

    Raises:
        NotFoundError: If the folder does not exist.
        ArgumentError: If no image is found.
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
    """Reads a text file with ``path label`` on each line.

    Lines are split from the right, so that paths may contain spaces. A missing label is -1. Blank lines and lines that
    start with ``#`` are skipped.

    Args:
        path: Text file.
        root: Folder that relative paths start from. By default the folder of the text file.
        delimiter: Separator of path and label, for instance ``","``. By default spaces and tabs.

    Returns:
        A dataset with one sample per line, in the order of the lines.

    Raises:
        NotFoundError: If the text file does not exist.
        ReadError: If the text file cannot be read.
        ArgumentError: If a label is not a number; the message names the line.

    Example:
        >>> import framespool as fsp
        >>> with open("train.txt", "w") as lines:
        ...     print("a.mp4 0", file=lines)
        ...     print("videos/bird/bird.mkv 1", file=lines)
        >>> [label for _, label in fsp.datasets.file_list("train.txt")]
        [0, 1]
    """
    table, classes = _framespool.read_file_list(path, root, delimiter)
    return Dataset(SampleList(table), classes)
