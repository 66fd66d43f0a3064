"""Sources of samples: paths, bytes, archive members, table cells, image sequences and video segments."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from framespool._common.validate_args import as_sequence, display_repr, integer, number, rounding
from framespool.errors import ArgumentError


def _fields_repr(source: Any) -> str:
    """The representation that dataclasses have, without secrets of URLs."""
    values = ", ".join(f"{each.name}={display_repr(getattr(source, each.name))}" for each in fields(source))
    return f"{type(source).__qualname__}({values})"


@dataclass(frozen=True, repr=False)
class ImageSequence:
    """A folder of images, one per frame of a video; it can be used wherever a video can.

    Frames have the size and orientation of the first one. A frame of another size is an error of its clip, unless the
    transforms give all frames the same size. A loader lists the folder again only if it changes; a file whose size
    differs from the listed one is an error of its clip.

    Attributes:
        folder: Folder of the images.
        pattern: File name of a frame with `{}`, `{:05}`, `%d` or `%05d` in place of its number, such as
            `"img_{:05}.jpg"`. By default every image of the folder whose name does not start with a dot is a
            frame, in natural order (`f9` before `f10`).
        first: Number of the first frame, by default 1. Without a pattern: number of frames to skip at the beginning.
        count: Number of frames. By default up to the first number without a file.
        fps: Frames per second: an int, a float (29.97 and similar are the exact rates over 1001) or a pair
            (numerator, denominator).

    Raises:
        ArgumentError: If a value has a wrong type or is out of range.

    Example:
        >>> import framespool as fsp
        >>> frames = fsp.datasets.ImageSequence("frames/", pattern="img_{:05}.png", fps=25)
        >>> video = fsp.Video(frames)
        >>> len(video), video[0].shape
        (8, (3, 16, 32))
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

    def __repr__(self) -> str:
        return _fields_repr(self)

    @property
    def _fps(self) -> tuple[int, int]:
        if isinstance(self.fps, tuple):
            return self.fps
        return _rate(float(self.fps))

    @property
    def _which(self) -> dict[str, Any]:
        """Distinguishes it from other videos in the same folder, in failure lists."""
        return {"pattern": self.pattern, "first": self.first, "count": self.count}


def _rate(fps: float) -> tuple[int, int]:
    """Returns a frame rate as a fraction of 32-bit integers."""
    if fps.is_integer():
        return int(fps), 1
    from fractions import Fraction  # imported here, as it takes a while and few need it

    value = Fraction(fps)
    # 29.97 and 23.976 are rounded rates over 1001. No other usual rate is that close to one.
    ntsc = Fraction(round(value * 1001 / 1000) * 1000, 1001)
    if 1 <= value <= 1000 and abs(ntsc - value) <= value / 500_000:
        return ntsc.numerator, ntsc.denominator
    # The larger of both numbers limits the size of the other one.
    large = value if value >= 1 else 1 / value
    finest = (2**32 - 1) // math.ceil(large)
    near = large.limit_denominator(max(1, min(finest, 10**6)))
    rate = near if value >= 1 else 1 / near
    if max(rate.numerator, rate.denominator) >= 2**32 or abs(rate - value) > value / 10_000:
        raise ArgumentError(
            f"fps={fps!r} cannot be expressed as a fraction of 32-bit integers; pass (numerator, denominator)"
        )
    return rate.numerator, rate.denominator


@dataclass(frozen=True, slots=True, repr=False)
class ArchiveMember:
    """A file inside another file, such as a member of a tar; it can be used wherever a video or an image can.

    The member must be stored uncompressed and contiguous: it is read in place. Its index is cached in memory for the
    lifetime of a loader, not on disk. An archive that is missing or too short is an error of its clips.

    Attributes:
        file: Path of the archive.
        offset_bytes: Offset of the member in the archive, in bytes.
        num_bytes: Size of the member in bytes.
        name: Name of the member in messages, as in `shard.tar!a.mp4`; it is ignored by comparisons.

    Raises:
        ArgumentError: If `file` is not a path, or a number is below 0.

    Example:
        >>> import framespool as fsp
        >>> import tarfile
        >>> with tarfile.open("shard.tar", "w") as shard:
        ...     shard.add("a.mp4")
        >>> with tarfile.open("shard.tar") as shard:
        ...     member = shard.getmember("a.mp4")
        >>> source = fsp.datasets.ArchiveMember("shard.tar", member.offset_data, member.size, "a.mp4")
        >>> len(fsp.Video(source))
        72
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
        """Creates a member that a reader found; its values are valid, and there may be millions of them."""
        member = object.__new__(cls)
        put = object.__setattr__
        put(member, "file", file)
        put(member, "offset_bytes", offset_bytes)
        put(member, "num_bytes", num_bytes)
        put(member, "name", name)
        return member

    def __repr__(self) -> str:
        return _fields_repr(self)

    @property
    def _which(self) -> dict[str, Any]:
        """Distinguishes it from other members of the archive, in failure lists."""
        return {"name": self.name, "offset_bytes": self.offset_bytes, "num_bytes": self.num_bytes}


@dataclass(frozen=True, slots=True, repr=False)
class TableCell:
    """The bytes in one row of a compressed or encoded Parquet column, which contain a video or an image.

    `parquet()` creates cells; a cell can be used wherever a video or an image can. It is unpacked when it is
    opened, together with the page that it shares with other rows. Each loader caches up to 256 MiB of pages, so that
    neighboring rows cost little if they are requested one after another.

    The index of a cell is cached in memory for the lifetime of a loader, not on disk.

    Attributes:
        file: Path of the file.
        column: Path of the column's names, as in `"image.bytes"`.
        row: Row, from 0.

    Raises:
        ArgumentError: If `file` is not a path, `column` is not a string, or `row` is below 0.

    Example:
        >>> import framespool as fsp
        >>> cell = fsp.datasets.TableCell("train.parquet", column="image.bytes", row=3)
        >>> dataset = fsp.datasets.Dataset([(cell, 0)])
        >>> dataset[0][1]
        0
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

    def __repr__(self) -> str:
        return _fields_repr(self)

    @property
    def _which(self) -> dict[str, Any]:
        """Distinguishes it from other cells of the file, in failure lists."""
        return {"column": self.column, "row": self.row}


@dataclass(frozen=True, repr=False)
class VideoSegment:
    """A segment of a video, as the source of a sample: `(VideoSegment("a.mp4", start_seconds=3), label)`.

    The segment is given either in frames or in seconds. A bound that is not given is the video's start or end; an end
    past the video's end is the video's end. In seconds, it has the frames that appear at or after `start_seconds` and
    before `end_seconds`, by the video's own presentation times (`pts_seconds`).

    Clips are made as if the video were this segment alone, but `batch.indices` and `batch.pts_seconds` refer to the
    complete video. Segments of one file share its index, and decoding if they are close to each other; segments of
    bytes share neither, and the bytes are copied for each segment.

    Attributes:
        source: The video.
        start_frame: First frame, from 0.
        end_frame: Frame after the last one.
        start_seconds: Start of the segment in seconds.
        end_seconds: End of the segment in seconds, exclusive.

    Raises:
        ArgumentError: If bounds are given both in frames and in seconds, or the end is not after the start.

    Example:
        >>> import framespool as fsp
        >>> segment = fsp.datasets.VideoSegment("a.mp4", start_seconds=1, end_seconds=2)
        >>> loader = fsp.ClipLoader([(segment, 0)], fsp.samplers.UniformClips(sequence_length=4), batch_size=1)
        >>> next(iter(loader)).indices.tolist()
        [[34, 35, 36, 37]]
    """

    source: str | os.PathLike[str] | bytes | ImageSequence | ArchiveMember | TableCell
    start_frame: int | None = None
    end_frame: int | None = None
    start_seconds: float | None = None
    end_seconds: float | None = None

    def __post_init__(self) -> None:
        frames, seconds = (self.start_frame, self.end_frame), (self.start_seconds, self.end_seconds)
        if any(v is not None for v in frames) and any(v is not None for v in seconds):
            raise ArgumentError(f"a segment has bounds in frames or in seconds, got both: {self.bounds()}")
        # Stored as plain numbers, so that equal segments have equal fields and representations.
        for name, least in (("start_frame", 0), ("end_frame", 1)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, integer(name, getattr(self, name), least=least))
        for name in ("start_seconds", "end_seconds"):
            if getattr(self, name) is not None:
                value = getattr(self, name)
                # The earliest time that is rounded to this one: the frame that begins then is meant.
                object.__setattr__(self, name, number(name, value) - rounding(value))
        for name, (start, end) in (("frame", frames), ("seconds", seconds)):
            if start is not None and end is not None and end <= start:
                raise ArgumentError(f"end_{name} must be greater than start_{name}={start}, got {end}")

    def bounds(self) -> dict[str, float]:
        """Returns the bounds that are set.

        Returns:
            Those of `start_frame`, `end_frame`, `start_seconds` and `end_seconds` that are not `None`, by name.
        """
        names = ("start_frame", "end_frame", "start_seconds", "end_seconds")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def __repr__(self) -> str:
        source = f"{len(self.source)} bytes" if isinstance(self.source, bytes) else display_repr(self.source)
        return f"VideoSegment({source}{''.join(f', {name}={value}' for name, value in self.bounds().items())})"


#: A path, the bytes of a video, an image sequence, an archive member, a table cell, or a segment of any.
Source = str | os.PathLike[str] | bytes | ImageSequence | ArchiveMember | TableCell | VideoSegment


#: The kinds of sources of a sample: attributes of `Sources` and of `SampleBatch`.
KINDS = ("videos", "images")


@dataclass(frozen=True, repr=False, slots=True)
class Sources:
    """The videos and images of one sample, in the place of a path; without any, the sample is text only.

    A `ClipLoader` of such samples delivers a `SampleBatch`. See docs/howto/mixed-samples.md.

    Attributes:
        videos: Paths or other sources of the videos, in the order of the record.
        images: Paths, bytes, or archive members of the images, in the order of the record.

    Raises:
        ArgumentError: If one of them is no list, or an entry is no source.

    Example:
        >>> import framespool as fsp
        >>> sample = fsp.datasets.Sources(videos=["a.mp4", "phone.mp4"], images=["photos/0.jpg"])
        >>> dataset = fsp.datasets.Dataset([sample, fsp.datasets.Sources()], columns={"text": ["compare", "hello"]})
        >>> len(dataset), dataset[0][0].images
        (2, ('photos/0.jpg',))
    """

    videos: Sequence[Source] = ()
    images: Sequence[Source] = ()

    def __post_init__(self) -> None:
        files = (str, bytes, os.PathLike, ArchiveMember, TableCell)
        for kind, taken in zip(KINDS, ((*files, ImageSequence, VideoSegment), files), strict=True):
            listed = as_sequence(getattr(self, kind))
            if listed is None:
                raise ArgumentError(f"{kind} must be a list of paths, got {display_repr(getattr(self, kind))}")
            for place, source in enumerate(listed):
                if not isinstance(source, taken):
                    raise ArgumentError(f"{kind}[{place}] must be a path or another source, got {display_repr(source)}")
            object.__setattr__(self, kind, tuple(listed))

    def __repr__(self) -> str:
        return _fields_repr(self)

    def __iter__(self) -> Iterator[Source]:
        """All videos, then all images."""
        yield from self.videos
        yield from self.images


def full_source(source: Source) -> Any:
    """The video of a source, without its segment.

    Args:
        source: A source of the dataset.

    Returns:
        The video.
    """
    return source.source if isinstance(source, VideoSegment) else source
