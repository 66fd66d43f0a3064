"""Datasets from LMDB: videos and pictures are decoded from where they lie in the file."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from framespool import _framespool
from framespool._validate_args import boolean, choice
from framespool.datasets._archives import _files, _listed, _names, _Paths, _threads, _warn_left_out
from framespool.datasets._dataset import Dataset
from framespool.datasets._sources import ArchiveMember
from framespool.errors import ArgumentError

#: What may say an entry's label: a key beside its own, names of fields of the JSON under one, or its own key.
_Label = str | Sequence[str] | Mapping[Any, int] | Callable[[Any], int] | None

#: Reasons that a warning repeats.
_REASONS = 8


def lmdb(
    path: _Paths,
    *,
    database: str | None = None,
    layout: Literal["plain", "caffe"] = "plain",
    key: str = "{}",
    label: _Label = None,
    check: bool = False,
    on_error: Literal["raise", "skip"] = "raise",
) -> Dataset:
    """LMDB databases whose values are encoded videos or pictures.

    ``path``: the folder with ``data.mdb``, or the file itself (``subdir=False``); a list of them, or a pattern as in
    :func:`webdataset`. ``database``: name of the database inside; by default the one without a name.

    ``layout="plain"``: a value is the file of a video or a picture. ``key``: what the keys of these values look like,
    ``{}`` standing for any text: ``"image-{}"``, ``"{}.mp4"``; by default every key. ``label``:

    - ``None``: labels are -1;
    - ``"label-{}"``: the value of the key with the same text in place of ``{}`` is a whole number in text;
    - ``("{}.json", "name")``: it is JSON, and the label a field of it (several names for one inside another);
    - a mapping from keys to labels, or a function that is called with each key.

    ``layout="caffe"``: a value is a ``Datum`` as Caffe's ``convert_imageset --encoded`` writes it, picture and label in
    one; ``key`` and ``label`` do not apply.

    One entry for each value, a :class:`ArchiveMember`, in the order of the keys, which are ``columns["key"]``: strings, or
    hexadecimal digits where one of them is not UTF-8, or whole numbers in a database of whole numbers. Values of keys
    like ``__len__`` and ``__keys__`` belong to no entry and are not read: they are mostly pickles. Pages of keys are
    read, values are not. No lock is taken and the file is never mapped, so that one which is damaged or cut short gives
    an error and not the end of the process; nobody may write to it meanwhile. ``check=True``: the first page of each
    long value is read too and held against what leads to it; the format has no checksums.

    ``on_error="raise"``: raises :class:`~framespool.ArgumentError` for a database that is not there, a label that is
    missing or no whole number, and a Datum of raw pixels, naming file and key; :class:`~framespool.InvalidDataError` or
    :class:`~framespool.TruncatedError` for a damaged file, naming the byte of the page;
    :class:`~framespool.UnsupportedError` for a file of another kind of machine or of another version of the format, and
    for keys with several values each (``dupsort``); :class:`~framespool.NotFoundError`. ``"skip"``: leaves out what is
    damaged or lacks something, and warns once with its number and the first reasons. Where nothing is left,
    :class:`~framespool.ArgumentError` is raised under both.
    """
    files = [os.path.join(file, "data.mdb") if os.path.isdir(file) else file for file in _files("path", path)]
    name = None if database is None else _names("database", [database])[0]
    choice("layout", layout, ("plain", "caffe"))
    if not isinstance(key, str):
        raise ArgumentError(f"key must be a string such as 'image-{{}}', got {key!r}")
    if layout == "caffe" and (key != "{}" or label is not None):
        raise ArgumentError('layout="caffe" has labels in its values, so key and label cannot be given')
    of_key: Callable[[Any], int] | None = None
    beside = None
    if isinstance(label, Mapping):
        of_key = _label_lookup(label)
    elif callable(label):
        of_key = label
    elif label is not None:
        pattern, *names = [label] if isinstance(label, str) else _names("label", label)
        beside = (pattern, names)
    whole = boolean("check", check)
    wanted = key if layout == "plain" else None
    dataset = _listed(
        files,
        on_error,
        lambda: _framespool.read_lmdb(files, name, wanted, beside, whole, on_error, _threads()),
    )
    return dataset if of_key is None else _labelled(dataset, of_key, on_error)


class _NoLabel(Exception):
    """A mapping does not have the key. A function's own ``KeyError`` is no such thing, and goes to whoever wrote it."""


def _label_lookup(labels: Mapping[Any, int]) -> Callable[[Any], int]:
    def of_key(key: Any) -> int:
        try:
            return labels[key]
        except KeyError:
            raise _NoLabel from None

    return of_key


def _labelled(dataset: Dataset, of_key: Callable[[Any], int], on_error: str) -> Dataset:
    """The entries with the labels that a mapping or a function of the user has for their keys."""
    kept: list[int] = []
    entries: list[tuple[Any, int]] = []
    reasons: list[str] = []
    for place, ((source, _), key) in enumerate(zip(dataset.samples, dataset.columns["key"], strict=True)):
        assert isinstance(source, ArchiveMember)
        reason = None
        try:
            label = of_key(key)
        except _NoLabel:
            reason = "has no label"
        else:
            if isinstance(label, bool) or not hasattr(label, "__index__"):
                reason = f"label must be a whole number, got {label!r}"
        if reason is not None:
            text = f'{os.fspath(source.file)}, key {key!r}: {reason}; on_error="skip" leaves out such entries'
            if on_error == "raise":
                raise ArgumentError(text)
            reasons.append(text)
            continue
        kept.append(place)
        entries.append((source, operator.index(label)))
    _warn_left_out(len(reasons), reasons[:_REASONS], stacklevel=4)
    if not entries:
        raise ArgumentError(f"nothing to load: label has none for any of {len(dataset)} keys")
    columns = {name: [values[place] for place in kept] for name, values in dataset.columns.items()}
    return Dataset(entries, columns=columns)
