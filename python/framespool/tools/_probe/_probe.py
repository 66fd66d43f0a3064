"""The summary of a dataset."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from framespool._common.index_cache import cache_location
from framespool._common.validate_args import integer
from framespool._framespool import cores
from framespool.datasets import Dataset
from framespool.datasets._dataset import all_sources, as_dataset
from framespool.errors import ArgumentError, Error
from framespool.loaders._base import BaseLoader
from framespool.loaders._clips import ClipLoader
from framespool.loaders._images import ImageLoader
from framespool.order._batch_budget import BatchBudget
from framespool.tools._bench import expected_advice, expected_cost, expected_text
from framespool.tools._probe import _read_files
from framespool.tools._probe._distribution import Distribution, distribution
from framespool.tools._probe._notes import image_notes, video_notes
from framespool.tools._probe._report import html_report, save_report, text_report
from framespool.tools._validate import SourceKinds
from framespool.video._sources import VideoSegment

#: Videos and images of a contact sheet.
_SHEET_VIDEOS, _SHEET_IMAGES = 6, 24


@dataclass(frozen=True, repr=False)
class DatasetSummary:
    """The result of `probe()`.

    `print()` shows it as text with histograms, a notebook as HTML. All counts but those of samples, files and classes
    are of the files that were read; mappings are in descending order of their counts. Costs are those of a clip by
    itself at a random position: loaders share the decoding of clips, see `expected`.

    Attributes:
        num_samples: Samples of the dataset.
        num_files: Distinct files of the samples.
        num_files_read: Files that were read: all, or a subset of `max_files`.
        num_bytes: Size of the files that were read, of those whose size is known.
        total_seconds: Duration of the videos together.
        durations: Durations of the videos in seconds; `None` without videos.
        segment_durations: Durations of samples that are segments of videos, else `None`.
        num_frames: Frames of the videos together.
        frame_sizes: Count of each size, such as `"640x360"`, of videos and images, after rotation: the size of frames.
        display_sizes: Count of each size of videos in square pixels, in which a player shows them: another one if
            `VideoInfo.sample_aspect` is not (1, 1).
        buckets: Count of the clips of an epoch in each bucket, for a loader with `buckets=`, such as
            `"33 frames of 832x480"`; otherwise empty.
        field_orders: Count of each `VideoInfo.field_order` of the videos that state it.
        frame_rates: Count of each average frame rate of the videos, rounded to two decimals.
        codecs: Count of each codec.
        pixel_formats: Count of each stored form, such as `"yuv420p"`, by FFmpeg's names.
        bit_depths: Count of each number of bits per component.
        colors: Count of each color that headers state: FFmpeg's names of primaries, transfer function and matrix, or
            `"-"`, such as `"bt2020 smpte2084 bt2020nc"` (PQ).
        containers: Count of each container.
        streams: Count of each stream of the files with several video streams, such as `"0: video h264 640x360 (read)"`.
        image_formats: Count of `"jpeg"` and `"png"` files.
        gop_lengths: Frames from each keyframe to the next one; `None` without videos.
        sequence_length: Frames of the clip that the costs and `notes` apply to.
        stride: Distance between its frames.
        packets_per_clip: Mean packets that are decoded, or read and skipped, for a clip, over the videos that are as
            long as a clip. `None` without such videos.
        frames_per_clip: Mean frames that are decoded for a clip, over up to 32 of these videos, evenly spread, of 256
            MiB together: their packets are read. `None` without such videos; URLs and table cells are none.
        bytes_per_clip: Mean bytes that are read for a clip, likewise.
        skippable_share: Share of the pictures that are decoded only if a clip contains them, likewise.
        expected: For a `ClipLoader` in framespool's own order, what shuffles and disk caches are expected to cost;
            `None` otherwise, and if no video can be read. It is estimated from up to 32 videos, of which up to 64 MiB
            of packets are read.

            - `packets_per_clip`: mean packets that are decoded, or read and skipped, for a clip: `"grouped"` and
              `"full"`, the shuffles; `"single"`, each clip decoded by itself.
            - `mixing`: that of `"grouped"`; see `BatchSampler.quality()`.
            - `frames_per_clip`: mean frames that are decoded for a clip, in the order of the loader without a disk
              cache.
            - `disk_caches`: what a disk cache changes: that of the loader, or if it has none caches of 4, 8 and 16
              epochs. Empty if clips of the videos cannot be stored. Each is a dict of `epochs`, for which a video is
              decoded at once; `frames_per_clip` after the epochs that fill the cache, 0 if clips are the same in every
              epoch; `first_epoch_frames_per_clip`; and `disk_bytes`, the largest size of the clips on disk, over all
              ranks, if the videos have 8 bits.
        classes: Count of the samples of each class, by name or number; of lists of numbers, those that are not 0.
        failures: One dict per file that cannot be read, as from `ClipLoader.failures()`, for `Dataset.exclude()`.
        notes: What will be slow in training, why, and what helps; and how many videos are interlaced, damaged or HDR.

    Example:
        >>> import framespool as fsp
        >>> summary = fsp.tools.probe(fsp.datasets.folder("videos/"))
        >>> summary.num_files_read, summary.codecs, summary.frame_sizes
        (3, {'h264': 3}, {'640x480': 3})
        >>> summary.save("report.html")
    """

    num_samples: int
    num_files: int
    num_files_read: int
    num_bytes: int
    total_seconds: float
    durations: Distribution | None
    segment_durations: Distribution | None
    num_frames: int
    frame_sizes: dict[str, int]
    display_sizes: dict[str, int]
    buckets: dict[str, int]
    field_orders: dict[str, int]
    frame_rates: dict[float, int]
    codecs: dict[str, int]
    pixel_formats: dict[str, int]
    bit_depths: dict[int, int]
    colors: dict[str, int]
    containers: dict[str, int]
    streams: dict[str, int]
    image_formats: dict[str, int]
    gop_lengths: Distribution | None
    sequence_length: int
    stride: int
    packets_per_clip: float | None
    frames_per_clip: float | None
    bytes_per_clip: float | None
    skippable_share: float | None
    expected: dict[str, Any] | None
    classes: dict[str, int]
    failures: list[dict[str, Any]]
    notes: list[str]
    _examples: _read_files.Examples = field(compare=False)

    def as_dict(self) -> dict[str, Any]:
        """The summary for JSON.

        Returns:
            The values by name.
        """
        values = {each.name: getattr(self, each.name) for each in fields(self) if not each.name.startswith("_")}
        return {name: asdict(value) if isinstance(value, Distribution) else value for name, value in values.items()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a report: the counts, histograms and notes, and frames of some files.

        Args:
            path: A file that ends in `.html` or `.png`. A page has frames only if NumPy and Pillow are installed.

        Raises:
            ArgumentError: If `path` has another ending.
            UnsupportedError: If a PNG is requested, and NumPy or Pillow is not installed.
        """
        save_report(self, self._examples, path)

    def _repr_html_(self) -> str:
        """Shows the report in a notebook."""
        return html_report(self)

    def __str__(self) -> str:
        return text_report(self)

    def __repr__(self) -> str:
        return f"DatasetSummary({self.num_samples} samples, {self.num_files_read} of {self.num_files} files read)"


def _buckets(loader: BaseLoader[Any]) -> dict[str, int]:
    """The clips of the next epoch in each bucket."""
    plan = loader._plan
    if not isinstance(plan, BatchBudget) or not plan.in_buckets:
        return {}
    shapes = plan.table(loader._local(), loader.epoch)
    named = {
        f"{frames} frames of {width}x{height}": count for (frames, height, width), count in shapes.items() if frames
    }
    unread = sum(count for (frames, *_), count in shapes.items() if not frames)
    return {**named, **({"none: the file cannot be read": unread} if unread else {})}


def probe(
    dataset: Dataset | Iterable[Any] | ClipLoader | ImageLoader,
    *,
    max_files: int | None = 1000,
    sequence_length: int | None = None,
    stride: int | None = None,
    num_threads: int | None = None,
    index: str | os.PathLike[str] | Literal[False] | None = None,
    progress: Callable[[int, int, int], object] | None = None,
) -> DatasetSummary:
    """Reports what a dataset contains, and what will be slow in training: a look before training.

    Videos are opened, and indexed if the index cache does not have them, but not decoded; images are decoded at a
    small size. Files that cannot be read are listed. `validate()` decodes all frames instead, and `bench()` measures a
    loader.

    Args:
        dataset: A dataset, or a list as for `ClipLoader`. Of a loader, also the expected cost of an epoch is reported.
        max_files: Read at most this many files, a random subset that is always the same. `None`: all files.
        sequence_length: Frames of the clip whose cost is reported. `None`: as the loader's clip sampler, or 16.
        stride: Distance between its frames. `None`: as the loader's clip sampler, or 4.
        num_threads: Threads. `None`: one per available core.
        index: The index cache, as for `ClipLoader`. `None`: that of the loader.
        progress: Called with (done, failed, total).

    Returns:
        The counts and histograms; `print()` and notebooks show them, `save()` writes a page or an image.

    Raises:
        ArgumentError: If an argument is invalid, or the dataset is empty.

    Example:
        >>> import framespool as fsp
        >>> summary = fsp.tools.probe(fsp.datasets.folder("videos/"))
        >>> summary.num_samples, summary.classes, summary.failures
        (3, {'again': 1, 'bird': 1, 'book': 1}, [])
        >>> loader = fsp.ClipLoader(["a.mp4", "phone.mp4"], fsp.samplers.RandomClips(sequence_length=8), batch_size=2)
        >>> expected = fsp.tools.probe(loader).expected
        >>> sorted(expected["packets_per_clip"])
        ['full', 'grouped', 'single']
        >>> [disk_cache["epochs"] for disk_cache in expected["disk_caches"]]
        [4, 8, 16]
    """
    loader = dataset if isinstance(dataset, BaseLoader) else None
    sampler = getattr(loader, "clip_sampler", None)
    expected = None
    if loader is not None:
        dataset, expected = loader.dataset, expected_cost(loader)
        index = loader._settings["index"] if index is None else index
    dataset = all_sources(as_dataset(dataset))
    if not len(dataset):
        raise ArgumentError("the dataset is empty; give at least one file")
    limit = None if max_files is None else integer("max_files", max_files, least=1)
    length = integer("sequence_length", _given(sequence_length, sampler, "sequence_length", 16), least=1)
    apart = integer("stride", _given(stride, sampler, "stride", 4), least=1)
    threads = cores() if num_threads is None else integer("num_threads", num_threads, least=1, most=4096)
    cache_location(index)
    first_samples, has_segments, classes = _samples(dataset)
    files = list(first_samples)
    chosen: Sequence[int] = range(len(files))
    if limit is not None and limit < len(files):
        chosen = sorted(random.Random(0).sample(chosen, limit))
    kinds = SourceKinds()
    are_images = {place: kinds.is_image(files[place]) for place in chosen}
    video_files = [files[place] for place, is_image in are_images.items() if not is_image]
    image_files = [files[place] for place, is_image in are_images.items() if is_image]

    done, failed = 0, 0

    def report(more: int, more_failed: int) -> None:
        nonlocal done, failed
        done, failed = done + more, failed + more_failed
        if progress is not None:
            progress(done, failed, len(chosen))

    report(0, 0)
    found = _read_files.read_videos(video_files, (length, apart), dataset.stream, index, threads, report)
    found_images = _read_files.read_images(image_files, threads, report)
    failures = [
        _read_files.failure(first_samples[file], file, result)
        for file, result in zip(video_files, found, strict=True)
        if isinstance(result, Error)
    ]
    failures += [
        {**result, "video_id": first_samples[file]}
        for file, result in zip(image_files, found_images, strict=True)
        if isinstance(result, dict)
    ]
    videos = [record for record in found if isinstance(record, _read_files.VideoRecord)]
    images = [record for record in found_images if isinstance(record, _read_files.ImageRecord)]
    records: list[_read_files.VideoRecord | _read_files.ImageRecord] = [*videos, *images]
    examined = [video.access for video in videos if video.access is not None]
    notes = [] if expected is None or loader is None else [*expected_text(expected), *expected_advice(expected, loader)]
    notes += [*video_notes(videos, length, apart), *image_notes(images)]
    if failures:
        notes.append(
            f"{len(failures)} of {len(chosen)} files cannot be read: dataset.exclude(summary.failures) removes them, "
            'on_error="skip" skips their clips.'
        )
    known = dict(zip(video_files, found, strict=True)) if has_segments else {}
    gops: Counter[float] = Counter()
    for video in videos:
        gops.update(video.gops)
    return DatasetSummary(
        num_samples=len(dataset),
        num_files=len(files),
        num_files_read=len(chosen),
        num_bytes=sum(record.num_bytes or 0 for record in records),
        total_seconds=sum(video.seconds for video in videos),
        durations=distribution(Counter(video.seconds for video in videos)),
        segment_durations=distribution(Counter(_segments(dataset, known))) if has_segments else None,
        num_frames=sum(video.num_frames for video in videos),
        frame_sizes=_counts(f"{record.size[0]}x{record.size[1]}" for record in records),
        display_sizes=_counts(f"{video.display_size[0]}x{video.display_size[1]}" for video in videos),
        buckets={} if loader is None else _buckets(loader),
        field_orders=_counts(video.field_order for video in videos if video.field_order is not None),
        frame_rates=_counts(round(video.fps, 2) for video in videos),
        codecs=_counts(video.codec for video in videos),
        pixel_formats=_counts(video.pixel_format for video in videos if video.pixel_format is not None),
        bit_depths=_counts(video.bit_depth for video in videos if video.bit_depth is not None),
        colors=_counts(" ".join(name or "-" for name in video.color) for video in videos if any(video.color)),
        containers=_counts(video.container for video in videos),
        streams=_counts(stream for video in videos for stream in video.streams),
        image_formats=_counts(image.format for image in images),
        gop_lengths=distribution(gops),
        sequence_length=length,
        stride=apart,
        packets_per_clip=_mean(video.packets_per_clip for video in videos),
        frames_per_clip=_mean(access.frames_per_clip for access in examined),
        bytes_per_clip=_mean(access.bytes_per_clip for access in examined),
        skippable_share=sum(access.skippable for access in examined) / sum(access.num_packets for access in examined)
        if examined
        else None,
        expected=expected,
        classes=classes,
        failures=sorted(failures, key=lambda failure: int(failure["video_id"])),
        notes=notes,
        _examples=_read_files.Examples(
            _examples(video_files, found, _read_files.VideoRecord, _SHEET_VIDEOS),
            _examples(image_files, found_images, _read_files.ImageRecord, _SHEET_IMAGES),
            dataset.stream,
            index,
        ),
    )


def _samples(dataset: Dataset) -> tuple[dict[Any, int], bool, dict[str, int]]:
    """The first sample of each distinct file, whether samples are segments, and the samples of each class."""
    first_samples: dict[Any, int] = {}
    has_segments = False
    labels: Counter[int] = Counter()
    for place, (source, label) in enumerate(dataset):
        first_samples.setdefault(_read_files.whole(source), place)
        has_segments = has_segments or isinstance(source, VideoSegment)
        if isinstance(label, int):
            labels[label] += 1
        elif isinstance(label, tuple):
            labels.update(number for number, value in enumerate(label) if value)
    if set(labels) <= {-1}:
        labels.clear()  # no labels
    names = dict(enumerate(dataset.classes)) | {-1: "no label"}
    counts = {number: 0 for number in range(len(dataset.classes))} | dict(labels)
    ordered = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])) if labels else []
    return first_samples, has_segments, {names.get(number, str(number)): count for number, count in ordered}


def _segments(dataset: Dataset, known: dict[Any, Any]) -> Iterable[float]:
    """Durations of the segments of the videos that were read."""
    for source, _ in dataset:
        video = known.get(_read_files.whole(source))
        if isinstance(source, VideoSegment) and isinstance(video, _read_files.VideoRecord):
            yield _read_files.segment_seconds(source, video)


def _counts(values: Iterable[Any]) -> dict[Any, int]:
    return dict(sorted(Counter(values).items(), key=lambda entry: (-entry[1], entry[0])))


def _given(value: int | None, sampler: Any, name: str, default: int) -> int:
    """An argument, or the option of a clip sampler, which has none of this name or none given if it is `None`."""
    return next(each for each in (value, getattr(sampler, name, None), default) if each is not None)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _examples(files: list[Any], found: list[Any], record: type, most: int) -> list[Any]:
    """Some of the files that could be read."""
    read = [file for file, result in zip(files, found, strict=True) if isinstance(result, record)]
    return _read_files.spread(read, most)
