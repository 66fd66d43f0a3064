"""Reads archives as datasets: videos and images are decoded from their place in the archive."""

from __future__ import annotations

import itertools
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

from framespool import _framespool
from framespool._validate_args import as_sequence, boolean, choice, is_url
from framespool.datasets._dataset import Dataset
from framespool.datasets._sample_list import SampleList
from framespool.errors import ArgumentError

_Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

#: Extensions of videos and images; of several in a sample, the first of these is used.
_EXTENSIONS = (*_framespool.video_extensions, *_framespool.image_extensions)
#: Minimum number of files to list in parallel: most of the time is disk latency.
_THREADS = 8
#: Maximum number of files that a pattern may expand to.
_MAX_FILES = 1_000_000


def webdataset(
    shards: _Paths,
    *,
    video: str | Sequence[str] = _EXTENSIONS,
    label: str | Sequence[str] | None = "cls",
    columns: str | Sequence[str] = (),
    index: bool | _Paths = False,
    on_error: Literal["raise", "skip"] = "raise",
) -> Dataset:
    """Reads the shards of a WebDataset: tar files in which consecutive members with the same key are one sample.

    The key of a member is its name up to the first dot. Nothing is unpacked, and loaders shuffle over all shards. Only
    headers, labels and columns are read, with one small read each; other members are not read. Shards must not be
    compressed.

    Args:
        shards: A path, a list of them, or a pattern: ``"train-{000000..000127}.tar"``, ``"{train,val}-{0..9}.tar"``.
        video: Extensions of the member that is the sample's video or image; an extension is all that follows the first
            dot of a file's name, case-insensitive. Of several members, the one whose extension is first here is used.
        label: Extension of the member that contains the label as a number in text, or ``("json", "name")`` for a field
            of its JSON (``("json", "outer", "name")`` for a nested one). ``None``: all labels are -1.
        columns: Extensions of members to keep in :attr:`Dataset.columns`, such as ``("json", "txt")``. Each name of a
            JSON object is a column; the text of other members is a column named after the extension.
        index: Index files of the shards, which avoid one read per header, and so one request per large member of a
            shard at a URL. Files that DALI's ``wds2idx`` writes (version 1.1 or 1.2), one per shard, in the order of
            the shards, as paths or patterns. ``True``: next to each shard, with ``.idx`` in place of ``.tar``. An index
            that does not match its shard's length, or the headers of the first and last member, is an error.
        on_error: ``"raise"``: a bad sample or shard is an error. ``"skip"``: it is left out, and one warning has the
            number and the first reasons.

    Returns:
        A dataset with one :class:`ArchiveMember` per sample, in the order of the shards and of their samples.
        ``columns["__key__"]`` has the samples' keys.

    Raises:
        ArgumentError: If a sample has no label, or a label and no video (the message names shard and key), or if no
            sample remains.
        InvalidDataError: If a shard is damaged; the message names the byte.
        TruncatedError: If a shard is cut short.
        UnsupportedError: If a shard is compressed.
        NotFoundError: If a shard is missing.

    Example:
        >>> import framespool as fsp
        >>> import tarfile
        >>> with tarfile.open("train-000000.tar", "w") as shard:
        ...     shard.add("a.mp4")
        ...     shard.add("phone.mp4")
        >>> shards = fsp.datasets.webdataset("train-{000000..000000}.tar", label=None)
        >>> shards.columns["__key__"]
        ['a', 'phone']
    """
    files = _files("shards", shards)
    extensions = [video] if isinstance(video, str) else _names("video", video)
    where = None
    if label is not None:
        extension, *names = [label] if isinstance(label, str) else _names("label", label)
        where = (extension, names)
    kept = [columns] if isinstance(columns, str) else _names("columns", columns) if columns else []
    indices = None
    if isinstance(index, bool):
        if index:
            indices = [_index_file_of(file) for file in files]
    else:
        indices = _files("index", index)
    return _listed(
        files,
        on_error,
        lambda: _framespool.read_webdataset(files, indices, extensions, where, kept, on_error, _threads()),
    )


def _index_file_of(shard: str) -> str:
    """Returns the index file of a shard, under DALI's name."""
    path, mark, query = shard.partition("?") if is_url(shard) else (shard, "", "")
    stem = path[: -len(".tar")] if path.lower().endswith(".tar") else path
    return f"{stem}.idx{mark}{query}"


def tfrecord(
    files: _Paths,
    *,
    source: str = "image/encoded",
    label: str | None = "image/class/label",
    check: bool = False,
    on_error: Literal["raise", "skip"] = "raise",
) -> Dataset:
    """Reads TFRecord files of ``tf.train.Example``, as TensorFlow Datasets and the ImageNet scripts write them.

    Of a ``SequenceExample`` the features of its context are used. The checksum of each record's length is always
    checked. Compressed files must be unpacked first.

    Args:
        files: A path, a list of them, or a pattern as in :func:`webdataset`.
        source: Feature whose bytes are the video or image.
        label: Feature that is the label: one integer, used unchanged (the ImageNet scripts count from 1). ``None``: all
            labels are -1.
        check: Whether the checksum of each record's data is checked too; all files are then read once.
        on_error: ``"raise"``: a bad record is an error. ``"skip"``: it is left out, and so is what follows a record
            with a damaged length; one warning has the number and the first reasons.

    Returns:
        A dataset with one :class:`ArchiveMember` per record, in the order of the files and records.

    Raises:
        ArgumentError: If a record lacks a feature or has another type in it (the message names file, record and byte),
            or if no record remains.
        InvalidDataError: If a checksum is wrong, or data is not an ``Example``; the message names the byte.
        TruncatedError: If a file is cut short; the message names the byte.
        NotFoundError: If a file is missing.
    """
    paths = _files("files", files)
    feature = _names("source", [source])[0]
    of_label = None if label is None else _names("label", [label])[0]
    whole = boolean("check", check)
    return _listed(
        paths, on_error, lambda: _framespool.read_tfrecord(paths, feature, of_label, whole, on_error, _threads())
    )


def recordio(
    rec: str | os.PathLike[str],
    *,
    idx: str | os.PathLike[str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> Dataset:
    """Reads an MXNet RecordIO file of images, as ``im2rec`` and ``mx.recordio.pack_img`` write it.

    The label of a sample is the record's, or the first of several, and must be an integer.

    Args:
        rec: Path of the file.
        idx: Path of its index; its records are used, in its order. By default all records of the file, in file order.
        on_error: ``"raise"``: a bad record is an error. ``"skip"``: it is left out (without ``idx`` also what follows
            the damage), and one warning has the number and the first reasons.

    Returns:
        A dataset with one :class:`ArchiveMember` per record, or with the image's bytes for the few records that the
        format splits because they contain its magic number. ``columns["id"]`` is the number that the packer assigned to
        the image. If records have several labels, as for detection, ``columns["labels"]`` has lists of floats.

    Raises:
        ArgumentError: If a record has no image or another label, or if the index is damaged, naming file and record or
            line; with ``"skip"`` if the index is damaged or no record remains.
        InvalidDataError: If the file is damaged, or the index belongs to another file; the message names the byte.
        TruncatedError: If the file is cut short; the message names the byte.
        NotFoundError: If the file is missing.
    """
    for name, path in (("rec", rec), ("idx", idx)):
        if path is not None and not isinstance(path, (str, os.PathLike)):
            raise ArgumentError(f"{name} must be a path, got {path!r}")
    file, index = os.fspath(rec), None if idx is None else os.fspath(idx)
    return _listed([file], on_error, lambda: _framespool.read_recordio(file, index, on_error))


def _threads() -> int:
    return max(_THREADS, _framespool.cores())


def _names(name: str, value: Any) -> list[str]:
    words = as_sequence(value)
    if not words or not all(isinstance(word, str) and word for word in words):
        raise ArgumentError(f"{name} must be a string or a list of strings, none of them empty, got {value!r}")
    return list(words)


def _listed(files: list[str], on_error: str, read: Callable[[], Any]) -> Dataset:
    """Builds the dataset from what was read, and warns of the samples left out."""
    choice("on_error", on_error, ("raise", "skip"))
    table, columns, left_out, reasons = read()
    _warn_left_out(left_out, reasons, stacklevel=4)
    return Dataset(SampleList(table), columns=columns)


def _warn_left_out(left_out: int, reasons: Sequence[str], stacklevel: int = 3) -> None:
    """Warns of what was left out, if anything was; by default at the line that called the public function."""
    if left_out:
        more = f", and {left_out - len(reasons)} more" if left_out > len(reasons) else ""
        warnings.warn(f"{left_out} left out: {'; '.join(reasons)}{more}", stacklevel=stacklevel)


def _files(name: str, paths: _Paths) -> list[str]:
    """Returns the paths, with patterns expanded."""
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    given = as_sequence(paths)
    if given is None or not all(isinstance(path, (str, os.PathLike)) for path in given):
        raise ArgumentError(f"{name} must be a path, a pattern or a list of them, got {paths!r}")
    files: list[str] = []
    for path in map(os.fspath, given):
        if not isinstance(path, str):
            raise ArgumentError(f"{name} must be strings, got {path!r}")
        # A file whose name is the pattern itself takes precedence.
        plain = "{" not in path or (not is_url(path) and os.path.exists(path))
        found = [path] if plain else itertools.islice(_expanded(path), _MAX_FILES + 1)
        files.extend(found)
        if len(files) > _MAX_FILES:
            raise ArgumentError(f"{name} must be at most {_MAX_FILES} files, exceeded at {path!r}")
    if not files:
        raise ArgumentError(f"{name} must name at least one file, got {paths!r}")
    return files


_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")


def _expanded(pattern: str) -> Iterator[str]:
    """Expands ``a-{00..02}-{x,y}`` as the shell does; the last braces vary fastest."""
    match = re.search(r"\{([^{}]*)\}", pattern)
    if match is None:
        yield pattern
        return
    before, inside, behind = pattern[: match.start()], match[1], pattern[match.end() :]
    numbers = _RANGE.fullmatch(inside)
    choices: Iterable[str]
    if numbers is not None:
        first, last = numbers[1], numbers[2]
        # Leading zeros are kept: numbers are padded to the digits of the longer bound.
        padded = any(bound.lstrip("-").startswith("0") and len(bound.lstrip("-")) > 1 for bound in (first, last))
        width = max(len(first), len(last)) if padded else 0
        step = 1 if int(last) >= int(first) else -1
        choices = (f"{number:0{width}d}" for number in range(int(first), int(last) + step, step))
    elif "," in inside:
        choices = inside.split(",")
    else:
        raise ArgumentError(
            f"{{{inside}}} in {pattern!r} must be a range such as {{000..127}} or a list such as {{a,b}}"
        )
    for choice_ in choices:
        for rest in _expanded(behind):
            yield before + choice_ + rest
