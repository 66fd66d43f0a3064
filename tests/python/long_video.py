"""Makes a long MP4 file from a short one: its tables list the same samples many times, so the file stays small."""

from __future__ import annotations

import struct
from itertools import groupby
from pathlib import Path

_CONTAINERS = (b"moov", b"trak", b"mdia", b"minf", b"stbl")


def _boxes(data: bytes):
    at = 0
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        yield kind, data[at + 8 : at + size]
        at += size


def _box(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(body), kind) + body


def _counted(body: bytes, form: str) -> list[tuple[int, ...]]:
    (count,) = struct.unpack_from(">I", body, 4)
    return [struct.unpack_from(form, body, 8 + n * struct.calcsize(form)) for n in range(count)]


def _table(entries: list[tuple[int, ...]], form: str) -> bytes:
    return struct.pack(">II", 0, len(entries)) + b"".join(struct.pack(form, *entry) for entry in entries)


def _runs(values: list[int]) -> list[tuple[int, int]]:
    return [(len(list(run)), value) for value, run in groupby(values)]


def _sample_table(body: bytes, times: int, slower: int) -> bytes:
    parts = dict(_boxes(body))
    size, count = struct.unpack_from(">II", parts[b"stsz"], 4)
    sizes = [size] * count if size else list(struct.unpack_from(f">{count}I", parts[b"stsz"], 12))
    chunks = [at for (at,) in _counted(parts[b"stco"], ">I")]
    per_chunk = _counted(parts[b"stsc"], ">III")
    offsets: list[int] = []
    for number, start in enumerate(chunks, 1):
        (samples,) = [n for first, n, _ in per_chunk if first <= number][-1:]
        for _ in range(samples):
            offsets.append(start)
            start += sizes[len(offsets) - 1]
    keyframes = _counted(parts[b"stss"], ">I")
    durations = [ticks * slower for n, ticks in _counted(parts[b"stts"], ">II") for _ in range(n)]
    made = {
        b"stsd": parts[b"stsd"],
        b"stts": _table(_runs(durations * times), ">II"),
        b"stss": _table([(n + copy * count,) for copy in range(times) for (n,) in keyframes], ">I"),
        b"stsz": struct.pack(">III", 0, 0, count * times) + struct.pack(f">{count * times}I", *sizes * times),
        b"stsc": _table([(1, 1, 1)], ">III"),
        b"stco": _table([(at,) for at in offsets * times], ">I"),
    }
    if b"ctts" in parts:
        shifts = [ticks * slower for n, ticks in _counted(parts[b"ctts"], ">Ii") for _ in range(n)]
        made[b"ctts"] = parts[b"ctts"][:4] + _table(_runs(shifts * times), ">Ii")[4:]
    return b"".join(_box(kind, content) for kind, content in made.items())


def _rebuilt(kind: bytes, body: bytes, times: int, slower: int) -> bytes:
    if kind == b"stbl":
        return _box(kind, _sample_table(body, times, slower))
    if kind in _CONTAINERS:
        # Without edit lists, whose durations are those of the short file.
        return _box(kind, b"".join(_rebuilt(k, b, times, slower) for k, b in _boxes(body) if k != b"edts"))
    if kind in (b"mdhd", b"mvhd") and body[0] == 0:
        (duration,) = struct.unpack_from(">I", body, 16)
        body = body[:16] + struct.pack(">I", duration * times * slower) + body[20:]
    return _box(kind, body)


def repeat_mp4(source: str | Path, target: str | Path, times: int, slower: int = 1) -> None:
    """Writes a video that shows ``source`` ``times`` times, each frame ``slower`` times as long.

    ``source`` has one track and 32-bit offsets.
    """
    out = b""
    data = Path(source).read_bytes()
    moov = b""
    for kind, body in _boxes(data):
        if kind == b"moov":
            moov = _rebuilt(kind, body, times, slower)
            kind = b"free"  # the samples stay where they are
        out += _box(kind, body)
    Path(target).write_bytes(out + moov)
