"""Tables of other libraries as datasets, and back: pandas, Polars, PyArrow, and the library `datasets`."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from framespool._common.validate_args import boolean
from framespool.datasets._dataset import Dataset
from framespool.datasets._readers import class_names, string_list, with_classes
from framespool.errors import ArgumentError
from framespool.video._sources import VideoSegment


def from_dataframe(
    table: Any,
    *,
    source: str = "path",
    label: str = "label",
    start: str = "start",
    end: str = "end",
    in_frames: bool = False,
    columns: str | Sequence[str] | None = None,
    root: str | os.PathLike[str] | None = None,
    classes: Sequence[str] | None = None,
) -> Dataset:
    """Takes the rows of a table in memory as samples. The files are not read.

    Args:
        table: A `pandas.DataFrame`, a `polars.DataFrame` or a `pyarrow.Table`.
        source: Column of the paths or URLs of the videos or images, or of the bytes of the files.
        label: Column of the labels, if it exists: integers, numbers with a fraction, names, or lists of numbers. A row
            without one has the label -1, or NaN with a fraction.
        start: Column of the segments' starts, if it exists.
        end: Column of the segments' ends, if it exists.
        in_frames: `True`: start and end are frames, from 0. `False`: they are seconds.
        columns: Columns to keep in `Dataset.columns`. By default every other column whose values are numbers, flags or
            texts. Missing values (`None`, NaN, `pandas.NA`) become `None`.
        root: Folder that relative paths start from. By default the current folder.
        classes: Class names in the order of their labels, such as `train.classes` for a table that lacks some classes.
            By default the names that occur, sorted.

    Returns:
        A dataset with one sample per row, in the order of the rows.

    Raises:
        ArgumentError: If the table has another type, if a column does not exist, or if a row has no source, or a wrong
            label, class or segment; the message names the row.

    Example:
        >>> import framespool as fsp
        >>> import pyarrow as pa
        >>> table = pa.table({"path": ["a.mp4", "phone.mp4"], "label": ["walk", "run"], "caption": ["one", "two"]})
        >>> dataset = fsp.datasets.from_dataframe(table)
        >>> dataset[0], dataset.classes, dataset.columns
        (('a.mp4', 1), ['run', 'walk'], {'caption': ['one', 'two']})
    """
    read = _columns_of(table)
    if read is None:
        raise ArgumentError(
            "table must be a pandas.DataFrame, a polars.DataFrame (of a LazyFrame, the result of collect()) or a "
            f"pyarrow.Table, got {type(table).__name__}"
        )
    if hasattr(table, "iloc") and label in read:
        read[label] = _integers_of_pandas(read[label])
    names = {"source": source, "label": label, "start": start, "end": end}
    return rows_dataset(read, names, in_frames=in_frames, columns=columns, root=root, classes=classes)


def from_huggingface(
    dataset: Any,
    *,
    source: str = "video",
    label: str = "label",
    columns: str | Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
) -> Dataset:
    """Takes the rows of a `datasets.Dataset` of Hugging Face as samples. The files are not decoded.

    Videos and images that the dataset contains as bytes are copied into memory. `datasets.parquet()` and
    `datasets.arrow()` read them in place instead, from the files of the dataset.

    Args:
        dataset: A `datasets.Dataset`: one split, which is not streamed.
        source: Column of the videos or images: of the type `Video` or `Image`, of paths or of bytes.
        label: Column of the labels, if it exists. Names of a `ClassLabel` become `Dataset.classes`.
        columns: Columns to keep in `Dataset.columns`. By default every other column whose values are numbers, flags or
            texts.
        classes: Class names in the order of their labels, as in `from_dataframe()`. By default those of the
            `ClassLabel`.

    Returns:
        A dataset with one sample per row, in the order of the rows.

    Raises:
        ArgumentError: If it is no such dataset, if a column does not exist, or if a row has neither a path nor bytes,
            or a class that is not one of `classes`.

    Example:
        >>> import framespool as fsp
        >>> from datasets import load_dataset  # doctest: +SKIP
        >>> rows = load_dataset("videofolder", data_dir="videos/", split="train")  # doctest: +SKIP
        >>> fsp.datasets.from_huggingface(rows).classes  # doctest: +SKIP
        ['again', 'bird', 'book']
    """
    features = getattr(dataset, "features", None)
    if not hasattr(dataset, "cast_column") or not hasattr(dataset, "__len__") or features is None:
        raise ArgumentError(
            "dataset must be a datasets.Dataset: one split, such as dataset['train'], and not streamed; got "
            f"{type(dataset).__name__}"
        )
    if source not in features:
        raise ArgumentError(f"source: the dataset has no column {source!r}; it has {', '.join(map(repr, features))}")
    if getattr(features[source], "decode", False):
        dataset = dataset.cast_column(source, type(features[source])(decode=False))
    names = [name for name in features if name in (source, label) or _is_plain(features[name])]
    kept = [columns] if isinstance(columns, str) else list(columns or [])
    rows = dataset.select_columns([name for name in features if name in (*names, *kept)])[:]
    read = {name: [_present(value) for value in values] for name, values in rows.items()}
    own = getattr(features.get(label), "names", None)
    if own and label in read:
        name_of: dict[Any, Any] = {None: None, -1: None, **dict(enumerate(own))}
        read[label] = [name_of.get(number, number) for number in read[label]]
    elif label != "label" and label not in features:
        _column(read, label, "label")
    roles = {"source": source, "label": label, "start": None, "end": None}
    return rows_dataset(read, roles, columns=columns, classes=class_names(classes) or own)


def rows_dataset(
    read: dict[str, list[Any]],
    names: Mapping[str, str | None],
    *,
    in_frames: bool = False,
    columns: str | Sequence[str] | None = None,
    root: str | os.PathLike[str] | None = None,
    classes: Sequence[str] | None = None,
) -> Dataset:
    """Makes the dataset of a table.

    Args:
        read: The columns of the table.
        names: Columns by role: `source`, `label`, `start` and `end`. A label, start or end with its default name may be
            missing.
        in_frames: Whether start and end are frames.
        columns: Columns to keep, as for `from_dataframe()`.
        root: Folder that relative paths start from.
        classes: Names of the labels.

    Returns:
        The dataset.

    Raises:
        ArgumentError: As for `from_dataframe()`.
    """
    boolean("in_frames", in_frames)
    for role, name in names.items():
        if role == "source" or name not in (None, role):
            _column(read, name, role)
    sources, labels, starts, ends = (
        read.get(name) if name is not None else None for name in map(names.get, ("source", "label", "start", "end"))
    )
    assert sources is not None
    found = {label for label in labels or () if isinstance(label, str)}
    # Labels that are no names are numbers of the classes, which with_classes() checks.
    known = (class_names(classes) or sorted(found)) if found else []
    number_of = {name: number for number, name in enumerate(known)}
    samples = []
    for row, source in enumerate(sources):
        label = None if labels is None else labels[row]
        if isinstance(label, str) and label not in number_of:
            raise ArgumentError(f"row {row}: the label {label!r} is not one of the {len(number_of)} classes")
        bounds = [None if part is None else part[row] for part in (starts, ends)]
        samples.append((_sample(row, source, bounds, in_frames, root), label))
    kept = _kept(read, columns, set(names.values()))
    return with_classes(Dataset(samples, known, kept), classes)


def matching_rows(read: Mapping[str, Sequence[Any]], where: Mapping[str, Any], table: str) -> list[int]:
    """Selects rows by the values of columns.

    Args:
        read: The columns of the table.
        table: What the table is called in messages.
        where: By column, the value that a row must have, or a list of values of which it must have one.

    Returns:
        Indices of the rows that match all columns.

    Raises:
        ArgumentError: If a column does not exist, or no row matches.
    """
    if not isinstance(where, Mapping):
        raise ArgumentError(f'where must be a dict such as {{"split": "train"}}, got {where!r}')
    rows: Sequence[int] = range(len(next(iter(read.values()), ())))
    for name, wanted in where.items():
        values = _column(read, name, "where", table)
        choices = wanted_values(wanted)
        is_wanted = _lookup(choices)
        left = [row for row in rows if is_wanted(values[row])]
        if not left:
            found = list(dict.fromkeys(repr(values[row]) for row in rows))
            shown = ", ".join([*found[:8], *(["…"] if len(found) > 8 else [])])
            raise ArgumentError(f"where: {table} has no row with {wanted!r} in the column {name!r}; it has {shown}")
        rows = left
    return list(rows)


def wanted_values(wanted: Any) -> list[Any]:
    """Returns the values that select rows.

    Args:
        wanted: A value, or several in a list, a tuple, a set, or an array of NumPy.

    Returns:
        The values.
    """
    if hasattr(wanted, "tolist"):
        wanted = wanted.tolist()
    return list(wanted) if isinstance(wanted, (list, tuple, set, frozenset)) else [wanted]


def _lookup(choices: list[Any]) -> Callable[[Any], bool]:
    """A function that reports whether a value is one of the choices."""
    try:
        known = set(choices)
    except TypeError:  # lists and dicts have no hash
        return choices.__contains__

    def is_known(value: Any) -> bool:
        try:
            return value in known
        except TypeError:
            return value in choices

    return is_known


def _columns_of(table: Any) -> dict[str, list[Any]] | None:
    """The columns as lists, without an import of the table's library; `None` for other objects."""
    if hasattr(table, "iloc") and hasattr(table, "columns"):
        names, values = [str(name) for name in table.columns], [table.iloc[:, n] for n in range(len(table.columns))]
        lists = [column.tolist() for column in values]
    elif hasattr(table, "get_columns"):
        names, lists = list(table.columns), [column.to_list() for column in table.get_columns()]
    elif hasattr(table, "column_names") and hasattr(table, "schema"):
        names, lists = list(table.column_names), [column.to_pylist() for column in table.columns]
    else:
        return None
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ArgumentError(f"table: two columns have the name {twice!r}; rename one")
    return {name: [_present(value) for value in values] for name, values in zip(names, lists, strict=True)}


def _integers_of_pandas(values: list[Any]) -> list[Any]:
    """The integers of a column in which some are missing: pandas stores the others as floats."""
    found = [value for value in values if value is not None]
    if len(found) == len(values) or not all(isinstance(value, float) and value.is_integer() for value in found):
        return values
    return [None if value is None else int(value) for value in values]


def _present(value: Any) -> Any:
    """`None` for a missing value."""
    is_missing = type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    return None if is_missing else value


def _column(read: Mapping[str, Sequence[Any]], name: Any, argument: str, table: str = "the table") -> Sequence[Any]:
    if name not in read:
        raise ArgumentError(f"{argument}: {table} has no column {name!r}; it has {', '.join(map(repr, read))}")
    return read[name]


def _sample(row: int, value: Any, bounds: list[Any], in_frames: bool, root: Any) -> Any:
    """The source of a row."""
    if isinstance(value, dict):
        # `datasets` stores either the bytes, with the name of the file, or the path alone.
        value = value.get("bytes") or value.get("path")
    if not isinstance(value, (str, bytes, os.PathLike)) or not value:
        raise ArgumentError(f"row {row} has no path and no bytes as its source, got {value!r}")
    if root is not None and not isinstance(value, bytes) and "://" not in os.fspath(value):
        value = os.path.join(os.fspath(root), os.fspath(value))
    if bounds == [None, None]:
        return value
    names = ("start_frame", "end_frame") if in_frames else ("start_seconds", "end_seconds")
    given = {name: bound for name, bound in zip(names, bounds, strict=True) if bound is not None}
    if in_frames:
        # A column of integers with missing values holds floats.
        given = {name: int(bound) if float(bound).is_integer() else bound for name, bound in given.items()}
    try:
        return VideoSegment(value, **given)
    except ArgumentError as reason:
        raise ArgumentError(f"row {row}: {reason}") from reason


def _kept(
    read: dict[str, list[Any]], columns: str | Sequence[str] | None, used: Collection[str | None]
) -> dict[str, list[Any]]:
    if columns is None:
        plain = (str, int, float, type(None))
        return {
            name: values
            for name, values in read.items()
            if name not in used and all(isinstance(value, plain) for value in values)
        }
    wanted = [columns] if isinstance(columns, str) else string_list("columns", columns) if columns else []
    return {name: list(_column(read, name, "columns")) for name in wanted}


def _is_plain(feature: Any) -> bool:
    """Whether values of a feature are numbers, flags or texts."""
    return isinstance(getattr(feature, "dtype", None), str) and not hasattr(feature, "decode")
