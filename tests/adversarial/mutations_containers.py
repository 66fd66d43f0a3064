"""Mutations of transport and program streams, IVF, Matroska, AVI, FLV and Ogg files."""

from __future__ import annotations

import struct

from adversarial import mp4, packets
from adversarial.mutation import Material, NotApplicable, mutation

# ---- transport and program streams -----------------------------------------------------------------------------------


@mutation("lost", "ts", weight=3)
def lost_ts_packets(m: Material) -> tuple[bytes, str]:
    """Missing transport packets."""
    parts = packets.ts_packets(m.data)
    count = m.draw.choice([1, 1, 1, 2, 3, 7, 20])
    first = m.draw.randrange(3, len(parts) - count)
    if m.draw.random() < 0.8:
        gone = set(range(first, first + count))
    else:
        gone = {m.draw.randrange(3, len(parts)) for _ in range(count)}
    kept = [p for n, p in enumerate(parts) if n not in gone]
    if not packets.ts_discontinuities(kept):
        m.rule = "changed"  # the counter has 4 bits: 16 missing packets of a stream leave no trace
    return b"".join(kept), f"packets {sorted(gone)} lost"


@mutation("lost", "ts")
def flagged_ts_packet(m: Material) -> tuple[bytes, str]:
    """A transport packet that is marked as corrupt, and is."""
    parts = packets.ts_packets(m.data)
    n = m.draw.randrange(3, len(parts))
    packet = bytearray(parts[n])
    packet[1] |= 0x80
    packet[m.draw.randrange(100, 188)] ^= 0xFF
    parts[n] = bytes(packet)
    return b"".join(parts), f"packet {n} marked"


@mutation("same", "ts")
def repeated_ts_packet(m: Material) -> tuple[bytes, str]:
    """A repeated transport packet, which is allowed."""
    parts = packets.ts_packets(m.data)
    n = m.draw.randrange(len(parts))
    return b"".join([*parts[: n + 1], *parts[n:]]), f"packet {n} twice"


@mutation("changed", "ts")
def swapped_ts_packets(m: Material) -> tuple[bytes, str]:
    """Two transport packets in the wrong order."""
    parts = packets.ts_packets(m.data)
    n = m.draw.randrange(3, len(parts) - 1)
    parts[n], parts[n + 1] = parts[n + 1], parts[n]
    return b"".join(parts), f"packets {n} and {n + 1} exchanged"


@mutation("same", "ts")
def without_tables(m: Material) -> tuple[bytes, str]:
    """A recording that starts or continues without the program's tables."""
    parts = packets.ts_packets(m.data)
    video = packets.ts_video_pid(parts)
    keep = m.draw.choice([1, 1, 0])
    seen: dict[int, int] = {}
    out = []
    for part in parts:
        pid = packets.ts_pid(part)
        seen[pid] = seen.get(pid, 0) + 1
        if pid == video or seen[pid] <= keep:
            out.append(part)
    return b"".join(out), f"{keep} of each table"


@mutation("same", "ts", "ps", weight=2)
def packets_without_pts(m: Material) -> tuple[bytes, str]:
    """PES packets without timestamps."""
    share = m.draw.choice([0.1, 0.5, 1.0])
    return packets.without_pts(m.data, m.draw, share), f"{share:.0%} without times"


# ---- IVF, Matroska, AVI, FLV, Ogg ------------------------------------------------------------------------------------


@mutation("changed", "ivf", weight=2)
def ivf_edited(m: Material) -> tuple[bytes, str]:
    """Frames dropped, repeated, swapped or empty."""
    frames = packets.ivf_frames(m.data)
    n, kind = m.draw.randrange(1, len(frames) - 1), m.draw.choice(["dropped", "twice", "exchanged", "empty"])
    if kind == "dropped":
        del frames[n]
    elif kind == "twice":
        frames.insert(n, frames[n])
    elif kind == "exchanged":
        frames[n], frames[n + 1] = frames[n + 1], frames[n]
    else:
        frames[n].payload = b""
    return packets.ivf(m.data, frames), f"frame {n} {kind}"


@mutation("same", "ivf")
def ivf_times(m: Material) -> tuple[bytes, str]:
    """Timestamps that are equal, decreasing or far away."""
    frames = packets.ivf_frames(m.data)
    n, kind = m.draw.randrange(1, len(frames)), m.draw.choice(["equal", "backwards", "far", "all equal"])
    for at in range(n, len(frames) if kind == "far" else n + 1):
        frames[at].pts = {"equal": frames[n - 1].pts, "backwards": 0, "far": frames[at].pts + (1 << 31)}.get(kind, 0)
    if kind == "all equal":
        for frame in frames:
            frame.pts = 0
    return packets.ivf(m.data, frames), f"{kind} from frame {n}"


@mutation("changed", "ivf")
def ivf_size(m: Material) -> tuple[bytes, str]:
    """Another frame size, rate or duration in the header."""
    at = m.draw.choice([12, 14, 16, 20, 24])
    number = m.draw.choice([0, 1, 95, 640, 0xFFFF])
    return m.data[:at] + struct.pack("<H", number) + m.data[at + 2 :], f"{number} at byte {at}"


def _blocks(m: Material) -> list[packets.Element]:
    blocks = [e for e in packets.elements(m.data) if e.kind in (packets.SIMPLE_BLOCK, packets.BLOCK)]
    if len(blocks) < 3:
        raise NotApplicable
    return blocks


@mutation("changed", "mkv", weight=1.5)
def block_lost(m: Material) -> tuple[bytes, str]:
    """A missing block."""
    n = m.draw.randrange(1, len(_blocks(m)))
    return packets.voided(m.data, _blocks(m)[n]), f"block {n} is void"


@mutation("same", "mkv", weight=1.5)
def block_flags(m: Material) -> tuple[bytes, str]:
    """Key flags that are missing or wrong."""
    out, kind = bytearray(m.data), m.draw.choice(["none", "all", "one wrong"])
    blocks = [e for e in _blocks(m) if e.kind == packets.SIMPLE_BLOCK]
    for block in blocks if kind != "one wrong" else [m.draw.choice(blocks)] if blocks else []:
        flags = out[block.body + 3]
        out[block.body + 3] = flags ^ 0x80 if kind == "one wrong" else flags | 0x80 if kind == "all" else flags & 0x7F
    return bytes(out), f"key flags: {kind}"


@mutation("same", "mkv", weight=1.5)
def block_times(m: Material) -> tuple[bytes, str]:
    """Timestamps of blocks or clusters that are equal, negative or far away."""
    out, blocks = bytearray(m.data), _blocks(m)
    n, kind = m.draw.randrange(1, len(blocks)), m.draw.choice(["equal", "negative", "far"])
    time = {"equal": out[blocks[n - 1].body + 1 : blocks[n - 1].body + 3], "negative": b"\xff\x00", "far": b"\x7f\x00"}
    out[blocks[n].body + 1 : blocks[n].body + 3] = time[kind]
    return bytes(out), f"block {n}: {kind}"


@mutation("same", "mkv")
def element_left_out(m: Material) -> tuple[bytes, str]:
    """Matroska without its cues, its frame duration or another optional element."""
    wanted = {packets.CUES: "cues", packets.DEFAULT_DURATION: "duration", 0x1254C367: "tags", 0x114D9B74: "seek head"}
    found = [e for e in packets.elements(m.data) if e.kind in wanted]
    if not found:
        raise NotApplicable
    element = m.draw.choice(found)
    return packets.voided(m.data, element), f"no {wanted[element.kind]}"


@mutation("changed", "mkv")
def element_number(m: Material) -> tuple[bytes, str]:
    """Another size or other first bytes of an element."""
    element = m.draw.choice(list(packets.elements(m.data)))
    at, out = m.draw.choice([element.begin, element.body - 1, element.body]), bytearray(m.data)
    if at >= len(out):
        raise NotApplicable
    out[at] = m.draw.randrange(256)
    return bytes(out), f"element {element.kind:x} at {element.begin}: byte {at - element.begin} is {out[at]}"


@mutation("same", "avi", weight=1.5)
def avi_empty_chunk(m: Material) -> tuple[bytes, str]:
    """A chunk of zero bytes, which repeats the previous frame, and no index."""
    chunks = packets.avi_chunks(m.data)
    n = m.draw.randrange(1, len(chunks))
    kind = m.data[chunks[n][0] : chunks[n][0] + 4]
    return packets.avi_with_inserted(m.data, chunks[n][0], kind + bytes(4)), f"an empty chunk before chunk {n}"


@mutation("changed", "avi")
def avi_chunk_lost(m: Material) -> tuple[bytes, str]:
    """A chunk that is no longer marked as video."""
    chunks = packets.avi_chunks(m.data)
    at = m.draw.choice(chunks)[0]
    return m.data[:at] + b"JUNK" + m.data[at + 4 :], f"the chunk at {at} is junk"


@mutation("changed", "avi")
def avi_index(m: Material) -> tuple[bytes, str]:
    """A wrong index."""
    begin = m.data.rfind(b"idx1")
    if begin < 0:
        raise NotApplicable
    entries = struct.unpack_from("<I", m.data, begin + 4)[0] // 16
    n, place = m.draw.randrange(entries), m.draw.choice([4, 8, 12])
    at = begin + 8 + 16 * n + place
    number = mp4.odd_number(struct.unpack_from("<I", m.data, at)[0], m.draw)
    return m.data[:at] + struct.pack("<I", number) + m.data[at + 4 :], f"entry {n}, byte {place}: {number}"


@mutation("changed", "flv", weight=2)
def flv_edited(m: Material) -> tuple[bytes, str]:
    """Tags dropped, repeated, swapped, or with other timestamps or flags."""
    tags = packets.flv_tags(m.data)
    n, kind = m.draw.randrange(1, len(tags) - 1), m.draw.choice(["dropped", "twice", "time", "flags", "size"])
    begin, size = tags[n]
    end, out = begin + size + 4, bytearray(m.data)
    if kind == "dropped":
        del out[begin:end]
    elif kind == "twice":
        out[end:end] = out[begin:end]
    elif kind == "time":
        out[begin + 4 : begin + 8] = m.draw.choice([bytes(4), b"\xff\xff\xff\x7f", b"\x00\x00\x01\x00"])
    elif kind == "flags":
        out[begin + 11] ^= 0x30
    else:
        out[begin + 1 : begin + 4] = m.draw.choice([bytes(3), b"\xff\xff\xff", b"\x00\x00\x05"])
    return bytes(out), f"tag {n}: {kind}"


@mutation("lost", "ogg", weight=0.7)
def ogg_page_lost(m: Material) -> tuple[bytes, str]:
    """A page that is missing, or has a wrong checksum."""
    pages = packets.ogg_pages(m.data)
    n = m.draw.randrange(2, len(pages))
    if m.draw.random() < 0.5:
        return b"".join([*pages[:n], *pages[n + 1 :]]), f"page {n} of {len(pages)} lost"
    page = bytearray(pages[n])
    page[-1] ^= 0x55
    pages[n] = bytes(page)
    return b"".join(pages), f"page {n} of {len(pages)} damaged"


@mutation("same", "ogg", weight=0.5)
def ogg_empty_packet(m: Material) -> tuple[bytes, str]:
    """An empty packet: Theora's way to repeat a frame."""
    pages = packets.ogg_pages(m.data)
    n = m.draw.randrange(2, len(pages))
    pages[n] = packets.ogg_with_empty_packet(pages[n], m.draw)
    return b"".join(pages), f"in page {n}"


# ---- raw streams -----------------------------------------------------------------------------------------------------


@mutation("changed", "raw", weight=2)
def units_edited(m: Material) -> tuple[bytes, str]:
    """Units (NAL units, pictures) dropped, repeated or swapped."""
    units = packets.units(m.data)
    if len(units) < 6:
        raise NotApplicable
    n, kind = m.draw.randrange(3, len(units) - 1), m.draw.choice(["dropped", "twice", "exchanged", "cut"])
    if kind == "dropped":
        del units[n]
    elif kind == "twice":
        units.insert(n, units[n])
    elif kind == "exchanged":
        units[n], units[n + 1] = units[n + 1], units[n]
    else:
        units[n] = units[n][: m.draw.randrange(5, len(units[n]) + 5)]
    return b"".join(units), f"unit {n} of {len(units)} {kind}"
