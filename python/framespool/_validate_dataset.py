"""Whether the files of a dataset can be decoded: all of them, or a sample of each, before a training run finds out."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from framespool import transforms
from framespool._base_loader import BaseLoader
from framespool._clip_loader import ClipLoader
from framespool._framespool import image_extensions, video_extensions
from framespool._images import ImageBatch, ImageLoader, decode_image
from framespool._validate_args import integer
from framespool.datasets import ArchiveMember, Dataset, ImageSequence, TableCell, VideoSegment
from framespool.datasets._dataset import as_dataset, sample_key, write_failures
from framespool.datasets._sources import Source
from framespool.errors import ArgumentError, Error
from framespool.samplers import random, windows

#: Entries that are decoded between two looks at the report: what is lost where a run is killed.
_CHUNK_ENTRIES = {True: 1024, False: 64}
#: How JPEG and PNG files begin.
_IMAGE_SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")
#: Frames of a clip: enough that decoding costs, not handing over.
_FRAMES_PER_CLIP = 16


@dataclass(frozen=True)
class ValidationReport:
    """What :func:`validate` found.

    ``samples``: of the dataset. ``checked``: those decoded now; the others were found in the report of a run before.
    ``frames``: decoded now. ``failures``: a dict for each bad entry, as :meth:`ClipLoader.failures` has them.
    ``seconds``: how long it took.
    """

    samples: int
    checked: int
    frames: int
    seconds: float
    failures: list[dict[str, Any]] = field(repr=False)

    def write_failures(self, path: str | os.PathLike[str]) -> int:
        """Writes the failures to a file that :meth:`Dataset.exclude` reads. Returns how many."""
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
    """Decodes a dataset on the CPU and tells which entries cannot be, with reasons. No bad file stops it.

    ``dataset``: as for :class:`ClipLoader`. Files whose names end like pictures' are taken for pictures, and members of
    archives whose names do not tell by their first bytes. Every frame is decoded, or with ``clips_per_video`` that many
    random clips of 16 frames of each video, which is quicker and may miss damage. ``report``: a file of JSON lines, one
    for each entry, to which results are added as they come; entries that it has, and whose files have the same length
    and time since, are not decoded again, so that a run that was stopped goes on (URLs and bytes, of which that is not
    known, are decoded again). ``num_threads``, ``index``: as for :class:`ClipLoader`. ``progress``: called with (done,
    failed, total).

    Raises :class:`~framespool.ArgumentError` for an empty dataset and for a report of something else, ``OSError`` where
    the report cannot be written; what is wrong with files is in the result.
    """
    began = time.monotonic()
    entries = as_dataset(dataset)
    if not len(entries):
        raise ArgumentError("the dataset is empty; give at least one file")
    clips = None if clips_per_video is None else integer("clips_per_video", clips_per_video, least=1)
    how = "all" if clips is None else f"{clips} clips"
    if entries.stream is not None:
        how = f"{how} of stream {entries.stream}"
    known = {} if report is None else _read(report, how)
    failures: list[dict[str, Any]] = []
    todo: dict[bool, list[int]] = {True: [], False: []}
    kinds = _SourceKinds()
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
    for pictures, places in todo.items():
        some = _CHUNK_ENTRIES[pictures]
        for begin in range(0, len(places), some):
            chunk = places[begin : begin + some]
            states = [file_state(entries[place][0]) for place in chunk]  # before they are read
            made, failed = _decoded(entries.subset(chunk), pictures, clips, num_threads, index)
            frames += made
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
    entries: Dataset, pictures: bool, clips: int | None, num_threads: int | None, index: Any
) -> tuple[int, dict[int, dict[str, Any]]]:
    """How many frames were decoded, and what failed, by its place."""
    common: dict[str, Any] = {
        "transforms": [transforms.Resize((16, 16))],
        "on_error": "skip",
        "num_threads": num_threads,
    }
    if pictures:
        return _run(ImageLoader(entries, batch_size=64, exact=True, **common), set())
    common |= {"batch_size": 4, "index": index, "hdr": "ignore"}
    every = windows(sequence_length=_FRAMES_PER_CLIP, step=_FRAMES_PER_CLIP, pad_mode="edge")
    some = random(sequence_length=_FRAMES_PER_CLIP, clips_per_video=clips or 1)
    seen: set[int] = set()
    frames = 0
    failed: dict[int, dict[str, Any]] = {}
    if clips is None:
        try:
            frames, failed = _run(ClipLoader(entries, every, **common), seen)
        except ArgumentError:
            seen.clear()  # not one can be indexed, so there are no windows
    # What has no windows (a part without frames, say) has a clip that fails and says why.
    rest = [place for place in range(len(entries)) if place not in seen and place not in failed]
    if rest:
        more, others = _run(ClipLoader(entries.subset(rest), some, **common), set())
        frames += more
        failed |= {rest[number]: failure for number, failure in others.items()}
    return frames, failed


def _run(loader: BaseLoader[Any], seen: set[int]) -> tuple[int, dict[int, dict[str, Any]]]:
    """Takes all batches: how many frames there were, and what failed, by its place. ``seen``: gets the places of the
    entries of which there was something."""
    frames = 0
    batches = iter(loader)
    for _ in range(len(loader)):
        # Where nothing at all can be delivered, loaders raise what is wrong, whatever on_error says.
        try:
            batch = next(batches, None)
        except Error:
            if not loader.failures():
                raise  # no file is to blame
            continue
        if isinstance(batch, ImageBatch):
            frames += len(batch)
        elif batch is not None:
            frames += sum(sum(row) for row in batch.mask.tolist())
            seen.update(batch.video_ids.tolist())
    return frames, {int(failure["video_id"]): failure for failure in loader.failures()}


def _key(source: Source, place: int) -> str:
    """What a report calls an entry: bytes go by their place in the dataset."""
    return json.dumps(sample_key(source) or place)


def file_state(source: Source) -> list[int] | None:
    """By which a file is known to be unchanged; ``None`` where nothing tells."""
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


class _SourceKinds:
    """Which entries are pictures: by their names, and where these do not tell, by their first bytes."""

    def __init__(self) -> None:
        self._columns: dict[tuple[str, str], bool] = {}

    def is_image(self, source: Source) -> bool:
        """Whether it is one. A part is of a video."""
        if isinstance(source, (VideoSegment, ImageSequence)):
            return False
        if isinstance(source, TableCell):
            key = (os.fspath(source.file), source.column)
            if key not in self._columns:
                self._columns[key] = _decodes(source)
            return self._columns[key]
        if isinstance(source, bytes):
            return source.startswith(_IMAGE_SIGNATURES)
        name = (source.name or "") if isinstance(source, ArchiveMember) else os.fspath(source)
        extension = name.rpartition(".")[2].lower()
        if extension in image_extensions or extension in video_extensions or not isinstance(source, ArchiveMember):
            return extension in image_extensions
        try:
            with open(source.file, "rb") as file:
                file.seek(source.offset_bytes)
                return file.read(8).startswith(_IMAGE_SIGNATURES)
        except OSError:
            return False


def _decodes(source: TableCell) -> bool:
    """Whether a cell is a picture; those of a column are all alike."""
    try:
        decode_image(source)
    except Error:
        return False
    return True


def _read(report: str | os.PathLike[str], how: str) -> dict[str, Mapping[str, Any]]:
    """What a report says, by entry; nothing where there is none. The last line of a run that was killed may be cut."""
    if not os.path.exists(report):
        return {}
    with open(report, encoding="utf-8", errors="surrogateescape") as file:
        lines = file.readlines()
    if lines and not lines[-1].endswith("\n"):
        with open(report, "a", encoding="utf-8") as file:
            file.write("\n")  # so that the next line is one of its own
    known: dict[str, Mapping[str, Any]] = {}
    for number, line in enumerate(lines, 1):
        try:
            said = json.loads(line)
            entry, state, failure = said["entry"], said["state"], said["failure"]
            same = said["how"] == how
        except (ValueError, TypeError, KeyError):
            # A run that was killed leaves its last line cut, of which the first line tells that it is a report's.
            if number > 1 or not line.endswith("\n"):
                continue
            raise ArgumentError(
                f"{os.fspath(report)}, line {number}: not a report of validate(); name another file"
            ) from None
        if same and state is not None:
            known[entry] = {"state": state, "failure": failure}
    return known
