"""Splits videos into shots: segments without a hard cut."""

from __future__ import annotations

import json
import os
import threading
import time
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from framespool import transforms
from framespool._common.index_cache import cache_location
from framespool._common.validate_args import choice, display_repr, integer, is_url, number, user_stacklevel
from framespool._common.worker_threads import completed
from framespool._framespool import content_differences, cores
from framespool.datasets import Dataset
from framespool.datasets._dataset import as_dataset, one_source_each
from framespool.datasets._failures import write_failures
from framespool.datasets._source_list import list_sources
from framespool.errors import ArgumentError, CancelledError, ClipSamplingError, Error, ForkedError, UnavailableError
from framespool.tools._probe._read_files import failure
from framespool.tools._transcode._job import replace_text
from framespool.video._sources import Source, VideoSegment, full_source
from framespool.video._video import Video

#: Defaults of the options, which are those of the reference.
THRESHOLD, MIN_FRAMES = 27.0, 15

#: Columns of the result.
_COLUMNS = ("shot", "shot_start", "shot_end")
#: Longer side in pixels of the frames that are compared; smaller videos keep their size.
_LONGER_SIDE = 256
#: Distance of the frames that are compared first. The frames between are mostly disposable pictures, which are then
#: not decoded.
_STRIDE = 4
#: Part of the threshold from which the frames between two such frames are compared too: the difference of two frames
#: is at most the sum of the differences between them, so a cut less than this is hidden only by a change back.
_SUSPICION = 0.8
#: Frames in memory at the same time, per thread. A chunk ends with a GOP, and is decoded once.
_CHUNK_FRAMES = 512


@dataclass(frozen=True)
class ShotReport:
    """The result of `split_shots()`.

    Attributes:
        dataset: One sample per shot, in the order of the samples and of time.
        samples: Samples of the dataset that was split.
        frames: Frames of these samples, without those that failed.
        compared: Frames that were decoded and compared.
        seconds: Duration of the run.
        failures: One dict per bad sample, as from `ClipLoader.failures()`.

    Example:
        >>> import framespool as fsp
        >>> report = fsp.tools.split_shots(["a.mp4", "damaged.mp4"])
        >>> len(report.dataset), report.samples, [failure["path"] for failure in report.failures]
        (1, 2, ['damaged.mp4'])
    """

    dataset: Dataset = field(repr=False)
    samples: int
    frames: int
    compared: int
    seconds: float
    failures: list[dict[str, Any]] = field(repr=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the dataset to a file that `datasets.json_lines(path, in_frames=True)` reads; replaces a file.

        Paths in the file are relative to its folder. Labels with names are written as names. A stream that the dataset
        selects is not written.

        Args:
            path: The file to write.

        Raises:
            ArgumentError: If the file cannot express a sample or a column: bytes and members of archives have no path,
                labels must be classes, and no column may be called `uri`, `label`, `start` or `end`.
            OSError: If the file cannot be written.

        Example:
            >>> import framespool as fsp
            >>> report = fsp.tools.split_shots(["a.mp4"])
            >>> report.save("shots.jsonl")
            >>> fsp.datasets.json_lines("shots.jsonl", in_frames=True)[0][0].bounds()
            {'start_frame': 0, 'end_frame': 72}
        """
        file = os.fspath(path)
        folder = os.path.dirname(os.path.abspath(file))
        replace_text(file, "".join(json.dumps(row, default=str) + "\n" for row in _rows(self.dataset, folder)))

    def write_failures(self, path: str | os.PathLike[str]) -> int:
        """Writes the failures to a file that `Dataset.exclude()` reads.

        Args:
            path: The file to write.

        Returns:
            Number of failures written.
        """
        return write_failures(path, self.failures)


def split_shots(
    dataset: Any,
    *,
    threshold: float = THRESHOLD,
    min_frames: int = MIN_FRAMES,
    on_error: Literal["raise", "skip"] = "skip",
    num_threads: int | None = None,
    index: str | os.PathLike[str] | Literal[False] | None = None,
    progress: Callable[[int, int, int], object] | None = None,
) -> ShotReport:
    """Splits the videos of a dataset at hard cuts, so that no clip crosses a cut.

    Every clip sampler stays within the segment of its sample: a loader over `report.dataset` makes clips within shots.
    Labels and columns are those of the split sample. New columns are `shot`, the number of the shot in its sample from
    0, and `shot_start` and `shot_end`, in seconds of the video's own timestamps.

    A frame begins a shot if its content differs from the frame before: if the mean absolute difference of hue,
    saturation and value, of 0 to 255, is at least `threshold`. Scale, threshold and the rule for short shots are those
    of the ContentDetector of PySceneDetect. Fades and dissolves are no cuts.

    First, every fourth frame and the frames around keyframes are compared. The frames between two of them are decoded
    only if these two differ. A change that is undone within four frames, such as a flash, can therefore be missed.

    Memory does not depend on the length of a video. A GOP of more than 2048 frames is decoded again for each 2048
    frames.

    Args:
        dataset: As for `ClipLoader`, also with segments; or a path, as for `validate()`.
        threshold: Least difference of a cut, above 0 and up to 255.
        min_frames: Least length of a shot before a cut, in frames of the video's average rate. Cuts that follow each
            other faster are merged into one, at the last of them. The last shot of a video may be shorter.
        on_error: `"skip"`: a sample that cannot be decoded completely is omitted from the result, listed in
            `report.failures`, and a warning states how many there are. `"raise"`: the first error is raised.
        num_threads: Worker threads. `None`: one per available core.
        index: The index cache, as for `ClipLoader`.
        progress: Called with (done, failed, total), in samples.

    Returns:
        The shots and the failures.

    Raises:
        ArgumentError: If an argument is invalid, if the dataset is empty, a mixture or of `datasets.lerobot()`, or if
            it has a column with one of the new names.
        UnavailableError: If a server does not answer, for every `on_error`.
        Error: With `on_error="raise"`, the error of a bad sample.

    Example:
        >>> import framespool as fsp
        >>> report = fsp.tools.split_shots([("a.mp4", 3)])
        >>> report.dataset[0][0].bounds(), report.dataset[0][1], report.dataset.columns["shot_end"]
        ({'start_frame': 0, 'end_frame': 72}, 3, [3.0])
        >>> loader = fsp.ClipLoader(report.dataset, fsp.samplers.RandomClips(sequence_length=8), batch_size=1)
        >>> len(loader)
        1
    """
    began = time.monotonic()
    samples = list_sources([os.fspath(dataset)]) if isinstance(dataset, (str, os.PathLike)) else as_dataset(dataset)
    if not len(samples):
        raise ArgumentError("the dataset is empty; give at least one file")
    one_source_each(samples)
    if samples._weighted or samples._robots is not None:
        what = "a mixture" if samples._weighted else "the frames of datasets.lerobot()"
        raise ArgumentError(f"{what} cannot be split into shots; split the datasets of files before they are joined")
    taken = next((name for name in _COLUMNS if name in samples.columns), None)
    if taken is not None:
        raise ArgumentError(f"the dataset has a column {taken!r} already; rename it")
    limit = number("threshold", threshold)
    if not 0 < limit <= 255:
        raise ArgumentError(f"threshold must be above 0 and at most 255, got {threshold!r}")
    least = integer("min_frames", min_frames, least=1)
    choice("on_error", on_error, ("raise", "skip"))
    workers = cores() if num_threads is None else integer("num_threads", num_threads, least=1, most=256)
    cache_location(index)  # checks it
    # Fewer videos than threads: several threads decode each.
    threads_per_video = max(1, workers // len(samples))
    stopped = threading.Event()

    def split(place: int) -> _Split:
        source = samples[place][0]
        video = Video(
            full_source(source), num_threads=threads_per_video, index=index, stream=samples.stream, hdr="ignore"
        )
        return _split(video, source, limit, least, stopped)

    splits: dict[int, _Split] = {}
    failures: list[dict[str, Any]] = []
    for place, future in completed(split, range(len(samples)), workers, stopped.set):
        try:
            splits[place] = future.result()
        except Error as error:
            is_argument = isinstance(error, ArgumentError) and not isinstance(error, ClipSamplingError)
            if on_error == "raise" or is_argument or isinstance(error, (ForkedError, UnavailableError)):
                raise
            failures.append(failure(place, samples[place][0], error))
        if progress is not None:
            progress(len(splits) + len(failures), len(failures), len(samples))
    failures.sort(key=lambda each: int(each["video_id"]))
    if failures:
        warnings.warn(
            f"{len(failures)} of {len(samples)} samples cannot be split into shots and are omitted; the first: "
            f"{failures[0]['message']}",
            stacklevel=user_stacklevel(),
        )
    frames, compared = (sum(getattr(each, name) for each in splits.values()) for name in ("frames", "compared"))
    return ShotReport(_joined(samples, splits), len(samples), frames, compared, time.monotonic() - began, failures)


@dataclass(frozen=True)
class _Split:
    """Shots of a sample: start and end in frames and in seconds."""

    shots: list[tuple[int, int, float, float]]
    frames: int
    compared: int


def _joined(samples: Dataset, splits: dict[int, _Split]) -> Dataset:
    """The dataset of all shots."""
    rows = [
        (place, *shot, number) for place, split in sorted(splits.items()) for number, shot in enumerate(split.shots)
    ]
    entries = []
    for place, start, end, *_ in rows:
        source, label = samples[place]
        entries.append((VideoSegment(full_source(source), start_frame=start, end_frame=end), label))
    columns = {name: [values[row[0]] for row in rows] for name, values in samples.columns.items()}
    columns |= {"shot": [row[5] for row in rows], "shot_start": [row[3] for row in rows]}
    columns |= {"shot_end": [row[4] for row in rows]}
    return Dataset(entries, samples.classes, columns, samples.stream)


def _rows(dataset: Dataset, folder: str) -> Iterator[dict[str, Any]]:
    """Lines of a file for `datasets.json_lines()`."""
    taken = {"uri", "label", "start", "end"} & dataset.columns.keys()
    if taken:
        raise ArgumentError(f"the column {min(taken)!r} has another meaning in the file; rename it")
    for place, (source, label) in enumerate(dataset):
        video = full_source(source)
        if not isinstance(video, (str, os.PathLike)):
            raise ArgumentError(
                f"sample {place} ({display_repr(video)}) has no path, so that a file of JSON lines cannot name it; "
                "pickle the dataset instead"
            )
        if not isinstance(label, int):
            raise ArgumentError(
                f"sample {place} ({display_repr(video)}): the label {label!r} is no class, which a file of JSON lines "
                "cannot express; pickle the dataset instead"
            )
        path = os.fspath(video)
        row: dict[str, Any] = {"uri": path if is_url(path) else os.path.relpath(path, folder)}
        if 0 <= label < len(dataset.classes):
            row["label"] = dataset.classes[label]
        elif label != -1:
            row["label"] = label
        assert isinstance(source, VideoSegment)
        row |= {"start": source.start_frame, "end": source.end_frame}
        yield row | {name: values[place] for name, values in dataset.columns.items()}


def _split(video: Video, source: Source, threshold: float, min_frames: int, stopped: threading.Event) -> _Split:
    """Finds the shots of a sample."""
    times = video.pts_seconds
    begin, end = _frame_range(source, times)
    size = _size(video)
    above: list[int] = []
    compared = 0
    for chunk in _chunks(begin, end, video.info.keyframes):
        if stopped.is_set():
            raise CancelledError(f"{video.info.path}: stopped")
        found, made = _above(video, chunk, size, threshold)
        above += found
        compared += made
    # In frames of a constant rate, as the reference counts: a variable rate does not change the least duration.
    fps = video.info.average_fps
    positions = [round((time - times[0]) * fps) for time in times]
    starts = [begin, *merged(above, begin, end, min_frames, positions)]
    ends = [*starts[1:], end]
    until = [*times, video.info.end_seconds]
    return _Split(
        [(first, last, times[first], until[last]) for first, last in zip(starts, ends, strict=True)],
        end - begin,
        compared,
    )


def _frame_range(source: Source, times: list[float]) -> tuple[int, int]:
    """First frame of a sample, and the one after its last."""
    begin, end = 0, len(times)
    if isinstance(source, VideoSegment):
        if source.start_seconds is not None:
            begin = bisect_left(times, source.start_seconds)
        if source.end_seconds is not None:
            end = bisect_left(times, source.end_seconds)
        begin = begin if source.start_frame is None else source.start_frame
        end = end if source.end_frame is None else min(end, source.end_frame)
    if begin >= end:
        raise ClipSamplingError(
            f"{display_repr(source)} has no frames, the video has {len(times)}; correct the segment or omit it"
        )
    return begin, end


def _size(video: Video) -> tuple[int, int]:
    """Height and width of the frames that are compared."""
    height, width = video.info.height, video.info.width
    factor = max(height, width, _LONGER_SIDE) / _LONGER_SIDE
    return max(1, round(height / factor)), max(1, round(width / factor))


def _chunks(begin: int, end: int, keyframes: Sequence[int]) -> Iterator[list[int]]:
    """The frames that are compared first, in chunks. A chunk ends with the first frame of the next one.

    They are every `_STRIDE`-th frame of a GOP, and its last frame, so that a cut at a keyframe is between neighbors.
    """
    starts = [begin]
    for key in keyframes[bisect_left(keyframes, begin) :]:
        # The frames of short GOPs, as in video of keyframes alone, are not all compared.
        if starts[-1] + 2 * _STRIDE <= key < end:
            starts.append(key)
    chunk: list[int] = []
    for start, after in zip(starts, [*starts[1:], end], strict=True):
        frames = [*range(start, after - 1, _STRIDE), after - 1]
        for at in range(0, len(frames), _CHUNK_FRAMES):
            part = frames[at : at + _CHUNK_FRAMES]
            if len(chunk) + len(part) > _CHUNK_FRAMES:
                yield [*chunk, part[0]]
                chunk = []
            chunk += part
    yield chunk


def _above(video: Video, frames: list[int], size: tuple[int, int], threshold: float) -> tuple[list[int], int]:
    """Frames whose difference from the frame before is at least the threshold, and the number of frames compared."""
    differences = _differences(video, frames, size)
    pairs = list(zip(frames, frames[1:], strict=False))
    above = [
        after for (before, after), by in zip(pairs, differences, strict=True) if after - before == 1 and by >= threshold
    ]
    wide = [
        pair
        for pair, by in zip(pairs, differences, strict=True)
        if pair[1] - pair[0] > 1 and by >= _SUSPICION * threshold
    ]
    compared = len(frames)
    for begin in range(0, len(wide), _CHUNK_FRAMES // _STRIDE):
        some = wide[begin : begin + _CHUNK_FRAMES // _STRIDE]
        closer = sorted({frame for before, after in some for frame in range(before, after + 1)})
        compared += len(closer) - 2 * len(some)
        inside = {frame for before, after in some for frame in range(before + 1, after + 1)}
        steps = zip(closer[1:], _differences(video, closer, size), strict=True)
        above += [frame for frame, by in steps if frame in inside and by >= threshold]
    return sorted(above), compared


def _differences(video: Video, frames: list[int], size: tuple[int, int]) -> list[float]:
    """Difference of each frame from the one before in the list; the first has none."""
    # Without a filter, as OpenCV scales: a filter would hide noise, which counts in the reference.
    resized = video.frames(frames, transforms=[transforms.Resize(size, antialias=False)]).frames
    return [by / (3 * size[0] * size[1]) for by in content_differences(resized)]


def merged(above: list[int], begin: int, end: int, least: int, positions: Sequence[int]) -> list[int]:
    """Applies the least length of a shot to frames that differ from the one before.

    Such a frame is a cut if the one before it is at least as far away as this length. Others are merged with those that
    follow them, into one cut at the last of a series, if the series spans this length. Before the first cut they are
    ignored.

    Args:
        above: The frames, ascending.
        begin: First frame of the sample.
        end: Frame after the last one.
        least: The least length.
        positions: Position of each frame of the video, in the unit of `least`.

    Returns:
        First frames of shots, except the first one.
    """
    cuts: list[int] = []
    last = begin
    series: int | None = None
    for frame in [*above, None]:
        # The frame before the next one, or the last frame.
        quiet = (end if frame is None else frame) - 1
        is_long = series is not None and positions[last] - positions[series] >= least
        if is_long and positions[quiet] - positions[last] >= least:
            cuts.append(last)
            series = None
        if frame is None:
            break
        if series is None:
            if positions[frame] - positions[last] >= least:
                cuts.append(frame)
            elif cuts:
                series = frame
        last = frame
    return cuts
