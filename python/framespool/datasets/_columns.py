"""Values of a dataset's columns, for the samples of a batch."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

from framespool import _framespool

#: Type code of `array.array` for the dtypes of a tensor.
_CODES = {"bool": "B", "int64": "q", "float32": "f", "float64": "d"}


class Column:
    """A column, delivered as a tensor if all of its values are numbers, or lists of equally many numbers.

    Args:
        values: One value per sample.
        float_dtype: Dtype of numbers with a fraction.
    """

    def __init__(self, values: Sequence[Any], float_dtype: str = "float64") -> None:
        self._values = values
        self._is_vector = bool(values) and all(isinstance(value, (list, tuple)) for value in values)
        self._width = len(values[0]) if self._is_vector else 1
        numbers: Any = values
        if self._is_vector:
            same = all(len(value) == self._width for value in values)
            numbers = [number for value in values for number in value] if same else [None]
        self._dtype = _number_dtype(numbers, float_dtype)

    def take(self, samples: Sequence[int]) -> Any:
        """Returns the values of some samples.

        Args:
            samples: Indices of the samples.

        Returns:
            A `Tensor` (N,), or (N, K) for lists of K numbers; a list if the values are not numbers.
        """
        chosen = [self._values[sample] for sample in samples]
        if self._dtype is None:
            return chosen
        numbers = [number for value in chosen for number in value] if self._is_vector else chosen
        shape = (len(chosen), self._width) if self._is_vector else (len(chosen),)
        return _framespool.tensor_of(array(_CODES[self._dtype], numbers).tobytes(), shape, self._dtype)


def _number_dtype(values: Sequence[Any], float_dtype: str) -> str | None:
    """Returns the dtype that holds all values; `None` if some are no numbers."""
    kinds = set(map(type, values))
    if not kinds:
        return None
    if kinds == {bool}:
        return "bool"
    if all(issubclass(kind, Integral) and kind is not bool for kind in kinds):
        return "int64" if min(values) >= -(2**63) and max(values) < 2**63 else None
    return float_dtype if all(issubclass(kind, Real) and kind is not bool for kind in kinds) else None


def uniform_labels(
    samples: list[tuple[Any, Any]], classes: list[str]
) -> tuple[list[tuple[Any, Any]], list[str], str | None]:
    """Converts the labels of a dataset to one type.

    Args:
        samples: Pairs of source and label; `None` for no label.
        classes: Names of the labels; empty to take the names that occur, sorted.

    Returns:
        The pairs, the names of the labels, and what is wrong with the labels, if anything is.
    """
    kinds = {type(label) for _, label in samples}
    if kinds <= {int}:
        return samples, classes, None
    if kinds <= {int, type(None)}:
        return [(source, -1 if label is None else label) for source, label in samples], classes, None
    if str in kinds:
        first = {
            isinstance(label, str): number
            for number, (_, label) in reversed([*enumerate(samples)])
            if label is not None
        }
        if len(first) > 1:
            return samples, classes, f"sample {first[False]} has a number as label and sample {first[True]} has a name"
        names = classes or sorted({label for _, label in samples if label is not None})
        number_of: dict[Any, int] = {None: -1, **{name: number for number, name in enumerate(names)}}
        unknown = next((label for _, label in samples if label not in number_of), None)
        if unknown is not None:
            return samples, names, f"the label {unknown!r} is not one of the classes"
        return [(source, number_of[label]) for source, label in samples], names, None
    if tuple in kinds:
        widths = {len(label) if isinstance(label, tuple) else None for _, label in samples}
        if len(widths) > 1:
            return samples, classes, "lists of numbers as labels must have the same length in all samples"
        return samples, classes, None
    return [(source, math.nan if label is None else float(label)) for source, label in samples], classes, None
