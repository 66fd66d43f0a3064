"""Finds the files of a dataset that cannot be decoded, before a training run does."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from framespool import transforms
from framespool._common.validate_args import integer
from framespool._common.worker_threads import completed
from framespool._framespool import cores, image_extensions, image_signature_bytes, is_image, video_extensions
from framespool.datasets import Dataset
from framespool.datasets._dataset import all_sources, as_dataset
from framespool.datasets._failures import failure_record, sample_key, write_failures
from framespool.datasets._source_list import list_sources
from framespool.errors import ArgumentError, Error
from framespool.loaders._base import BaseLoader
from framespool.loaders._clips import QuietClipLoader
from framespool.loaders._images import ImageBatch, ImageLoader, decode_image
from framespool.options import Index
from framespool.samplers import RandomClips, Windows
from framespool.video._sources import ArchiveMember, ImageSequence, Source, TableCell, VideoSegment
from framespool.video._video import Video

#: Samples decoded between two writes to the report, by whether they are images; a killed run loses at most these.
_CHUNK_ENTRIES = {True: 1024, False: 64}
#: Frames of a clip: enough that decoding dominates the overhead of delivery.
_FRAMES_PER_CLIP = 16


@dataclass(frozen=True)
class ValidationReport:
    """The result of `validate()`.

    Attributes:
        samples: Samples of the dataset.
        checked: Samples decoded in this run; the results of the others come from the report of an earlier run.
        frames: Frames decoded in this run.
        seconds: Duration of the run.
        failures: One dict per bad sample, as from `ClipLoader.failures()`.

    Example:
        >>> import framespool as fsp
        >>> report = fsp.tools.validate(["a.mp4", "damaged.mp4"])
        >>> report.samples, [failure["kind"] for failure in report.failures]
        (2, ['decode'])
    """

    samples: int
    checked: int
    frames: int
    seconds: float
    failures: list[dict[str, Any]] = field(repr=False)

    def write_failures(self, path: str | os.PathLike[str]) -> int:
        """Writes the failures to a file that `Dataset.exclude()` reads.

        Args:
            path: The file to write.

        Returns:
            Number of failures written.
        """
        return write_failures(path, self.failures)


def validate(
    dataset: Any,
    *,
    clips_per_video: int | None = None,
    report: str | os.PathLike[str] | None = None,
    num_threads: int | None = None,
    index: str | os.PathLike[str] | Literal[False] | None = None,
    progress: Callable[[int, int, int], object] | None = None,
) -> ValidationReport:
    """Decodes a dataset on the CPU and reports the samples that cannot be decoded, with reasons.

    A video is also bad if its container shows that packets are missing (``info.damaged_units``), even if the remaining
    frames can be decoded. A bad file does not stop it. Files with the extension of an image are decoded as images.
    Archive members with an unknown extension are recognized by their first bytes.

    With `report` a stopped run can be resumed: samples that the report lists, and whose files have the same size and
    modification time, are not decoded again. URLs and bytes, whose times are unknown, are.

    Args:
        dataset: As for `ClipLoader`; or a path: of a folder, for the videos and images below it, of a file, or of a
            list file as `datasets.annotation_file()` reads it.
        clips_per_video: Decode this many random clips of 16 frames per video, which is faster and may miss damage.
            `None`: decode every frame.
        report: A file of JSON lines, one per sample, to which results are appended. `None`: no file.
        num_threads: Worker threads. `None`: one per available core.
        index: The index cache, as for `ClipLoader`.
        progress: Called with (done, failed, total).

    Returns:
        The result; failed files do not raise.

    Raises:
        ArgumentError: If the dataset is empty, or if `report` is some other file.
        OSError: If the report cannot be written.

    Example:
        >>> import framespool as fsp
        >>> report = fsp.tools.validate(["a.mp4", "damaged.mp4"], num_threads=1)
        >>> report.samples, [failure["path"] for failure in report.failures]
        (2, ['damaged.mp4'])
        >>> fsp.tools.validate("videos/").samples
        3
    """
    began = time.monotonic()
    is_path = isinstance(dataset, (str, os.PathLike))
    entries = list_sources([os.fspath(dataset)]) if is_path else all_sources(as_dataset(dataset))
    if not len(entries):
        raise ArgumentError("the dataset is empty; give at least one file")
    clips = None if clips_per_video is None else integer("clips_per_video", clips_per_video, least=1)
    how = "all" if clips is None else f"{clips} clips"
    if entries.stream is not None:
        how = f"{how} of stream {entries.stream}"
    known = {} if report is None else _read(report, how)
    failures: list[dict[str, Any]] = []
    todo: dict[bool, list[int]] = {True: [], False: []}
    kinds = SourceKinds()
    keys: dict[int, str] = {}
    for place, (source, _) in enumerate(entries):
        keys[place] = _key(source, place)
        before = known.get(keys[place])
        if before is not None and before["state"] == file_state(source):
            if before["failure"] is not None:
                failures.append({**before["failure"], "video_id": place})
        else:
            todo[kinds.is_image(source)].append(place)
    total = len(entries)
    done = total - sum(map(len, todo.values()))
    frames = 0
    if progress is not None:
        progress(done, len(failures), total)
    for are_images, places in todo.items():
        some = _CHUNK_ENTRIES[are_images]
        for begin in range(0, len(places), some):
            chunk = places[begin : begin + some]
            states = [file_state(entries[place][0]) for place in chunk]  # before they are read
            some_entries = entries.subset(chunk)
            made, failed = _decoded(some_entries, are_images, clips, num_threads, index)
            frames += made
            if not are_images:
                rest = [number for number in range(len(chunk)) if number not in failed]
                failed |= _incomplete(some_entries, rest, num_threads, index)
            for number, failure in failed.items():
                failures.append({**failure, "video_id": chunk[number]})
            if report is not None:
                with open(report, "a", encoding="utf-8", errors="surrogateescape") as file:
                    for number, (place, state) in enumerate(zip(chunk, states, strict=True)):
                        line = {"entry": keys[place], "how": how, "state": state, "failure": failed.get(number)}
                        file.write(json.dumps(line) + "\n")
            done += len(chunk)
            if progress is not None:
                progress(done, len(failures), total)
    failures.sort(key=lambda failure: int(failure["video_id"]))
    checked = sum(map(len, todo.values()))
    return ValidationReport(total, checked, frames, time.monotonic() - began, failures)


def _decoded(
    entries: Dataset, are_images: bool, clips: int | None, num_threads: int | None, index: Any
) -> tuple[int, dict[int, dict[str, Any]]]:
    """Number of frames decoded, and the failures by sample number."""
    common: dict[str, Any] = {
        "transforms": [transforms.Resize((16, 16))],
        "on_error": "skip",
        "num_threads": num_threads,
    }
    if are_images:
        return _run(ImageLoader(entries, batch_size=64, exact=True, **common), set())
    common |= {"batch_size": 4, "index": Index(index, progress=False)}
    every = Windows(sequence_length=_FRAMES_PER_CLIP, step=_FRAMES_PER_CLIP, padding="edge")
    some = RandomClips(sequence_length=_FRAMES_PER_CLIP, clips_per_video=clips or 1)
    seen: set[int] = set()
    frames = 0
    failed: dict[int, dict[str, Any]] = {}
    if clips is None:
        try:
            frames, failed = _run(QuietClipLoader(entries, every, **common), seen)
        except ArgumentError:
            seen.clear()  # no video can be indexed, so there are no windows
    # Videos without windows (a segment without frames, say) have a clip that fails with the reason.
    rest = [place for place in range(len(entries)) if place not in seen and place not in failed]
    if rest:
        more, others = _run(QuietClipLoader(entries.subset(rest), some, **common), set())
        frames += more
        failed |= {rest[number]: failure for number, failure in others.items()}
    return frames, failed


def _incomplete(
    entries: Dataset, places: Iterable[int], num_threads: int | None, index: Any
) -> dict[int, dict[str, Any]]:
    """Failures of videos whose frames can be decoded but whose container lacks packets, by sample number."""

    def check(place: int) -> dict[str, Any] | None:
        source = entries[place][0]
        whole = source.source if isinstance(source, VideoSegment) else source
        if isinstance(whole, ImageSequence):
            return None
        try:
            info = Video(whole, index=index, stream=entries.stream, num_threads=1).info
        except Error:
            return None  # changed since its frames were decoded
        units = info.damaged_units
        if not units:
            return None
        message = (
            f"{info.path}: {units} damaged or incomplete {'unit' if units == 1 else 'units'} of the container: frames "
            "may be missing, although the others can be decoded; replace the file or omit it"
        )
        failure = {"path": None, "kind": "invalid_data", "message": message, "clips": 0}
        return failure | failure_record(source, "invalid_data")

    found = ((place, future.result()) for place, future in completed(check, places, num_threads or cores()))
    return {place: failure for place, failure in found if failure is not None}


def _run(loader: BaseLoader[Any], seen: set[int]) -> tuple[int, dict[int, dict[str, Any]]]:
    """Takes all batches: number of frames, and failures by sample. `seen` receives the samples that had a clip."""
    frames = 0
    for batch in delivered(loader):
        if isinstance(batch, ImageBatch):
            frames += len(batch)
        else:
            frames += sum(sum(row) for row in batch.mask.tolist())
            seen.update(batch.video_ids.tolist())
    return frames, {int(failure["video_id"]): failure for failure in loader.failures()}


def delivered(loader: BaseLoader[Any]) -> Iterator[Any]:
    """The batches of an epoch with `on_error="skip"`, also if no file can be decoded.

    Args:
        loader: The loader.

    Yields:
        Each batch that has a sample.

    Raises:
        Error: If an error is not caused by a file.
    """
    batches = iter(loader)
    for _ in range(len(loader)):
        # If nothing can be delivered, loaders raise the error for every on_error.
        try:
            batch = next(batches, None)
        except Error:
            if not loader.failures():
                raise
            continue
        if batch is not None:
            yield batch


def _key(source: Source, place: int) -> str:
    """Key of a sample in a report; for bytes, its position in the dataset."""
    return json.dumps(sample_key(source) or place)


def file_state(source: Source) -> list[int] | None:
    """The state by which a file is known to be unchanged.

    Args:
        source: A source of the dataset.

    Returns:
        Size and modification time; `None` if they are unknown.
    """
    key = sample_key(source)
    if key is None:
        return None
    path = key[0]
    try:
        if isinstance(source.source if isinstance(source, VideoSegment) else source, ImageSequence):
            files = [entry.stat() for entry in os.scandir(path)]
            return [
                len(files),
                sum(file.st_size for file in files),
                max((file.st_mtime_ns for file in files), default=0),
            ]
        about = os.stat(path)
    except OSError:
        return None
    return [about.st_size, about.st_mtime_ns]


class SourceKinds:
    """Distinguishes images from videos by name, and by the first bytes if the name does not suffice."""

    def __init__(self) -> None:
        self._columns: dict[tuple[str, str], bool] = {}

    def is_image(self, source: Source) -> bool:
        """Whether a source is an image. Video segments are not.

        Args:
            source: A source of the dataset.

        Returns:
            `False` also if it cannot be read.
        """
        if isinstance(source, (VideoSegment, ImageSequence)):
            return False
        if isinstance(source, TableCell):
            key = (os.fspath(source.file), source.column)
            if key not in self._columns:
                self._columns[key] = _decodes(source)
            return self._columns[key]
        if isinstance(source, bytes):
            return is_image(source[:image_signature_bytes])
        name = (source.name or "") if isinstance(source, ArchiveMember) else os.fspath(source)
        extension = name.rpartition(".")[2].lower()
        if extension in image_extensions or extension in video_extensions or not isinstance(source, ArchiveMember):
            return extension in image_extensions
        try:
            with open(source.file, "rb") as file:
                file.seek(source.offset_bytes)
                return is_image(file.read(image_signature_bytes))
        except OSError:
            return False


def _decodes(source: TableCell) -> bool:
    """Whether a cell is an image; all cells of a column are of one kind."""
    try:
        decode_image(source)
    except Error:
        return False
    return True


def _read(report: str | os.PathLike[str], how: str) -> dict[str, Mapping[str, Any]]:
    """The results in a report, by sample; empty if there is no file. The last line of a killed run may be truncated."""
    if not os.path.exists(report):
        return {}
    with open(report, encoding="utf-8", errors="surrogateescape") as file:
        lines = file.readlines()
    if lines and not lines[-1].endswith("\n"):
        with open(report, "a", encoding="utf-8") as file:
            file.write("\n")  # ends the truncated line
    known: dict[str, Mapping[str, Any]] = {}
    for number, line in enumerate(lines, 1):
        try:
            said = json.loads(line)
            entry, state, failure = said["entry"], said["state"], said["failure"]
            same = said["how"] == how
        except (ValueError, TypeError, KeyError):
            # A killed run truncates its last line; the first line identifies a report.
            if number > 1 or not line.endswith("\n"):
                continue
            raise ArgumentError(
                f"{os.fspath(report)}, line {number}: not a report of validate(); choose another file"
            ) from None
        if same and state is not None:
            known[entry] = {"state": state, "failure": failure}
    return known
