"""Reads LeRobot datasets: episodes of robots, several of which share a video file."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from framespool import _framespool
from framespool._common.validate_args import as_sequence, display_repr, integer, is_url, number
from framespool.datasets._dataset import Dataset
from framespool.datasets._readers import annotated_dataset
from framespool.errors import ArgumentError

#: Owner and name of a dataset on the Hub.
_HUB_ADDRESS = re.compile(r"(?:hf://|https://huggingface\.co/)datasets/([^/@?#]+/[^/@?#]+)")
#: Dtypes of features that are numbers, and the bytes of each.
_NUMBER_BYTES = {"float32": 4, "float64": 8, "int64": 8, "bool": 1}


def lerobot(
    root: str | os.PathLike[str],
    *,
    camera: str | Sequence[str] | None = None,
    episodes: Iterable[int] | None = None,
    delta_timestamps: Mapping[str, Sequence[float]] | None = None,
    tolerance_s: float = 1e-4,
) -> Dataset:
    """Reads a local LeRobot dataset, version 3.0 (or 2.0 and 2.1): its episodes.

    With one camera it is a dataset of videos. With a list of cameras or with `delta_timestamps` it is one of frames, as
    LeRobot's own dataset: a `ClipLoader` without a clip sampler delivers a clip for each frame of the episodes, and
    `batch[name]` has the features of these frames:

    - each camera, (N, C, H, W), in the size that `info.json` states unless transforms change it;
    - each feature of the tables that is a number or an array of numbers, such as `"observation.state"` and `"action"`;
    - `"task"`, a list of strings.

    A feature in `delta_timestamps` has the frames at these distances, (N, T, …), and `"<name>_is_pad"` (N, T) is true
    where they lie outside of the episode. `batch.frames` are those of the first camera.

    In version 3.0 a sample is a `VideoSegment` of a file that episodes share, in version 2 a file of its own. The
    segment has exactly the episode's `length` frames, those at `from_timestamp + i / fps`. Its bounds are half a frame
    before the first of them and half a frame before the one after the last, so rounding of these times changes nothing.

    Videos are not opened. The tables of states and actions are read when the first batch needs them. A file that ends
    early is not detected here: its last episode has fewer frames.

    Args:
        root: Folder of the dataset, with `meta`, `videos` and, for frames, `data`; no URL.
        camera: A feature of type `video`, such as `"observation.images.top"`, or a list of them. May be omitted if
            there is only one; with `delta_timestamps` it is then all of them.
        episodes: Numbers of the episodes to use, in this order. By default all, in ascending order.
        delta_timestamps: For features of frames: distances in seconds from the frame of the sample, multiples of
            `1 / fps`.
        tolerance_s: By how many seconds distances and presentation times may deviate.

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
        >>> frames = fsp.datasets.lerobot(  # doctest: +SKIP
        ...     "aloha/",
        ...     camera=["observation.images.top", "observation.images.wrist"],
        ...     delta_timestamps={"observation.state": [-0.1, 0.0], "action": [0.0, 0.02, 0.04]},
        ... )
        >>> batch = next(iter(fsp.ClipLoader(frames, batch_size=64, shuffle=True)))  # doctest: +SKIP
        >>> batch["observation.images.wrist"].shape, batch["action"].shape  # doctest: +SKIP
        ((64, 3, 480, 640), (64, 3, 14))
    """
    if not isinstance(root, (str, os.PathLike)):
        raise ArgumentError(f"root must be a path, got {root!r}")
    if is_url(os.fspath(root)):
        found = _HUB_ADDRESS.match(str(root))
        repo = "USER/NAME" if found is None else found[1]
        raise ArgumentError(
            f"lerobot() reads a folder on a disk, got the URL {display_repr(os.fspath(root))}; copy the dataset, such "
            f"as with `hf download --repo-type dataset {repo} --local-dir FOLDER`, and pass FOLDER"
        )
    cameras = None if camera is None or isinstance(camera, str) else as_sequence(camera)
    if (
        camera is not None
        and not isinstance(camera, str)
        and (not cameras or not all(isinstance(name, str) for name in cameras) or len(set(cameras)) < len(cameras))
    ):
        raise ArgumentError(f"camera must be a string or a list of different ones, got {camera!r}")
    numbers = None
    if episodes is not None:
        given = as_sequence(episodes)
        if given is None:
            raise ArgumentError(f"episodes must be a list of ints, got {episodes!r}")
        numbers = [integer("episodes", number, most=2**63 - 1) for number in given]
    one = camera if isinstance(camera, str) else None
    if cameras is None and delta_timestamps is None:
        return annotated_dataset(_framespool.read_lerobot(root, one, numbers))
    return LeRobotFrames(root, cameras if one is None else [one], numbers, delta_timestamps, tolerance_s)


class LeRobotFrames(Dataset):
    """The episodes of a LeRobot dataset, of which a loader delivers frames with all their features; see `lerobot()`.

    Args:
        root: Folder of the dataset.
        cameras: Names of the cameras; `None` for all.
        episodes: Numbers of the episodes, or `None`.
        delta_timestamps: As for `lerobot()`.
        tolerance_s: As for `lerobot()`.

    Raises:
        ArgumentError: If there is no such feature, or a distance is no multiple of the duration of a frame.
    """

    _of_robots = True

    def __init__(
        self,
        root: str | os.PathLike[str],
        cameras: Sequence[str] | None,
        episodes: list[int] | None,
        delta_timestamps: Mapping[str, Sequence[float]] | None,
        tolerance_s: float,
    ) -> None:
        import json
        from pathlib import Path

        self._root = Path(root)
        try:
            info = json.loads((self._root / "meta/info.json").read_text())
            self._features: dict[str, dict[str, Any]] = dict(info["features"])
        except (OSError, ValueError, KeyError, TypeError):
            # The engine's reader reports what is wrong with the file.
            annotated_dataset(_framespool.read_lerobot(root, None, None))
            raise
        if cameras is None:
            cameras = [name for name, feature in self._features.items() if feature.get("dtype") == "video"]
        self.cameras = list(cameras)
        # Without a camera the engine's reader reports that there is none.
        names: list[str | None] = [*self.cameras] or [None]
        views = [annotated_dataset(_framespool.read_lerobot(root, name, episodes)) for name in names]
        super().__init__(views[0].samples, views[0].classes, views[0].columns)
        self._views = views
        self.fps: float = self.columns["fps"][0]
        self.tolerance_s = number("tolerance_s", tolerance_s, least=0)
        self.delta_timestamps: dict[str, list[float]] = {}
        for name, deltas in (delta_timestamps or {}).items():
            if name not in self._features:
                raise ArgumentError(
                    f"delta_timestamps: no feature {name!r}; there are {', '.join(sorted(self._features))}"
                )
            self.delta_timestamps[name] = [number(f"delta_timestamps[{name!r}]", delta) for delta in deltas]
            for delta in self.delta_timestamps[name]:
                if abs(delta * self.fps - round(delta * self.fps)) > self.tolerance_s * self.fps:
                    raise ArgumentError(
                        f"delta_timestamps[{name!r}]: {delta} s is no multiple of 1 / {self.fps:g} s to within "
                        f"tolerance_s={self.tolerance_s:g}"
                    )
        #: First row of each episode in the tables, and its number of rows.
        self._lengths: list[int] = self.columns["length"]
        self._firsts = self.columns.get("dataset_from_index") or self._first_rows()
        self._tables: dict[str, bytes] | None = None

    def _first_rows(self) -> list[int]:
        """First rows in version 2, whose metadata lacks them: episodes follow each other in the tables."""
        every = annotated_dataset(_framespool.read_lerobot(self._root, self.cameras[0], None)).columns
        starts = itertools.accumulate(every["length"], initial=0)
        first = dict(zip(every["episode_index"], starts, strict=False))
        return [first[episode] for episode in self.columns["episode_index"]]

    def _sources(self) -> list[tuple[str, Dataset, Any, tuple[int, int] | None]]:
        """For each camera its name, its episodes, the clip sampler of its frames, and (height, width)."""
        from framespool.samplers import presets

        found: list[tuple[str, Dataset, Any, tuple[int, int] | None]] = []
        for name, view in zip(self.cameras, self._views, strict=True):
            deltas = self.delta_timestamps.get(name, [0.0])
            sampler = presets.lerobot(delta_timestamps=deltas, fps=self.fps, tolerance_s=self.tolerance_s)
            feature = self._features[name]
            sides = dict(zip(feature.get("names") or (), feature.get("shape") or (), strict=False))
            if not {"height", "width"} <= sides.keys():
                sides = dict(zip(("height", "width"), feature.get("shape") or (), strict=False))
            size = (sides["height"], sides["width"]) if len(sides) >= 2 else None
            found.append((name, view, sampler, size))
        return found

    def _numbers(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Dtype and shape of the features in the tables that are numbers."""
        found = {}
        for name, feature in self._features.items():
            if feature.get("dtype") in _NUMBER_BYTES:
                shape = tuple(feature.get("shape") or (1,))
                found[name] = (feature["dtype"], () if shape == (1,) else shape)
        return found

    def _values(self, episodes: Sequence[int], frames: Sequence[int]) -> dict[str, Any]:
        """The features of frames, other than the cameras.

        Args:
            episodes: Index of the episode of each frame, among those of this dataset.
            frames: Index of each frame within its episode.

        Returns:
            Tensors by name, and `task`.
        """
        kinds = self._numbers()
        if self._tables is None:
            wanted = [(name, dtype, math.prod(shape)) for name, (dtype, shape) in kinds.items()]
            self._tables = dict(zip(kinds, _framespool.read_lerobot_tables(self._root, wanted), strict=True))
        tensor_of = _framespool.tensor_of
        values: dict[str, Any] = {}
        for name, deltas in self.delta_timestamps.items():
            steps = [round(delta * self.fps) for delta in deltas]
            outside = bytes(
                not 0 <= frame + step < self._lengths[episode]
                for episode, frame in zip(episodes, frames, strict=True)
                for step in steps
            )
            values[f"{name}_is_pad"] = tensor_of(outside, (len(frames), len(steps)), "bool")
        for name, (dtype, shape) in kinds.items():
            steps = [round(delta * self.fps) for delta in self.delta_timestamps.get(name, [0.0])]
            size, table = _NUMBER_BYTES[dtype] * math.prod(shape), self._tables[name]
            rows = (
                self._firsts[episode] + min(max(frame + step, 0), self._lengths[episode] - 1)
                for episode, frame in zip(episodes, frames, strict=True)
                for step in steps
            )
            data = b"".join(table[row * size : (row + 1) * size] for row in rows)
            times = (len(steps),) if name in self.delta_timestamps else ()
            expected = len(frames) * len(steps) * size
            if len(data) != expected:
                raise ArgumentError(
                    f"{self._root / 'data'}: the tables have {len(table) // max(size, 1)} rows, fewer than the "
                    "episodes; download all of the files"
                )
            values[name] = tensor_of(data, (len(frames), *times, *shape), dtype)
        if "task_index" in values and self.classes:
            values["task"] = [self.classes[task] for task in values["task_index"].tolist()]
        return values
