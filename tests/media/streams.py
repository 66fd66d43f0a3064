"""Streams and containers that no encoder program writes, and edits of encoded ones."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator

import numpy as np

# ---- H.264 with field pictures ---------------------------------------------------------------------------------------


class _Bits:
    """Bits of a NAL unit's payload (ITU-T H.264, 7.2 and 9.1)."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.done = bytearray()

    def u(self, width: int, value: int) -> None:
        self.text.append(f"{value:0{width}b}")

    def ue(self, value: int) -> None:
        digits = f"{value + 1:b}"
        self.text.append("0" * (len(digits) - 1) + digits)

    def align(self, first: str = "") -> None:
        """Flushes to a byte boundary: `first`, then zeros."""
        text = "".join(self.text) + first
        text += "0" * (-len(text) % 8)
        self.done += bytes(int(text[at : at + 8], 2) for at in range(0, len(text), 8))
        self.text = []

    def nal(self, kind: int, reference: int) -> bytes:
        self.align("1")  # rbsp_trailing_bits
        escaped = re.sub(rb"\x00\x00(?=[\x00-\x03])", b"\x00\x00\x03", bytes(self.done))
        return b"\x00\x00\x00\x01" + bytes([reference << 5 | kind]) + escaped


_MBS = (6, 4)  # a frame of 96x64
_I, _P = 7, 5  # slice_type for all slices of a picture


def _parameter_sets() -> bytes:
    sps = _Bits()
    sps.u(24, 77 << 16 | 30)  # Main profile, level 3
    for value in (0, 0, 0, 4, 2):  # id, frame_num with 4 bits, POC type 0 with 8 bits, two reference frames
        sps.ue(value)
    sps.u(1, 0)
    sps.ue(_MBS[0] - 1)
    sps.ue(_MBS[1] // 2 - 1)  # map units are pairs of macroblock rows
    sps.u(5, 0b00100)  # fields allowed, no MBAFF, direct_8x8_inference, no crop, no VUI
    pps = _Bits()
    pps.ue(0)
    pps.ue(0)
    pps.u(2, 0)  # CAVLC
    for value in (0, 0, 0):
        pps.ue(value)
    pps.u(3, 0)
    for value in (0, 0, 0):
        pps.ue(value)
    pps.u(3, 0b100)  # deblocking is controlled by slices
    return sps.nal(7, 3) + pps.nal(8, 3)


def _picture(
    pixels: np.ndarray, number: int, kind: int, field: int | None, idr: bool, frame_num: int, reference: bool
) -> bytes:
    """One frame picture (`field` None) or field picture: I_PCM macroblocks; in P pictures two of three are skipped."""
    bits = _Bits()
    bits.ue(0)
    bits.ue(kind)
    bits.ue(0)
    bits.u(4, frame_num % 16)
    bits.u(1, field is not None)
    if field is not None:
        bits.u(1, field)
    if idr:
        bits.ue(0)
    bits.u(8, 2 * number + (field or 0))
    if kind == _P:
        bits.u(2, 0)  # the default number of references, in the default order
    if reference:
        bits.u(2 if idr else 1, 0)
    bits.ue(0)  # slice_qp_delta
    bits.ue(1)  # no deblocking
    rows = pixels if field is None else pixels[field::2]
    skipped = 0
    for at in range(_MBS[0] * (rows.shape[0] // 16)):
        y, x = 16 * (at // _MBS[0]), 16 * (at % _MBS[0])
        if kind == _P and (at + number) % 3:
            skipped += 1
            continue
        if kind == _P:
            bits.ue(skipped)
            skipped = 0
        bits.ue(25 + (5 if kind == _P else 0))  # I_PCM
        bits.align()
        block = rows[y : y + 16, x : x + 16]
        bits.done += block.tobytes() + block[::2, ::2].tobytes() + (255 - block[::2, ::2]).tobytes()
    if skipped:
        bits.ue(skipped)
    return bits.nal(5 if idr else 1, 3 if reference else 0)


def paff() -> bytes:
    """A raw stream in which field pairs and frame pictures alternate, some disposable; 12 frames, IDR at 0 and 8."""
    y, x = np.mgrid[0 : 16 * _MBS[1], 0 : 16 * _MBS[0]]
    stream, frame_num = bytearray(_parameter_sets()), 0
    for number in range(12):
        pixels = (16 + (x * 3 + y * 5 + 11 * number + (x * y + number * 37) % 19) % 220).astype(np.uint8)
        idr, reference = number % 8 == 0, number % 8 == 0 or number % 3 != 2
        if idr:
            frame_num = 0
        order = number % 8
        if number % 2 == 0:
            stream += _picture(pixels, order, _I if idr else _P, 0, idr, frame_num, reference)
            stream += _picture(pixels, order, _P, 1, False, frame_num, reference)
        else:
            stream += _picture(pixels, order, _P, None, False, frame_num, reference)
        frame_num += reference
    return bytes(stream)


# ---- MPEG-2 with field pictures --------------------------------------------------------------------------------------


def mpeg2_fields(data: bytes) -> bytes:
    """Declares the pictures of a file to be fields of twice the height, top and bottom in turns (ISO/IEC 13818-2, 6.2).

    All pictures are intra pictures, of which a macroblock is coded in the same way in a frame without choice of the
    DCT and in a field. No byte moves: the headers before bottom fields become zeros, which may precede a start code.
    Matroska files of at most 127 lines and AVI files state the new height.
    """
    sequence = data.index(b"\0\0\1\xb3") + 4
    width, height = data[sequence] << 4 | data[sequence + 1] >> 4, (data[sequence + 1] & 15) << 8 | data[sequence + 2]
    out = bytearray(data)
    for stated in (lambda height: b"\xba\x81" + bytes([height]), lambda height: struct.pack("<II", width, height)):
        out = out.replace(stated(height), stated(2 * height))
    number, first_header = 0, None
    for found in re.finditer(rb"\x00\x00\x01[\x00\xb3\xb5]", data):
        at = found.end()
        kind = data[at - 1]
        if kind == 0xB3:
            out[at + 1 : at + 3] = (data[at + 1] & 0xF0 | 2 * height >> 8, 2 * height & 255)
            first_header = found.start()
        elif kind == 0xB5 and data[at] >> 4 == 1:
            out[at + 1] &= 0xF7  # progressive_sequence
        elif kind == 0xB5 and data[at] >> 4 == 8:
            out[at + 2] = data[at + 2] & 0xFC | 1 + number % 2  # picture_structure
            out[at + 3] &= 0x3C  # top_field_first, frame_pred_frame_dct, repeat_first_field and chroma_420_type are 0
            out[at + 4] &= 127  # progressive_frame
            number += 1
        elif kind == 0:
            frame = number // 2
            out[at : at + 2] = (frame >> 2 & 255, (frame & 3) << 6 | data[at + 1] & 0x3F)
            if number % 2 and first_header is not None:
                out[first_header : found.start()] = bytes(found.start() - first_header)
            first_header = None
    return bytes(out)


# ---- VP9 in IVF ------------------------------------------------------------------------------------------------------


def _ivf_frames(data: bytes) -> Iterator[bytes]:
    at = 32
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        yield data[at + 12 : at + 12 + size]
        at += 12 + size


def _ivf(header: bytes, frames: list[bytes]) -> bytes:
    body = b"".join(struct.pack("<IQ", len(frame), number) + frame for number, frame in enumerate(frames))
    return header[:24] + struct.pack("<I", len(frames)) + header[28:32] + body


def show_existing(data: bytes) -> bytes:
    """Inserts show_existing_frame of reference slot 0 after every fourth frame (VP9 bitstream specification, 6.2)."""
    frames = []
    for number, frame in enumerate(_ivf_frames(data)):
        frames.append(frame)
        if number % 4 == 3:
            frames.append(b"\x88")  # frame_marker 2, profile 0, show_existing_frame 1, slot 0
    return _ivf(data, frames)


def joined_ivf(first: bytes, second: bytes) -> bytes:
    """The frames of both."""
    return _ivf(first, [*_ivf_frames(first), *_ivf_frames(second)])


# ---- MP4 (ISO/IEC 14496-12) ------------------------------------------------------------------------------------------

_CONTAINERS = {b"moov", b"trak", b"mdia", b"minf", b"stbl", b"moof", b"traf"}


def _boxes(data: bytes, edit: Callable[[bytes, bytes], tuple[bytes, bytes]]) -> bytes:
    """`data` with each box as `edit` (of type and content) returns it."""
    out, at = bytearray(), 0
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8 : at + size]
        kind, body = (kind, _boxes(body, edit)) if kind in _CONTAINERS else edit(kind, body)
        out += struct.pack(">I4s", len(body) + 8, kind) + body
        at += size
    return bytes(out)


def with_co64(data: bytes) -> bytes:
    """64-bit chunk offsets instead of 32-bit ones; moov must be after mdat, so that no sample moves."""

    def edit(kind: bytes, body: bytes) -> tuple[bytes, bytes]:
        if kind != b"stco":
            return kind, body
        offsets = np.frombuffer(body, ">u4", offset=8).astype(">u8")
        return b"co64", body[:8] + offsets.tobytes()

    return _boxes(data, edit)


def without_stss(data: bytes) -> bytes:
    """No table of sync samples; moov must be after mdat."""
    return _boxes(data, lambda kind, body: (b"free" if kind == b"stss" else kind, body))


def ten_seconds_later(data: bytes) -> bytes:
    """Fragments with 12,288 ticks per second that start ten seconds later, as in a recording that was joined late."""

    def edit(kind: bytes, body: bytes) -> tuple[bytes, bytes]:
        if kind != b"tfdt":
            return kind, body
        return kind, body[:4] + struct.pack(">Q", struct.unpack_from(">Q", body, 4)[0] + 10 * 12288)

    return _boxes(data, edit)


def with_wrong_field(kind: str, at: int, change: Callable[[int], int]) -> Callable[[bytes], bytes]:
    """Changes a 32-bit value, `at` bytes from the start of the first box of this kind."""

    def damage(data: bytes) -> bytes:
        begin = data.index(kind.encode()) - 4 + at
        (value,) = struct.unpack_from(">I", data, begin)
        return data[:begin] + struct.pack(">I", change(value)) + data[begin + 4 :]

    return damage


def _box(data: bytes, *path: bytes) -> bytes:
    """The content of a box, by the types of the boxes around it."""
    for kind in path:
        at = 0
        while data[at + 4 : at + 8] != kind:
            at += struct.unpack_from(">I", data, at)[0]
        data = data[at + 8 : at + struct.unpack_from(">I", data, at)[0]]
    return data


def joined_mp4(first: bytes, second: bytes) -> bytes:
    """The samples of both in one track with two sample entries; neither has edits that hide samples."""
    table = (b"moov", b"trak", b"mdia", b"minf", b"stbl")
    payload = [_box(data, b"mdat") for data in (first, second)]
    counts = [struct.unpack_from(">I", _box(data, *table, b"stsz"), 8)[0] for data in (first, second)]
    begin = first.index(b"mdat") + 4

    def edit(kind: bytes, body: bytes) -> tuple[bytes, bytes]:
        if kind == b"mdat":
            return kind, b"".join(payload)
        if kind in (b"edts", b"elst"):
            return b"free", body
        if kind in (b"mvhd", b"tkhd", b"mdhd"):  # the duration, in version 0
            at = 20 if kind == b"tkhd" else 16
            return kind, body[:at] + struct.pack(">I", 2 * struct.unpack_from(">I", body, at)[0]) + body[at + 4 :]
        if kind == b"stsc":
            return kind, struct.pack(">8I", 0, 2, 1, counts[0], 1, 2, counts[1], 2)
        if kind == b"stco":
            return kind, struct.pack(">4I", 0, 2, begin, begin + len(payload[0]))
        if kind == b"stsz":
            sizes = [_box(data, *table, b"stsz") for data in (first, second)]
            lists = [
                body[12:] or struct.pack(f">{count}I", *[struct.unpack_from(">I", body, 4)[0]] * count)
                for body, count in zip(sizes, counts, strict=True)
            ]
            return kind, struct.pack(">3I", 0, 0, sum(counts)) + b"".join(lists)
        if kind in (b"stsd", b"stts", b"ctts"):
            bodies = [_box(data, *table, kind) for data in (first, second)]
            length = sum(struct.unpack_from(">I", body, 4)[0] for body in bodies)
            return kind, body[:4] + struct.pack(">I", length) + b"".join(body[8:] for body in bodies)
        if kind == b"stss":
            keys = np.frombuffer(body, ">u4", offset=8)
            more = np.frombuffer(_box(second, *table, kind), ">u4", offset=8) + counts[0]
            numbers = np.concatenate([keys, more]).astype(">u4")
            return kind, struct.pack(">2I", 0, len(numbers)) + numbers.tobytes()
        return kind, body

    return _boxes(first, edit)


# ---- FLV -------------------------------------------------------------------------------------------------------------


def _flv_tags(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Type, time in milliseconds and content of each tag."""
    at = 13
    while at < len(data):
        size, time = (int.from_bytes(data[at + n : at + n + 3], "big") for n in (1, 4))
        yield data[at], time, data[at + 11 : at + 11 + size]
        at += 15 + size


def _flv(header: bytes, tags: list[tuple[int, int, bytes]]) -> bytes:
    out = bytearray(header[:13])
    for kind, time, body in tags:
        head = bytes([kind]) + len(body).to_bytes(3, "big") + time.to_bytes(3, "big") + bytes(4)
        out += head + body + (len(head) + len(body)).to_bytes(4, "big")
    return bytes(out)


_FLV_VIDEO, _AVC_PICTURE = 9, 1


def joined_flv(first: bytes, second: bytes) -> bytes:
    """The video tags of the second follow those of the first, with its sequence header, as when an encoder restarts."""
    tags = list(_flv_tags(first))
    shown = [time for kind, time, body in tags if kind == _FLV_VIDEO and body[1] == _AVC_PICTURE]
    later = shown[-1] + shown[1] - shown[0]
    more = [(kind, time + later, body) for kind, time, body in _flv_tags(second) if kind == _FLV_VIDEO]
    return _flv(first, tags + more)


def with_repeated_header(data: bytes) -> bytes:
    """H.264 with the sequence header before each key frame."""
    tags: list[tuple[int, int, bytes]] = []
    header = next(body for kind, _, body in _flv_tags(data) if kind == _FLV_VIDEO and body[1] != _AVC_PICTURE)
    for kind, time, body in _flv_tags(data):
        if kind == _FLV_VIDEO and body[1] == _AVC_PICTURE and body[0] >> 4 == 1:
            tags.append((kind, time, header))
        tags.append((kind, time, body))
    return _flv(data, tags)


# ---- MPEG-4 part 2 (ISO/IEC 14496-2) ---------------------------------------------------------------------------------


def joined_with_layer_headers_once(*parts: bytes) -> bytes:
    """Raw streams of MPEG-4, each with its headers only before its first picture."""

    def once(data: bytes) -> bytes:
        units = re.split(rb"(?=\x00\x00\x01)", data)
        first = next(n for n, unit in enumerate(units) if unit[3:4] == b"\xb6")
        return b"".join(units[:first] + [unit for unit in units[first:] if unit[3:4] in (b"\xb3", b"\xb6")])

    return b"".join(map(once, parts))


# ---- MPEG-TS and Annex B ---------------------------------------------------------------------------------------------


def from_packet_boundary(data: bytes) -> bytes:
    """The tables first, then the packets from two fifths on."""
    packets = len(data) // 188
    return data[: 3 * 188] + data[packets * 2 // 5 * 188 :]


def without_service_descriptions(data: bytes) -> bytes:
    """The stream with its SDT packets nulled: the pinned ffmpeg program, statically linked, crashes in their text."""
    packets = np.frombuffer(data[: len(data) // 188 * 188], np.uint8).reshape(-1, 188).copy()
    pid = (packets[:, 1].astype(int) & 0x1F) << 8 | packets[:, 2]
    packets[pid == 0x11, 1:3] = (0x1F, 0xFF)
    return packets.tobytes() + data[len(data) // 188 * 188 :]


def without_second_idr(data: bytes) -> bytes:
    """H.264 without the slices of its second IDR picture."""
    units = re.split(rb"(?=\x00\x00\x00\x01|(?<!\x00)\x00\x00\x01)", data)
    out, seen = [], 0
    for unit in units:
        head = re.match(rb"\x00?\x00\x00\x01(.)", unit, re.DOTALL)
        if head and head[1][0] & 31 == 5:
            seen += 1
            if seen == 2:
                continue
        out.append(unit)
    return b"".join(out)
