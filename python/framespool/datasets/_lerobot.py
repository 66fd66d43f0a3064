"""Reads LeRobot datasets: episodes of robots, several of which share a video file."""

from __future__ import annotations

import os
from collections.abc import Iterable

from framespool import _framespool
from framespool._validate_args import as_sequence, integer
from framespool.datasets._dataset import Dataset
from framespool.datasets._readers import annotated_dataset
from framespool.errors import ArgumentError


def lerobot(
    root: str | os.PathLike[str],
    *,
    camera: str | None = None,
    episodes: Iterable[int] | None = None,
) -> Dataset:
    """Reads a local LeRobot dataset, version 3.0 (or 2.0 and 2.1): its episodes as recorded by one camera.

    For several cameras create a dataset each; they have the same samples, so loaders with the same seed deliver the
    same clips. Clips for `delta_timestamps` come from `samplers.preset("lerobot", ...)`.

    In version 3.0 a sample is a `VideoSegment` of a file that episodes share, in version 2 a file of its own. The
    segment has exactly the episode's `length` frames, those at `from_timestamp + i / fps`. Its bounds are half a frame
    before the first of them and half a frame before the one after the last, so rounding of these times changes nothing.

    Videos are not opened, and the tables of states and actions are not read. A file that ends early is not detected
    here: its last episode has fewer frames.

    Args:
        root: Folder of the dataset, with `meta` and `videos`.
        camera: A feature of type `video`, such as `"observation.images.top"`. May be omitted if there is only one.
        episodes: Numbers of the episodes to use, in this order. By default all, in ascending order.

    Returns:
        Dataset: One sample per episode. The label is the number of the episode's first task, or -1; `classes`
        are the tasks. `columns`: `episode_index`, `length`, `tasks` and `fps`. In version 3.0 also
        `dataset_from_index` and `dataset_to_index`, the rows of the episode in the tables under `data`: frame *i*
        of the episode is row `dataset_from_index + i`.

    Raises:
        ArgumentError: If the camera or an episode does not exist, or if files of `meta` lack something or contradict
            each other; the message names file and row.
        UnsupportedError: For other versions, and for cameras whose images are in the tables.
        InvalidDataError: If a Parquet file is damaged.
        TruncatedError: If a Parquet file is truncated.
        NotFoundError: If a file is missing.

    Example:
        >>> import framespool as fsp
        >>> dataset = fsp.datasets.lerobot("aloha/", camera="observation.images.top")  # doctest: +SKIP
        >>> dataset.columns["dataset_from_index"][0]  # doctest: +SKIP
        0
    """
    if not isinstance(root, (str, os.PathLike)):
        raise ArgumentError(f"root must be a path, got {root!r}")
    if camera is not None and not isinstance(camera, str):
        raise ArgumentError(f"camera must be a string, got {camera!r}")
    numbers = None
    if episodes is not None:
        given = as_sequence(episodes)
        if given is None:
            raise ArgumentError(f"episodes must be a list of ints, got {episodes!r}")
        numbers = [integer("episodes", number, most=2**63 - 1) for number in given]
    return annotated_dataset(_framespool.read_lerobot(root, camera, numbers))
