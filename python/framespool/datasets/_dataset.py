"""Lists of labeled sources and their unions."""

from __future__ import annotations

import operator
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from numbers import Real
from typing import TYPE_CHECKING, Any, overload

from framespool._common.validate_args import display_repr, stream_index, user_stacklevel
from framespool.datasets._columns import Column, uniform_labels
from framespool.datasets._failures import read_failures, sample_key
from framespool.datasets._sample_list import SampleList, joined
from framespool.datasets._to_pandas import to_pandas
from framespool.errors import ArgumentError
from framespool.video._sources import ArchiveMember, ImageSequence, Source, Sources, TableCell, VideoSegment

if TYPE_CHECKING:
    from framespool.datasets._robot_frames import RobotFrames


class Dataset(Sequence[tuple[Source, Any]]):
    """A sequence of `(source, label)` pairs, with class names and further columns.

    Labels are integers (-1 for "no label"), numbers with a fraction, lists of equally many numbers, such as multi-hot
    vectors, or names. Names are replaced by their index in `classes`. `batch.columns` has the values of the columns for
    the clips of a batch. Columns change no clip and no order; a loader's state does not depend on columns.

    Args:
        samples: Pairs of (path or other source, label), or sources alone. In each the source may be `Sources`, the
            videos and images of a sample.
        classes: Names of the labels, in their order; empty for the names that occur among the labels, sorted.
        columns: Lists by column name with one value per sample, `None` where a sample has no value.
        stream: Video stream to read from each file, as an index among all streams of the file. `None` for the default
            stream, see `framespool.Video`.

    Attributes:
        samples: The pairs. From the readers of this module, a table of the engine that creates a pair when it is
            accessed.
        classes: Names of the labels.
        columns: Lists by column name.
        stream: Index of the video stream, or `None`.

    Raises:
        ArgumentError: If a sample is not a pair with a valid source and label, if labels differ in kind or length, or
            if a column has another length.

    Example:
        >>> import framespool as fsp
        >>> dataset = fsp.datasets.Dataset([("a.mp4", 0), ("phone.mp4", 1)], ["street", "phone"], {"fold": [1, 2]})
        >>> dataset[1], dataset.columns["fold"][1]
        (('phone.mp4', 1), 2)
        >>> len(dataset + dataset), len(dataset.subset([1]))
        (4, 1)
        >>> fsp.datasets.Dataset([("a.mp4", "walk"), ("phone.mp4", "run")]).samples
        [('a.mp4', 1), ('phone.mp4', 0)]
    """

    #: Whether the samples have weights, as in a mixture: it is not joined with, or equal to, a dataset without them.
    _weighted = False
    #: The cameras and features of the samples, if a loader delivers frames of robots.
    _robots: RobotFrames | None = None

    def __init__(
        self,
        samples: Iterable[tuple[Source | Sources, Any]],
        classes: Sequence[str] = (),
        columns: Mapping[str, Iterable[Any]] | None = None,
        stream: int | None = None,
    ) -> None:
        self.stream = stream_index(stream)
        self.samples: Sequence[tuple[Source, Any]]
        self.classes: list[str] = list(classes)
        if isinstance(samples, SampleList):
            self.samples = samples  # from a reader, already validated
        else:
            entries = [_entry(i, entry) for i, entry in enumerate(_ordered(samples))]
            self.samples, self.classes, wrong = uniform_labels(entries, self.classes)
            if wrong is not None:
                raise ArgumentError(f"dataset: {wrong}")
            several = [isinstance(source, Sources) for source, _ in self.samples]
            if any(several) and not all(several):
                place = several.index(False)
                raise ArgumentError(
                    f"sample {place} must be Sources, as others are, got {display_repr(self.samples[place][0])}; write "
                    "Sources(videos=[...])"
                )
        self.columns: dict[str, list[Any]] = {}
        for name, values in (columns or {}).items():
            self.columns[name] = list(values)
            if len(self.columns[name]) != len(self.samples):
                raise ArgumentError(
                    f"column {name!r} must have one value per sample, got {len(self.columns[name])} "
                    f"for {len(self.samples)} samples"
                )

    @property
    def _has_sources(self) -> bool:
        """Whether each sample is `Sources`."""
        return bool(self.samples) and isinstance(self.samples, list) and isinstance(self.samples[0][0], Sources)

    def __len__(self) -> int:
        return len(self.samples)

    @overload
    def __getitem__(self, index: int) -> tuple[Source, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Dataset: ...
    def __getitem__(self, index: int | slice) -> tuple[Source, Any] | Dataset:
        if isinstance(index, slice):
            columns = {name: values[index] for name, values in self.columns.items()}
            part = Dataset(self.samples[index], self.classes, columns, self.stream)
            return self._pass_robots(part, range(len(self))[index])
        return self.samples[index]

    def __iter__(self) -> Iterator[tuple[Source, Any]]:
        return iter(self.samples)

    def __add__(self, other: Dataset) -> Dataset:
        """Concatenates two datasets.

        `classes` are those of the first dataset, followed by the further names of the second one, whose labels are
        numbered again. All columns are kept: samples of a dataset without a column have `None` in it.

        Raises:
            ArgumentError: If one dataset has class names and labels of the other are numbers without names.
        """
        if not isinstance(other, Dataset):
            return NotImplemented
        if other._weighted:
            raise ArgumentError(
                "a mixture cannot be added to a dataset; pass mix() the other dataset too, with its weight"
            )
        return concatenated([self, other])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dataset) or other._weighted != self._weighted:
            return NotImplemented
        mine = (self.samples, self.classes, self.columns, self.stream)
        return mine == (other.samples, other.classes, other.columns, other.stream)

    def with_stream(self, stream: int | None) -> Dataset:
        """Returns the same samples with another video stream selected.

        A loader raises `NoVideoError` for a file in which the index is not that of a video stream.

        Args:
            stream: Index of the stream among all streams of a file; `None` for the default stream.

        Returns:
            A new dataset.

        Raises:
            ArgumentError: For frames of robots, which have cameras instead.

        Example:
            >>> import framespool as fsp
            >>> fsp.datasets.folder("videos/").with_stream(2).stream
            2
        """
        if self._robots is not None and stream is not None:
            raise ArgumentError("the frames of datasets.lerobot() have no other stream; choose a camera")
        return self._pass_robots(Dataset(self.samples, self.classes, self.columns, stream), range(len(self)))

    def _pass_robots(self, other: Dataset, samples: Sequence[int]) -> Dataset:
        """Gives a dataset of these samples the features that this one has for frames of robots."""
        if self._robots is not None:
            other._robots = self._robots.take(samples)
        return other

    def subset(self, indices: Iterable[int]) -> Dataset:
        """Returns the samples with these indices, in this order.

        Args:
            indices: Sample indices, from 0; negative ones count from the end. An index may occur more than once.

        Returns:
            A new dataset.

        Raises:
            ArgumentError: If the dataset does not have an index.
        """
        places = [_sample_index(index, len(self)) for index in indices]
        columns = {name: [values[place] for place in places] for name, values in self.columns.items()}
        samples: Sequence[tuple[Source, Any]]
        if isinstance(self.samples, SampleList):
            samples = self.samples.take(places)
        else:
            samples = [self.samples[place] for place in places]
        return self._pass_robots(Dataset(samples, self.classes, columns, self.stream), places)

    def filter(self, predicate: Callable[[Source, int, dict[str, Any]], Any]) -> Dataset:
        """Returns the samples for which a predicate is true.

        Clips of the new dataset are numbered from 0 again.

        Args:
            predicate: Function `predicate(source, label, row)`, where `row` maps column names to the sample's values.

        Returns:
            A new dataset.

        Raises:
            ArgumentError: If `predicate` is not callable.
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
        """Returns the dataset without the files of a failure list.

        A file is removed with all its segments; if a failure names a segment, only that segment is removed. A sample of
        several sources is removed if one of them is. Clips of
        the new dataset are numbered from 0 again: it has an order of its own, and states of loaders over the old one do
        not fit it.

        Args:
            failures: A file that `ClipLoader.write_failures()` wrote, or an iterable of paths, of segments, or of
                what `ClipLoader.failures()` or `dropped()` returns.

        Returns:
            A new dataset.

        Raises:
            ArgumentError: If a line of the file is not a JSON object with a `path`.
        """
        if isinstance(failures, (str, os.PathLike)):
            bad = set(read_failures(failures))
        else:
            bad = {key for key in map(sample_key, failures) if key is not None}

        def is_bad(source: Source | Sources) -> bool:
            if isinstance(source, Sources):
                return any(map(is_bad, source))
            key = sample_key(source)
            if key is None:
                return False
            path, frames, bounds = key
            # A failure of a folder or an archive without frames, member or bounds applies to all of its samples.
            return any((path, f, b) in bad for f in (frames, "") for b in (bounds, ""))

        return self.subset([place for place, entry in enumerate(self.samples) if not is_bad(entry[0])])

    def to_pandas(self) -> Any:
        """The samples as a table of pandas, one row per sample; `datasets.from_dataframe()` reads it.

        Columns that no sample needs are omitted:

        - `path`: the file, folder, archive or URL as the dataset has it; `None` for bytes
        - `member`: name of the archive member, or column and row of the cell of a Parquet file
        - `label`, and `class`, its name
        - `start`, `end`: bounds of the segment in seconds
        - `start_frame`, `end_frame`: bounds of the segment in frames
        - the columns of the dataset; one with a name from above is called `columns.NAME`

        Returns:
            pandas.DataFrame: The table.

        Raises:
            UnsupportedError: If pandas is not installed.

        Example:
            >>> import framespool as fsp
            >>> import pandas as pd
            >>> table = fsp.datasets.folder("videos/").to_pandas()
            >>> isinstance(table, pd.DataFrame), table["class"].tolist(), table.columns.tolist()
            (True, ['again', 'bird', 'book'], ['path', 'label', 'class'])
        """
        return to_pandas(self)

    def _for_engine(self) -> Any:
        """Returns the samples as the engine takes them: its own table if it made one. Its labels are integers."""
        one_source_each(self)
        if isinstance(self.samples, SampleList):
            return self.samples.table
        return self.samples if self._label_column() is None else [(source, -1) for source, _ in self.samples]

    def _label_column(self) -> Column | None:
        """Returns the labels if they are no integers, which the engine does not have."""
        if isinstance(self.samples, SampleList) or not self.samples or isinstance(self.samples[0][1], int):
            return None
        return Column([label for _, label in self.samples], "float32")

    @property
    def class_to_idx(self) -> dict[str, int]:
        """Label of each class by its name, under torchvision's name."""
        return {name: label for label, name in enumerate(self.classes)}

    def __repr__(self) -> str:
        columns = f", columns {', '.join(self.columns)}" if self.columns else ""
        return f"Dataset({len(self.samples)} entries, {len(self.classes)} classes{columns})"


def concatenated(datasets: Sequence[Dataset]) -> Dataset:
    """Concatenates datasets, as `+` does.

    Args:
        datasets: At least one dataset.

    Returns:
        A plain dataset.

    Raises:
        ArgumentError: As `joined_samples()` and `joined_robots()`, or if the datasets read different streams.
    """
    datasets, robots = joined_robots(datasets)
    samples, classes = joined_samples(datasets)
    joined_dataset = Dataset(samples, classes, joined_columns(datasets), common_stream(datasets))
    joined_dataset._robots = robots
    return joined_dataset


def joined_robots(
    datasets: Sequence[Dataset], keys: Sequence[str] | None = None
) -> tuple[Sequence[Dataset], RobotFrames | None]:
    """Joins the cameras and features of frames of robots.

    Args:
        datasets: The datasets.
        keys: The cameras and features that stay; `None` for those that all datasets have.

    Returns:
        The datasets, with the samples of a common camera, and what a loader reads for all samples; without robots the
        datasets themselves and `None`.

    Raises:
        ArgumentError: If some datasets have frames of robots and others not, or they do not fit together.
    """
    if all(dataset._robots is None for dataset in datasets):
        if keys is not None:
            raise ArgumentError("keys= is for frames of datasets.lerobot()")
        return datasets, None
    from framespool.datasets._robot_frames import join_robots

    return join_robots(datasets, keys)


def joined_samples(datasets: Sequence[Dataset]) -> tuple[Sequence[tuple[Source, Any]], list[str]]:
    """Concatenates the samples of datasets; a class has the same label in all of them.

    Args:
        datasets: At least one dataset.

    Returns:
        The samples and their classes: the names of the first dataset, then new ones in the order in which they occur.

    Raises:
        ArgumentError: If the class names differ, and a label is not the number of a class.
    """
    classes = datasets[0].classes
    if all(dataset.classes == classes for dataset in datasets):
        return joined([dataset.samples for dataset in datasets]), classes
    names = list(dict.fromkeys(name for dataset in datasets for name in dataset.classes))
    for place, dataset in enumerate(datasets):
        wrong = first_sample(dataset, partial(_lacks_name, dataset.classes))
        if wrong is not None:
            sample, label = wrong
            raise ArgumentError(
                f"some datasets have class names, but the one at index {place} has none for the label {label!r} of "
                f"{sample}; give it names, such as Dataset(samples, classes)"
            )
    return joined([renumbered(dataset, names) for dataset in datasets]), names


def first_sample(dataset: Dataset, is_wanted: Callable[[Any], bool]) -> tuple[str, Any] | None:
    """Finds the first sample with such a label.

    Args:
        dataset: The dataset.
        is_wanted: Whether a label is one of those. It is called once per label other than -1.

    Returns:
        The index and the source of the sample, as text, and its label; `None` if there is none.
    """
    samples = dataset.samples
    labels = samples.labels() if isinstance(samples, SampleList) else [label for _, label in samples]
    wanted = {label for label in set(labels) - {-1} if is_wanted(label)}
    if not wanted:
        return None
    place = next(place for place, label in enumerate(labels) if label in wanted)
    return f"sample {place} ({display_repr(samples[place][0])})", labels[place]


def _lacks_name(classes: Sequence[str], label: Any) -> bool:
    return not isinstance(label, int) or not 0 <= label < len(classes)


def renumbered(dataset: Dataset, names: Sequence[str]) -> Sequence[tuple[Source, Any]]:
    """Returns the samples of a dataset with the numbers that its classes have among other names.

    Args:
        dataset: The dataset; its labels are numbers of its classes.
        names: Names in the order of the new labels, with those of all labels of the dataset.

    Returns:
        The samples; those of the dataset itself if no label changes.
    """
    number_of = {name: number for number, name in reversed([*enumerate(names)])}
    numbers = [number_of.get(name, -1) for name in dataset.classes]
    if numbers == list(range(len(numbers))):
        return dataset.samples
    if isinstance(dataset.samples, SampleList):
        return dataset.samples.relabeled(numbers)
    return [(source, label if label == -1 else numbers[label]) for source, label in dataset.samples]


#: Maximum number of lists of class names that are compared.
_MAX_NUMBERINGS = 64
#: First sample of the first dataset with each list of class names that loaders of this process were given.
_numberings: dict[tuple[str, ...], str] = {}


def warn_of_other_numbers(dataset: Dataset) -> None:
    """Warns if a class of a loader's dataset has another label in the dataset of an earlier loader of this process.

    Args:
        dataset: The dataset.
    """
    classes = tuple(dataset.classes)
    if not classes or not len(dataset) or classes in _numberings or len(_numberings) >= _MAX_NUMBERINGS:
        return
    if dataset._robots is not None:
        return  # batches have the tasks as texts
    number_of = dict(zip(classes, range(len(classes)), strict=True))
    first = display_repr(dataset.samples[0][0])
    for others, other in list(_numberings.items()):
        for number, name in enumerate(others):
            own = number_of.get(name, number)
            if own != number:
                _numberings[classes] = first
                warnings.warn(
                    f"the class {name!r} has the label {own} in the dataset that starts with {first}, and {number} in "
                    f"that of an earlier loader, which starts with {other}; if one model learns from both or is "
                    "evaluated with both, give the reader the same list, such as classes=train.classes",
                    stacklevel=user_stacklevel(),
                )
                return
    _numberings[classes] = first


def common_stream(datasets: Sequence[Dataset]) -> int | None:
    """Returns the stream that all datasets read: a loader reads the same one from all files.

    Args:
        datasets: At least one dataset.

    Returns:
        Index of the stream, or `None` for the default one.

    Raises:
        ArgumentError: If the datasets read different streams.
    """
    first = datasets[0].stream
    for dataset in datasets[1:]:
        if dataset.stream != first:
            raise ArgumentError(
                f"datasets that are joined must read the same stream, got stream={first} and stream={dataset.stream}; "
                "use with_stream() on them"
            )
    return first


def joined_columns(datasets: Sequence[Dataset]) -> dict[str, list[Any]]:
    """Concatenates the columns of datasets.

    Args:
        datasets: The datasets.

    Returns:
        Lists by column name; `None` where a dataset does not have a column.
    """
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
        raise ArgumentError(f"indices must be ints, got {index!r}; use filter() to select by a predicate") from None
    if not -length <= place < length:
        raise ArgumentError(f"index {place} is out of range: the dataset has {length} samples")
    return place % length


#: What the first value of a sample may be.
_SOURCES = (str, bytes, os.PathLike, ArchiveMember, TableCell, ImageSequence, VideoSegment, Sources)


def _entry(number: int, entry: Any) -> tuple[Any, Any]:
    if isinstance(entry, _SOURCES):
        return (entry, None)
    if isinstance(entry, Mapping):
        raise ArgumentError(
            f"sample {number} must be (path, label), got a dict with the keys {', '.join(map(repr, entry))}; pass "
            "pairs, or a table of all samples to datasets.from_dataframe()"
        )
    try:
        source, label = entry
        label = _label(label)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"sample {number} must be (path, label) with a label that is a number, a name or a list of numbers, got "
            f"{display_repr(entry)}"
        ) from None
    if isinstance(label, int) and not -(2**63) <= label < 2**63:
        raise ArgumentError(f"sample {number}: the label must fit into 64 bits, got {label}")
    if not isinstance(source, _SOURCES):
        raise ArgumentError(
            f"sample {number}: the source must be a path, bytes, an ImageSequence, an ArchiveMember, a TableCell, a "
            f"VideoSegment or Sources, got {type(source).__name__}"
        )
    return (source, label)


def _label(label: Any) -> Any:
    """Returns a label as an int, a float, a str or a tuple of numbers."""
    if isinstance(label, str) or label is None:
        return label
    if not isinstance(label, (Real, list, tuple)) and hasattr(label, "tolist"):
        label = label.tolist()  # an array or a tensor
    if isinstance(label, (list, tuple)):
        if not label or not all(isinstance(number, Real) for number in label):
            raise TypeError
        return tuple(map(_number, label))
    return _number(label)


def _number(value: Any) -> int | float:
    return float(value) if isinstance(value, Real) and not hasattr(value, "__index__") else operator.index(value)


def as_dataset(dataset: Any) -> Dataset:
    """Returns `dataset` as a `Dataset`.

    Args:
        dataset: A dataset, which is returned unchanged, or a list of `(path, label)` or of paths.

    Returns:
        A dataset.

    Raises:
        ArgumentError: If it is a single path, or has no defined order.
    """
    if isinstance(dataset, Dataset):
        return dataset
    if isinstance(dataset, (str, bytes, os.PathLike)):
        raise ArgumentError(
            f"dataset must be a Dataset or a list of (path, label), got {display_repr(dataset)}; "
            "use framespool.datasets.folder(...) for a folder"
        )
    return Dataset(dataset)


def one_source_each(dataset: Dataset) -> Dataset:
    """Refuses samples of several sources.

    Args:
        dataset: A dataset.

    Returns:
        The dataset.

    Raises:
        ArgumentError: If its samples are `Sources`.
    """
    if dataset._has_sources:
        raise ArgumentError(
            "samples of several sources (datasets.Sources) are for framespool.ClipLoader, tools.probe() and "
            "tools.validate(); give this a dataset of paths"
        )
    return dataset


def all_sources(dataset: Dataset) -> Dataset:
    """Makes a sample of each source of samples that have several.

    Args:
        dataset: A dataset.

    Returns:
        The dataset itself, or one of the videos and images of its samples, with the labels of these.
    """
    if not dataset._has_sources:
        return dataset
    samples: list[tuple[Any, Any]] = list(dataset.samples)
    return Dataset(
        [(each, label) for sources, label in samples for each in sources], dataset.classes, None, dataset.stream
    )


def _ordered(entries: Iterable[Any]) -> Iterable[Any]:
    """Refuses collections without an order: clips are numbered by it, on every rank and after every restart."""
    if isinstance(entries, Mapping):
        raise ArgumentError("dataset must be a list of (path, label), got a mapping; pass list(mapping.items())")
    if isinstance(entries, (set, frozenset)):
        raise ArgumentError(
            "dataset must be a list, got a set, whose order differs between processes; pass sorted(the_set)"
        )
    if hasattr(entries, "cast_column"):
        raise ArgumentError(
            "dataset must be a list of (path, label), got a dataset of Hugging Face; pass "
            "framespool.datasets.from_huggingface(dataset, source=..., label=...)"
        )
    # Iterating over a table gives its columns, or their names.
    if hasattr(entries, "iloc") or hasattr(entries, "get_columns") or hasattr(entries, "column_names"):
        raise ArgumentError(
            f"dataset must be a list of (path, label), got {type(entries).__name__}; pass "
            "framespool.datasets.from_dataframe(table, source=..., label=...)"
        )
    return entries
