"""Values of single frames, for the frames of the clips of a batch."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from framespool import _framespool
from framespool._common.validate_args import as_sequence, display_repr
from framespool.datasets import Dataset
from framespool.errors import ArgumentError


class FrameColumns:
    """Columns with a value for each frame of the videos.

    Args:
        given: As `frame_columns` of `ClipLoader`.
        dataset: The dataset.

    Raises:
        ArgumentError: If a column has no valid entry for a sample.
    """

    def __init__(self, given: Any, dataset: Dataset) -> None:
        if not isinstance(given, Mapping):
            raise ArgumentError(f"frame_columns must be a dict of columns by name, got {given!r}")
        for name in given:
            if name in dataset.columns:
                raise ArgumentError(f"frame_columns: the dataset has a column {name!r} already; rename one")
        self._dataset = dataset
        self._columns = {name: self._checked(name, entries) for name, entries in given.items()}

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self._columns)

    def _checked(self, name: str, entries: Any) -> tuple[Sequence[Any], str, bool]:
        """Returns the entries of a column, its dtype, and whether they are segments."""
        count = len(self._dataset)
        listed = as_sequence(entries)
        if listed is not None:
            # Of a torch.Tensor, whose numbers are tensors.
            listed = tuple(entry.numpy() if hasattr(entry, "numpy") else entry for entry in listed)
        if listed is None or len(listed) != count:
            length = "no list" if listed is None else f"{len(listed)} entries"
            raise ArgumentError(f"frame_columns[{name!r}] must have one entry per sample, {count}, but has {length}")
        kinds = {_kind(entry) for entry in listed} - {None}
        if len(kinds) > 1 and "segments" in kinds:
            raise ArgumentError(f"frame_columns[{name!r}]: some entries are lists of numbers, others of segments")
        if "invalid" in kinds:
            place = next(place for place, entry in enumerate(listed) if _kind(entry) == "invalid")
            raise ArgumentError(
                f"frame_columns[{name!r}]: the entry of {self._name(place)} must be a list of numbers, one per frame, "
                f"or of (start_seconds, end_seconds, number), got {display_repr(listed[place])}"
            )
        return listed, "float64" if "float64" in kinds else "int64", "segments" in kinds

    def _name(self, sample: int) -> str:
        return f"sample {sample} ({display_repr(self._dataset.samples[sample][0])})"

    def take(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the values of the frames of a batch.

        Args:
            batch: A batch of the native loader.

        Returns:
            By name a `Tensor` with the shape of `indices`: -1, or NaN for numbers with a fraction, where a clip has no
            frame or no segment contains it.

        Raises:
            ArgumentError: If an entry has fewer values than the video has frames.
        """
        shape = tuple(batch["indices"].shape)
        rows = [batch[each].tolist() for each in ("indices", "pts_seconds")]
        clips = 1
        if len(shape) == 3:  # the clips of a video are one row
            clips, rows = shape[1], [[clip for row in each for clip in row] for each in rows]
        samples, firsts = batch["video_ids"].tolist(), batch["video.first_frame"].tolist()
        found = {}
        for name, (entries, dtype, is_segments) in self._columns.items():
            none: float = -1 if dtype == "int64" else math.nan
            values: list[float] = []
            for place, (frames, shown) in enumerate(zip(*rows, strict=True)):
                sample = samples[place // clips]
                for frame, time in zip(frames, shown, strict=True):
                    if frame < 0:
                        values.append(none)
                    elif is_segments:
                        values.append(next((n for start, end, n in entries[sample] if start <= time < end), none))
                    else:
                        values.append(self._value(name, entries[sample], sample, frame - firsts[place // clips]))
            code = "q" if dtype == "int64" else "d"
            found[name] = _framespool.tensor_of(array(code, values).tobytes(), shape, dtype)
        return found

    def _value(self, name: str, entry: Any, sample: int, frame: int) -> Any:
        if frame >= len(entry):
            raise ArgumentError(
                f"frame_columns[{name!r}]: the entry of {self._name(sample)} has {len(entry)} values, but a clip has "
                f"frame {frame}"
            )
        value = entry[frame]
        return value.item() if hasattr(value, "item") else value


def _kind(entry: Any) -> str | None:
    """The dtype of the numbers of an entry, or `"segments"`; `None` if it is empty, `"invalid"` for anything else."""
    kind = getattr(getattr(entry, "dtype", None), "kind", None)
    if kind is not None and getattr(entry, "ndim", 0) == 1:
        return {"i": "int64", "u": "int64", "b": "int64", "f": "float64"}.get(kind, "invalid")
    values = as_sequence(entry)
    if values is None:
        return "invalid"
    if not values:
        return None
    if all(isinstance(value, (list, tuple)) and len(value) == 3 for value in values):
        numbers = all(isinstance(number, Real) for value in values for number in value)
        return "segments" if numbers and all(isinstance(value[2], Integral) for value in values) else "invalid"
    if all(isinstance(value, Integral) for value in values):
        return "int64"
    return "float64" if all(isinstance(value, Real) for value in values) else "invalid"
