"""Finds the files that a path stands for: folders, list files, single files and URLs. All commands use it."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Iterator
from csv import Error as CsvError
from csv import reader as csv_reader
from dataclasses import dataclass, field
from typing import Any

from framespool import _framespool, datasets
from framespool._common.validate_args import is_url
from framespool.datasets._dataset import concatenated
from framespool.datasets._folders import AUDIO_EXTENSIONS
from framespool.errors import ArgumentError

#: Extensions of tables.
_TABLES = frozenset(("csv", "tsv", "jsonl"))
VIDEOS = frozenset(_framespool.video_extensions)
#: Videos are read for their audio, too.
AUDIO = VIDEOS | frozenset(AUDIO_EXTENSIONS)
_ALL = VIDEOS | frozenset(_framespool.image_extensions)


@dataclass
class Found:
    """What an argument stands for.

    Attributes:
        samples: (path or URL, label) of each file.
        root: Folder from which the names start; `None` for a URL.
        is_list: Whether it is a list file of lines `path label`.
        other_files: Number of files of a folder that have another extension, by extension.
    """

    samples: datasets.Dataset
    root: str | None
    is_list: bool = False
    other_files: Counter[str] = field(default_factory=Counter)


def find(place: str, extensions: frozenset[str] = _ALL) -> Found:
    """Finds the files of an argument.

    Args:
        place: A path or URL. A folder stands for all files below it, by their extensions. A file `.csv`, `.tsv` or
            `.jsonl` is a table; any other text file is a list.
        extensions: The extensions to look for, in lower case.

    Returns:
        The files; only those of a list or table have labels.

    Raises:
        ArgumentError: For a folder without such files, and as `datasets.annotation_file()`, `csv()` and `json_lines()`.
    """
    if os.path.isdir(place):
        others: Counter[str] = Counter()
        below = sorted(_below(place, extensions, others), key=os.fsencode)
        if not below:
            kinds = {VIDEOS: "videos", AUDIO: "videos or audio files"}.get(extensions, "videos or images")
            raise ArgumentError(f"{place} has no {kinds}; looked for .{' .'.join(sorted(extensions))}")
        return Found(datasets.Dataset([(path, -1) for path in below]), place, other_files=others)
    root = None if is_url(place) else os.path.dirname(place) or os.curdir
    if _extension(place) in extensions or _is_binary(place):
        return Found(datasets.Dataset([(place, -1)]), root)
    if _extension(place) in _TABLES and not is_url(place):
        return Found(_table(place), root)
    return Found(datasets.annotation_file(place), root, is_list=True)


def _table(place: str) -> datasets.Dataset:
    """Reads a table; its source is the first column whose first value is the name of a video or an image."""
    is_csv = _extension(place) != "jsonl"
    read: Any = datasets.csv if is_csv else datasets.json_lines
    names: dict[str, str] = {}
    try:
        with open(place, encoding="utf-8-sig", newline="") as file:
            if is_csv:
                rows = csv_reader(file, delimiter="\t" if _extension(place) == "tsv" else ",")
                first = zip(next(rows, []), next(rows, []), strict=False)
            else:
                first = json.loads(next(filter(str.strip, file), "{}")).items()
            found = [name.strip() for name, value in first if _extension(str(value).strip()) in _ALL]
            names = {"source": found[0]} if found else {}
    except (OSError, ValueError, AttributeError, CsvError):
        pass  # the reader reports what is wrong
    dataset: datasets.Dataset = read(place, **names)
    return dataset


def list_sources(places: list[str]) -> datasets.Dataset:
    """Finds videos and images of folders, lists and single files.

    Args:
        places: Paths or URLs, as for `find()`.

    Returns:
        A dataset, in the order of the arguments.

    Raises:
        ArgumentError: As `find()`.
    """
    return concatenated([find(place).samples for place in places])


def _below(place: str, extensions: Collection[str], others: Counter[str]) -> Iterator[str]:
    """Files of a folder and its subfolders; each folder once, even if several links lead to it. Hidden ones are not.

    Files with another extension are counted in `others`.
    """

    def refuse(error: OSError) -> None:
        raise ArgumentError(f"{error.filename}: {error.strerror}; make it readable, or give other folders")

    seen: set[tuple[int, int]] = set()
    for folder, below, names in os.walk(place, followlinks=True, onerror=refuse):
        about = os.stat(folder)
        if (about.st_dev, about.st_ino) in seen:
            below.clear()
            continue
        seen.add((about.st_dev, about.st_ino))
        below[:] = [name for name in below if not name.startswith(".")]
        for name in names:
            if name.startswith("."):
                continue
            if (extension := _extension(name)) in extensions:
                yield os.path.join(folder, name)
            else:
                others[f".{extension}" if "." in name else "without extension"] += 1


def is_image(name: str) -> bool:
    """Whether a file is an image, by its name.

    Args:
        name: Its path or URL.

    Returns:
        `True` for an extension of images.
    """
    return _extension(name) in _framespool.image_extensions


def _is_binary(place: str) -> bool:
    """Whether a local file is no text: a text has no zero bytes, and each container has some near its start."""
    try:
        with open(place, "rb") as file:
            return b"\0" in file.read(4096)
    except OSError:  # reported by the reader of lists; a URL is none
        return False


def _extension(name: str) -> str:
    if is_url(name):
        name = name.partition("?")[0].partition("#")[0]
    return name.rpartition(".")[2].lower()
