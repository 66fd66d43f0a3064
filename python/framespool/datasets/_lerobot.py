"""Reads LeRobot datasets: episodes of robots, several of which share a video file."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from framespool import _framespool
from framespool._common.validate_args import as_sequence, display_repr, integer, is_url, number, user_stacklevel
from framespool.datasets._dataset import Dataset
from framespool.datasets._depth import DepthCodes, depth_codes, is_depth
from framespool.datasets._normalization import Normalization, chosen_modes, read_stats
from framespool.datasets._readers import annotated_dataset
from framespool.datasets._robot_frames import RobotFrames, RobotSource
from framespool.errors import ArgumentError

#: What a batch or a dataset of episodes has by name, which a feature must not be called by `rename`.
_TAKEN = frozenset(
    (
        *("frames", "labels", "indices", "pts_seconds", "mask", "video_ids", "clip_ids", "requested_ids", "view_ids"),
        *("padding", "geometry", "video", "columns", "content_keys", "unpadded_sizes", "mixed_with", "mix_weights"),
        *("audio", "audio_mask"),
        *("task", "dataset_index", "episode_index", "length", "tasks", "fps"),
        *("dataset_from_index", "dataset_to_index"),
    )
)
#: Page of a dataset on the Hub, which is no folder of files.
_HUB_PAGE = re.compile(r"https?://(?:www\.)?(?:huggingface\.co|hf\.co)/datasets/([^/@?#]+/[^/@?#]+)")


def lerobot(
    root: str | os.PathLike[str],
    *,
    camera: str | Sequence[str] | None = None,
    episodes: Iterable[int] | None = None,
    delta_timestamps: Mapping[str, Sequence[float]] | None = None,
    tolerance_s: float = 1e-4,
    rename: Mapping[str, str] | None = None,
    normalize: bool | str | Mapping[str, str] | None = None,
    stats: Any = None,
) -> Dataset:
    """Reads a LeRobot dataset, version 3.0 (or 2.0 and 2.1): its episodes.

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

    By URL nothing is copied: metadata, tables and videos are read in ranges. Which files there are is stated by the
    metadata, so no folder is listed. Of the tables only those with the given episodes are read.

    Args:
        root: Folder of the dataset, with `meta`, `videos` and, for frames, `data`; or its URL, such as
            `hf://datasets/USER/NAME`, `hf://datasets/USER/NAME@REVISION` or `s3://BUCKET/FOLDER`.
        camera: A feature of type `video`, such as `"observation.images.top"`, or a list of them. May be omitted if
            there is only one; with `delta_timestamps` it is then all of them.
        episodes: Numbers of the episodes to use, in this order. By default all, in ascending order.
        delta_timestamps: For features of frames: distances in seconds from the frame of the sample, multiples of
            `1 / fps`.
        tolerance_s: By how many seconds distances and presentation times may deviate.
        rename: Names in the batch for features, such as `{"observation.images.front": "observation.images.top"}`, for
            `mix()`. All other arguments take the names of the dataset. It makes a dataset of frames, as does
            `normalize`.
        normalize: How numbers are normalized, as `Normalization` explains. `"mean_std"` (or `True`), `"min_max"`,
            `"quantiles"` or `"quantile10"` applies to all floating-point features `observation…` and `action…`; a
            mapping has one of these, or `"identity"`, for each feature. The result has it as `normalization`, whose
            `unnormalize()` turns what a policy predicts into actions.
        stats: Statistics for `normalize`: by feature, or path or URL of a file of them. By default those in the
            dataset, `meta/stats.json` or, aggregated, `meta/episodes_stats.jsonl`; over all episodes.

    Returns:
        Dataset: One sample per episode. The label is the number of the episode's first task, or -1; `classes`
        are the tasks. `columns`: `episode_index`, `length`, `tasks` and `fps`. In version 3.0 also
        `dataset_from_index` and `dataset_to_index`, the rows of the episode in the tables under `data`: frame *i*
        of the episode is row `dataset_from_index + i`.

    Raises:
        ArgumentError: If the camera or an episode does not exist, or if files of `meta` lack something or contradict
            each other; the message names file and row. Also if `normalize` needs statistics that are missing.
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
    root = _checked_root(root)
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
    if cameras is None and delta_timestamps is None and normalize is None and rename is None:
        episodes_only = annotated_dataset(_framespool.read_lerobot(root, one, numbers))
        features = json.loads(_framespool.read_text(os.path.join(root, "meta/info.json")))["features"]
        videos = [name for name, feature in features.items() if dict(feature).get("dtype") == "video"]
        for name in videos if one is None else [one]:
            if depth_codes(features[name]) is not None:
                warnings.warn(
                    f"{name} is a depth map, whose frames are colors in a dataset of videos; delta_timestamps={{}} "
                    "makes one of frames with depth, see docs/howto/robotics.md",
                    stacklevel=user_stacklevel(),
                )
        return episodes_only
    chosen = cameras if one is None else [one]
    return LeRobotFrames(root, chosen, numbers, delta_timestamps, tolerance_s, rename, normalize, stats)


def _checked_root(root: Any) -> str:
    """The folder or URL of a dataset; the files are found below it."""
    if not isinstance(root, (str, os.PathLike)):
        raise ArgumentError(f"root must be a path or a URL, got {root!r}")
    path = os.fspath(root)
    if not is_url(path):
        return path
    page = _HUB_PAGE.match(path)
    if page is not None:
        raise ArgumentError(f"{display_repr(path)} is a page for browsers; pass 'hf://datasets/{page[1]}'")
    if "?" in path or "#" in path:
        raise ArgumentError(
            f"root must be a folder, got {display_repr(path)} with a query, such as a signature for one file; use "
            "s3:// with credentials, see docs/howto/remote.md"
        )
    return path.rstrip("/")


class LeRobotFrames(Dataset):
    """The episodes of a LeRobot dataset, of which a loader delivers frames with all their features; see `lerobot()`.

    Args:
        root: Folder or URL of the dataset.
        cameras: Names of the cameras; `None` for all.
        episodes: Numbers of the episodes, or `None`.
        delta_timestamps: As for `lerobot()`.
        tolerance_s: As for `lerobot()`.
        rename: As for `lerobot()`.
        normalize: As for `lerobot()`.
        stats: As for `lerobot()`.

    Attributes:
        cameras: Names of the cameras in a batch.
        fps: Frames per second.
        delta_timestamps: Distances in seconds by name in a batch.
        tolerance_s: Tolerance in seconds.
        normalization: What normalizes numbers, by name in a batch; `None` without.
        depth: Of each depth camera in a batch the meaning of its codes: `depth[name].meters(batch[name])`.

    Raises:
        ArgumentError: If there is no such feature, or a distance is no multiple of the duration of a frame.
    """

    def __init__(
        self,
        root: str,
        cameras: Sequence[str] | None,
        episodes: list[int] | None,
        delta_timestamps: Mapping[str, Sequence[float]] | None,
        tolerance_s: float,
        rename: Mapping[str, str] | None = None,
        normalize: bool | str | Mapping[str, str] | None = None,
        stats: Any = None,
    ) -> None:
        try:
            info = json.loads(_framespool.read_text(os.path.join(root, "meta/info.json")))
            features: dict[str, dict[str, Any]] = dict(info["features"])
        except (ValueError, KeyError, TypeError):
            # The engine's reader reports what is wrong with the file.
            annotated_dataset(_framespool.read_lerobot(root, None, None))
            raise
        if cameras is None:
            cameras = [name for name, feature in features.items() if feature.get("dtype") == "video"]
        # Without a camera the engine's reader reports that there is none.
        names: list[str | None] = [*cameras] or [None]
        views = [annotated_dataset(_framespool.read_lerobot(root, name, episodes)) for name in names]
        super().__init__(views[0].samples, views[0].classes, views[0].columns)
        self.fps: float = self.columns["fps"][0]
        self.tolerance_s = number("tolerance_s", tolerance_s, least=0)
        others = [name for name, feature in features.items() if feature.get("dtype") != "video"]
        new_names = _new_names(features, [*cameras, *others], rename)
        self.cameras = [new_names[name] for name in cameras]
        self.delta_timestamps: dict[str, list[float]] = {}
        for name, deltas in (delta_timestamps or {}).items():
            if name not in features:
                raise ArgumentError(f"delta_timestamps: no feature {name!r}; there are {', '.join(sorted(features))}")
            own = [number(f"delta_timestamps[{name!r}]", delta) for delta in deltas]
            for delta in own:
                if abs(delta * self.fps - round(delta * self.fps)) > self.tolerance_s * self.fps:
                    raise ArgumentError(
                        f"delta_timestamps[{name!r}]: {delta} s is no multiple of 1 / {self.fps:g} s to within "
                        f"tolerance_s={self.tolerance_s:g}"
                    )
            self.delta_timestamps[new_names.get(name, name)] = own
        codes = {new_names[name]: depth_codes(features[name]) for name in cameras}
        self.depth: dict[str, DepthCodes] = {name: each for name, each in codes.items() if each is not None}
        _warn_of_depth(features, cameras)
        lengths: list[int] = self.columns["length"]
        self._source = RobotSource(
            root=root,
            features=features,
            names={new: own for own, new in new_names.items()},
            views=dict(zip(self.cameras, views, strict=True)),
            fps=self.fps,
            tolerance_s=self.tolerance_s,
            deltas=self.delta_timestamps,
            normalization=None,
            depth_cameras={*self.depth},
            firsts=self.columns.get("dataset_from_index") or _first_rows(root, cameras[0], self.columns),
            lengths=lengths,
        )
        numbers = self._source.numbers()
        self.normalization: Normalization | None = None
        if normalize is not None and normalize is not False:
            kinds = {own: numbers[new] for own, new in new_names.items() if new in numbers}
            modes = chosen_modes(normalize, {name: dtype for name, (dtype, _) in kinds.items()})
            used = {name: mode for name, mode in modes.items() if mode != "identity"}
            chosen = Normalization(read_stats(root, stats) if used else {}, modes)
            chosen._check_sizes({name: math.prod(shape) for name, (_, shape) in kinds.items()})
            self.normalization = self._source.normalization = chosen._renamed(new_names)
        elif stats is not None:
            raise ArgumentError('stats= is for normalize=, such as normalize="mean_std"')
        places = [(0, episode) for episode in range(len(views[0]))]
        self._robots = RobotFrames([self._source], places, self.cameras, numbers, self.classes)


def _new_names(features: Mapping[str, Any], used: Sequence[str], rename: Mapping[str, str] | None) -> dict[str, str]:
    """Names in a batch by names in the dataset."""
    for name in rename or ():
        if name not in features:
            raise ArgumentError(f"rename: no feature {name!r}; there are {', '.join(sorted(features))}")
    found = {name: (rename or {}).get(name, name) for name in used}
    if not all(isinstance(name, str) for name in found.values()) or len(set(found.values())) < len(found):
        raise ArgumentError(f"rename must give features different names that are strings, got {rename!r}")
    made = {f"{name}{ending}" for name in found.values() for ending in ("_is_pad", "_mask")}
    for own, name in found.items():
        if name != own and (name in _TAKEN or name in made):
            raise ArgumentError(f"rename: {own!r} cannot be called {name!r}, which is something else in a batch")
    return found


def _warn_of_depth(features: Mapping[str, Mapping[str, Any]], cameras: Sequence[str]) -> None:
    """Warns of depth maps without the meaning of their codes."""
    for name in cameras:
        if is_depth(features[name]) and depth_codes(features[name]) is None:
            warnings.warn(
                f"{name} is a depth map, but meta/info.json states no range of depth for its pixel format, so that its "
                "frames are colors; omit it by camera=, see docs/howto/robotics.md",
                stacklevel=user_stacklevel(),
            )


def _first_rows(root: str, camera: str, columns: Mapping[str, list[Any]]) -> list[int]:
    """First rows in version 2, whose metadata lacks them: episodes follow each other in the tables."""
    every = annotated_dataset(_framespool.read_lerobot(root, camera, None)).columns
    starts = itertools.accumulate(every["length"], initial=0)
    first = dict(zip(every["episode_index"], starts, strict=False))
    return [first[episode] for episode in columns["episode_index"]]


def lerobot_stats(root: str | os.PathLike[str], *, episodes: Iterable[int] | None = None) -> dict[str, dict[str, Any]]:
    """Computes statistics of the numbers in a LeRobot dataset, for `lerobot(normalize=, stats=)`.

    The tables are read feature by feature; memory is needed for one feature of all frames. `json.dump()` writes the
    result as `meta/stats.json`. Quantiles are those of all frames, as NumPy computes them; LeRobot's are averages over
    episodes.

    Args:
        root: Folder or URL of the dataset.
        episodes: Numbers of the episodes. By default all.

    Returns:
        By feature lists in its shape: `min`, `max`, `mean`, `std` (of all frames, not of a sample), `q01`, `q10`,
        `q50`, `q90` and `q99`; and `count`, the number of frames.

    Raises:
        ArgumentError: As `lerobot()`, and if a number is not finite.

    Example:
        >>> import framespool as fsp
        >>> stats = fsp.datasets.lerobot_stats("aloha/")  # doctest: +SKIP
        >>> stats["action"]["mean"], stats["action"]["count"]  # doctest: +SKIP
        ([0.012, -0.25], [20000])
    """
    frames = lerobot(root, episodes=episodes, delta_timestamps={})
    assert isinstance(frames, LeRobotFrames)
    found: dict[str, dict[str, Any]] = {}
    for name, (_, shape) in frames._source.numbers().items():
        rows, dtype, width = frames._source.episode_rows(name)
        try:
            columns = _framespool.row_statistics(rows, dtype, width, [0.01, 0.1, 0.5, 0.9, 0.99])
        except ArgumentError as error:
            raise ArgumentError(f"{display_repr(os.fspath(root))}: {name}: {error}") from None
        four = zip(*(column[:4] for column in columns), strict=True)
        flat = dict(zip(("min", "max", "mean", "std"), map(list, four), strict=True))
        flat |= {
            key: [column[4][at] for column in columns] for at, key in enumerate(("q01", "q10", "q50", "q90", "q99"))
        }
        found[name] = {key: _in_shape(values, shape or (1,)) for key, values in flat.items()}
        found[name]["count"] = [sum(frames._source.lengths)]
    return found


def _in_shape(values: list[float], shape: tuple[int, ...]) -> list[Any]:
    if len(shape) <= 1:
        return values
    each = math.prod(shape[1:])
    return [_in_shape(values[at * each : (at + 1) * each], shape[1:]) for at in range(shape[0])]
