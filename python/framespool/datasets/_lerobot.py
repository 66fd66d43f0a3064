"""Datasets of LeRobot: episodes of robots, several of which share a file."""

from __future__ import annotations

import os
from collections.abc import Iterable

from framespool import _framespool
from framespool._validate_args import as_sequence, integer
from framespool.datasets._annotations import _dataset
from framespool.datasets._dataset import Dataset
from framespool.errors import ArgumentError


def lerobot(
    root: str | os.PathLike[str],
    *,
    camera: str | None = None,
    episodes: Iterable[int] | None = None,
) -> Dataset:
    """A dataset of LeRobot, version 3.0 (or 2.0 and 2.1), on this disk: its episodes as one camera saw them.

    ``root``: its folder, with ``meta`` and ``videos``. ``camera``: a feature of kind ``video``, such as
    ``"observation.images.top"``; it may be left out where there is one only. For several cameras make a dataset each;
    they have the same entries, so that loaders with the same seed deliver the same clips. ``episodes``: numbers of
    the episodes that are wanted, in this order; by default all, in the order of their numbers.

    One entry for each episode: in version 3.0 a :class:`VideoSegment` of a file that episodes share, in version 2 a file of
    its own. The part has exactly the episode's ``length`` frames, those that appear at ``from_timestamp + i / fps``;
    its bounds lie half a frame before the first of them and half a frame before the one after the last, so that
    roundings of these times change nothing. A file that ends early is not noticed here: its last episode has fewer
    frames.

    The label is the number of the episode's first task, -1 where it has none; :attr:`Dataset.classes` are the tasks.
    ``columns``: ``episode_index``, ``length``, ``tasks`` and ``fps``, and, in version 3.0, ``dataset_from_index`` and
    ``dataset_to_index``, the rows of the episode in the tables under ``data``; frame *i* of the episode is row
    ``dataset_from_index + i``. Clips for ``delta_timestamps`` are made by
    :func:`framespool.samplers.preset("lerobot", ...) <framespool.samplers.preset>`.

    Videos are not opened, and tables of states and actions are not read.

    Raises :class:`~framespool.ArgumentError` for a camera or an episode that is not there, and for files of ``meta``
    that lack something or contradict each other, naming file and row; :class:`~framespool.UnsupportedError` for other
    versions and for cameras whose pictures are in the tables; :class:`~framespool.InvalidDataError` or
    :class:`~framespool.TruncatedError` for damaged Parquet files; :class:`~framespool.NotFoundError`."""
    if not isinstance(root, (str, os.PathLike)):
        raise ArgumentError(f"root must be a path, got {root!r}")
    if camera is not None and not isinstance(camera, str):
        raise ArgumentError(f"camera must be a string, got {camera!r}")
    numbers = None
    if episodes is not None:
        given = as_sequence(episodes)
        if given is None:
            raise ArgumentError(f"episodes must be whole numbers, got {episodes!r}")
        numbers = [integer("episodes", number, most=2**63 - 1) for number in given]
    return _dataset(_framespool.read_lerobot(root, camera, numbers))
