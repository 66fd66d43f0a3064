"""Transcodes a dataset: finds what is done, transcodes the rest, and reports the results."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from framespool._common.validate_args import choice, integer
from framespool._common.worker_threads import completed
from framespool._framespool import cores
from framespool.datasets import Dataset, VideoSegment
from framespool.datasets._dataset import as_dataset, one_source_each
from framespool.datasets._failures import failure_record, write_failures
from framespool.errors import BY_KIND, ArgumentError, Error, ReadError
from framespool.tools._transcode import _ffmpeg, _output_paths
from framespool.tools._transcode._encode import encode
from framespool.tools._transcode._ffmpeg import CancelToken
from framespool.tools._transcode._manifest import Manifest
from framespool.tools._transcode._options import Options
from framespool.tools._validate import file_state
from framespool.video._sources import full_source

#: The list of the results, in their folder.
LIST = "dataset.jsonl"


@dataclass(frozen=True)
class TranscodeReport:
    """The result of `transcode()`.

    Attributes:
        videos: Videos of the dataset; several segments of one video count once.
        transcoded: Videos transcoded in this run.
        found: Videos that an earlier run transcoded.
        frames: Frames of the videos transcoded in this run.
        bytes_written: Bytes of the videos transcoded in this run.
        seconds: Duration of the run.
        list_file: `dataset` as a file for `datasets.json_lines()` (with `in_frames=True` if segments are in frames), or
            `None` if that format cannot express it.
        failures: One dict per bad video, as from `ClipLoader.failures()`.
        dataset: The samples whose videos are transcoded, with labels, segments, classes and columns.
        paths: For each sample of the given dataset its new file, or `None`.
        estimate: With `dry_run=True`, if there are videos to transcode; `dataset` and `paths` are then planned. A dict:

            - `summary`: the estimate as sentences, with advice.
            - `videos`, `frames`: what is to be transcoded. `sampled_videos` were examined, of which `unreadable` cannot
              be read; the others are assumed to be similar.
            - `frames_decoded_now`, `frames_decoded_after`: mean frames decoded for a random clip of `sequence_length`
              frames, `stride` apart, by itself. `None` if all videos are shorter.
            - `pixels_now`, `pixels_after`: mean pixels of a frame.
            - `gain`: factor by which the pixels decoded for such a clip decrease, or `None` likewise.
            - `bytes_now`, `bytes_after`: size on disk, and of the new files. `seconds`: duration with `jobs` videos at
              the same time. `bytes_after` and `seconds` are `None` if no trial encode succeeded.
            - `options`: those of the encoder.

    Example:
        >>> import framespool as fsp
        >>> report = fsp.tools.transcode(["a.mp4"], "short/", gop=12)
        >>> report.transcoded, report.frames, report.failures
        (1, 72, [])
    """

    videos: int
    transcoded: int
    found: int
    frames: int
    bytes_written: int
    seconds: float
    list_file: str | None
    failures: list[dict[str, Any]] = field(repr=False)
    dataset: Dataset = field(repr=False)
    paths: list[str | None] = field(repr=False)
    estimate: dict[str, Any] | None = field(default=None, repr=False)

    def write_failures(self, path: str | os.PathLike[str]) -> int:
        """Writes the failures to a file that `Dataset.exclude()` reads.

        Args:
            path: The file to write.

        Returns:
            Number of failures written.
        """
        return write_failures(path, self.failures)


@dataclass
class Video:
    """A video of the dataset.

    Attributes:
        source: The source.
        name: Name of the file to be made.
        identity: Identity of the source, see `_output_paths.identity`.
        entry: The first sample that uses the video.
    """

    source: Any
    name: str
    identity: str
    entry: int


class TranscodeJob:
    """The plan of a run; creating it writes nothing.

    Args:
        dataset: The dataset.
        out: Folder for the results.
        options: Options of the encoder.
        root: Folder from which the paths of results start.
        ffmpeg: The ffmpeg program.
        jobs: Videos at the same time.
        index: The index cache.

    Raises:
        ArgumentError: If the dataset is empty, or a result would replace another file.
        UnsupportedError: If no ffmpeg program has the encoder.
    """

    def __init__(
        self,
        dataset: Any,
        out: str | os.PathLike[str],
        options: Options,
        root: str | os.PathLike[str] | None,
        ffmpeg: str | os.PathLike[str] | None,
        jobs: int | None,
        index: Any,
    ) -> None:
        self.dataset = one_source_each(as_dataset(dataset))
        if not len(self.dataset):
            raise ArgumentError("the dataset is empty; give at least one video")
        self.out = os.path.abspath(os.path.expanduser(os.fspath(out)))
        self.options, self.index = options, index
        self.program = _ffmpeg.find(ffmpeg)
        _ffmpeg.check(self.program, options)
        self.videos, self.of_entry = self._videos(root)
        self.manifest = Manifest(self.out)
        self.todo = [video for video in self.videos if self.manifest_entry(video) is None]
        for video in self.todo:
            place = os.path.join(self.out, video.name)
            if os.path.lexists(place) and self.manifest.source_identity(video.name) != video.identity:
                raise ArgumentError(
                    f"{place} already exists and is not the result of sample {video.entry}; choose another folder for "
                    "the results, or remove it"
                )
        most = min(cores() if jobs is None else integer("jobs", jobs, least=1, most=256), max(1, len(self.todo)))
        self.jobs = most
        #: A worker decodes and encodes concurrently; it has more threads if there are fewer videos than cores.
        self.threads = max(1, cores() // most)

    def _videos(self, root: Any) -> tuple[list[Video], list[int]]:
        """The distinct videos, and for each sample the index of its video."""
        places: dict[str, int] = {}
        sources: list[Any] = []
        firsts: list[int] = []
        of_entry: list[int] = []
        for entry, (source, _) in enumerate(self.dataset):
            video = full_source(source)
            identity = _output_paths.identity(video)
            if self.dataset.stream is not None:
                identity = f"{identity} stream {self.dataset.stream}"
            if identity not in places:
                places[identity] = len(sources)
                sources.append(video)
                firsts.append(entry)
            of_entry.append(places[identity])
        start = _output_paths.root_of(sources) if root is None else os.path.abspath(os.path.expanduser(os.fspath(root)))
        named = _output_paths.output_names(sources, start)
        identities = list(places)
        own = {os.path.realpath(path) for path in map(_output_paths.file_of, sources) if path}
        for name in named:
            if os.path.realpath(os.path.join(self.out, name)) in own:
                raise ArgumentError(
                    f"{self.out}: {name} would replace a video of the dataset; choose another folder for the results"
                )
        return [Video(*four) for four in zip(sources, named, identities, firsts, strict=True)], of_entry

    def manifest_entry(self, video: Video) -> dict[str, Any] | None:
        """The manifest's entry of a video that is already transcoded.

        Args:
            video: The video.

        Returns:
            The entry, or `None` if the video must be transcoded.
        """
        return self.manifest.done(video.identity, _source_state(video.source), self.options.how(), video.name)


def _source_state(source: Any) -> list[int] | None:
    """The state by which a video is known to be unchanged; bytes are identified by their hash already."""
    return [len(source)] if isinstance(source, bytes) else file_state(source)


def run(plan: TranscodeJob, on_error: str, progress: Callable[[int, int, int], object] | None) -> TranscodeReport:
    """Runs a job.

    Args:
        plan: The job.
        on_error: `"raise"` or `"skip"`.
        progress: Called with (done, failed, total).

    Returns:
        What was made.

    Raises:
        ArgumentError: If another run uses the same folder.
        ReadError: If the folder cannot be written.
        Error: With `on_error="raise"`, the error of the first bad video.
    """
    choice("on_error", on_error, ("raise", "skip"))
    began = time.monotonic()
    plan.manifest.open()
    failures: list[dict[str, Any]] = []
    frames = written = made = 0
    total = len(plan.videos)
    done = total - len(plan.todo)
    failed: set[int] = set()
    try:
        if progress is not None:
            progress(done, 0, total)
        for video, outcome in _outcomes(plan):
            done += 1
            if isinstance(outcome, Error):
                if on_error == "raise":
                    raise outcome
                kind = next((kind for kind, error in BY_KIND.items() if type(outcome) is error), "internal")
                failure = {"video_id": video.entry, "kind": kind, "message": str(outcome), "clips": 0}
                failures.append(failure | failure_record(plan.dataset[video.entry][0], kind))
                failed.add(video.entry)
            else:
                made += 1
                frames += outcome["frames"]
                written += outcome["bytes"]
            if progress is not None:
                progress(done, len(failures), total)
        failures.sort(key=lambda failure: int(failure["video_id"]))
        paths = _paths(plan, failed)
        dataset = _made(plan, paths)
        return TranscodeReport(
            videos=total,
            transcoded=made,
            found=total - len(plan.todo),
            frames=frames,
            bytes_written=written,
            seconds=time.monotonic() - began,
            list_file=_listed(dataset, plan.out),
            failures=failures,
            dataset=dataset,
            paths=paths,
        )
    finally:
        plan.manifest.close()


def planned(plan: TranscodeJob, estimate: dict[str, Any] | None) -> TranscodeReport:
    """What a job would make.

    Args:
        plan: The job.
        estimate: Its estimate.

    Returns:
        The report of a dry run.
    """
    paths, found = _paths(plan, set()), len(plan.videos) - len(plan.todo)
    return TranscodeReport(len(plan.videos), 0, found, 0, 0, 0.0, None, [], _made(plan, paths), paths, estimate)


def _paths(plan: TranscodeJob, failed: set[int]) -> list[str | None]:
    """The new file of each sample; `None` if its video, given by its first sample, failed."""
    return [
        None if plan.videos[place].entry in failed else os.path.join(plan.out, plan.videos[place].name)
        for place in plan.of_entry
    ]


def _outcomes(plan: TranscodeJob) -> Iterator[tuple[Video, dict[str, Any] | Error]]:
    """The result of each video, as soon as it is available. If the caller stops, running work is canceled."""
    stop = CancelToken()
    todo = enumerate(plan.todo)
    for (_, video), future in completed(lambda item: _make(plan, *item, stop), todo, plan.jobs, stop.cancel):
        try:
            outcome: dict[str, Any] | Error = future.result()
        except Error as error:
            outcome = error
        except OSError as error:
            outcome = ReadError(f"{os.path.join(plan.out, video.name)}: {error.strerror or error}")
        yield video, outcome


def _make(plan: TranscodeJob, number: int, video: Video, stop: CancelToken) -> dict[str, Any]:
    """Transcodes one video under a temporary name and renames it when it is complete and verified."""
    state = _source_state(video.source)  # before it is read
    half, whole_file = plan.manifest.half(number), os.path.join(plan.out, video.name)
    try:
        frames = encode(
            video.source,
            half,
            plan.options,
            plan.program,
            plan.threads,
            stop,
            plan.index,
            stream=plan.dataset.stream,
        )
        written = os.stat(half).st_size
        os.makedirs(os.path.dirname(whole_file), exist_ok=True)
        # Recorded before the rename, so that a run that is killed in between recognizes the file.
        plan.manifest.add({"video": video.identity, "state": None, "how": "", "file": video.name, "bytes": None})
        os.replace(half, whole_file)
    finally:
        for left in (half, f"{half}.raw"):
            with contextlib.suppress(OSError):
                os.unlink(left)
    said: dict[str, Any] = {"video": video.identity, "state": state, "how": plan.options.how(), "file": video.name}
    said |= {"frames": frames, "bytes": written}
    plan.manifest.add(said)
    return said


def _made(plan: TranscodeJob, paths: list[str | None]) -> Dataset:
    """The dataset of the transcoded videos."""
    kept = [entry for entry, path in enumerate(paths) if path is not None]
    entries: list[tuple[Any, int]] = []
    for entry in kept:
        source, label = plan.dataset[entry]
        path = paths[entry]
        entries.append((VideoSegment(path, **source.bounds()) if isinstance(source, VideoSegment) else path, label))  # type: ignore[arg-type]
    columns = {name: [values[entry] for entry in kept] for name, values in plan.dataset.columns.items()}
    return Dataset(entries, plan.dataset.classes, columns)


def _listed(made: Dataset, out: str) -> str | None:
    """Writes the list of the dataset; returns its path."""
    lines = _output_paths.manifest_rows(made, out)
    path = os.path.join(out, LIST)
    if lines is None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # from an earlier run, no longer correct
        return None
    replace_text(path, "".join(json.dumps(line, default=str) + "\n" for line in lines))
    return path


def replace_text(path: str, text: str) -> None:
    """Replaces a file atomically.

    Args:
        path: The file.
        text: Its new content.
    """
    half = f"{path}.half"
    with open(half, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    os.replace(half, path)
