"""Mixtures of datasets by weight."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any

from framespool._common.validate_args import as_sequence, integer, number
from framespool.datasets._dataset import (
    Dataset,
    as_dataset,
    common_stream,
    joined_columns,
    joined_robots,
    joined_samples,
)
from framespool.errors import ArgumentError
from framespool.video._sources import Source


class MixtureDataset(Dataset):
    """Several datasets, mixed by weight; `mix()` creates it.

    A slice or a `subset()` of it is a plain dataset without weights. Classes and columns are joined as `+` joins them.

    Args:
        datasets: The datasets.
        weights: One positive weight per dataset, in any unit.
        replacement: Whether each draw is independent.
        epoch_clips: Clips of an epoch over all ranks; `None` for as many as all datasets have.
        keys: The cameras and features of frames of robots, as for `mix()`.

    Example:
        >>> import framespool as fsp
        >>> mixture = fsp.datasets.mix((["a.mp4"], 1), (["phone.mp4", "long_gop.mp4"], 1), epoch_clips=4)
        >>> mixture.lengths, mixture.weights, mixture.epoch_clips
        ([1, 2], [1.0, 1.0], 4)
    """

    _weighted = True

    def __init__(
        self,
        datasets: Sequence[Dataset],
        weights: Sequence[float],
        replacement: bool,
        epoch_clips: int | None,
        keys: Sequence[str] | None = None,
    ) -> None:
        datasets, robots = joined_robots(datasets, keys)
        samples, classes = joined_samples(datasets)
        super().__init__(samples, classes, joined_columns(datasets), common_stream(datasets))
        self._robots = robots
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
        raise ArgumentError("a mixture cannot be added to; pass mix() the other dataset too, with its weight")

    def with_stream(self, stream: int | None) -> MixtureDataset:
        """Returns the same mixture with another video stream selected; see `Dataset.with_stream()`.

        Args:
            stream: Index of the stream among all streams of a file; `None` for the default stream.

        Returns:
            A new mixture with the same weights.
        """
        return self._with([part.with_stream(stream) for part in self._parts()])

    def exclude(self, failures: str | os.PathLike[str] | Iterable[Any]) -> MixtureDataset:
        """Returns the mixture without the files of a failure list; see `Dataset.exclude()`.

        Args:
            failures: A failure list, as in `Dataset.exclude()`.

        Returns:
            A new mixture with the same weights.
        """
        if not isinstance(failures, (str, os.PathLike)):
            failures = list(failures)
        return self._with([part.exclude(failures) for part in self._parts()])

    def filter(self, predicate: Callable[[Source, int, dict[str, Any]], Any]) -> MixtureDataset:
        """Returns the mixture with the samples for which a predicate is true; see `Dataset.filter()`.

        Args:
            predicate: Function `predicate(source, label, row)`, as in `Dataset.filter()`.

        Returns:
            A new mixture with the same weights.
        """
        return self._with([part.filter(predicate) for part in self._parts()])

    def _parts(self) -> list[Dataset]:
        ends = list(accumulate(self.lengths))
        return [self[end - length : end] for length, end in zip(self.lengths, ends, strict=True)]

    def _with(self, parts: Sequence[Dataset]) -> MixtureDataset:
        return MixtureDataset(parts, self.weights, self.replacement, self.epoch_clips)


def mix(
    *datasets: tuple[Any, float],
    replacement: bool = False,
    epoch_clips: int | None = None,
    keys: Sequence[str] | None = None,
) -> MixtureDataset:
    """Mixes datasets by weight; the loader needs `shuffle=True`, `"grouped"` or `"full"`.

    In an epoch, and in any long range of it, clips of the datasets occur in proportion to the weights. A clip that
    occurs again in the same epoch is sampled and augmented again. See docs/concepts/batch-sampler.md.

    `video_ids` and `clip_ids` count through the datasets in their order. Classes are joined by their names, and labels
    numbered again, as by `a + b`, which is a plain union instead, with each clip once.

    Frames of several `lerobot()` datasets, each with its own `delta_timestamps` and statistics, can be mixed, and
    joined by `+`:

    - Cameras and features have the same names, if necessary by `lerobot(rename=)`. Those that a dataset lacks are
      omitted.
    - Vectors that differ in length are filled up with zeros at the end; `batch["<name>_mask"]`, (N, K) bool, is true
      for the numbers that the dataset of the frame has.
    - `batch["dataset_index"]`, (N,) int64, is the number of the dataset of each frame, `batch["task"]` has the text of
      its task, and `"task_index"` its index in the joined `classes`.

    Args:
        datasets: Pairs of (dataset, weight). Weights are positive, in any unit.
        replacement: `False`: the clips of a dataset occur equally often, to within one with `shuffle="full"` and two
            with `"grouped"`, in another order each time (see `Mixture` for the exact rule). `True`: each draw is
            independent.
        epoch_clips: Clips of an epoch over all ranks. By default as many as all datasets have together.
        keys: The cameras and features of frames of robots. By default those that all datasets have.

    Returns:
        A mixture, to be passed to a loader as its dataset.

    Raises:
        ArgumentError: If there is no dataset, a dataset is empty or a mixture itself, or a weight is not positive. Also
            if some datasets have class names and others numbers without names, or if frames of robots do not fit
            together; the message names the feature.

    Example:
        >>> import framespool as fsp
        >>> mixture = fsp.datasets.mix((fsp.datasets.folder("videos/"), 0.7), (["a.mp4", "phone.mp4"], 0.3))
        >>> len(mixture), mixture.weights
        (5, [0.7, 0.3])
    """
    if not datasets:
        raise ArgumentError("mix needs at least one (dataset, weight), got none")
    parts, weights = [], []
    for place, pair in enumerate(datasets):
        try:
            dataset, weight = pair
        except (TypeError, ValueError):
            raise ArgumentError(f"mix takes pairs of (dataset, weight), got {pair!r} at index {place}") from None
        part = as_dataset(dataset)
        if isinstance(part, MixtureDataset):
            raise ArgumentError(
                f"mix cannot contain another mixture, got one at index {place}; list its datasets instead"
            )
        if not len(part):
            raise ArgumentError(f"the dataset at index {place} is empty; remove it")
        parts.append(part)
        weights.append(number("weight", weight, above=0))
    most = None if epoch_clips is None else integer("epoch_clips", epoch_clips, least=1, most=2**62)
    names = None if keys is None else as_sequence(keys)
    if keys is not None and (isinstance(keys, str) or not names or not all(isinstance(name, str) for name in names)):
        raise ArgumentError(f"keys must be a list of names, got {keys!r}")
    return MixtureDataset(parts, weights, bool(replacement), most, names)
