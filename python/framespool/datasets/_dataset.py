"""Lists of labelled sources, unions and mixes of them."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, repeat
from typing import Any, overload

from framespool._validate_args import integer, is_url, number, stream_index
from framespool.datasets._sample_list import SampleList, joined
from framespool.datasets._sources import ArchiveMember, ImageSequence, Source, TableCell, VideoSegment
from framespool.errors import ArgumentError


class Dataset(Sequence[tuple[Source, int]]):
    """Videos with integer labels, and whatever else a list says of them.

    ``samples``: pairs of (path or bytes, label); -1 stands for "no label". The attribute of this name is a sequence of
    them: what was given, or, from the readers of this module, a table of the engine that makes them when they are
    looked at. ``classes``: names of the labels, empty
    where there are none. ``columns``: by name, a list with one value per entry, ``None`` where nothing is said; what
    belongs to a clip of a batch is ``dataset.columns[name][video_id]`` for its entry of ``batch.video_ids``. Columns
    change no clip and no order, and a state of a loader fits whatever they are. ``stream``: which video stream of each
    file is meant, by its index among all streams of the file; ``None`` for the best one, see :class:`framespool.Video`.
    """

    def __init__(
        self,
        samples: Iterable[tuple[Source, int]],
        classes: Sequence[str] = (),
        columns: Mapping[str, Iterable[Any]] | None = None,
        stream: int | None = None,
    ) -> None:
        self.stream = stream_index(stream)
        self.samples: Sequence[tuple[Source, int]]
        if isinstance(samples, SampleList):
            self.samples = samples  # of a reader, who checked them
        else:
            self.samples = [_entry(i, entry) for i, entry in enumerate(_ordered(samples))]
        self.classes: list[str] = list(classes)
        self.columns: dict[str, list[Any]] = {}
        for name, values in (columns or {}).items():
            self.columns[name] = list(values)
            if len(self.columns[name]) != len(self.samples):
                raise ArgumentError(
                    f"column {name!r} must have one value per entry, got {len(self.columns[name])} "
                    f"for {len(self.samples)} entries"
                )

    def __len__(self) -> int:
        return len(self.samples)

    @overload
    def __getitem__(self, index: int) -> tuple[Source, int]: ...
    @overload
    def __getitem__(self, index: slice) -> Dataset: ...
    def __getitem__(self, index: int | slice) -> tuple[Source, int] | Dataset:
        if isinstance(index, slice):
            columns = {name: values[index] for name, values in self.columns.items()}
            return Dataset(self.samples[index], self.classes, columns, self.stream)
        return self.samples[index]

    def __iter__(self) -> Iterator[tuple[Source, int]]:
        return iter(self.samples)

    def __add__(self, other: Dataset) -> Dataset:
        """Both, one after the other. ``classes`` are kept where they are the same, columns always: entries of a dataset
        that lacks one have ``None`` there."""
        if not isinstance(other, Dataset):
            return NotImplemented
        if isinstance(other, MixtureDataset):
            raise ArgumentError("a mix cannot be added; give mix() the other dataset too, with its weight")
        classes = self.classes if self.classes == other.classes else ()
        stream = _common_stream([self, other])
        return Dataset(joined([self.samples, other.samples]), classes, _joined([self, other]), stream)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dataset) or isinstance(other, MixtureDataset) != isinstance(self, MixtureDataset):
            return NotImplemented
        mine = (self.samples, self.classes, self.columns, self.stream)
        return mine == (other.samples, other.classes, other.columns, other.stream)

    def with_stream(self, stream: int | None) -> Dataset:
        """The same entries, of each file the video stream with this index among all its streams; ``None`` for the best
        one. A loader raises :class:`~framespool.NoVideoError` for a file in which it is no video stream.

        Example:
            ``datasets.folder("recordings").with_stream(2)``
        """
        return Dataset(self.samples, self.classes, self.columns, stream)

    def subset(self, indices: Iterable[int]) -> Dataset:
        """The entries with these numbers, in this order; one may come twice. Negative numbers count from the end.

        Raises :class:`~framespool.ArgumentError` for a number that the dataset does not have.
        """
        places = [_sample_index(index, len(self)) for index in indices]
        columns = {name: [values[place] for place in places] for name, values in self.columns.items()}
        if isinstance(self.samples, SampleList):
            return Dataset(self.samples.take(places), self.classes, columns, self.stream)
        return Dataset([self.samples[place] for place in places], self.classes, columns, self.stream)

    def filter(self, predicate: Callable[[Source, int, dict[str, Any]], Any]) -> Dataset:
        """The entries for which ``predicate(source, label, row)`` is true; ``row`` has the entry's value of each column
        by its name. Clips of what remains are numbered anew.
        """
        return self.subset(self._where(predicate))

    def _where(self, predicate: Callable[[Source, int, dict[str, Any]], Any]) -> list[int]:
        if not callable(predicate):
            raise ArgumentError(f"predicate must be a function of (source, label, row), got {predicate!r}")
        names = list(self.columns)
        rows: Iterable[tuple[Any, ...]] = zip(*self.columns.values(), strict=True) if names else repeat(())
        return [
            place
            for place, ((source, label), row) in enumerate(zip(self.samples, rows, strict=False))
            if predicate(source, label, dict(zip(names, row, strict=True)))
        ]

    def exclude(self, failures: str | os.PathLike[str] | Iterable[Any]) -> Dataset:
        """The dataset without some files: those of a list that :meth:`ClipLoader.write_failures` wrote, or of an
        iterable of paths, of parts, or of what :meth:`ClipLoader.failures` returns. A file goes with all its parts;
        where only a part of it is at fault, only that.

        Clips of what remains are numbered anew, so this is another dataset: its order is its own, and states of loaders
        over the old one do not fit it.
        """
        if isinstance(failures, (str, os.PathLike)):
            bad = set(_read_failures(failures))
        else:
            bad = {key for key in map(sample_key, failures) if key is not None}

        def is_bad(source: Source) -> bool:
            key = sample_key(source)
            if key is None:
                return False
            path, frames, bounds = key
            # What is said of a folder or an archive without saying what in it is said of all.
            return any((path, f, b) in bad for f in (frames, "") for b in (bounds, ""))

        return self.subset([place for place, entry in enumerate(self.samples) if not is_bad(entry[0])])

    def _for_engine(self) -> Any:
        """The entries as the engine takes them: its own table, if it made one."""
        return self.samples.table if isinstance(self.samples, SampleList) else self.samples

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The label of each class by its name, as torchvision's datasets call it."""
        return {name: label for label, name in enumerate(self.classes)}

    def __repr__(self) -> str:
        columns = f", columns {', '.join(self.columns)}" if self.columns else ""
        return f"Dataset({len(self.samples)} entries, {len(self.classes)} classes{columns})"


class MixtureDataset(Dataset):
    """Several datasets, mixed by weight; made by :func:`mix`.

    A slice or a :meth:`subset` of it is a plain dataset, without weights. Columns are joined as ``+`` joins them.
    """

    def __init__(
        self, datasets: Sequence[Dataset], weights: Sequence[float], replacement: bool, epoch_clips: int | None
    ) -> None:
        classes = datasets[0].classes
        super().__init__(
            joined([dataset.samples for dataset in datasets]),
            classes if all(dataset.classes == classes for dataset in datasets) else (),
            _joined(datasets),
            _common_stream(datasets),
        )
        self.lengths = [len(dataset) for dataset in datasets]
        self.weights = list(weights)
        self.replacement = replacement
        self.epoch_clips = epoch_clips

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MixtureDataset):
            return NotImplemented
        mine = (self.lengths, self.weights, self.replacement, self.epoch_clips)
        same = mine == (other.lengths, other.weights, other.replacement, other.epoch_clips)
        return same and super().__eq__(other) is True

    def __add__(self, other: Dataset) -> Dataset:
        raise ArgumentError("a mix cannot be added to; give mix() the other dataset too, with its weight")

    def with_stream(self, stream: int | None) -> MixtureDataset:
        """See :meth:`Dataset.with_stream`; the weights stay."""
        return self._with([part.with_stream(stream) for part in self._parts()])

    def exclude(self, failures: str | os.PathLike[str] | Iterable[Any]) -> MixtureDataset:
        """See :meth:`Dataset.exclude`; the weights stay."""
        if not isinstance(failures, (str, os.PathLike)):
            failures = list(failures)
        return self._with([part.exclude(failures) for part in self._parts()])

    def filter(self, predicate: Callable[[Source, int, dict[str, Any]], Any]) -> MixtureDataset:
        """See :meth:`Dataset.filter`; the weights stay."""
        return self._with([part.filter(predicate) for part in self._parts()])

    def _parts(self) -> list[Dataset]:
        ends = list(accumulate(self.lengths))
        return [self[end - length : end] for length, end in zip(self.lengths, ends, strict=True)]

    def _with(self, parts: Sequence[Dataset]) -> MixtureDataset:
        return MixtureDataset(parts, self.weights, self.replacement, self.epoch_clips)


def mix(*datasets: tuple[Any, float], replacement: bool = False, epoch_clips: int | None = None) -> MixtureDataset:
    """Datasets to be mixed by weight: ``mix((a, 0.7), (b, 0.3))``. It needs ``shuffle="full"``.

    In an epoch, and in any long stretch of it, clips of the datasets come in proportion to the weights (positive, in
    any unit). Without ``replacement`` the clips of a dataset come equally often, to within one, and in another order
    each time (see :class:`framespool.Mixture` for the exact rule); with it every draw is independent. A clip that comes
    again in the same epoch is sampled and augmented anew. ``epoch_clips``: clips of an epoch over all ranks, as many as
    all datasets have by default. ``video_ids`` and ``clip_ids`` count through the datasets one after another. ``a + b``
    is a plain union instead, each clip once. ``classes`` are kept where they are the same in all.
    """
    if not datasets:
        raise ArgumentError("mix needs at least one (dataset, weight), got none")
    parts, weights = [], []
    for place, pair in enumerate(datasets):
        try:
            dataset, weight = pair
        except (TypeError, ValueError):
            raise ArgumentError(f"mix takes pairs of (dataset, weight), got {pair!r} at place {place}") from None
        part = as_dataset(dataset)
        if isinstance(part, MixtureDataset):
            raise ArgumentError(f"a mix cannot be mixed again, got one at place {place}; list its datasets instead")
        if not len(part):
            raise ArgumentError(f"the dataset at place {place} is empty; leave it out")
        parts.append(part)
        weights.append(number("weight", weight, above=0))
    most = None if epoch_clips is None else integer("epoch_clips", epoch_clips, least=1, most=2**62)
    return MixtureDataset(parts, weights, bool(replacement), most)


def _common_stream(datasets: Sequence[Dataset]) -> int | None:
    """The stream that all read: a loader reads the same one of all files."""
    first = datasets[0].stream
    for dataset in datasets[1:]:
        if dataset.stream != first:
            raise ArgumentError(
                f"datasets that are joined must read the same stream, got stream={first} and stream={dataset.stream}; "
                "use with_stream() on them"
            )
    return first


def _joined(datasets: Sequence[Dataset]) -> dict[str, list[Any]]:
    """Columns of datasets one after another; ``None`` where a dataset does not have one."""
    names = dict.fromkeys(name for dataset in datasets for name in dataset.columns)
    return {
        name: [value for dataset in datasets for value in dataset.columns.get(name) or [None] * len(dataset)]
        for name in names
    }


def _sample_index(index: Any, length: int) -> int:
    try:
        if isinstance(index, bool):
            raise TypeError
        place = operator.index(index)
    except TypeError:
        raise ArgumentError(f"indices must be whole numbers, got {index!r}; use filter() to choose by a rule") from None
    if not -length <= place < length:
        raise ArgumentError(f"index {place} is out of range: the dataset has {length} entries")
    return place % length


def _entry(number: int, entry: Any) -> tuple[Source, int]:
    if isinstance(entry, (str, bytes, ArchiveMember, TableCell, ImageSequence, VideoSegment, os.PathLike)):
        return (entry, -1)
    try:
        source, label = entry
        label = operator.index(label)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"dataset entry {number} must be (path, label) with an integer label, got {entry!r}"
        ) from None
    if not -(2**63) <= label < 2**63:
        raise ArgumentError(f"dataset entry {number}: labels have 64 bits, got {label}")
    if not isinstance(source, (str, bytes, ArchiveMember, TableCell, ImageSequence, VideoSegment, os.PathLike)):
        raise ArgumentError(
            f"dataset entry {number}: a path, an ImageSequence, an ArchiveMember, a TableCell, a VideoSegment or bytes is wanted, "
            f"got {type(source).__name__}"
        )
    return (source, label)


def sample_key(entry: Any) -> tuple[str, str, str] | None:
    """File, what in it is meant (frames of a folder, member of an archive) and bounds of an entry, or of what is told
    of a failure; ``None`` for what is in memory. What is not told is empty."""
    frames: Any = {}
    bounds: Any = {}
    if isinstance(entry, Mapping):
        member = {name: value for name, value in entry.get("member", {}).items() if name != "name"}
        entry, frames, bounds = entry.get("path"), entry.get("frames", entry.get("cell", member)), entry.get("part", {})
    if isinstance(entry, VideoSegment):
        entry, bounds = entry.source, entry.bounds()
    if isinstance(entry, ImageSequence):
        entry, frames = entry.folder, entry._which
    if isinstance(entry, ArchiveMember):
        entry, frames = entry.file, {"offset_bytes": entry.offset_bytes, "num_bytes": entry.num_bytes}
    if isinstance(entry, TableCell):
        entry, frames = entry.file, entry._which
    if entry is None or isinstance(entry, bytes):
        return None
    path = os.fspath(entry)
    # A URL is one as it is written: "//" and ".." are the server's to understand.
    return path if is_url(path) else os.path.normpath(path), _facts_text(frames), _facts_text(bounds)


def _facts_text(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in sorted(facts.items()))


def write_failures(path: str | os.PathLike[str], failures: Iterable[Mapping[str, Any]]) -> int:
    """Writes failures, a JSON object on each line, in place of what was there; returns how many. Bytes, which have no
    path, cannot be left out by a list."""
    kept = [failure for failure in failures if failure["path"] is not None]
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(json.dumps(failure) + "\n" for failure in kept)
    return len(kept)


def _read_failures(path: str | os.PathLike[str]) -> Iterator[tuple[str, str, str]]:
    with open(path, encoding="utf-8", errors="surrogateescape") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                bad = sample_key(json.loads(line))
            except (ValueError, TypeError, AttributeError):
                bad = None
            if bad is None:
                raise ArgumentError(
                    f'{os.fspath(path)}, line {number}: an object with a "path" is wanted, got {line.strip()[:80]!r}'
                )
            yield bad


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


def _ordered(entries: Iterable[Any]) -> Iterable[Any]:
    """What has an order of its own: clips are numbered by it, on every rank and after every restart."""
    if isinstance(entries, Mapping):
        raise ArgumentError("dataset must be a list of (path, label), got a mapping; give list(mapping.items())")
    if isinstance(entries, (set, frozenset)):
        raise ArgumentError(
            "dataset must be a list, got a set, whose order is another in each process; give sorted(the_set)"
        )
    return entries
