"""Values by key in files that several processes share. A value that is missing or damaged is computed again.

A process appends values to segment files of its own, and their positions to an index file for each segment:
`FOLDER/framespool-features-1/GROUP/SEGMENT.values` and `SEGMENT.index`. A value has a checksum, and its position is
written after it, so a killed process leaves at most bytes that nothing refers to. Nothing is locked, and any file may
be deleted at any time.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import struct
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from framespool._common.pytorch import torch
from framespool.errors import ArgumentError

#: Only files below it are deleted.
_STORE = "framespool-features-1"

#: A segment that has reached this size is complete.
_SEGMENT_BYTES = 256 << 20

#: Segments that no process has read or written for this time are deleted if the space is needed.
_UNUSED_SECONDS = 14 * 24 * 3600

#: After a failure to write, and while the folder is full, nothing is written for this time.
_PAUSE_SECONDS = 60

#: Before a value: its key, its length, its checksum.
_HEADER = struct.Struct("<16sQQ")

#: In an index file: the key of a value, its offset in the segment, its length; signed, as PyTorch has them.
_ENTRY = struct.Struct("<16sqq")

#: Entries that are not merged into the sorted ones yet.
_MAX_RECENT = 1 << 16

#: Segment, offset, length.
Position = tuple[int, int, int]


def hash_of(key: bytes) -> int:
    """The first half of a key as a signed integer, by which positions are found.

    Args:
        key: The key.

    Returns:
        The integer.
    """
    return int.from_bytes(key[:8], "little", signed=True)


class Positions:
    """Where values are stored, in 32 bytes each. Of two values with the same hash the later one is found."""

    def __init__(self) -> None:
        self._hashes = torch.empty(0, dtype=torch.int64)
        self._sorted = torch.empty((0, 3), dtype=torch.int64)
        self._recent: dict[int, Position] = {}

    def add(self, segment: int, entries: bytes) -> None:
        """Adds the entries of an index file.

        Args:
            segment: Number of the segment.
            entries: A multiple of 32 bytes.
        """
        if len(entries) <= 1024 * _ENTRY.size:
            self._recent.update({hash_of(key): (segment, *where) for key, *where in _ENTRY.iter_unpack(entries)})
            if len(self._recent) > _MAX_RECENT:
                self._merge([])
            return
        # The second half of the key makes room for the segment.
        table = torch.frombuffer(bytearray(entries), dtype=torch.int64).reshape(-1, 4)
        table[:, 1] = segment
        self._merge([table])

    def hashes(self, without: Sequence[int]) -> bytes:
        """The hashes of the keys of all values.

        Args:
            without: Segments whose values are omitted.

        Returns:
            The hashes as little-endian integers of 8 bytes, in order.
        """
        if self._recent:
            self._merge([])
        hashes = self._hashes
        if without:
            hashes = hashes[~torch.isin(self._sorted[:, 0], torch.tensor(without))]
        record = bytearray(hashes.nbytes)
        if record:
            torch.frombuffer(record, dtype=torch.int64).copy_(hashes)
        return bytes(record)

    def _merge(self, tables: list[Any]) -> None:
        if self._recent:
            rows = [(key, *where) for key, where in self._recent.items()]
            tables = [torch.tensor(rows, dtype=torch.int64), *tables]
        hashes = torch.cat([self._hashes, *(table[:, 0] for table in tables)])
        where = torch.cat([self._sorted, *(table[:, 1:] for table in tables)])
        self._hashes, order = hashes.sort(stable=True)
        self._sorted, self._recent = where[order], {}

    def find(self, hashes: Sequence[int]) -> list[Position | None]:
        """Finds the positions of values.

        Args:
            hashes: `hash_of()` their keys.

        Returns:
            The position of each, or `None`.
        """
        wanted = torch.tensor(hashes, dtype=torch.int64)
        # The last one of those with the same hash.
        at = torch.searchsorted(self._hashes, wanted, right=True) - 1
        if len(self._hashes):
            equal = ((at >= 0) & (self._hashes[at] == wanted)).tolist()
            rows = self._sorted[at].tolist()
        else:
            equal, rows = [False] * len(hashes), []
        return [
            self._recent.get(key) or (tuple(rows[number]) if equal[number] else None)
            for number, key in enumerate(hashes)
        ]


class _Writer:
    """A segment that this process appends to."""

    def __init__(self, path: Path) -> None:
        #: Its name without the extension.
        self.path = path
        self._values = _create(path.with_suffix(".values"))
        self._index = _create(path.with_suffix(".index"))
        self.end = 0

    def is_usable(self) -> bool:
        """Whether the files exist, and another value may be appended."""
        return self.end < _SEGMENT_BYTES and all(os.fstat(file).st_nlink for file in (self._values, self._index))

    def append(self, key: bytes, value: bytes | bytearray) -> bytes:
        """Appends a value and returns its entry in the index file."""
        length = len(value)
        try:
            _write(self._values, _HEADER.pack(key, length, zlib.crc32(value)))
            _write(self._values, value)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._values, self.end)
            raise
        entry = _ENTRY.pack(key, self.end, length)
        self.end += _HEADER.size + length
        _write(self._index, entry)
        return entry

    def close(self) -> None:
        os.close(self._values)
        os.close(self._index)


class FeatureStore:
    """Values of one group in a folder.

    Args:
        folder: The folder, which is created if it does not exist.
        group: Name of the group, a file name.
        limit_bytes: Maximum size of the values of all groups in the folder.

    Raises:
        ArgumentError: If the folder cannot be created.
    """

    def __init__(self, folder: Path, group: str, limit_bytes: int) -> None:
        self._folder, self._limit = folder, limit_bytes
        self._group = folder / _STORE / group
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise ArgumentError(
                f"folder {str(folder)!r} cannot be created: {error.strerror}; name a folder that this user may write"
            ) from error
        #: Values that were found, stored, not stored, and found to be damaged.
        self.counts = dict.fromkeys(["found", "stored", "not_stored", "damaged"], 0)
        #: The first reason for which a value was not stored.
        self.failure: str | None = None
        self._positions = Positions()
        #: Paths of the segments by number, without extension; the bytes of their index files that are known.
        self._segments: list[Path] = []
        self._known: dict[str, tuple[int, int]] = {}
        #: When this process has last updated the time of a segment.
        self._marked: dict[int, float] = {}
        self._resume_at = 0.0
        self._start_process()

    def _start_process(self) -> None:
        # A forked child process may not append to the files of its parent, whose threads may hold the lock.
        self._pid, self._lock = os.getpid(), threading.Lock()
        self._writer: _Writer | None = None
        self._number = 0
        #: Bytes of all groups when they were last counted, and written by this process since.
        self._counted: int | None = None
        self._written = 0

    def read(self, keys: Sequence[bytes]) -> list[memoryview | None]:
        """Reads values.

        Args:
            keys: Keys of 16 bytes.

        Returns:
            The value of each; `None` if it is missing or damaged.
        """
        if self._pid != os.getpid():
            self._start_process()
        hashes = list(map(hash_of, keys))
        with self._lock:
            found = self._positions.find(hashes)
            if None in found:
                self._read_indexes()
                found = self._positions.find(hashes)
        files: dict[int, int] = {}
        try:
            values = [
                None if where is None else self._read(key, where, files) for key, where in zip(keys, found, strict=True)
            ]
        finally:
            for file in files.values():
                os.close(file)
        self.counts["found"] += sum(value is not None for value in values)
        return values

    def hashes(self) -> bytes:
        """The hashes of the keys of all values whose files exist, as `Positions.hashes()` returns them.

        Returns:
            The hashes.
        """
        if self._pid != os.getpid():
            self._start_process()
        with self._lock:
            self._read_indexes()
            segments = enumerate(self._segments)
            return self._positions.hashes([at for at, path in segments if not path.with_suffix(".values").exists()])

    def _read(self, key: bytes, where: Position, files: dict[int, int]) -> memoryview | None:
        segment, offset, length = where
        path = self._segments[segment].with_suffix(".values")
        try:
            if segment not in files:
                files[segment] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                self._mark_used(segment)
            # A damaged index file determines no allocation.
            if 0 <= offset <= os.fstat(files[segment]).st_size - _HEADER.size - length and length >= 0:
                record = bytearray(_HEADER.size + length)
                _read(files[segment], record, offset)
                value = memoryview(record)[_HEADER.size :]
                if _HEADER.unpack_from(record) == (key, length, zlib.crc32(value)):
                    return value
        except FileNotFoundError:
            return None
        except OSError:
            pass
        self.counts["damaged"] += 1
        return None

    def _mark_used(self, segment: int) -> None:
        """Updates the time of a segment once a day, so that it is not deleted while it is used."""
        now = time.monotonic()
        if now - self._marked.get(segment, now - _UNUSED_SECONDS) >= _UNUSED_SECONDS / 14:
            self._marked[segment] = now
            with contextlib.suppress(OSError):
                os.utime(self._segments[segment].with_suffix(".values"))

    def _read_indexes(self) -> None:
        """Reads what was appended to the index files of all processes since the last call."""
        # In the order in which they were created, since of two values with the same key the later one counts.
        for file in sorted(_files(self._group), key=lambda file: file.name):
            if not file.name.endswith(".index"):
                continue
            number, known = self._known.get(file.name, (len(self._segments), 0))
            try:
                if known < 0 or file.stat().st_size - known < _ENTRY.size:
                    continue
                with open(file.path, "rb") as opened:
                    opened.seek(known)
                    entries = opened.read()
            except OSError:
                continue
            entries = entries[: len(entries) // _ENTRY.size * _ENTRY.size]
            if not entries:
                continue
            if number == len(self._segments):
                self._segments.append(self._group / file.name.removesuffix(".index"))
            self._positions.add(number, entries)
            _, offset, length = _ENTRY.unpack(entries[-_ENTRY.size :])
            # Nothing is appended to a complete segment.
            complete = offset + length + _HEADER.size >= _SEGMENT_BYTES
            self._known[file.name] = (number, -1 if complete else known + len(entries))

    def write(self, values: Sequence[tuple[bytes, bytes | bytearray]]) -> bool:
        """Stores values, unless the folder is full or cannot be written.

        Args:
            values: Keys and values.

        Returns:
            Whether they are stored; otherwise `failure` has the reason of the first time.
        """
        if self._pid != os.getpid():
            self._start_process()
        with self._lock:
            stored = 0
            try:
                num_bytes = sum(_size(value) for _, value in values)
                if time.monotonic() >= self._resume_at and self._make_room(num_bytes):
                    for key, value in values:
                        self._append(key, value)
                        stored += 1
            except OSError as error:
                if self._writer is not None:
                    self._writer.close()
                    self._writer = None
                self._pause(error.strerror or str(error))
            self.counts["stored"] += stored
            self.counts["not_stored"] += len(values) - stored
            return stored == len(values)

    def _append(self, key: bytes, value: bytes | bytearray) -> None:
        if self._writer is None or not self._writer.is_usable():
            if self._writer is not None:
                self._writer.close()
                self._writer = None
            for folder in (self._folder, self._group.parent, self._group):
                folder.mkdir(mode=0o700, exist_ok=True)
            self._writer = _Writer(self._group / f"{time.time_ns():016x}-{secrets.token_hex(8)}")
            self._number = len(self._segments)
            self._segments.append(self._writer.path)
            self._known[f"{self._writer.path.name}.index"] = (self._number, -1)  # what is in it is added here
        entry = self._writer.append(key, value)
        self._written += _size(value)
        self._positions.add(self._number, entry)

    def _make_room(self, num_bytes: int) -> bool:
        """Whether that many bytes fit; deletes unused segments if they do not."""
        interval = min(self._limit // 64, _SEGMENT_BYTES // 4)
        # What other processes write is counted now and then.
        if self._counted is None or self._written > interval or self._counted + self._written + num_bytes > self._limit:
            segments = self._count()
            if self._counted is not None and self._counted + num_bytes > self._limit:
                self._delete_unused(segments, self._counted + num_bytes - self._limit)
        if self._counted is not None and self._counted + self._written + num_bytes <= self._limit:
            return True
        self._pause(f"it has reached its size of {self._limit} bytes")
        return False

    def _count(self) -> dict[str, tuple[float, int]]:
        """Counts the bytes of all groups; returns the time of the last use and the size of each segment."""
        segments: dict[str, tuple[float, int]] = {}
        for group in _files(self._group.parent):
            for file in _files(group.path):
                with contextlib.suppress(OSError):
                    status, name = file.stat(), os.path.splitext(file.path)[0]
                    used, size = segments.get(name, (0.0, 0))
                    segments[name] = max(used, status.st_mtime), size + status.st_size
        self._counted, self._written = sum(size for _, size in segments.values()), 0
        return segments

    def _delete_unused(self, segments: dict[str, tuple[float, int]], num_bytes: int) -> None:
        """Deletes segments that were not used for a long time, the oldest first, until so many bytes are free."""
        oldest = time.time() - _UNUSED_SECONDS
        for name, (used, size) in sorted(segments.items(), key=lambda segment: segment[1]):
            if num_bytes <= 0 or used > oldest:
                break
            for extension in (".index", ".values"):
                with contextlib.suppress(OSError):
                    os.unlink(name + extension)
            num_bytes -= size
            self._counted = (self._counted or 0) - size

    def _pause(self, reason: str) -> None:
        self.failure = self.failure or reason
        self._resume_at = time.monotonic() + _PAUSE_SECONDS


def _size(value: bytes | bytearray) -> int:
    """Bytes of a value in its files."""
    return _HEADER.size + _ENTRY.size + len(value)


def _create(path: Path) -> int:
    """Creates a file that only this user may read."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _read(file: int, record: bytearray, offset: int) -> None:
    """Reads from a file until the record is full or the file ends."""
    left = memoryview(record)
    while left and (num_bytes := os.preadv(file, [left], offset)):
        left, offset = left[num_bytes:], offset + num_bytes


def _write(file: int, part: bytes | bytearray) -> None:
    left = memoryview(part)
    while left:
        left = left[os.write(file, left) :]


def _files(folder: str | Path) -> Iterator[os.DirEntry[str]]:
    """The entries of a folder that may not exist."""
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:
        return
