"""Reads archives as datasets: videos and images are decoded from their place in the archive."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

from framespool import _framespool
from framespool._common.validate_args import boolean, is_url
from framespool.datasets._dataset import Dataset
from framespool.datasets._readers import StrPaths, archive_dataset, expand_paths, listing_threads, string_list
from framespool.errors import ArgumentError

#: Extensions of videos and images; of several in a sample, the first of these is used.
_EXTENSIONS = (*_framespool.video_extensions, *_framespool.image_extensions)


def webdataset(
    shards: StrPaths,
    *,
    video: str | Sequence[str] = _EXTENSIONS,
    label: str | Sequence[str] | None = "cls",
    columns: str | Sequence[str] = (),
    index: bool | StrPaths = False,
    classes: Sequence[str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> Dataset:
    """Reads the shards of a WebDataset: tar files in which consecutive members with the same key are one sample.

    The key of a member is its name up to the first dot. Nothing is unpacked, and loaders shuffle over all shards. Only
    headers, labels and columns are read, with one small read each; other members are not read. Shards must not be
    compressed.

    Args:
        shards: A path, a list of them, or a pattern: `"train-{000000..000127}.tar"`, `"{train,val}-{0..9}.tar"`.
        video: Extensions of the member that is the sample's video or image; an extension is all that follows the first
            dot of a file's name, case-insensitive. Of several members, the one whose extension is first here is used.
        label: Extension of the member that contains the label as a number in text, or `("json", "name")` for a field
            of its JSON (`("json", "outer", "name")` for a nested one). `None`: all labels are -1.
        columns: Extensions of members to keep in `Dataset.columns`, such as `("json", "txt")`. Each name of a
            JSON object is a column; the text of other members is a column named after the extension.
        index: Index files of the shards, which avoid one read per header, and so one request per large member of a
            shard at a URL. Files that DALI's `wds2idx` writes (version 1.1 or 1.2), one per shard, in the order of
            the shards, as paths or patterns. `True`: next to each shard, with `.idx` in place of `.tar`. An index
            that does not match its shard's length, or the headers of the first and last member, is an error.
        classes: Names of the labels, in their order. By default labels have no names.
        on_error: `"raise"`: a bad sample or shard is an error. `"skip"`: it is skipped, and one warning has the
            number and the first reasons.

    Returns:
        A dataset with one `ArchiveMember` per sample, in the order of the shards and of their samples.
        `columns["__key__"]` has the samples' keys.

    Raises:
        ArgumentError: If a sample has no label, or a label and no video (the message names shard and key), if no
            sample has a member of `columns`, or if no sample remains.
        InvalidDataError: If a shard is damaged; the message names the byte.
        TruncatedError: If a shard is truncated.
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
    files = expand_paths("shards", shards)
    extensions = [video] if isinstance(video, str) else string_list("video", video)
    where = None
    if label is not None:
        extension, *names = [label] if isinstance(label, str) else string_list("label", label)
        where = (extension, names)
    kept = [columns] if isinstance(columns, str) else string_list("columns", columns) if columns else []
    indices = None
    if isinstance(index, bool):
        if index:
            indices = [_index_file_of(file) for file in files]
    else:
        indices = expand_paths("index", index)
    try:
        dataset = archive_dataset(
            on_error,
            lambda: _framespool.read_webdataset(files, indices, extensions, where, kept, on_error, listing_threads()),
            classes,
        )
    except ArgumentError as reason:
        if isinstance(label, str) and label.startswith("json."):
            field = tuple(label.split("."))
            raise ArgumentError(f"{reason}; a field of the JSON member is label={field!r}") from reason
        raise
    # The names of a JSON object are columns, so "json" itself is none.
    found = {name.lower() for name in dataset.columns}
    missing = [name for name in kept if name.lower() not in found and name.lower().rpartition(".")[2] != "json"]
    if missing:
        hint = "; columns='json' gives a column for each name of the JSON member" if "json." in missing[0] else ""
        raise ArgumentError(f"columns: no sample has a member with the extension {missing[0]!r}{hint}")
    return dataset


def _index_file_of(shard: str) -> str:
    """Returns the index file of a shard, under DALI's name."""
    path, mark, query = shard.partition("?") if is_url(shard) else (shard, "", "")
    stem = path[: -len(".tar")] if path.lower().endswith(".tar") else path
    return f"{stem}.idx{mark}{query}"


def tfrecord(
    files: StrPaths,
    *,
    source: str = "image/encoded",
    label: str | None = "image/class/label",
    check: bool = False,
    classes: Sequence[str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> Dataset:
    """Reads TFRecord files of `tf.train.Example`, as TensorFlow Datasets and the ImageNet scripts write them.

    Of a `SequenceExample` the features of its context are used. The checksum of each record's length is always
    checked. Compressed files must be unpacked first.

    Args:
        files: A path, a list of them, or a pattern as in `webdataset()`.
        source: Feature whose bytes are the video or image.
        label: Feature that is the label: one integer, used unchanged (the ImageNet scripts count from 1). `None`: all
            labels are -1.
        check: Whether the checksum of each record's data is checked too; all files are then read once.
        classes: Names of the labels, in their order. By default labels have no names.
        on_error: `"raise"`: a bad record is an error. `"skip"`: it is skipped, and so is what follows a record
            with a damaged length; one warning has the number and the first reasons.

    Returns:
        A dataset with one `ArchiveMember` per record, in the order of the files and records.

    Raises:
        ArgumentError: If a record lacks a feature or has another type in it (the message names file, record and byte),
            or if no record remains.
        InvalidDataError: If a checksum is wrong, or data is not an `Example`; the message names the byte.
        TruncatedError: If a file is truncated; the message names the byte.
        NotFoundError: If a file is missing.

    Example:
        >>> import framespool as fsp
        >>> dataset = fsp.datasets.tfrecord("train-00000-of-00001", source="image/encoded", label="image/class/label")
        >>> len(dataset), dataset[0]
        (2, (ArchiveMember(file='train-00000-of-00001', offset_bytes=47, num_bytes=55136, name='record 0'), 1))
    """
    paths = expand_paths("files", files)
    feature = string_list("source", [source])[0]
    of_label = None if label is None else string_list("label", [label])[0]
    whole = boolean("check", check)
    return archive_dataset(
        on_error,
        lambda: _framespool.read_tfrecord(paths, feature, of_label, whole, on_error, listing_threads()),
        classes,
    )


def recordio(
    rec: str | os.PathLike[str],
    *,
    idx: str | os.PathLike[str] | None = None,
    classes: Sequence[str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> Dataset:
    """Reads an MXNet RecordIO file of images, as `im2rec` and `mx.recordio.pack_img` write it.

    The label of a sample is the record's, or the first of several, and must be an integer.

    Args:
        rec: Path of the file.
        idx: Path of its index; its records are used, in its order. By default all records of the file, in file order.
        classes: Names of the labels, in their order. By default labels have no names.
        on_error: `"raise"`: a bad record is an error. `"skip"`: it is skipped (without `idx` also what follows
            the damage), and one warning has the number and the first reasons.

    Returns:
        A dataset with one `ArchiveMember` per record, or with the image's bytes for the few records that the
        format splits because they contain its magic number. `columns["id"]` is the number that the packer assigned to
        the image. If records have several labels, as for detection, `columns["labels"]` has lists of floats.

    Raises:
        ArgumentError: If a record has no image or another label, or if the index is damaged, naming file and record or
            line; with `"skip"` if the index is damaged or no record remains.
        InvalidDataError: If the file is damaged, or the index belongs to another file; the message names the byte.
        TruncatedError: If the file is truncated; the message names the byte.
        NotFoundError: If the file is missing.

    Example:
        >>> import framespool as fsp
        >>> dataset = fsp.datasets.recordio("train.rec")
        >>> len(dataset), [label for _, label in dataset], dataset.columns["id"]
        (2, [0, 1], [10, 11])
    """
    for name, path in (("rec", rec), ("idx", idx)):
        if path is not None and not isinstance(path, (str, os.PathLike)):
            raise ArgumentError(f"{name} must be a path, got {path!r}")
    file, index = os.fspath(rec), None if idx is None else os.fspath(idx)
    return archive_dataset(on_error, lambda: _framespool.read_recordio(file, index, on_error), classes)
