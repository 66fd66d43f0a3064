"""Datasets from archives: videos and pictures are decoded from where they lie in them."""

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

#: What is taken for a video or a picture; of several in a sample the first of these is meant.
_EXTENSIONS = (*_framespool.video_extensions, *_framespool.image_extensions)
#: Files that are listed at a time, at least: most of it is waiting for the disk.
_THREADS = 8
#: Most files that a pattern may stand for.
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
    """Shards of a WebDataset: tars whose neighbours with the same name up to its first dot are one sample.

    ``shards``: a path, a list of them, or a pattern: ``"train-{000000..000127}.tar"``, ``"{train,val}-{0..9}.tar"``.
    ``video``: extensions (all that follows the first dot of a file's name, in upper or lower case) of the member that
    is the sample's video or picture; of several members the one whose extension comes first here. ``label``: the
    extension of the member that holds the label as a number in text, or ``("json", "name")`` for a field of its JSON
    (``("json", "outer", "name")`` for one inside another), or ``None``: all labels are -1. ``columns``: extensions of
    members to keep in :attr:`Dataset.columns`, such as ``("json", "txt")``: of a JSON object each name is a column, of
    others the text is one, named as the extension. The samples' keys always are, in ``columns["__key__"]``.

    One entry for each sample, a :class:`ArchiveMember`, in the order of the shards and of the samples in them: nothing is
    unpacked, and loaders shuffle over all shards. Members that are neither are not read. Only headers, labels
    and columns are read, one small read for each; shards must not be compressed.

    ``index``: lists of the shards' members, which spare a read for each header and so a request for each large member
    of a shard by URL: files that DALI's ``wds2idx`` writes (version 1.1 or 1.2), one for each shard, in their order, as
    paths or patterns; ``True``: beside each shard, with ``.idx`` in place of ``.tar``. An index that does not fit its
    shard's length, or the headers of the first and last member, is an error.

    ``on_error="raise"``: raises :class:`~framespool.ArgumentError` for a sample without label, or with a label and no
    video, naming shard and key; :class:`~framespool.InvalidDataError`, :class:`~framespool.TruncatedError` or
    :class:`~framespool.UnsupportedError` for a shard that is damaged or compressed, naming the byte;
    :class:`~framespool.NotFoundError` for one that is missing. ``"skip"``: takes what is whole, and warns once with the
    number and the first reasons of what it left out. Where nothing is left,
    :class:`~framespool.ArgumentError` is raised under both.
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
    """The index of a shard, as DALI calls it."""
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
    """TFRecord files of ``tf.train.Example``, as TensorFlow Datasets and the ImageNet scripts write them.

    ``files``: a path, a list of them, or a pattern as in :func:`webdataset`. ``source``: the feature whose bytes are
    the video or picture. ``label``: the feature that is its label, one integer as it stands (the ImageNet scripts count
    from 1), or ``None``: all labels are -1. In a ``SequenceExample`` the features of its context are meant.

    One entry for each record, a :class:`ArchiveMember` of its file, in the order of the files and records. The checksum of
    each record's length is always checked; with ``check`` that of its data too, for which all files are read once.
    Files that were compressed must be unpacked first.

    ``on_error="raise"``: raises :class:`~framespool.ArgumentError` for a record that lacks a feature or holds something
    else in it, naming file, record and byte; :class:`~framespool.InvalidDataError` (a wrong checksum, or data that is no
    ``Example``) or :class:`~framespool.TruncatedError` for a damaged file, naming the byte;
    :class:`~framespool.NotFoundError`. ``"skip"``: leaves such records out, and what comes behind a record whose length
    is damaged, and warns once with their number and the first reasons. Where nothing is left,
    :class:`~framespool.ArgumentError` is raised under both.
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
    """An MXNet RecordIO file of pictures, as ``im2rec`` and ``mx.recordio.pack_img`` write it.

    ``rec``: its path. ``idx``: path of the list that goes with it; its records are taken, in its order. Without it all
    records of the file are, one after another.

    One entry for each record: a :class:`ArchiveMember` of the file, or, for the few whose data the format takes apart because
    it holds the format's magic number, the picture's bytes. The label is the record's, or the first of several, and
    must be a whole number. ``columns["id"]`` is the number that the packer gave the picture; where records have several
    labels, as for detection, ``columns["labels"]`` has a list of floats.

    ``on_error="raise"``: raises :class:`~framespool.ArgumentError` for a record without a picture or with another
    label, and for a damaged list, naming file and record or line; :class:`~framespool.InvalidDataError` or
    :class:`~framespool.TruncatedError` for a damaged file, or a list of another one, naming the byte;
    :class:`~framespool.NotFoundError`. ``"skip"``: leaves such records out (without ``idx`` also what comes behind
    damage), and warns once with their number and the first reasons. Where nothing is left, and where the list is
    damaged, :class:`~framespool.ArgumentError` is raised under both.
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
        raise ArgumentError(f"{name} must be a string or several, none of them empty, got {value!r}")
    return list(words)


def _listed(files: list[str], on_error: str, read: Callable[[], Any]) -> Dataset:
    """The entries that were read, and a warning of those left out."""
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
    """Paths, patterns written out."""
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    given = as_sequence(paths)
    if given is None or not all(isinstance(path, (str, os.PathLike)) for path in given):
        raise ArgumentError(f"{name} must be a path, a pattern or a list of them, got {paths!r}")
    files: list[str] = []
    for path in map(os.fspath, given):
        if not isinstance(path, str):
            raise ArgumentError(f"{name} must be strings, got {path!r}")
        # A file of that very name is meant itself.
        plain = "{" not in path or (not is_url(path) and os.path.exists(path))
        found = [path] if plain else itertools.islice(_expanded(path), _MAX_FILES + 1)
        files.extend(found)
        if len(files) > _MAX_FILES:
            raise ArgumentError(f"{name} must be at most {_MAX_FILES} files, more with {path!r}")
    if not files:
        raise ArgumentError(f"{name} must name at least one file, got {paths!r}")
    return files


_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")


def _expanded(pattern: str) -> Iterator[str]:
    """``a-{00..02}-{x,y}`` as the shell writes it out; the last braces turn fastest."""
    match = re.search(r"\{([^{}]*)\}", pattern)
    if match is None:
        yield pattern
        return
    before, inside, behind = pattern[: match.start()], match[1], pattern[match.end() :]
    numbers = _RANGE.fullmatch(inside)
    choices: Iterable[str]
    if numbers is not None:
        first, last = numbers[1], numbers[2]
        # Zeros in front are kept, as many as the longer bound has digits.
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
