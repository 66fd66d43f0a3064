"""Mutations of MP4 files."""

from __future__ import annotations

import struct

from adversarial import mp4, packets
from adversarial.mutation import ANNEXB, Material, NotApplicable, mutation

# ---- MP4 -------------------------------------------------------------------------------------------------------------


def _tables(m: Material) -> bytes:
    if not mp4.moov_is_last(m.data):
        raise NotApplicable
    return m.data


@mutation("same", "mp4", codecs=("h264",), weight=1.5)
def sets_at_any_packet(m: Material) -> tuple[bytes, str]:
    """Picture parameter sets that change at a non-key packet; in MP4, Matroska or a transport stream."""
    data = _tables(m)
    units = packets.units(m.remuxed(f"-c copy {ANNEXB['h264']} -f h264", ".h264"))
    sets = [unit[unit.find(b"\x01") + 1 :] for unit in units if packets.unit_kind(unit, "h264") == 8]
    key = set(mp4.sync_samples(data))
    inner = [n for n in range(len(mp4.samples(data))) if n + 1 not in key]
    if not sets or not inner:
        raise NotApplicable
    chosen, delta = sorted(m.draw.sample(inner, m.draw.choice([1, 2]))), m.draw.choice([0, 3, -3, 6])
    for n, change in zip(chosen, (delta, 0), strict=False):  # the second one reverts the change
        offset, size = mp4.samples(data)[n]
        unit = packets.with_other_chroma_qp(b"\x00\x00\x01" + sets[0], change)[3:]
        data = mp4.with_payload(data, n, struct.pack(">I", len(unit)) + unit + data[offset : offset + size])
    suffix = m.draw.choice([".mp4", ".mkv", ".ts"])
    note = f"quantizer of chroma {delta:+d} at sample {chosen[0] + 1}, {suffix}"
    if len(chosen) > 1:
        note += f", and back at {chosen[1] + 1}"
    if suffix != ".mp4":
        return m.remuxed("-c copy", suffix, (".mp4", data)), note
    entry = data.index(b"stsd")  # avc1 allows parameter sets only in the sample entry
    return data[:entry] + data[entry:].replace(b"avc1", b"avc3", 1), note


@mutation("changed", "mp4", "fragments", weight=3)
def table_number(m: Material) -> tuple[bytes, str]:
    """An unlikely value in a table or header."""
    kinds = mp4.TABLES if m.draw.random() < 0.75 else mp4.HEADERS
    box = m.draw.choice(mp4.of_kinds(m.data, kinds) or mp4.of_kinds(m.data, mp4.HEADERS))
    at = box.begin + 8 + 4 * m.draw.randrange(max(1, min(box.size - 8, 96) // 4))
    if at + 4 > len(m.data):
        raise NotApplicable
    (value,) = struct.unpack_from(">I", m.data, at)
    number = mp4.odd_number(value, m.draw)
    return mp4.with_number(m.data, at, number), f"{box.kind.decode()} at {at - box.begin}: {value} is {number}"


@mutation("changed", "mp4", "fragments")
def table_count(m: Material) -> tuple[bytes, str]:
    """A table with a wrong number of entries."""
    boxes = mp4.of_kinds(m.data, list(mp4.COUNTS))
    if not boxes:
        raise NotApplicable
    box = m.draw.choice(boxes)
    at = box.begin + mp4.COUNTS[box.kind]
    (value,) = struct.unpack_from(">I", m.data, at)
    number = m.draw.choice([0, max(value - 1, 0), value + 1, value + 50, 1 << 24, 20_000_000, 0x7FFFFFFF, 0xFFFFFFFF])
    return mp4.with_number(m.data, at, number), f"{box.kind.decode()} of {value} says {number}"


@mutation("changed", "mp4")
def endless_tables(m: Material) -> tuple[bytes, str]:
    """Tables of a few bytes that declare millions of samples."""
    count = m.draw.choice([100_000, 4_000_000, 20_000_000, 0x7FFFFFFF])
    return mp4.endless(_tables(m), count), f"{count} samples of one byte"


@mutation("changed", "mp4", "fragments")
def box_size(m: Material) -> tuple[bytes, str]:
    """A box with a wrong size."""
    box = m.draw.choice(list(mp4.boxes(m.data)))
    number = mp4.odd_number(box.size, m.draw)
    return mp4.with_number(m.data, box.begin, number), f"{box.kind!r} of {box.size} says {number}"


@mutation("same", "mp4", "fragments", weight=1.5)
def box_left_out(m: Material) -> tuple[bytes, str]:
    """A box that is not needed to find the samples is missing."""
    boxes = mp4.of_kinds(
        m.data, [b"stss", b"ctts", b"edts", b"elst", b"udta", b"vmhd", b"pasp", b"mfra", b"sidx", b"ftyp"]
    )
    if not boxes:
        raise NotApplicable
    box = m.draw.choice(boxes)
    return m.data[: box.begin + 4] + b"free" + m.data[box.begin + 8 :], f"no {box.kind.decode()}"


@mutation("same", "mp4", weight=1.5)
def zero_durations(m: Material) -> tuple[bytes, str]:
    """Samples of zero duration."""
    chosen: list[int] = []

    def change(values: list[int]) -> list[int]:
        count = m.draw.choice([1, 1, 2, len(values)])
        chosen.extend(m.draw.sample(range(len(values)), min(count, len(values))))
        return [0 if n in chosen else value for n, value in enumerate(values)]

    return mp4.edited_table(_tables(m), b"stts", change), f"samples {sorted(chosen)[:6]} last 0"


@mutation("same", "mp4", weight=1.5)
def other_offsets(m: Material) -> tuple[bytes, str]:
    """Composition offsets that make timestamps equal, negative or far away."""
    notes: list[str] = []

    def change(values: list[int]) -> list[int]:
        at = m.draw.randrange(len(values) - 1)
        kind = m.draw.choice(["equal", "zero", "negative", "far", "all zero"])
        notes.append(f"{kind} from sample {at}")
        step = max(values) or 512
        if kind == "equal":
            values[at + 1] = values[at] - 512
        elif kind == "all zero":
            values = [0] * len(values)
        else:
            values[at] = {"zero": 0, "negative": -step, "far": step * 100}[kind]
        return values

    made = mp4.edited_table(_tables(m), b"ctts", change)
    if not notes:
        raise NotApplicable
    return made, notes[0]


@mutation("same", "mp4", weight=2)
def other_sync_samples(m: Material) -> tuple[bytes, str]:
    """The table of sync samples is incomplete, empty, or lists others."""
    numbers = mp4.sync_samples(_tables(m))
    if not numbers:
        raise NotApplicable
    kind = m.draw.choice(["incomplete", "only the first", "none", "not the first", "more", "all"])
    other = {
        "incomplete": [n for n in numbers if m.draw.random() < 0.5],
        "only the first": numbers[:1],
        "none": [],
        "not the first": numbers[1:],
        "more": sorted({*numbers, *(m.draw.randint(1, m.base.frames) for _ in range(4))}),
        "all": list(range(1, m.base.frames + 1)),
    }[kind]
    return mp4.with_sync_samples(m.data, other), f"{kind}: {other[:12]}"


@mutation("same", "mp4")
def scattered_samples(m: Material) -> tuple[bytes, str]:
    """Each sample is a chunk; the chunks are in any order, or occur twice."""
    data = _tables(m)
    placed = mp4.samples(data)
    if m.draw.random() < 0.3:
        n = m.draw.randrange(1, len(placed))
        placed[n] = placed[n - 1]
        m.rule = "changed"  # pictures that refer to the missing one cannot be decoded
        return mp4.with_samples(data, placed), f"sample {n + 1} repeats the previous one"
    box = next(box for box in mp4.boxes(data) if box.kind == b"mdat")
    order, at, body = list(range(len(placed))), box.begin + 8, bytearray()
    m.draw.shuffle(order)
    where = [(0, 0)] * len(placed)
    for n in order:
        offset, size = placed[n]
        where[n] = (at + len(body), size)
        body += data[offset : offset + size]
    old = box.size - 8
    body = body[:old] + bytes(max(0, old - len(body)))
    return mp4.with_samples(data[:at] + bytes(body) + data[at + old :], where), "samples in another order"


@mutation("changed", "mp4", weight=1.5)
def sample_size(m: Material) -> tuple[bytes, str]:
    """A sample with a wrong size, or size zero."""
    data = _tables(m)
    placed = mp4.samples(data)
    n = m.draw.randrange(len(placed))
    size = m.draw.choice([0, 1, placed[n][1] - 1, placed[n][1] // 2, placed[n][1] + 5, 1 << 20, 0x7FFFFFFF, 0xFFFFFFFF])
    placed[n] = (placed[n][0], max(size, 0))
    return mp4.with_samples(data, placed), f"sample {n + 1} of {size} bytes"


@mutation("same", "mp4", weight=1.5)
def empty_samples(m: Material) -> tuple[bytes, str]:
    """Samples of zero bytes between the others, with their own timestamps."""
    data = _tables(m)
    placed = mp4.samples(data)
    n = m.draw.randrange(1, len(placed) + 1)
    placed.insert(n, (placed[n - 1][0], 0))

    def edit(kind: bytes, body: bytes) -> tuple[bytes, bytes]:
        if kind in (b"stts", b"ctts"):
            values = mp4.values(body)
            values.insert(n, values[min(n, len(values) - 1)])
            return kind, mp4.packed_runs(body[:4], values)
        return kind, body

    data = mp4.rewritten(data, edit)
    numbers = mp4.sync_samples(data)
    if numbers:
        data = mp4.with_sync_samples(data, [number + (number > n) for number in numbers])
    return mp4.with_samples(data, placed), f"an empty sample after the first {n}"


@mutation("same", "mp4", weight=1.5)
def edit_list(m: Material) -> tuple[bytes, str]:
    """Another edit list: none, empty edits, several ranges, one inside a group of pictures, beyond the end."""
    data = _tables(m)
    movie, media, length = mp4.timescales(data)
    if not media or not length:
        raise NotApplicable
    whole = length * movie // media
    part = m.draw.randrange(1, length)
    rate = 1 << 16
    kind, edits = m.draw.choice(
        [
            ("from the middle", [(max(1, whole - part * movie // media), part, rate)]),
            ("only a range", [(whole // 3, part // 2, rate)]),
            ("an empty edit in front", [(m.draw.randint(1, 3 * whole), -1, rate), (whole, 0, rate)]),
            ("two ranges", [(whole // 2, 0, rate), (whole // 3, part, rate)]),
            ("one range twice", [(whole // 2, 0, rate), (whole // 2, 0, rate)]),
            ("beyond the end", [(whole, length * 2, rate)]),
            ("standing still", [(whole, 0, 0)]),
            ("nothing but an empty edit", [(whole, -1, rate)]),
            ("no entries", []),
        ]
    )
    return mp4.with_edits(data, edits), f"{kind}: {edits}"


@mutation("changed", "mp4", "fragments")
def stated_size(m: Material) -> tuple[bytes, str]:
    """Another width or height in the header."""
    entry = m.draw.choice(mp4.of_kinds(m.data, [b"stsd", b"tkhd"]))
    at = entry.begin + (16 + 32 if entry.kind == b"stsd" else entry.size - 8)
    width, height = (m.draw.choice([0, 1, 16, 95, 97, 640, 8192, 32767]) for _ in range(2))
    numbers = struct.pack(">HH", width, height) if entry.kind == b"stsd" else struct.pack(">HHHH", width, 0, height, 0)
    return m.data[:at] + numbers + m.data[at + len(numbers) :], f"{entry.kind.decode()}: {width}x{height}"
