"""Packets and units inside the other containers: their positions, and files with edited ones."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

# ---- MPEG transport and program streams ------------------------------------------------------------------------------

TS_PACKET = 188


def ts_packets(data: bytes) -> list[bytes]:
    """All complete packets."""
    return [data[at : at + TS_PACKET] for at in range(0, len(data) - TS_PACKET + 1, TS_PACKET)]


def ts_pid(packet: bytes) -> int:
    """The packet identifier."""
    return (packet[1] & 0x1F) << 8 | packet[2]


def ts_video_pid(packets: list[bytes]) -> int:
    """The most frequent packet identifier."""
    pids = [ts_pid(packet) for packet in packets]
    return max(set(pids), key=pids.count)


def ts_discontinuities(packets: list[bytes]) -> int:
    """Number of jumps of the continuity counter of the video stream (ISO/IEC 13818-1, 2.4.3.3)."""
    pid = ts_video_pid(packets)
    counters = [packet[3] & 15 for packet in packets if ts_pid(packet) == pid and packet[3] & 0x10]
    return sum((after - before) % 16 != 1 for before, after in zip(counters, counters[1:], strict=False))


def without_pts(data: bytes, chosen: Random, share: float) -> bytes:
    """A stream in which a share of video's PES headers, except the first, have no timestamps."""
    out = bytearray(data)
    heads = [found.start() for found in re.finditer(rb"\x00\x00\x01[\xe0-\xef]", data)]
    for at in heads[1:]:
        if chosen.random() >= share or at + 19 > len(out):
            continue
        if out[at + 6] & 0xC0 == 0x80:  # MPEG-2 systems: flags, then the header's length
            length = 5 if out[at + 7] & 0xC0 == 0x80 else 10 if out[at + 7] & 0xC0 == 0xC0 else 0
            if length and out[at + 8] >= length:
                out[at + 7] &= 0x3F
                out[at + 9 : at + 9 + length] = b"\xff" * length
        else:  # MPEG-1 systems: stuffing, buffer size, then 0010 or 0011
            begin = at + 6
            while begin < at + 22 and out[begin] == 0xFF:
                begin += 1
            if out[begin] & 0xC0 == 0x40:
                begin += 2
            length = {2: 5, 3: 10}.get(out[begin] >> 4, 0)
            if length:
                moved = bytes(out[begin - 2 : begin]) if out[begin - 2] & 0xC0 == 0x40 else b""
                start = begin - len(moved)
                out[start : begin + length] = b"\xff" * (length - 1) + moved + b"\x0f"
    return bytes(out)


# ---- IVF -------------------------------------------------------------------------------------------------------------


@dataclass
class IvfFrame:
    """One frame with its timestamp."""

    pts: int
    payload: bytes


def ivf_frames(data: bytes) -> list[IvfFrame]:
    """All frames of an IVF file."""
    found, at = [], 32
    while at + 12 <= len(data):
        size, pts = struct.unpack_from("<IQ", data, at)
        found.append(IvfFrame(pts, data[at + 12 : at + 12 + size]))
        at += 12 + size
    return found


def ivf(header: bytes, frames: list[IvfFrame]) -> bytes:
    """An IVF file with the first 32 bytes of `header`."""
    return header[:32] + b"".join(struct.pack("<IQ", len(f.payload), f.pts) + f.payload for f in frames)


# ---- Matroska --------------------------------------------------------------------------------------------------------

_EBML_PARENTS = {0x18538067, 0x1F43B675, 0x1654AE6B, 0xAE, 0xE0, 0xA0}
SIMPLE_BLOCK, BLOCK, CUES, PIXEL_WIDTH, PIXEL_HEIGHT, TIMESTAMP = 0xA3, 0xA1, 0x1C53BB6B, 0xB0, 0xBA, 0xE7
DEFAULT_DURATION = 0x23E383


@dataclass(frozen=True)
class Element:
    """An EBML element: identifier, offset, offset of its content, its end."""

    kind: int
    begin: int
    body: int
    end: int


def elements(data: bytes, begin: int = 0, end: int | None = None) -> Iterator[Element]:
    """All elements, parents before their children."""
    end = len(data) if end is None else end
    while begin + 2 <= end and data[begin]:
        id_length = 9 - data[begin].bit_length()
        at = begin + id_length
        if at >= end or not data[at]:
            return
        length = 9 - data[at].bit_length()
        size = int.from_bytes(data[at : at + length], "big") & ((1 << 7 * length) - 1)
        kind, body = int.from_bytes(data[begin:at], "big"), at + length
        unknown = size == (1 << 7 * length) - 1
        last = end if unknown else body + size
        if last > end:
            return
        yield Element(kind, begin, body, last)
        if kind in _EBML_PARENTS:
            yield from elements(data, body, last)
        begin = last


def voided(data: bytes, element: Element) -> bytes:
    """The file with an element replaced by a void element."""
    size = element.end - element.begin
    head = bytes([0xEC, 0x80 | size - 2]) if size < 10 else b"\xec\x01" + (size - 9).to_bytes(7, "big")
    return data[: element.begin] + head + data[element.begin + len(head) :]


# ---- AVI and FLV -----------------------------------------------------------------------------------------------------


def avi_chunks(data: bytes) -> list[tuple[int, int]]:
    """(offset, size of the content) of each video chunk."""
    at = data.find(b"movi") + 4
    found = []
    while at + 8 <= len(data):
        kind, size = struct.unpack_from("<4sI", data, at)
        if kind == b"idx1":
            break
        if kind[2:] in (b"dc", b"db"):
            found.append((at, size))
        at += 8 + size + size % 2
    return found


def avi_with_inserted(data: bytes, at: int, chunk: bytes) -> bytes:
    """The file with bytes inserted among its chunks; enclosing sizes grow, and the old index is removed."""
    out = bytearray(data[:at] + chunk + data[at:])
    movi = data.find(b"movi") - 8
    for place in (0, movi):
        (size,) = struct.unpack_from("<I", out, place + 4)
        struct.pack_into("<I", out, place + 4, size + len(chunk))
    index = out.rfind(b"idx1")
    if index > 0:
        out[index : index + 4] = b"JUNK"
    return bytes(out)


def flv_tags(data: bytes) -> list[tuple[int, int]]:
    """(offset, size with header, without the trailing size) of each video tag except the first, the configuration."""
    found, at = [], 13
    while at + 11 <= len(data):
        size = int.from_bytes(data[at + 1 : at + 4], "big")
        if data[at] == 9:
            found.append((at, 11 + size))
        at += 11 + size + 4
    return found[1:]


def flv_has_picture(data: bytes, tag: tuple[int, int]) -> bool:
    """Whether a video tag holds a picture, and not a configuration."""
    flags, kind = data[tag[0] + 11], data[tag[0] + 12]
    if flags & 0x80:
        return flags & 15 in (1, 3)
    return flags & 15 != 7 or kind == 1


def flv_payload(data: bytes, tag: tuple[int, int]) -> tuple[int, int]:
    """(offset, size) of the codec's data in a video tag."""
    begin, size = tag
    flags, kind = data[begin + 11], data[begin + 12 : begin + 16]
    has_time = flags & 0x80 and flags & 15 == 1 and kind in (b"avc1", b"hvc1")  # a composition time after the FourCC
    head = 8 if has_time else 5 if flags & 0x80 or flags & 15 == 7 else 1
    return begin + 11 + head, size - 11 - head


# ---- Ogg -------------------------------------------------------------------------------------------------------------


def _ogg_table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte << 24
        for _ in range(8):
            value = (value << 1 ^ 0x04C11DB7 if value & 1 << 31 else value << 1) & 0xFFFFFFFF
        table.append(value)
    return table


_OGG_TABLE = _ogg_table()


def ogg_pages(data: bytes) -> list[bytes]:
    """All pages."""
    found, at = [], 0
    while at + 27 <= len(data):
        count = data[at + 26]
        size = 27 + count + sum(data[at + 27 : at + 27 + count])
        found.append(data[at : at + size])
        at += size
    return found


def ogg_with_checksum(page: bytes) -> bytes:
    """The page with a correct checksum."""
    page = page[:22] + bytes(4) + page[26:]
    value = 0
    for byte in page:
        value = (value << 8 & 0xFFFFFFFF) ^ _OGG_TABLE[(value >> 24) ^ byte]
    return page[:22] + struct.pack("<I", value) + page[26:]


def ogg_with_empty_packet(page: bytes, draw: Random) -> bytes:
    """The page with an empty packet inserted between two of its packets."""
    count = page[26]
    segments, body = page[27 : 27 + count], page[27 + count :]
    places = [n for n, size in enumerate(segments, 1) if size < 255]
    if count == 255 or not places:
        return page
    at = draw.choice(places)
    return ogg_with_checksum(page[:26] + bytes([count + 1]) + segments[:at] + b"\0" + segments[at:] + body)


# ---- AV1 -------------------------------------------------------------------------------------------------------------

TEMPORAL_DELIMITER = 2


def _leb128(value: int) -> bytes:
    out = bytearray()
    while True:
        out.append(value & 0x7F | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)


def obu_annexb(data: bytes) -> bytes:
    """A stream of OBUs with size fields, in the length-delimited format of the AV1 specification's annex B."""
    temporal_units: list[list[bytes]] = []
    at = 0
    while at < len(data):
        header = 2 if data[at] & 4 else 1
        size, shift, begin = 0, 0, at + header
        while True:
            size |= (data[begin] & 0x7F) << shift
            shift, begin = shift + 7, begin + 1
            if not data[begin - 1] & 0x80:
                break
        unit = bytes([data[at] & ~2]) + data[at + 1 : at + header] + data[begin : begin + size]
        if unit[0] >> 3 & 15 == TEMPORAL_DELIMITER:
            temporal_units.append([])
        temporal_units[-1].append(unit)
        at = begin + size
    out = bytearray()
    for units in temporal_units:  # each is written as one frame unit
        frame = b"".join(_leb128(len(unit)) + unit for unit in units)
        frame = _leb128(len(frame)) + frame
        out += _leb128(len(frame)) + frame
    return bytes(out)


# ---- Annex B and other start codes -----------------------------------------------------------------------------------


def units(data: bytes) -> list[bytes]:
    """Units of a raw stream, each from one start code to the next."""
    return [unit for unit in re.split(rb"(?=\x00\x00\x00\x01|(?<!\x00)\x00\x00\x01)", data) if unit]


def unit_kind(unit: bytes, codec: str) -> int:
    """The NAL unit type of H.264 or HEVC, or the start code of older codecs."""
    head = unit[unit.find(b"\x01") + 1 :][:1] or b"\0"
    return {"h264": head[0] & 31, "hevc": head[0] >> 1 & 63}.get(codec, head[0])


class _Bits:
    """Reads and writes bits of a NAL unit's payload."""

    def __init__(self, data: bytes) -> None:
        self.text = "".join(f"{byte:08b}" for byte in data)
        self.at = 0

    def ue(self) -> int:
        zeros = self.text.index("1", self.at) - self.at
        value = int(self.text[self.at + zeros : self.at + 2 * zeros + 1], 2) - 1
        self.at += 2 * zeros + 1
        return value


def with_other_chroma_qp(unit: bytes, delta: int) -> bytes:
    """A picture parameter set of H.264 (7.3.2.2) with another quantizer for chroma: equally valid, other pixels."""
    begin = unit.find(b"\x01") + 2
    bits = _Bits(unit[begin:].replace(b"\x00\x00\x03", b"\x00\x00"))
    bits.ue()  # pic_parameter_set_id
    bits.ue()  # seq_parameter_set_id
    bits.at += 2
    if bits.ue():
        return unit  # slice groups
    bits.ue()
    bits.ue()
    bits.at += 3
    bits.ue()  # initial quantizers
    bits.ue()
    start = bits.at
    code = bits.ue()
    value = (code + 1) // 2 * (1 if code % 2 else -1) + delta
    code = 2 * value - 1 if value > 0 else -2 * value
    digits = f"{code + 1:b}"
    rest = bits.text[bits.at :].rstrip("0")  # ends with the stop bit
    text = bits.text[:start] + "0" * (len(digits) - 1) + digits + rest
    text += "0" * (-len(text) % 8)
    payload = bytes(int(text[at : at + 8], 2) for at in range(0, len(text), 8))
    return unit[:begin] + re.sub(rb"\x00\x00(?=[\x00-\x03])", b"\x00\x00\x03", payload)
