"""Lists folders as datasets."""

from __future__ import annotations

import os
from collections.abc import Sequence

from framespool import _framespool
from framespool.datasets._dataset import Dataset
from framespool.datasets._readers import with_classes
from framespool.datasets._sample_list import SampleList
from framespool.video._sources import ImageSequence

#: Extensions of files of audio; those of video containers, which may hold audio alone, are not among them.
AUDIO_EXTENSIONS = (
    *("wav", "wave", "w64", "aif", "aiff", "aifc", "flac", "mp3", "mp2", "m4a", "m4b", "aac", "ogg", "oga", "opus"),
    *("ac3", "eac3", "ec3", "amr", "wma", "mka", "weba"),
)


def folder(
    root: str | os.PathLike[str], *, extensions: Sequence[str] | None = None, classes: Sequence[str] | None = None
) -> Dataset:
    """Lists the videos of class folders.

    Each sub-folder of `root` is a class, with labels 0, 1, … by sorted name; files are sorted by path. A folder
    without sub-folders gives unlabeled videos (label -1).

    Args:
        root: Folder that contains the class folders.
        extensions: File extensions to list, such as `["mp4", "mkv"]`, case-insensitive. By default the usual video
            extensions.
        classes: Class names in the order of their labels, such as `train.classes` for a folder that lacks some
            classes. By default sorted.

    Returns:
        A dataset with one sample per file; its `classes` are the names of the sub-folders.

    Raises:
        NotFoundError: If the folder does not exist.
        ArgumentError: If no video is found, or one is in a folder that is not one of `classes`.

    Example:
        >>> import framespool as fsp
        >>> dataset = fsp.datasets.folder("videos/")
        >>> len(dataset), dataset.classes
        (3, ['again', 'bird', 'book'])
    """
    table, names = _framespool.read_folder(root, None if extensions is None else list(extensions))
    return with_classes(Dataset(SampleList(table), names), classes)


def image_folder(
    root: str | os.PathLike[str], *, extensions: Sequence[str] | None = None, classes: Sequence[str] | None = None
) -> Dataset:
    """Lists the images of class folders, as torchvision's `ImageFolder` does.

    Each sub-folder of `root` is a class, with labels 0, 1, … by sorted name (`classes`, `class_to_idx`). The
    files below it, at any depth, are sorted by path. A folder without sub-folders gives unlabeled images (label -1).

    Other formats that torchvision lists too (.bmp, .tiff, …) cannot be decoded here and are not listed.

    Args:
        root: Folder that contains the class folders.
        extensions: File extensions to list, case-insensitive. By default .jpg, .jpeg, .jpe, .jfif, .png, .webp
            and .avif.
        classes: Class names in the order of their labels, as in `folder()`.

    Returns:
        A dataset with one sample per image.

    Raises:
        NotFoundError: If the folder does not exist.
        ArgumentError: If no image is found, or one is in a folder that is not one of `classes`.

    Example:
        >>> import framespool as fsp
        >>> fsp.datasets.image_folder("photos/").class_to_idx
        {'cat': 0, 'dog': 1}
    """
    wanted = _framespool.image_extensions if extensions is None else extensions
    table, names = _framespool.read_folder(root, list(wanted))
    return with_classes(Dataset(SampleList(table), names), classes)


def audio_folder(
    root: str | os.PathLike[str], *, extensions: Sequence[str] | None = None, classes: Sequence[str] | None = None
) -> Dataset:
    """Lists the audio files of class folders, for `framespool.AudioLoader`.

    Each sub-folder of `root` is a class, with labels 0, 1, … by sorted name; files are sorted by path. A folder
    without sub-folders gives unlabeled files (label -1). `folder()` lists videos, whose audio a loader reads as well.

    Args:
        root: Folder that contains the class folders.
        extensions: File extensions to list, case-insensitive. By default .wav, .flac, .mp3, .m4a, .ogg, .opus and
            further ones of audio files.
        classes: Class names in the order of their labels, as in `folder()`.

    Returns:
        A dataset with one sample per file.

    Raises:
        NotFoundError: If the folder does not exist.
        ArgumentError: If no audio file is found, or one is in a folder that is not one of `classes`.

    Example:
        >>> import framespool as fsp
        >>> fsp.datasets.audio_folder("sounds/").class_to_idx
        {'bell': 0, 'rain': 1}
    """
    wanted = AUDIO_EXTENSIONS if extensions is None else extensions
    table, names = _framespool.read_folder(root, list(wanted))
    return with_classes(Dataset(SampleList(table), names), classes)


def frame_folder(
    root: str | os.PathLike[str],
    *,
    pattern: str | None = None,
    fps: float | tuple[int, int] = 30,
    classes: Sequence[str] | None = None,
) -> Dataset:
    """Lists videos stored as folders of images, in class folders: `root/class/video/img_00001.jpg`.

    Every folder that contains images is a video; labels are 0, 1, … by the sorted names of the sub-folders of `root`.
    If these sub-folders contain the images themselves, each is an unlabeled video (label -1).

    Args:
        root: Folder that contains the class folders.
        pattern: File name of a frame, as in `ImageSequence`. By default all images of a folder, sorted by name.
        fps: Frame rate of the videos, as in `ImageSequence`.
        classes: Class names in the order of their labels, as in `folder()`.

    Returns:
        A dataset with one `ImageSequence` per video.

    Raises:
        NotFoundError: If the folder does not exist.
        ArgumentError: If no image is found, or one is in a folder that is not one of `classes`.

    Example:
        >>> import framespool as fsp
        >>> import shutil
        >>> _ = shutil.copytree("frames", "sequences/walk/001")
        >>> dataset = fsp.datasets.frame_folder("sequences", fps=25)
        >>> dataset.classes, len(fsp.Video(dataset[0][0]))
        (['walk'], 8)
    """
    found, names = _framespool.read_folder(root, _framespool.image_extensions)
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
    return with_classes(Dataset(entries, () if flat else names), classes)
