"""Frames of robots: for each sample its cameras, and the features of its frames in tables."""

from __future__ import annotations

import itertools
import math
import os
import sys
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from framespool import _framespool
from framespool._common.validate_args import display_path
from framespool.datasets._dataset import Dataset
from framespool.datasets._normalization import Normalization
from framespool.datasets._sample_list import joined
from framespool.errors import ArgumentError

if TYPE_CHECKING:
    from framespool.samplers import ClipSampler

#: Dtypes of features that are numbers, and the bytes of each.
NUMBER_BYTES = {"float32": 4, "float64": 8, "int64": 8, "bool": 1}


@dataclass
class RobotSource:
    """The episodes of one LeRobot dataset, and the features of their frames.

    Attributes:
        root: Folder or URL of the dataset.
        features: What `info.json` states, by the name of the feature there.
        names: By the name in a batch the name in the dataset.
        views: By camera in a batch its episodes.
        fps: Frames per second.
        tolerance_s: Tolerance of presentation times in seconds.
        deltas: By name in a batch the distances from the frame in seconds.
        normalization: What is applied to numbers, by name in a batch.
        depth_cameras: Names in a batch of the cameras whose frames are distances.
        firsts: First row of each episode in the tables of the whole dataset.
        lengths: Frames of each episode.
    """

    root: str
    features: Mapping[str, Mapping[str, Any]]
    names: Mapping[str, str]
    views: Mapping[str, Dataset]
    fps: float
    tolerance_s: float
    deltas: Mapping[str, list[float]]
    normalization: Normalization | None
    depth_cameras: set[str]
    firsts: list[int]
    lengths: list[int]
    #: First row of each episode in the tables as they were read.
    _rows: list[int] = field(default_factory=list)
    _tables: dict[tuple[str, str], bytes] = field(default_factory=dict)
    _numbers: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)

    def numbers(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """The features that are numbers.

        Returns:
            Dtype and shape by name in a batch.
        """
        if self._numbers:
            return self._numbers
        found = self._numbers
        for name, own in self.names.items():
            feature = self.features[own]
            if feature.get("dtype") in NUMBER_BYTES:
                shape = tuple(feature.get("shape") or (1,))
                found[name] = (feature["dtype"], () if shape == (1,) else shape)
        return found

    def size(self, camera: str) -> tuple[int, int] | None:
        """The size of the frames of a camera, as stated.

        Args:
            camera: Name in a batch.

        Returns:
            (height, width), or `None`.
        """
        feature = self.features[self.names[camera]]
        sides = dict(zip(feature.get("names") or (), feature.get("shape") or (), strict=False))
        if not {"height", "width"} <= sides.keys():
            sides = dict(zip(("height", "width"), feature.get("shape") or (), strict=False))
        return (sides["height"], sides["width"]) if len(sides) >= 2 else None

    def sampler(self, camera: str) -> ClipSampler:
        """The clip sampler of a camera.

        Args:
            camera: Name in a batch.

        Returns:
            It has one clip for each frame of an episode.
        """
        from framespool.samplers import presets

        deltas = self.deltas.get(camera, [0.0])
        return presets.lerobot(delta_timestamps=deltas, fps=self.fps, tolerance_s=self.tolerance_s)

    def steps(self, name: str) -> list[int]:
        """The distances of a feature from the frame of the sample.

        Args:
            name: Name in a batch.

        Returns:
            Distances in frames.
        """
        return [round(delta * self.fps) for delta in self.deltas.get(name, [0.0])]

    def load(self, wanted: Mapping[str, str]) -> None:
        """Reads the tables of features that are not in memory yet.

        Args:
            wanted: Dtypes by name in a batch.

        Raises:
            ArgumentError: If the tables lack rows of an episode.
        """
        missing = {name: dtype for name, dtype in wanted.items() if (name, dtype) not in self._tables}
        if not missing:
            return
        tables = self._read(missing)
        for name, dtype in missing.items():
            if self.normalization is not None:
                tables[name] = self.normalization._rows(name, tables[name], dtype)
            self._tables[name, dtype] = tables[name]

    def _read(self, wanted: Mapping[str, str]) -> dict[str, bytes]:
        kinds = self.numbers()
        asked = [(self.names[name], dtype, math.prod(kinds[name][1])) for name, dtype in wanted.items()]
        episodes = next(iter(self.views.values())).columns["episode_index"]
        tables, runs = _framespool.read_lerobot_tables(self.root, asked, episodes)
        starts = [first for first, _ in runs]
        before = list(itertools.accumulate((count for _, count in runs), initial=0))
        rows = []
        for episode, first, length in zip(episodes, self.firsts, self.lengths, strict=True):
            at = bisect_right(starts, first) - 1
            if at < 0 or first + length > starts[at] + runs[at][1]:
                raise ArgumentError(
                    f"{display_path(os.path.join(self.root, 'data'))}: the tables have {before[-1]} rows, but not all "
                    f"of rows {first} to {first + length} of episode {episode}; download all of the files"
                )
            rows.append(before[at] + first - starts[at])
        self._rows = rows
        return dict(zip(wanted, tables, strict=True))

    def row_reader(self, name: str, dtype: str, more: int) -> Callable[[int, int], bytes]:
        """A function that reads the numbers of a feature for a frame.

        Args:
            name: Name in a batch; `load()` has read it.
            dtype: Dtype of the numbers.
            more: Zeros to be added to the numbers of each row.

        Returns:
            From the index of the episode in this source, and of the frame within it, to the rows for all distances;
            beyond the episode those of its first or last frame.
        """
        size = NUMBER_BYTES[dtype] * math.prod(self.numbers()[name][1])
        table, firsts, lengths, steps = self._tables[name, dtype], self._rows, self.lengths, self.steps(name)
        zeros = bytes(NUMBER_BYTES[dtype] * more)
        # Most often consecutive rows, which are one slice.
        begin, end = (steps[0], steps[-1] + 1) if steps else (0, 0)
        consecutive = not more and steps == list(range(begin, end))

        def read(episode: int, frame: int) -> bytes:
            first, last = firsts[episode], lengths[episode] - 1
            if consecutive and frame + begin >= 0 and frame + end <= last + 1:
                return table[(first + frame + begin) * size : (first + frame + end) * size]
            starts = [(first + min(max(frame + step, 0), last)) * size for step in steps]
            if more:
                return b"".join([table[start : start + size] + zeros for start in starts])
            return b"".join([table[start : start + size] for start in starts])

        return read

    def padding_reader(self, name: str) -> Callable[[int, int], bytes]:
        """A function that reports which distances of a feature lead beyond the episode.

        Args:
            name: Name in a batch.

        Returns:
            From the index of the episode in this source, and of the frame within it, to a byte for each distance.
        """
        lengths, steps = self.lengths, self.steps(name)
        least, most, inside = min(steps, default=0), max(steps, default=0), bytes(len(steps))

        def read(episode: int, frame: int) -> bytes:
            length = lengths[episode]
            if frame + least >= 0 and frame + most < length:
                return inside
            return bytes([not 0 <= frame + step < length for step in steps])

        return read

    def episode_rows(self, name: str) -> tuple[bytes, str, int]:
        """All numbers of a feature, of the episodes of this source, without normalization.

        Args:
            name: Name in a batch.

        Returns:
            The numbers, their dtype, and how many there are for a frame.
        """
        dtype, shape = self.numbers()[name]
        table, size = self._read({name: dtype})[name], NUMBER_BYTES[dtype] * math.prod(shape)
        parts = (table[row * size : (row + n) * size] for row, n in zip(self._rows, self.lengths, strict=True))
        return b"".join(parts), dtype, math.prod(shape)


@dataclass
class RobotFrames:
    """What a loader reads for the samples of a dataset: episodes of one LeRobot dataset or of several.

    Attributes:
        sources: The LeRobot datasets.
        places: For each sample its source and its episode there, both as indices.
        cameras: Names of the cameras in a batch.
        numbers: Dtype and shape, by name in a batch, of the features that are numbers.
        classes: The tasks, by label.
    """

    sources: list[RobotSource]
    places: list[tuple[int, int]]
    cameras: list[str]
    numbers: dict[str, tuple[str, tuple[int, ...]]]
    classes: list[str]

    def take(self, samples: Sequence[int]) -> RobotFrames:
        """Selects samples.

        Args:
            samples: Their indices.

        Returns:
            These samples.
        """
        return replace(self, places=[self.places[sample] for sample in samples])

    def with_used_sources(self) -> RobotFrames:
        """Omits the sources of which there is no sample, such as those of the other parts of a mixture.

        Returns:
            The same samples.
        """
        used = sorted({source for source, _ in self.places}) or [0]
        number = {source: at for at, source in enumerate(used)}
        places = [(number[source], episode) for source, episode in self.places]
        return replace(self, sources=[self.sources[source] for source in used], places=places)

    def _runs(self) -> list[tuple[RobotSource, list[int]]]:
        """Consecutive samples of one source: the source, and the episodes."""
        runs = itertools.groupby(self.places, key=lambda place: place[0])
        return [(self.sources[source], [episode for _, episode in run]) for source, run in runs]

    def view(self, camera: str) -> Dataset:
        """The samples as one camera has them.

        Args:
            camera: Its name.

        Returns:
            A dataset of episodes.
        """
        parts = []
        for source, episodes in self._runs():
            view = source.views[camera]
            whole = episodes == list(range(len(view)))
            parts.append(view.samples if whole else view.subset(episodes).samples)
        return Dataset(joined(parts))

    def sampler(self, camera: str) -> ClipSampler:
        """The clip sampler of a camera.

        Args:
            camera: Its name.

        Returns:
            For each sample that of its source.
        """
        from framespool.samplers._per_sample import PerSample

        parts = [(len(episodes), source.sampler(camera)) for source, episodes in self._runs()]
        if all(sampler == parts[0][1] for _, sampler in parts):
            return parts[0][1] if parts else self.sources[0].sampler(camera)
        return PerSample(parts)

    def size(self, camera: str, *, any_size: bool) -> tuple[int, int] | None:
        """The size of the frames of a camera, as all of its datasets state it.

        Args:
            camera: Its name.
            any_size: Whether it may differ, since transforms follow.

        Returns:
            (height, width); `None` if it differs or one states none.

        Raises:
            ArgumentError: If they state different ones.
        """
        sizes = list(dict.fromkeys(source.size(camera) for source in self.sources))
        known = [size for size in sizes if size is not None]
        if len(known) > 1 and not any_size:
            (height, width), (other_height, other_width) = known[:2]
            raise ArgumentError(
                f"{camera}: frames are {width}x{height} in one dataset and {other_width}x{other_height} in another; "
                "give transforms=[Resize((height, width))]"
            )
        return sizes[0] if len(sizes) == 1 else None

    def is_depth(self, camera: str) -> bool:
        """Whether a camera measures depth.

        Args:
            camera: Its name.

        Returns:
            Whether it does.

        Raises:
            ArgumentError: If it does in some of the datasets only.
        """
        found = {camera in source.depth_cameras for source in self.sources}
        if len(found) > 1:
            raise ArgumentError(
                f"{camera} is a depth camera with a stated range in some of the datasets only; give it another name in "
                "the others by rename=, or omit it by keys="
            )
        return True in found

    def has_deltas(self, camera: str) -> bool:
        """Whether a clip of a camera has a dimension of time.

        Args:
            camera: Its name.

        Returns:
            Whether `delta_timestamps` has it.
        """
        return camera in self.sources[0].deltas

    def config(self) -> dict[str, Any]:
        """What determines the clips, for checkpoints.

        Returns:
            Values by name.
        """
        deltas = [
            {name: values for name, values in source.deltas.items() if name in (*self.cameras, *self.numbers)}
            for source in self.sources
        ]
        found = {"cameras": self.cameras, "delta_timestamps": deltas[0] if len(deltas) == 1 else deltas}
        modes = [{} if each.normalization is None else each.normalization.modes for each in self.sources]
        # Without normalization nothing is added, so that states of before still fit.
        return {**found, "normalize": modes} if any(modes) else found

    def values(self, samples: Sequence[int], frames: Sequence[int]) -> dict[str, Any]:
        """The features of frames, other than the cameras.

        Args:
            samples: Index of the sample of each frame.
            frames: Index of each frame within its episode.

        Returns:
            Tensors by name, and `task`.
        """
        found: dict[str, Any] = {}
        tensor_of, count = _framespool.tensor_of, len(frames)
        dtypes = {name: dtype for name, (dtype, _) in self.numbers.items()}
        wanted = [(self.sources[s], e, frame) for (s, e), frame in self._located(samples, frames)]
        sources = {id(source): source for source, _, _ in wanted}
        for source in sources.values():
            source.load(dtypes)
        for name in (*self.cameras, *self.numbers):
            if self.has_deltas(name):
                outsides = {key: source.padding_reader(name) for key, source in sources.items()}
                outside = b"".join([outsides[id(source)](episode, frame) for source, episode, frame in wanted])
                found[f"{name}_is_pad"] = tensor_of(outside, (count, len(self.sources[0].deltas[name])), "bool")
        for name, (dtype, shape) in self.numbers.items():
            width = math.prod(shape)
            own = {key: math.prod(source.numbers()[name][1]) for key, source in sources.items()}
            readers = {key: source.row_reader(name, dtype, width - own[key]) for key, source in sources.items()}
            rows = b"".join([readers[id(source)](episode, frame) for source, episode, frame in wanted])
            times = (len(self.sources[0].deltas[name]),) if self.has_deltas(name) else ()
            found[name] = tensor_of(rows, (count, *times, *shape), dtype)
            if any(source.numbers()[name][1] != shape for source in self.sources):
                masks = {key: bytes([1]) * number + bytes(width - number) for key, number in own.items()}
                mask = b"".join([masks[id(source)] for source, _, _ in wanted])
                found[f"{name}_mask"] = tensor_of(mask, (count, *shape), "bool")
        self._add_tasks(found, wanted)
        if len(self.sources) > 1:
            numbers = b"".join(s.to_bytes(8, _BYTE_ORDER) for (s, _), _ in self._located(samples, frames))
            found["dataset_index"] = tensor_of(numbers, (count,), "int64")
        return found

    def _located(self, samples: Sequence[int], frames: Sequence[int]) -> list[tuple[tuple[int, int], int]]:
        return [(self.places[sample], frame) for sample, frame in zip(samples, frames, strict=True)]

    def _add_tasks(self, found: dict[str, Any], wanted: Sequence[tuple[RobotSource, int, int]]) -> None:
        """Adds the texts of tasks; their numbers become those of the joined datasets."""
        if "task_index" not in found or self.numbers["task_index"][1] != ():
            return
        lists = [next(iter(source.views.values())).classes for source, _, _ in wanted]
        if not all(lists):
            return
        found["task"] = [tasks[task] for tasks, task in zip(lists, found["task_index"].tolist(), strict=True)]
        if len(self.sources) > 1:
            label = {task: number for number, task in reversed([*enumerate(self.classes)])}
            numbers = b"".join(label[task].to_bytes(8, _BYTE_ORDER) for task in found["task"])
            found["task_index"] = _framespool.tensor_of(numbers, (len(wanted),), "int64")


#: Byte order of the numbers of a tensor.
_BYTE_ORDER = sys.byteorder


def join_robots(datasets: Sequence[Dataset], keys: Sequence[str] | None) -> tuple[list[Dataset], RobotFrames]:
    """Joins datasets with frames of robots.

    Args:
        datasets: The datasets, each with frames of robots.
        keys: Names of the cameras and other features; `None` for those that all of them have.

    Returns:
        The datasets with the samples of the first common camera, and the frames of all of their samples.

    Raises:
        ArgumentError: If a dataset lacks a key, or they do not fit together.
    """
    every = [dataset._robots.with_used_sources() for dataset in datasets if dataset._robots is not None]
    if len(every) < len(datasets):
        raise ArgumentError(
            "frames of datasets.lerobot() and datasets of videos cannot be joined or mixed; read all of them with "
            "delta_timestamps or a list of cameras"
        )
    first = every[0]
    if keys is None:
        kept = [name for name in (*first.cameras, *first.numbers) if all(_has(robots, name) for robots in every)]
    else:
        kept = list(keys)
        for at, robots in enumerate(every):
            for name in kept:
                if not _has(robots, name):
                    known = ", ".join((*robots.cameras, *robots.numbers))
                    raise ArgumentError(
                        f"keys: the dataset at index {at} has no {name!r}; it has {known}. Omit it, or rename a "
                        "feature with lerobot(rename=)"
                    )
    cameras = [name for name in kept if name in first.cameras]
    if not cameras or not all(name in robots.cameras for robots in every for name in cameras):
        lists = "; ".join(", ".join(robots.cameras) for robots in every)
        raise ArgumentError(f"the datasets have no camera in common: {lists}. Give them one name with lerobot(rename=)")
    sources = [source for robots in every for source in robots.sources]
    numbers = {name: _common_type(name, every) for name in kept if name not in cameras}
    for name in kept:
        lengths = [len(source.deltas[name]) if name in source.deltas else None for source in sources]
        if len(set(lengths)) > 1:
            shown = " and ".join(dict.fromkeys("none" if n is None else str(n) for n in lengths))
            raise ArgumentError(
                f"{name}: delta_timestamps of the datasets have {shown} entries; they must have equally many"
            )
    offsets = itertools.accumulate((len(robots.sources) for robots in every), initial=0)
    places = [(at + s, e) for robots, at in zip(every, offsets, strict=False) for s, e in robots.places]
    classes = list(dict.fromkeys(name for dataset in datasets for name in dataset.classes))
    parts = []
    for dataset, robots in zip(datasets, every, strict=True):
        own = replace(robots, cameras=cameras, numbers={name: robots.numbers[name] for name in numbers})
        parts.append(_with_camera(dataset, own, robots.cameras[0]))
    return parts, RobotFrames(sources, places, cameras, numbers, classes)


def _has(robots: RobotFrames, name: str) -> bool:
    return name in robots.cameras or name in robots.numbers


def _with_camera(dataset: Dataset, robots: RobotFrames, camera: str) -> Dataset:
    """A plain dataset of the first of other cameras, with the labels of the samples of `camera`."""
    samples = dataset.samples
    if robots.cameras[0] != camera:
        samples = robots.view(robots.cameras[0]).samples
        if len(robots.sources) > 1:  # labels of joined datasets are numbered again
            samples = [(source, label) for (source, _), (_, label) in zip(samples, dataset.samples, strict=True)]
    plain = Dataset(samples, dataset.classes, dataset.columns, dataset.stream)
    plain._robots = robots
    return plain


def _common_type(name: str, every: Sequence[RobotFrames]) -> tuple[str, tuple[int, ...]]:
    """Dtype and shape that a feature has in all datasets."""
    kinds = [robots.numbers.get(name) for robots in every]
    known = [kind for kind in kinds if kind is not None]
    if len(known) < len(kinds):
        raise ArgumentError(f"{name} is a camera in some datasets and numbers in others; rename one with lerobot()")
    dtypes, shapes = {dtype for dtype, _ in known}, {shape for _, shape in known}
    if len(dtypes) > 1 and not dtypes <= {"float32", "float64"}:
        raise ArgumentError(f"{name} has the dtypes {', '.join(sorted(dtypes))}; choose other features with keys=")
    dtype = dtypes.pop() if len(dtypes) == 1 else "float64"
    if len(shapes) == 1:
        return dtype, shapes.pop()
    if any(len(shape) > 1 for shape in shapes):
        shown = " and ".join(map(str, sorted(shapes)))
        raise ArgumentError(f"{name} has the shapes {shown}; only vectors are padded, choose other features with keys=")
    return dtype, (max(math.prod(shape) for shape in shapes),)
