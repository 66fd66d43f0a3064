"""What an entry of a dataset may be: a path, bytes, a file inside another, a folder of frames, or a part of a video."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from framespool._validate_args import as_sequence, integer, number
from framespool.errors import ArgumentError


@dataclass(frozen=True)
class ImageSequence:
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
        first = (1 if self.pattern else 0) if self.first is None else integer("first", self.first)
        object.__setattr__(self, "first", first)
        if self.count is not None:
            object.__setattr__(self, "count", integer("count", self.count, least=1))
        pair = as_sequence(self.fps)
        if pair is None:
            _rate(number("fps", self.fps, above=0, most=1e6))
        elif len(pair) != 2:
            raise ArgumentError(f"fps must be a number or (numerator, denominator), got {self.fps!r}")
        else:
            object.__setattr__(self, "fps", tuple(integer("fps", part, least=1) for part in pair))

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


@dataclass(frozen=True, slots=True)
class ArchiveMember:
    """A file inside a file: a member of an archive, which stands for a path wherever a video or a picture is wanted.

    ``file``: path of the archive, such as a tar. ``offset_bytes``: where in it the member begins. ``num_bytes``: how
    long it is. ``name``: what messages call it, as in ``shard.tar!a.mp4``; it does not make two members different.

    It is read where it lies, so it must lie there as it is, in one piece and not compressed. Its index is kept in
    memory as long as a loader lives, and not stored. An archive that is missing or shorter is an error of its clips.

    Raises :class:`~framespool.ArgumentError` for what is no path, and for numbers below 0.
    """

    file: str | os.PathLike[str]
    offset_bytes: int
    num_bytes: int
    name: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.file, (str, os.PathLike)):
            raise ArgumentError(f"file must be a path, got {self.file!r}")
        for name in ("offset_bytes", "num_bytes"):
            object.__setattr__(self, name, integer(name, getattr(self, name), most=2**63 - 1))
        if self.name is not None and not isinstance(self.name, str):
            raise ArgumentError(f"name must be a string, got {self.name!r}")

    @classmethod
    def _listed(cls, file: str, offset_bytes: int, num_bytes: int, name: str | None) -> ArchiveMember:
        """One that a reader found, of which there may be millions: its numbers are right."""
        member = object.__new__(cls)
        put = object.__setattr__
        put(member, "file", file)
        put(member, "offset_bytes", offset_bytes)
        put(member, "num_bytes", num_bytes)
        put(member, "name", name)
        return member

    @property
    def _which(self) -> dict[str, Any]:
        """What tells it from other members of the archive, as lists of failures have it."""
        return {"name": self.name, "offset_bytes": self.offset_bytes, "num_bytes": self.num_bytes}


@dataclass(frozen=True, slots=True)
class TableCell:
    """The bytes in one row of a column of a Parquet file: a video or a picture that stands for a path wherever one is
    wanted, where its column is compressed or encoded. :func:`parquet` makes them.

    ``file``: path of the file. ``column``: the path of its names, as in ``"image.bytes"``. ``row``: from 0.

    It is unpacked when it is opened, with the page that it shares with other rows; pages are kept up to 256 MiB for
    each loader, so that neighbours cost little if they are wanted one after another. Its index is kept in memory as
    long as a loader lives, and not stored.

    Raises :class:`~framespool.ArgumentError` for what is no path or no name, and for rows below 0.
    """

    file: str | os.PathLike[str]
    column: str
    row: int

    def __post_init__(self) -> None:
        if not isinstance(self.file, (str, os.PathLike)):
            raise ArgumentError(f"file must be a path, got {self.file!r}")
        if not isinstance(self.column, str):
            raise ArgumentError(f"column must be a string, got {self.column!r}")
        object.__setattr__(self, "row", integer("row", self.row, most=2**63 - 1))

    @property
    def _which(self) -> dict[str, Any]:
        """What tells it from other cells of the file, as lists of failures have it."""
        return {"column": self.column, "row": self.row}


@dataclass(frozen=True, repr=False)
class VideoSegment:
    """A part of a video, which stands for a path in an entry of a dataset: ``(VideoSegment("a.mp4", start_seconds=3), label)``.

    Either in frames, ``start_frame`` (from 0) up to and without ``end_frame``; or in seconds, the frames that appear at
    or after ``start_seconds`` and before ``end_seconds``, by the video's own presentation times (``pts_seconds``). What
    is not given is the video's begin or end; an end past the video's is the video's. Clips are made as if the video
    were this part alone, but ``batch.indices`` and ``batch.pts_seconds`` are the whole video's. Parts of one file
    share its index, and decoding where they lie close; bytes share neither, and are copied for each part.
    """

    source: str | os.PathLike[str] | bytes | ImageSequence | ArchiveMember | TableCell
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
                object.__setattr__(self, name, integer(name, getattr(self, name), least=least))
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
        return f"VideoSegment({source}{''.join(f', {name}={value}' for name, value in self.bounds().items())})"


#: A path, the bytes of a video, a folder of frames, a file inside another, a cell of a table, or a part of any.
Source = str | os.PathLike[str] | bytes | ImageSequence | ArchiveMember | TableCell | VideoSegment
