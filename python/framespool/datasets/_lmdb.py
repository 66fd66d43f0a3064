"""Reads LMDB databases as datasets: videos and images are decoded from their place in the file."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from framespool import _framespool
from framespool._common.validate_args import boolean, choice
from framespool.datasets._dataset import Dataset
from framespool.datasets._readers import (
    StrPaths,
    archive_dataset,
    expand_paths,
    listing_threads,
    string_list,
    warn_left_out,
    with_classes,
)
from framespool.errors import ArgumentError
from framespool.video._sources import ArchiveMember

#: Source of a sample's label: a related key, names of fields of the JSON under one, or a function of its own key.
_Label = str | Sequence[str] | Mapping[Any, int] | Callable[[Any], int] | None

#: Maximum number of reasons in a warning.
_REASONS = 8


def lmdb(
    path: StrPaths,
    *,
    database: str | None = None,
    layout: Literal["plain", "caffe"] = "plain",
    key: str = "{}",
    label: _Label = None,
    check: bool = False,
    classes: Sequence[str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> Dataset:
    """Reads LMDB databases whose values are encoded videos or images.

    Pages of keys are read, values are not. Keys like `__len__` and `__keys__` belong to no sample; their values are
    not read, since they are mostly pickles. No lock is taken and the file is never mapped, so a damaged or truncated
    file gives an error and does not end the process; no process may write to it meanwhile.

    Args:
        path: The folder with `data.mdb`, or the file itself (`subdir=False`), a list of them, or a pattern as in
            `webdataset()`.
        database: Name of the database inside the file. By default the unnamed one.
        layout: `"plain"`: a value is the file of a video or an image. `"caffe"`: a value is a `Datum` with image
            and label, as Caffe's `convert_imageset --encoded` writes it; `key` and `label` do not apply.
        key: Pattern of the keys of these values, where `{}` matches any text: `"image-{}"`, `"{}.mp4"`. By
            default every key.
        label: Source of the labels.
            - `None`: labels are -1.
            - `"label-{}"`: the value of the key with the same text in place of `{}` is an integer in text.
            - `("{}.json", "name")`: that value is JSON, and the label is a field of it (several names for a nested
              one).
            - A mapping from keys to labels, or a function that is called with each key.
        check: Whether the first page of each long value is read too and checked against the page that refers to it; the
            format has no checksums.
        classes: Names of the labels, in their order. By default labels have no names.
        on_error: `"raise"`: a bad value is an error. `"skip"`: it is skipped, and one warning has the number and
            the first reasons.

    Returns:
        Dataset: One `ArchiveMember` per value, in the order of the keys. `columns["key"]` has the keys:
        strings, or hexadecimal digits if one of them is not UTF-8, or ints in a database of integer keys.

    Raises:
        ArgumentError: If the database does not exist, a label is missing or not an integer, or a `Datum` has raw
            pixels (the message names file and key), or if no sample remains.
        InvalidDataError: If a file is damaged; the message names the byte of the page.
        TruncatedError: If a file is truncated.
        UnsupportedError: If a file is of another machine architecture or version of the format, or if keys have several
            values each (`dupsort`).
        NotFoundError: If a file is missing.

    Example:
        >>> import framespool as fsp
        >>> dataset = fsp.datasets.lmdb("train.lmdb", key="image-{}", label="label-{}")
        >>> len(dataset), [label for _, label in dataset], dataset.columns["key"]
        (2, [4, 5], ['image-000', 'image-001'])
    """
    files = [os.path.join(file, "data.mdb") if os.path.isdir(file) else file for file in expand_paths("path", path)]
    name = None if database is None else string_list("database", [database])[0]
    choice("layout", layout, ("plain", "caffe"))
    if not isinstance(key, str):
        raise ArgumentError(f"key must be a string such as 'image-{{}}', got {key!r}")
    if layout == "caffe" and (key != "{}" or label is not None):
        raise ArgumentError('layout="caffe" has labels in its values; remove key and label')
    of_key: Callable[[Any], int] | None = None
    pattern_label = None
    if isinstance(label, Mapping):
        of_key = _label_lookup(label)
    elif callable(label):
        of_key = label
    elif label is not None:
        pattern, *names = [label] if isinstance(label, str) else string_list("label", label)
        pattern_label = (pattern, names)
    whole = boolean("check", check)
    wanted = key if layout == "plain" else None
    dataset = archive_dataset(
        on_error,
        lambda: _framespool.read_lmdb(files, name, wanted, pattern_label, whole, on_error, listing_threads()),
    )
    return with_classes(dataset if of_key is None else _labelled(dataset, of_key, on_error), classes)


class _NoLabel(Exception):
    """A mapping does not have the key. A function's own `KeyError` is a different error, and reaches the caller."""


def _label_lookup(labels: Mapping[Any, int]) -> Callable[[Any], int]:
    def of_key(key: Any) -> int:
        try:
            return labels[key]
        except KeyError:
            raise _NoLabel from None

    return of_key


def _labelled(dataset: Dataset, of_key: Callable[[Any], int], on_error: str) -> Dataset:
    """Assigns the labels that the caller's mapping or function has for the keys."""
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
                reason = f"label must be an int, got {label!r}"
        if reason is not None:
            text = f'{os.fspath(source.file)}, key {key!r}: {reason}; on_error="skip" skips such samples'
            if on_error == "raise":
                raise ArgumentError(text)
            reasons.append(text)
            continue
        kept.append(place)
        entries.append((source, operator.index(label)))
    warn_left_out(len(reasons), reasons[:_REASONS], stacklevel=4)
    if not entries:
        raise ArgumentError(f"nothing to load: label has no value for any of the {len(dataset)} keys")
    columns = {name: [values[place] for place in kept] for name, values in dataset.columns.items()}
    return Dataset(entries, columns=columns)
