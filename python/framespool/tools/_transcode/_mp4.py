"""Rewrites the times of the frames of an MP4 file, and moves its `moov` box to the front.

Raw video has no times, so encoders receive frames at a constant rate. Here each frame gets its own time, exact to the
tick and independent of how a version of FFmpeg treats timestamps. Only files with one video track, as the encoder wrote
them, are supported.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, groupby, repeat
from typing import BinaryIO

from framespool.errors import InternalError

#: Boxes that contain only boxes, on the path to the tables.
_CONTAINERS = frozenset((b"moov", b"trak", b"mdia", b"minf", b"stbl"))
_MAX_32 = 2**32 - 1


@dataclass(frozen=True)
class Clock:
    """Presentation times of frames.

    Attributes:
        scale: Ticks per second.
        times: Time of each frame in presentation order, in ticks.
        end: End of the last frame, in ticks.
    """

    scale: int
    times: Sequence[int]
    end: int


def retime(source: str, target: str, clock: Clock) -> None:
    """Copies an MP4 file with other presentation times.

    Args:
        source: The file of the encoder.
        target: The file to write.
        clock: The times.

    Raises:
        InternalError: If the file is not as expected, or has another number of frames.
    """
    with open(source, "rb") as file, open(target, "wb") as out:
        parts = {kind: (begin, end) for kind, begin, end in _top(file)}
        if not {b"ftyp", b"moov", b"mdat"} <= set(parts):
            raise InternalError(f"{source}: the encoder wrote an incomplete MP4 file, only {sorted(parts)}")
        head, moov = (_bytes(file, *parts[kind]) for kind in (b"ftyp", b"moov"))
        begin, end = parts[b"mdat"]
        # The size of the tables does not depend on their offsets, so a first pass gives the position of the media data.
        is_large = end + 2 * len(moov) > _MAX_32
        made = _Editor(source, moov, clock, 0, is_large).made
        made = _Editor(source, moov, clock, len(head) + len(made) - begin, is_large).made
        out.write(head + made)
        file.seek(begin)
        shutil.copyfileobj(file, out, 1 << 20)
        out.truncate(len(head) + len(made) + end - begin)
        out.flush()
        os.fsync(out.fileno())


def _top(file: BinaryIO) -> Iterator[tuple[bytes, int, int]]:
    """The boxes of a file: type, start and end."""
    size = file.seek(0, os.SEEK_END)
    at = 0
    while at + 8 <= size:
        file.seek(at)
        head = file.read(16)
        length, kind = struct.unpack(">I4s", head[:8])
        if length == 1 and len(head) == 16:
            length = struct.unpack(">Q", head[8:])[0]
        if not 8 <= length <= size - at:
            return
        yield kind, at, at + length
        at += length


def _bytes(file: BinaryIO, begin: int, end: int) -> bytes:
    file.seek(begin)
    return file.read(end - begin)


def _box(kind: bytes, *body: bytes) -> bytes:
    return struct.pack(">I4s", 8 + sum(map(len, body)), kind) + b"".join(body)


def _children(body: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    while at + 8 <= len(body):
        length, kind = struct.unpack_from(">I4s", body, at)
        if not 8 <= length <= len(body) - at:
            return
        yield kind, body[at + 8 : at + length]
        at += length


def _pairs(body: bytes, form: str) -> Iterator[int]:
    """A table of (count, value), expanded."""
    (count,) = struct.unpack_from(">I", body, 4)
    pairs = struct.iter_unpack(form, body[8 : 8 + 8 * count])
    return chain.from_iterable(repeat(value, number) for number, value in pairs)


def _table(kind: bytes, version: int, form: str, values: Sequence[int]) -> bytes:
    runs = [struct.pack(form, sum(1 for _ in run), value) for value, run in groupby(values)]
    return _box(kind, struct.pack(">B3xI", version, len(runs)), *runs)


class _Editor:
    """Rewrites one `moov` box."""

    def __init__(self, name: str, moov: bytes, clock: Clock, shift: int, is_large: bool) -> None:
        self._clock, self._shift, self._is_large = clock, shift, is_large
        first = clock.times[0]
        found = {kind: body for kind, body in _walk(moov)}
        try:
            ranks = _ranks(found)
        except (KeyError, struct.error, ValueError) as error:
            raise InternalError(f"{name}: unexpected tables in the encoder's file: {error!r}") from error
        if len(ranks) != len(clock.times):
            raise InternalError(f"{name}: the encoder wrote {len(ranks)} of {len(clock.times)} frames")
        self._deltas = [later - time for time, later in zip(clock.times, clock.times[1:], strict=False)]
        self._deltas.append(clock.end - clock.times[-1])
        # Readers take the duration of the last frame from its entry in file order.
        last = ranks.index(len(ranks) - 1)
        self._deltas[last], self._deltas[-1] = self._deltas[-1], self._deltas[last]
        decoded = [0, *accumulate(self._deltas)]
        offsets = [clock.times[rank] - first - at for rank, at in zip(ranks, decoded, strict=False)]
        self._delay = max(0, -min(offsets))
        #: An edit list cannot start before 0; then the frame times do, which version 1 of ctts allows.
        self._is_early = first < 0
        self._offsets = [offset + (first if self._is_early else self._delay) for offset in offsets]
        if max(self._deltas) > _MAX_32 or max(map(abs, self._offsets)) >= 2**31:
            raise InternalError(f"{name}: two frames are further apart than MP4 allows with {clock.scale} ticks/s")
        self.made = self._edit(b"moov", moov[8:])

    def _edit(self, kind: bytes, body: bytes) -> bytes:
        if kind in _CONTAINERS:
            inner = [self._edit(*child) for child in _children(body)]
            return _box(kind, *inner)
        changed: dict[bytes, Callable[[bytes], bytes]] = {
            b"mvhd": self._movie,
            b"tkhd": self._track,
            b"mdhd": self._media,
            b"edts": lambda _: b"",
            b"stts": lambda _: _table(b"stts", 0, ">II", self._deltas),
            b"ctts": lambda _: b"",
            b"stco": lambda body: self._chunks(body, ">I"),
            b"co64": lambda body: self._chunks(body, ">Q"),
        }
        made = changed[kind](body) if kind in changed else _box(kind, body)
        if kind == b"stts" and any(self._offsets):
            made += _table(b"ctts", int(self._is_early), ">Ii", self._offsets)
        if kind == b"tkhd":
            made += self._edits()
        return made

    def _movie(self, body: bytes) -> bytes:
        rest = body[32:] if body[0] else body[20:]
        return _box(b"mvhd", b"\1" + body[1:4], struct.pack(">QQIQ", 0, 0, self._clock.scale, self._length()), rest)

    def _track(self, body: bytes) -> bytes:
        track, rest = (body[20:24], body[36:]) if body[0] else (body[12:16], body[24:])
        return _box(b"tkhd", b"\1" + body[1:4], bytes(16), track, bytes(4), struct.pack(">Q", self._length()), rest)

    def _media(self, body: bytes) -> bytes:
        length = sum(self._deltas)
        return _box(b"mdhd", b"\1" + body[1:4], struct.pack(">QQIQ", 0, 0, self._clock.scale, length), body[-4:])

    def _length(self) -> int:
        return max(0, self._clock.end, sum(self._deltas) if self._is_early else 0)

    def _edits(self) -> bytes:
        begin = self._clock.times[0]
        if self._is_early or not (begin or self._delay):
            return b""
        edits = [(begin, -1)] if begin else []
        edits.append((self._clock.end - begin, self._delay))
        entries = [struct.pack(">QqI", length, media, 1 << 16) for length, media in edits]
        return _box(b"edts", _box(b"elst", struct.pack(">B3xI", 1, len(edits)), *entries))

    def _chunks(self, body: bytes, form: str) -> bytes:
        moved = [at + self._shift for (at,) in struct.iter_unpack(form, body[8:])]
        kind, form = (b"co64", "Q") if self._is_large else (b"stco", "I")
        return _box(kind, struct.pack(">4xI", len(moved)), struct.pack(f">{len(moved)}{form}", *map(abs, moved)))


def _walk(moov: bytes) -> Iterator[tuple[bytes, bytes]]:
    """All boxes that are not containers."""
    for kind, body in _children(moov):
        if kind in _CONTAINERS:
            yield from _walk(body)
        else:
            yield kind, body


def _ranks(found: dict[bytes, bytes]) -> list[int]:
    """For each packet, in file order, its presentation index."""
    size, count = struct.unpack_from(">II", found[b"stsz"], 4)
    deltas = list(_pairs(found[b"stts"], ">II"))
    offsets = list(_pairs(found[b"ctts"], ">Ii")) if b"ctts" in found else [0] * count
    if not len(deltas) == len(offsets) == count:
        raise ValueError(f"tables of {len(deltas)}, {len(offsets)} and {count} samples")
    shown = [at + offset for at, offset in zip(accumulate(deltas[:-1], initial=0), offsets, strict=True)]
    ranks = [0] * count
    for rank, place in enumerate(sorted(range(count), key=shown.__getitem__)):
        ranks[place] = rank
    return ranks
