"""Edits of MP4 files (ISO/IEC 14496-12) that keep them readable or introduce wrong values."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

PARENTS = {b"moov", b"trak", b"mdia", b"minf", b"stbl", b"moof", b"traf", b"edts", b"mvex", b"dinf", b"udta"}
#: Boxes whose values are trusted when an index is built.
TABLES = [b"stts", b"ctts", b"stss", b"stsz", b"stsc", b"stco", b"elst", b"trun", b"tfhd", b"tfdt", b"trex", b"sidx"]
HEADERS = [b"mvhd", b"tkhd", b"mdhd", b"hdlr", b"stsd", b"ftyp", b"dref"]
#: Offset of a box's entry count, in bytes from its start.
COUNTS = {b"stts": 12, b"ctts": 12, b"stss": 12, b"stsz": 16, b"stsc": 12, b"stco": 12, b"elst": 12, b"trun": 12}


@dataclass(frozen=True)
class Box:
    """A box: its type, its offset, and its size including its header."""

    kind: bytes
    begin: int
    size: int


def boxes(data: bytes, begin: int = 0, end: int | None = None) -> Iterator[Box]:
    """All boxes, parents before their children."""
    end = len(data) if end is None else end
    while begin + 8 <= end:
        size, kind = struct.unpack_from(">I4s", data, begin)
        if size < 8 or begin + size > end:
            return
        yield Box(kind, begin, size)
        if kind in PARENTS:
            yield from boxes(data, begin + 8, begin + size)
        begin += size


def of_kinds(data: bytes, kinds: list[bytes]) -> list[Box]:
    """The boxes of these types."""
    return [box for box in boxes(data) if box.kind in kinds]


def rewritten(data: bytes, edit: Callable[[bytes, bytes], tuple[bytes, bytes]]) -> bytes:
    """`data` with each leaf box as `edit` (of type and content) returns it; moov must be last."""
    out, at = bytearray(), 0
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8 : at + size]
        kind, body = (kind, rewritten(body, edit)) if kind in PARENTS else edit(kind, body)
        out += struct.pack(">I4s", len(body) + 8, kind) + body
        at += size
    return bytes(out)


def moov_is_last(data: bytes) -> bool:
    """Whether tables may grow without moving any sample."""
    top, at = [], 0
    while at + 8 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        top.append(kind)
        at += max(size, 8)
    return top[-1:] == [b"moov"] and b"mdat" in top


# ---- tables ----------------------------------------------------------------------------------------------------------


def values(body: bytes) -> list[int]:
    """The values of an stts or ctts box, one per sample."""
    (count,) = struct.unpack_from(">I", body, 4)
    return [value for times, value in struct.iter_unpack(">Ii", body[8 : 8 + 8 * count]) for _ in range(times)]


def packed_runs(head: bytes, each: list[int]) -> bytes:
    """An stts or ctts box with one entry per sample; `head`: version and flags."""
    return head + struct.pack(">I", len(each)) + b"".join(struct.pack(">Ii", 1, value) for value in each)


def edited_table(data: bytes, kind: bytes, change: Callable[[list[int]], list[int]]) -> bytes:
    """The file with the values of each stts or ctts box (one per sample) as `change` returns them."""

    def edit(found: bytes, body: bytes) -> tuple[bytes, bytes]:
        return found, packed_runs(body[:4], change(values(body))) if found == kind else body

    return rewritten(data, edit)


def samples(data: bytes) -> list[tuple[int, int]]:
    """(offset, size) of each sample of the first track."""
    tables = {}
    for box in boxes(data):
        tables.setdefault(box.kind, data[box.begin + 8 : box.begin + box.size])
    same, count = struct.unpack_from(">II", tables[b"stsz"], 4)
    sizes = [same] * count if same else list(struct.unpack_from(f">{count}I", tables[b"stsz"], 12))
    (chunks,) = struct.unpack_from(">I", tables[b"stco"], 4)
    offsets = struct.unpack_from(f">{chunks}I", tables[b"stco"], 8)
    (entries,) = struct.unpack_from(">I", tables[b"stsc"], 4)
    rules = [struct.unpack_from(">III", tables[b"stsc"], 8 + 12 * n)[:2] for n in range(entries)]
    found: list[tuple[int, int]] = []
    for number, offset in enumerate(offsets, 1):
        for _ in range([each for first, each in rules if first <= number][-1]):
            found.append((offset, sizes[len(found)]))
            offset += found[-1][1]
    return found


def with_samples(data: bytes, placed: list[tuple[int, int]]) -> bytes:
    """The file with one chunk per sample, at these (offset, size)."""

    def edit(kind: bytes, body: bytes) -> tuple[bytes, bytes]:
        if kind == b"stsz":
            return kind, bytes(8) + struct.pack(f">I{len(placed)}I", len(placed), *(size for _, size in placed))
        if kind == b"stco":
            return kind, bytes(4) + struct.pack(f">I{len(placed)}I", len(placed), *(offset for offset, _ in placed))
        if kind == b"stsc":
            return kind, bytes(4) + struct.pack(">IIII", 1, 1, 1, 1)
        return kind, body

    return rewritten(data, edit)


def with_payload(data: bytes, n: int, payload: bytes) -> bytes:
    """The file with other bytes for sample `n`, from 0, at the end of mdat; moov must be last."""
    placed = samples(data)
    mdat = next(box for box in boxes(data) if box.kind == b"mdat")
    end = mdat.begin + mdat.size
    grown = with_number(data[:end] + payload + data[end:], mdat.begin, mdat.size + len(payload))
    placed[n] = (end, len(payload))
    return with_samples(grown, placed)


def sync_samples(data: bytes) -> list[int]:
    """Numbers of the sync samples, from 1."""
    for box in of_kinds(data, [b"stss"]):
        (count,) = struct.unpack_from(">I", data, box.begin + 12)
        return list(struct.unpack_from(f">{count}I", data, box.begin + 16))
    return []


def with_sync_samples(data: bytes, numbers: list[int]) -> bytes:
    """The file with these sync samples."""
    body = struct.pack(f">II{len(numbers)}I", 0, len(numbers), *numbers)
    return rewritten(data, lambda kind, old: (kind, body if kind == b"stss" else old))


def timescales(data: bytes) -> tuple[int, int, int]:
    """Ticks per second of the movie and of the first track, and the track's duration in its ticks."""
    movie = struct.unpack_from(">I", data, of_kinds(data, [b"mvhd"])[0].begin + 20)[0]
    media, length = struct.unpack_from(">II", data, of_kinds(data, [b"mdhd"])[0].begin + 20)
    return movie, media, length


def with_edits(data: bytes, edits: list[tuple[int, int, int]]) -> bytes:
    """The file with this edit list for each track: (duration in the movie's ticks, media time, rate in 1/65536)."""
    listed = struct.pack(">II", 0, len(edits)) + b"".join(struct.pack(">Iii", *edit) for edit in edits)
    edts = struct.pack(">I4sI4s", 16 + len(listed), b"edts", 8 + len(listed), b"elst") + listed

    def edit(kind: bytes, body: bytes) -> tuple[bytes, bytes]:
        return (b"free", body) if kind == b"elst" else (kind, body)

    out = rewritten(data, edit)
    # A track's header is its first box; the edit list goes after it, and the enclosing boxes grow.
    for header in reversed(of_kinds(out, [b"tkhd"])):
        at = header.begin + header.size
        around = [box for box in boxes(out) if box.kind in (b"moov", b"trak") and box.begin < at < box.begin + box.size]
        grown = bytearray(out[:at] + edts + out[at:])
        for box in around:
            struct.pack_into(">I", grown, box.begin, box.size + len(edts))
        out = bytes(grown)
    return out


# ---- wrong values ----------------------------------------------------------------------------------------------------


def odd_number(value: int, draw: Random) -> int:
    """A 32-bit value that a reader might not expect instead of `value`."""
    edges = [0, 1, 2, 7, 8, value + 1, value - 1, value * 2, value // 2, 1 << 16, 20_000_000]
    edges += [0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFE, draw.getrandbits(32)]
    return draw.choice(edges) & 0xFFFFFFFF


def with_number(data: bytes, at: int, number: int) -> bytes:
    """The file with the big-endian 32-bit value at byte `at` replaced."""
    return data[:at] + struct.pack(">I", number) + data[at + 4 :]


def endless(data: bytes, count: int) -> bytes:
    """The file with tables of a few bytes that declare `count` samples of one byte."""

    def edit(kind: bytes, body: bytes) -> tuple[bytes, bytes]:
        if kind == b"stsz":
            return kind, struct.pack(">III", 0, 1, count)
        if kind == b"stts":
            return kind, struct.pack(">IIII", 0, 1, count, 1)
        if kind == b"stsc":
            return kind, struct.pack(">IIIII", 0, 1, 1, count, 1)
        return (b"free", body) if kind in (b"ctts", b"stss") else (kind, body)

    return rewritten(data, edit)
