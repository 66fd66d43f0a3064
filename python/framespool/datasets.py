"""Lists of labelled videos, or of parts of videos.

A :class:`Dataset` is a plain sequence of ``(path, label)`` and can be pickled; bytes, or a :class:`Part` of a video,
may stand for a path.
"""

from __future__ import annotations

import json
import math
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, overload

from framespool import _framespool
from framespool._check import number, several, whole
from framespool.errors import ArgumentError

__all__ = ["Dataset", "FrameFolder", "Mixture", "Part", "file_list", "folder", "frame_folders", "images", "mix"]


@dataclass(frozen=True)
class FrameFolder:
    """A folder of pictures, one for each frame of a video: it stands for a video wherever one is wanted.

    ``folder``: where they are. ``pattern``: name of a frame's file, with ``{}``, ``{:05}``, ``%d`` or ``%05d`` in place
    of its number, such as ``"img_{:05}.jpg"``; without one every JPEG and PNG of the folder whose name does not begin
    with a dot is a frame, ordered by name (``f9`` before ``f10``). ``first``: number of the first frame; without a
    pattern, frames to leave out at the beginning. ``count``: how many frames; by default up to the first number that
    has no file. ``fps``: frames per second, an int, a float (29.97 and the like stand for the exact rates over 1001) or
    a pair (numerator, denominator), which the files do not tell.

    A loader lists the files again only when the folder changes; a file that is not as long as it was listed is an error
    of its clip.

    Frames are as large, and turned, as the first one is; one of another size is an error of its clip, unless the
    transforms make all sizes the same.
    """

    folder: str | os.PathLike[str]
    pattern: str | None = None
    first: int | None = None
    count: int | None = None
    fps: float | tuple[int, int] = 30

    def __post_init__(self) -> None:
        if not isinstance(self.folder, (str, os.PathLike)):
            raise ArgumentError(f"folder must be a path, got {self.folder!r}")
        if self.pattern is not None and not isinstance(self.pattern, str):
            raise ArgumentError(f"pattern must be a string, got {self.pattern!r}")
        first = (1 if self.pattern else 0) if self.first is None else whole("first", self.first)
        object.__setattr__(self, "first", first)
        if self.count is not None:
            object.__setattr__(self, "count", whole("count", self.count, least=1))
        pair = several(self.fps)
        if pair is None:
            _rate(number("fps", self.fps, above=0, most=1e6))
        elif len(pair) != 2:
            raise ArgumentError(f"fps must be a number or (numerator, denominator), got {self.fps!r}")
        else:
            object.__setattr__(self, "fps", tuple(whole("fps", part, least=1) for part in pair))

    @property
    def _fps(self) -> tuple[int, int]:
        if isinstance(self.fps, tuple):
            return self.fps
        return _rate(float(self.fps))

    @property
    def _which(self) -> dict[str, Any]:
        """What tells it from other videos in the same folder, as lists of failures have it."""
        return {"pattern": self.pattern, "first": self.first, "count": self.count}


def _rate(fps: float) -> tuple[int, int]:
    """Frames per second as a fraction of numbers of 32 bits."""
    if fps.is_integer():
        return int(fps), 1
    value = Fraction(fps)
    # 29.97 and 23.976 are rounded: rates over 1001 are meant. Others are not that close to one.
    ntsc = Fraction(round(value * 1001 / 1000) * 1000, 1001)
    if 1 <= value <= 1000 and abs(ntsc - value) <= value / 500_000:
        return ntsc.numerator, ntsc.denominator
    # The larger of both numbers decides how large the other one may be.
    large = value if value >= 1 else 1 / value
    finest = (2**32 - 1) // math.ceil(large)
    near = large.limit_denominator(max(1, min(finest, 10**6)))
    rate = near if value >= 1 else 1 / near
    if max(rate.numerator, rate.denominator) >= 2**32 or abs(rate - value) > value / 10_000:
        raise ArgumentError(f"fps={fps!r} is no fraction of 32-bit numbers; give (numerator, denominator)")
    return rate.numerator, rate.denominator


@dataclass(frozen=True, repr=False)
class Part:
    """A part of a video, which stands for a path in an entry of a dataset: ``(Part("a.mp4", start_seconds=3), label)``.

    Either in frames, ``start_frame`` (from 0) up to and without ``end_frame``; or in seconds, the frames that appear at
    or after ``start_seconds`` and before ``end_seconds``, by the video's own presentation times (``pts_seconds``). What
    is not given is the video's begin or end; an end past the video's is the video's. Clips are made as if the video
    were this part alone, but ``batch.indices`` and ``batch.pts_seconds`` are the whole video's. Parts of one file
    share its index, and decoding where they lie close; bytes share neither, and are copied for each part.
    """

    source: str | os.PathLike[str] | bytes | FrameFolder
    start_frame: int | None = None
    end_frame: int | None = None
    start_seconds: float | None = None
    end_seconds: float | None = None

    def __post_init__(self) -> None:
        frames, seconds = (self.start_frame, self.end_frame), (self.start_seconds, self.end_seconds)
        if any(v is not None for v in frames) and any(v is not None for v in seconds):
            raise ArgumentError(f"a part is given in frames or in seconds, got both: {self.bounds()}")
        # Kept as plain numbers, so that parts that are equal are equal in every respect.
        for name, least in (("start_frame", 0), ("end_frame", 1)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, whole(name, getattr(self, name), least=least))
        for name in ("start_seconds", "end_seconds"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, number(name, getattr(self, name)))
        for name, (start, end) in (("frame", frames), ("seconds", seconds)):
            if start is not None and end is not None and end <= start:
                raise ArgumentError(f"end_{name} must be greater than start_{name}={start}, got {end}")

    def bounds(self) -> dict[str, float]:
        """What is given of ``start_frame``, ``end_frame``, ``start_seconds`` and ``end_seconds``."""
        names = ("start_frame", "end_frame", "start_seconds", "end_seconds")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def __repr__(self) -> str:
        source = f"{len(self.source)} bytes" if isinstance(self.source, bytes) else repr(self.source)
        return f"Part({source}{''.join(f', {name}={value}' for name, value in self.bounds().items())})"


#: A path, the bytes of a video, a folder of frames, or a part of any.
Source = str | os.PathLike[str] | bytes | FrameFolder | Part


class Dataset(Sequence[tuple[Source, int]]):
    """Videos with integer labels.

    ``entries``: pairs of (path or bytes, label); -1 stands for "no label". ``classes``: names of the labels, empty
    where there are none.
    """

    def __init__(self, entries: Iterable[tuple[Source, int]], classes: Sequence[str] = ()) -> None:
        self.entries: list[tuple[Source, int]] = [_entry(i, entry) for i, entry in enumerate(entries)]
        self.classes: list[str] = list(classes)

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, index: int) -> tuple[Source, int]: ...
    @overload
    def __getitem__(self, index: slice) -> Dataset: ...
    def __getitem__(self, index: int | slice) -> tuple[Source, int] | Dataset:
        if isinstance(index, slice):
            return Dataset(self.entries[index], self.classes)
        return self.entries[index]

    def __iter__(self) -> Iterator[tuple[Source, int]]:
        return iter(self.entries)

    def __add__(self, other: Dataset) -> Dataset:
        """Both, one after the other. ``classes`` are kept where they are the same."""
        if not isinstance(other, Dataset):
            return NotImplemented
        return Dataset(self.entries + other.entries, self.classes if self.classes == other.classes else ())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dataset):
            return NotImplemented
        return self.entries == other.entries and self.classes == other.classes

    def without(self, quarantine: str | os.PathLike[str] | Iterable[Any]) -> Dataset:
        """The dataset without some files: those of a list that :meth:`ClipLoader.write_quarantine` wrote, or of an
        iterable of paths, of parts, or of what :meth:`ClipLoader.failures` returns. A file goes with all its parts;
        where only a part of it is at fault, only that.

        Clips of what remains are numbered anew, so this is another dataset: its order is its own, and states of loaders
        over the old one do not fit it.
        """
        if isinstance(quarantine, (str, os.PathLike)):
            bad = set(_read_quarantine(quarantine))
        else:
            bad = {key for key in map(_key_of, quarantine) if key is not None}

        def is_bad(source: Source) -> bool:
            key = _key_of(source)
            if key is None:
                return False
            path, frames, bounds = key
            # What is said of a folder without saying which of its frames is said of all.
            return any((path, f, b) in bad for f in (frames, "") for b in (bounds, ""))

        return Dataset([entry for entry in self.entries if not is_bad(entry[0])], self.classes)

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The label of each class by its name, as torchvision's datasets call it."""
        return {name: label for label, name in enumerate(self.classes)}

    def __repr__(self) -> str:
        return f"Dataset({len(self.entries)} entries, {len(self.classes)} classes)"


class Mixture(Dataset):
    """Several datasets, mixed by weight; made by :func:`mix`. A slice of it is a plain dataset, without weights."""

    def __init__(
        self, datasets: Sequence[Dataset], weights: Sequence[float], replacement: bool, epoch_clips: int | None
    ) -> None:
        classes = datasets[0].classes
        super().__init__(
            (entry for dataset in datasets for entry in dataset.entries),
            classes if all(dataset.classes == classes for dataset in datasets) else (),
        )
        self.lengths = [len(dataset) for dataset in datasets]
        self.weights = list(weights)
        self.replacement = replacement
        self.epoch_clips = epoch_clips

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mixture):
            return NotImplemented
        mine = (self.lengths, self.weights, self.replacement, self.epoch_clips)
        return mine == (other.lengths, other.weights, other.replacement, other.epoch_clips) and super().__eq__(other)

    def __add__(self, other: Dataset) -> Dataset:
        raise ArgumentError("a mix cannot be added to; give mix() the other dataset too, with its weight")

    def without(self, quarantine: str | os.PathLike[str] | Iterable[Any]) -> Mixture:
        """See :meth:`Dataset.without`; the weights stay."""
        if not isinstance(quarantine, (str, os.PathLike)):
            quarantine = list(quarantine)
        parts, begin = [], 0
        for length in self.lengths:
            parts.append(Dataset(self.entries[begin : begin + length], self.classes).without(quarantine))
            begin += length
        return Mixture(parts, self.weights, self.replacement, self.epoch_clips)


def mix(*datasets: tuple[Any, float], replacement: bool = False, epoch_clips: int | None = None) -> Mixture:
    """Datasets to be mixed by weight: ``mix((a, 0.7), (b, 0.3))``. It needs ``shuffle="full"``.

    In an epoch, and in any long stretch of it, clips of the datasets come in proportion to the weights (positive, in
    any unit). Without ``replacement`` the clips of a dataset come equally often, to within one, and in another order
    each time (see :class:`framespool.Mix` for the exact rule); with it every draw is independent. A clip that comes
    again in the same epoch is sampled and augmented anew. ``epoch_clips``: clips of an epoch over all ranks, as many as
    all datasets have by default. ``video_ids`` and ``clip_ids`` count through the datasets one after another. ``a + b``
    is a plain union instead, each clip once. ``classes`` are kept where they are the same in all.
    """
    if not datasets:
        raise ArgumentError("mix needs at least one (dataset, weight), got none")
    parts, weights = [], []
    for place, pair in enumerate(datasets):
        try:
            dataset, weight = pair
        except (TypeError, ValueError):
            raise ArgumentError(f"mix takes pairs of (dataset, weight), got {pair!r} at place {place}") from None
        part = as_dataset(dataset)
        if isinstance(part, Mixture):
            raise ArgumentError(f"a mix cannot be mixed again, got one at place {place}; list its datasets instead")
        if not len(part):
            raise ArgumentError(f"the dataset at place {place} is empty; leave it out")
        parts.append(part)
        weights.append(number("weight", weight, above=0))
    most = None if epoch_clips is None else whole("epoch_clips", epoch_clips, least=1, most=2**62)
    return Mixture(parts, weights, bool(replacement), most)


def _entry(number: int, entry: Any) -> tuple[Source, int]:
    if isinstance(entry, (str, bytes, os.PathLike, FrameFolder, Part)):
        return (entry, -1)
    try:
        source, label = entry
        label = operator.index(label)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"dataset entry {number} must be (path, label) with an integer label, got {entry!r}"
        ) from None
    if not -(2**63) <= label < 2**63:
        raise ArgumentError(f"dataset entry {number}: labels have 64 bits, got {label}")
    if not isinstance(source, (str, bytes, os.PathLike, FrameFolder, Part)):
        raise ArgumentError(
            f"dataset entry {number}: a path, a FrameFolder, a Part or bytes is wanted, got {type(source).__name__}"
        )
    return (source, label)


def _key_of(entry: Any) -> tuple[str, str, str] | None:
    """File, frames of a folder, and bounds of an entry, or of what is told of a failure; ``None`` for what is in
    memory. What is not told is empty."""
    frames: Any = {}
    bounds: Any = {}
    if isinstance(entry, Mapping):
        entry, frames, bounds = entry.get("path"), entry.get("frames", {}), entry.get("part", {})
    if isinstance(entry, Part):
        entry, bounds = entry.source, entry.bounds()
    if isinstance(entry, FrameFolder):
        entry, frames = entry.folder, entry._which
    if entry is None or isinstance(entry, bytes):
        return None
    return os.path.normpath(os.fspath(entry)), _told(frames), _told(bounds)


def _told(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in sorted(facts.items()))


def _read_quarantine(path: str | os.PathLike[str]) -> Iterator[tuple[str, str, str]]:
    with open(path, encoding="utf-8", errors="surrogateescape") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                bad = _key_of(json.loads(line))
            except (ValueError, TypeError, AttributeError):
                bad = None
            if bad is None:
                raise ArgumentError(
                    f'{os.fspath(path)}, line {number}: an object with a "path" is wanted, got {line.strip()[:80]!r}'
                )
            yield bad


def as_dataset(dataset: Any) -> Dataset:
    """``dataset`` itself, or a list of ``(path, label)`` or of paths made into one."""
    if isinstance(dataset, Dataset):
        return dataset
    if isinstance(dataset, (str, bytes, os.PathLike)):
        raise ArgumentError(
            f"dataset must be a Dataset or a list of (path, label), got {dataset!r}; "
            "use framespool.datasets.folder(...) for a folder"
        )
    return Dataset(dataset)


def folder(root: str | os.PathLike[str], *, extensions: Sequence[str] | None = None) -> Dataset:
    """One class per sub-folder of ``root``, labels 0, 1, … by sorted name; files sorted by path.

    A folder without sub-folders gives unlabelled videos (label -1). ``extensions`` (such as ``["mp4", "mkv"]``,
    case-insensitive) replaces the usual list of video extensions. Raises :class:`~framespool.NotFoundError` for a
    missing folder and :class:`~framespool.ArgumentError` where no video is found.
    """
    entries, classes = _framespool.read_folder(root, None if extensions is None else list(extensions))
    return Dataset(entries, classes)


def images(root: str | os.PathLike[str], *, extensions: Sequence[str] | None = None) -> Dataset:
    """Pictures in class folders, as torchvision's ``ImageFolder`` has them: a class per sub-folder of ``root``, labels
    0, 1, … by sorted name (``classes``, ``class_to_idx``), the files below each, however deep, sorted by path.

    Files that end in .jpg, .jpeg, .jpe, .jfif or .png, or in one of ``extensions``, in upper or lower case; others
    (.webp, .bmp, … which torchvision lists too) are not read here
    and not listed. A folder without sub-folders gives unlabelled images (label -1). Raises as :func:`folder`.
    """
    entries, classes = _framespool.read_folder(root, list(_PICTURES if extensions is None else extensions))
    return Dataset(entries, classes)


#: What is taken for a picture unless extensions are given.
_PICTURES = ("jpg", "jpeg", "jpe", "jfif", "png")


def frame_folders(
    root: str | os.PathLike[str], *, pattern: str | None = None, fps: float | tuple[int, int] = 30
) -> Dataset:
    """Videos that were taken apart into pictures, in class folders: ``root/class/video/img_00001.jpg``.

    Every folder that holds pictures is a video; labels 0, 1, … by the sorted names of the sub-folders of ``root``.
    Where these hold the pictures themselves, they are unlabelled videos (label -1). ``pattern`` and ``fps`` as in
    :class:`FrameFolder`. Raises as :func:`folder`.
    """
    found, classes = _framespool.read_folder(root, list(_PICTURES))
    folders: dict[str, int] = {}
    base = os.path.abspath(os.fspath(root))
    flat = True
    for path, label in found:
        folder = os.path.dirname(os.fspath(path))
        flat &= os.path.dirname(os.path.abspath(folder)) == base
        folders.setdefault(folder, label)
    entries = [
        (FrameFolder(folder, pattern=pattern, fps=fps), -1 if flat else label) for folder, label in folders.items()
    ]
    return Dataset(entries, () if flat else classes)


def file_list(
    path: str | os.PathLike[str], *, root: str | os.PathLike[str] | None = None, delimiter: str | None = None
) -> Dataset:
    """A text file with ``path label`` on each line, split from the right, so that paths may contain spaces.

    The label may be missing (-1). Blank lines and lines that begin with ``#`` are passed over. Relative paths start
    at ``root``, or at the list's own folder. Errors name the line.
    """
    entries, classes = _framespool.read_file_list(path, root, delimiter)
    return Dataset(entries, classes)
