"""Samples that readers found, stored by the engine: a sample becomes a Python object when it is accessed."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Sequence
from typing import Any, overload

from framespool import _framespool
from framespool._common.validate_args import display_repr
from framespool.video._sources import ArchiveMember, ImageSequence, Source, TableCell, VideoSegment

#: Unit ("frames" or "seconds"), start and end.
_Part = tuple[str, Any, Any]


class SampleList(Sequence[tuple[Source, int]]):
    """A sequence of (source, label) pairs that is stored by the engine.

    A pair takes about 20 bytes and the file's name; archive members take 16 more, segments 24. A slice is another
    `SampleList`; adding it to a list gives a list.

    Args:
        table: The engine's table.
    """

    __slots__ = ("table",)

    def __init__(self, table: _framespool.SampleTable) -> None:
        self.table = table

    def __len__(self) -> int:
        return len(self.table)

    @overload
    def __getitem__(self, index: int) -> tuple[Source, int]: ...
    @overload
    def __getitem__(self, index: slice) -> SampleList: ...
    def __getitem__(self, index: int | slice) -> tuple[Source, int] | SampleList:
        if isinstance(index, slice):
            return self.take(range(*index.indices(len(self))))
        place = operator.index(index)
        if not -len(self) <= place < len(self):
            raise IndexError(f"sample {place} is out of range: there are {len(self)}")
        path, label, part, frames, span = self.table.row(place % len(self))
        return _source(path, part, frames, span), label

    def take(self, places: Sequence[int]) -> SampleList:
        """Returns the samples with these indices, in this order.

        Args:
            places: Sample indices, from 0.

        Returns:
            Another `SampleList`.
        """
        return SampleList(self.table.take(places))

    def labels(self) -> memoryview[int]:
        """Returns the labels, without a Python object per sample.

        Returns:
            The label of each sample.
        """
        return memoryview(self.table.labels()).cast("q")

    def relabeled(self, numbers: Sequence[int]) -> SampleList:
        """Returns the samples with other labels.

        Args:
            numbers: The new label of each label from 0; other labels are kept.

        Returns:
            Another `SampleList`.
        """
        return SampleList(self.table.relabeled(numbers))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SampleList):
            return self.table == other.table
        if isinstance(other, list):
            return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))
        return NotImplemented

    def __add__(self, other: Iterable[tuple[Source, int]]) -> list[tuple[Source, int]]:
        return [*self, *other]

    def __radd__(self, other: Iterable[tuple[Source, int]]) -> list[tuple[Source, int]]:
        return [*other, *self]

    def __reduce__(self) -> tuple[Any, ...]:
        return SampleList, (self.table,)

    def __repr__(self) -> str:
        first = ", ".join(map(display_repr, self[:3]))
        return f"[{first}, … {len(self)} samples]" if len(self) > 3 else f"[{first}]"


def _source(
    path: str | bytes,
    part: _Part | None,
    frames: tuple[str | None, int, int | None, tuple[int, int]] | None,
    span: tuple[int, int, str | None] | None,
) -> Source:
    source: str | bytes | ImageSequence | ArchiveMember = path
    if frames is not None:
        assert isinstance(path, str)
        pattern, first, count, (num, den) = frames
        source = ImageSequence(path, pattern=pattern, first=first, count=count, fps=num if den == 1 else (num, den))
    elif span is not None:
        assert isinstance(path, str)
        source = ArchiveMember._listed(path, *span)
    return with_segment(source, part)


def with_segment(
    source: str | os.PathLike[str] | bytes | ImageSequence | ArchiveMember | TableCell, part: _Part | None
) -> Source:
    """Returns a segment of a source.

    Args:
        source: The source.
        part: Unit ("frames" or "seconds"), start and end; `None` for the complete source.

    Returns:
        A `VideoSegment`, or the source itself.
    """
    if part is None:
        return source
    unit, start, end = part
    if unit == "frames":
        return VideoSegment(source, start_frame=start, end_frame=end)
    return VideoSegment(source, start_seconds=start, end_seconds=end)


def joined(parts: Sequence[Sequence[tuple[Source, int]]]) -> SampleList | list[tuple[Source, int]]:
    """Concatenates sequences of samples.

    Args:
        parts: The sequences.

    Returns:
        A `SampleList` if all are such, else a list.
    """
    if parts and all(isinstance(part, SampleList) for part in parts):
        return SampleList(
            _framespool.SampleTable.joined([part.table for part in parts if isinstance(part, SampleList)])
        )
    return [entry for part in parts for entry in part]
