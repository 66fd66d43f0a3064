"""Datasets whose samples come as often as their weights call for."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from framespool._common.validate_args import as_sequence, boolean, integer, number
from framespool.datasets._dataset import Dataset, as_dataset
from framespool.errors import ArgumentError
from framespool.video._sources import Source


class WeightedDataset(Dataset):
    """Samples with weights; `weighted()` and `balanced()` create it.

    A slice or a `subset()` of it is a plain dataset without weights.

    Args:
        dataset: The samples.
        weights: One weight per sample.
        replacement: Whether draws are independent.
        epoch_clips: Clips of an epoch over all ranks; `None` for as many as all samples have.

    Example:
        >>> import framespool as fsp
        >>> fsp.datasets.weighted(["a.mp4", "phone.mp4"], [1, 3]).weights
        [1.0, 3.0]
    """

    _weighted = True

    def __init__(self, dataset: Dataset, weights: Sequence[float], replacement: bool, epoch_clips: int | None) -> None:
        super().__init__(dataset.samples, dataset.classes, dataset.columns, dataset.stream)
        self._robots = dataset._robots
        self.weights = list(weights)
        self.replacement = replacement
        self.epoch_clips = epoch_clips

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WeightedDataset):
            return NotImplemented
        mine = (self.weights, self.replacement, self.epoch_clips)
        return mine == (other.weights, other.replacement, other.epoch_clips) and super().__eq__(other) is True

    def __add__(self, other: Dataset) -> Dataset:
        raise ArgumentError("a weighted dataset cannot be added to; join the datasets first and weight the result")

    def with_stream(self, stream: int | None) -> WeightedDataset:
        """Returns the same samples and weights with another video stream; see `Dataset.with_stream()`.

        Args:
            stream: Index of the stream among all streams of a file; `None` for the default stream.

        Returns:
            A new dataset with the same weights.
        """
        return WeightedDataset(super().with_stream(stream), self.weights, self.replacement, self.epoch_clips)

    def exclude(self, failures: str | os.PathLike[str] | Iterable[Any]) -> WeightedDataset:
        """Returns the dataset without the files of a failure list; see `Dataset.exclude()`.

        Args:
            failures: A failure list, as in `Dataset.exclude()`.

        Returns:
            A new dataset with the weights of the remaining samples.
        """
        return self._remaining(lambda dataset: dataset.exclude(failures))

    def filter(self, predicate: Callable[[Source, int, dict[str, Any]], Any]) -> WeightedDataset:
        """Returns the samples for which a predicate is true; see `Dataset.filter()`.

        Args:
            predicate: Function `predicate(source, label, row)`, as in `Dataset.filter()`.

        Returns:
            A new dataset with the weights of the remaining samples.
        """
        return self._remaining(lambda dataset: dataset.filter(predicate))

    def _remaining(self, select: Callable[[Dataset], Dataset]) -> WeightedDataset:
        # The weights go along as a column.
        columns = {**self.columns, _COLUMN: self.weights}
        every = Dataset(self.samples, self.classes, columns, self.stream)
        left = select(self._pass_robots(every, range(len(self))))
        kept = {name: values for name, values in left.columns.items() if name != _COLUMN}
        plain = Dataset(left.samples, left.classes, kept, left.stream)
        plain._robots = left._robots
        return WeightedDataset(plain, left.columns[_COLUMN], self.replacement, self.epoch_clips)


_COLUMN = "framespool weight"


def weighted(
    dataset: Any, weights: Iterable[float], *, replacement: bool = False, epoch_clips: int | None = None
) -> WeightedDataset:
    """Gives each sample a weight; the loader needs `shuffle=True`, `"grouped"` or `"full"`.

    An epoch has several copies of a sample or none, in proportion to the weights. With `shuffle="grouped"` a copy has
    all clips of the video, with `"full"` clips are copied one by one. A clip that occurs again in an epoch is sampled
    and augmented again. See docs/concepts/batch-sampler.md.

    Args:
        dataset: The samples.
        weights: One weight per sample, in any unit; 0 omits it.
        replacement: `False`: a sample whose weight calls for `w` copies has `w` rounded down or up, and `w` on
            average over epochs. `True`: draws of copies are independent.
        epoch_clips: Clips of an epoch over all ranks. By default as many as all samples have.

    Returns:
        A weighted dataset, to be passed to a loader.

    Raises:
        ArgumentError: If there is not one weight per sample, or a weight is negative.

    Example:
        >>> import framespool as fsp
        >>> dataset = fsp.datasets.weighted(["a.mp4", "phone.mp4"], [1, 3], epoch_clips=40)
        >>> len(dataset), dataset.weights
        (2, [1.0, 3.0])
    """
    plain = as_dataset(dataset)
    if plain._weighted:
        raise ArgumentError("weighted cannot take a mixture or a weighted dataset; weight the samples before mixing")
    given = as_sequence(weights)
    if given is None:
        raise ArgumentError(f"weights must be numbers, one for each sample, got {weights!r}")
    if len(given) != len(plain):
        raise ArgumentError(f"weights must be one for each of {len(plain)} samples, got {len(given)}")
    checked = [number("weight", weight, least=0) for weight in given]
    most = None if epoch_clips is None else integer("epoch_clips", epoch_clips, least=1, most=2**62)
    return WeightedDataset(plain, checked, boolean("replacement", replacement), most)


def balanced(dataset: Any, *, replacement: bool = False, epoch_clips: int | None = None) -> WeightedDataset:
    """Weights samples so that all labels come equally often; see `weighted()`.

    Args:
        dataset: Samples with labels.
        replacement: Whether draws are independent.
        epoch_clips: Clips of an epoch over all ranks. By default as many as all samples have.

    Returns:
        A weighted dataset, to be passed to a loader. Labels are equally frequent if all videos have as many clips.

    Raises:
        ArgumentError: If a sample has no label.

    Example:
        >>> import framespool as fsp
        >>> dataset = fsp.datasets.balanced([("a.mp4", 0), ("phone.mp4", 1), ("a.mp4", 0)])
        >>> dataset.weights
        [0.5, 1.0, 0.5]
    """
    plain = as_dataset(dataset)
    labels = [label for _, label in plain]
    if -1 in labels:
        raise ArgumentError(f"balanced needs a label for every sample, got none for sample {labels.index(-1)}")
    counts = Counter(labels)
    return weighted(plain, [1 / counts[label] for label in labels], replacement=replacement, epoch_clips=epoch_clips)
