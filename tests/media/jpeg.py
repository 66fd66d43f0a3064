"""Writes the JPEG files that Pillow cannot write: any sampling factors, a scan for each component, 16-bit tables.

All arithmetic is on integers, so that the same pixels give the same file on every machine.
"""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Iterator, Sequence

import numpy as np
from PIL import Image

SOI, EOI, SOS, DQT, DHT, DRI = 0xD8, 0xD9, 0xDA, 0xDB, 0xC4, 0xDD
APP1, APP2, APP14 = 0xE1, 0xE2, 0xEE
FRAMES = {0xC0: "baseline", 0xC1: "extended", 0xC2: "progressive", 0xC3: "lossless", 0xC5: "hierarchical"}

JFIF = b"\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0"

#: The DCT's basis functions, in units of 2^-13.
_BASIS = np.array(
    [
        [round(8192 * math.sqrt((1 if k else 0.5) / 4) * math.cos((2 * n + 1) * k * math.pi / 16)) for n in range(8)]
        for k in range(8)
    ]
)
#: Positions in a block, in scan order.
_ZIGZAG = np.array(
    sorted(range(64), key=lambda i: (i // 8 + i % 8, i // 8 if (i // 8 + i % 8) % 2 else i % 8)), dtype=np.intp
)


def segment(marker: int, payload: bytes) -> bytes:
    """A marker segment with its length."""
    return struct.pack(">BBH", 0xFF, marker, len(payload) + 2) + payload


def segments(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The segments before the first scan's data.

    Args:
        data: A JPEG file. If it is damaged, the sequence ends.

    Yields:
        The marker, the offset of its 0xFF byte, the payload.
    """
    at = 2
    while at + 4 <= len(data):
        if data[at] != 0xFF or data[at + 1] in (0, 0xFF):
            at += 1
            continue
        marker, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4])
        if at + 2 + length > len(data):
            return
        yield marker, at, data[at + 4 : at + 2 + length]
        if marker == SOS:
            return
        at += 2 + length


def offset(data: bytes, marker: int) -> int:
    """The offset of the first segment with this marker."""
    return next(at for found, at, _ in segments(data) if found == marker)


def insert(data: bytes, at: int, *more: bytes) -> bytes:
    """The file with bytes inserted at an offset."""
    return data[:at] + b"".join(more) + data[at:]


def without(data: bytes, marker: int) -> bytes:
    """The file without the segments with this marker."""
    for found, at, payload in reversed(list(segments(data))):
        if found == marker:
            data = data[:at] + data[at + 4 + len(payload) :]
    return data


def exif(orientation: int, thumbnail: bytes = b"") -> bytes:
    """EXIF data as the payload of an APP1 segment.

    Args:
        orientation: The value of the tag Orientation, 1 to 8.
        thumbnail: A small JPEG file for the second directory.
    """

    def directory(at: int, *fields: tuple[int, int, int], following: bool) -> bytes:
        """A directory at this offset; fields are (tag, type, value), type 3 for 16 bits and 4 for 32."""
        entries = b"".join(
            struct.pack(">HHI", tag, kind, 1)
            + (struct.pack(">HH", value, 0) if kind == 3 else struct.pack(">I", value))
            for tag, kind, value in fields
        )
        end = at + 2 + len(entries) + 4
        return struct.pack(">H", len(fields)) + entries + struct.pack(">I", end if following else 0)

    tiff = b"MM\0*\0\0\0\x08" + directory(8, (0x0112, 3, orientation), following=bool(thumbnail))
    if thumbnail:
        start = len(tiff) + 2 + 3 * 12 + 4
        fields = (0x0103, 3, 6), (0x0201, 4, start), (0x0202, 4, len(thumbnail))
        tiff += directory(len(tiff), *fields, following=False) + thumbnail
    return b"Exif\0\0" + tiff


class _Bits:
    """Entropy-coded data."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def put(self, value: int, count: int) -> None:
        if count:
            self.parts.append(format(value, f"0{count}b"))

    def flush(self) -> bytes:
        """The bytes so far, padded with ones, each 0xFF followed by a zero."""
        bits = "".join(self.parts)
        self.parts.clear()
        bits += "1" * (-len(bits) % 8)
        return int("1" + bits, 2).to_bytes(len(bits) // 8 + 1)[1:].replace(b"\xff", b"\xff\0")


def _codes(payload: bytes) -> dict[int, tuple[int, int]]:
    """(code, length) of each symbol of a Huffman table, from the 16 counts and the symbols."""
    symbols, code, table = iter(payload[16:]), 0, {}
    for length, count in enumerate(payload[:16], 1):
        for _ in range(count):
            table[next(symbols)] = (code, length)
            code += 1
        code <<= 1
    return table


def _tables(quality: int) -> tuple[list[np.ndarray], list[bytes]]:
    """Quantization tables for a quality in libjpeg's scale, and Annex K's Huffman tables, as written by Pillow."""
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "JPEG", quality=quality, optimize=False)
    quantization, huffman = [], []
    for marker, _, payload in segments(file.getvalue()):
        if marker == DQT:
            quantization += [np.frombuffer(payload, np.uint8, 64, at + 1) for at in range(0, len(payload), 65)]
        elif marker == DHT:
            at = 0
            while at < len(payload):
                length = 17 + sum(payload[at + 1 : at + 17])
                huffman.append(payload[at : at + length])
                at += length
    return [table.astype(np.int64) for table in quantization], huffman


def _blocks(plane: np.ndarray, scale: tuple[int, int], grid: tuple[int, int], table: np.ndarray) -> np.ndarray:
    """Quantized coefficients in zigzag order, shape (block rows, block columns, 64).

    Args:
        plane: Samples of the complete image.
        scale: Number of its columns and rows that one sample of the component covers.
        grid: Block columns and rows; the last samples are repeated beyond the image.
        table: The quantization table in zigzag order.
    """
    (sx, sy), (columns, rows) = scale, grid
    height, width = rows * 8 * sy, columns * 8 * sx
    padded = np.pad(plane, ((0, height - plane.shape[0]), (0, width - plane.shape[1])), mode="edge").astype(np.int64)
    samples = (padded.reshape(rows * 8, sy, columns * 8, sx).sum(axis=(1, 3)) + sx * sy // 2) // (sx * sy)
    blocks = samples.reshape(rows, 8, columns, 8).swapaxes(1, 2) - 128
    scaled = (_BASIS @ blocks @ _BASIS.T).reshape(rows, columns, 64)[..., _ZIGZAG]
    divisor = table << 26
    return np.sign(scaled) * ((np.abs(scaled) + divisor // 2) // divisor)


def encode(
    pixels: np.ndarray,
    factors: Sequence[tuple[int, int]],
    *,
    header: bytes = JFIF,
    ids: bytes = b"\1\2\3\4",
    quality: int = 80,
    deep_tables: bool = False,
    interleaved: bool = True,
    restart_interval: int = 0,
) -> bytes:
    """Encodes a sequential JPEG file.

    Args:
        pixels: Components as stored in the file, uint8, shape (height, width, components).
        factors: Horizontal and vertical sampling factors of each component, which must divide the largest ones.
        header: Segments before all others.
        ids: The components' identifiers.
        quality: Quality in libjpeg's scale.
        deep_tables: Writes quantization tables with 16-bit values, and the process "extended" that they need.
        interleaved: Writes one scan of all components instead of one scan for each.
        restart_interval: Number of MCUs between restart markers; 0 for none.
    """
    height, width, count = pixels.shape
    max_x, max_y = (max(f[axis] for f in factors) for axis in (0, 1))
    mcus_x, mcus_y = -(-width // (8 * max_x)), -(-height // (8 * max_y))
    quantization, huffman = _tables(quality)
    if deep_tables:
        quantization = [table * 8 for table in quantization]
    planes = [
        _blocks(pixels[..., c], (max_x // h, max_y // v), (mcus_x * h, mcus_y * v), quantization[c in (1, 2)])
        for c, (h, v) in enumerate(factors)
    ]
    codes = {table[0]: _codes(table[1:]) for table in huffman}

    out = [bytes((0xFF, SOI)), header]
    for number, table in enumerate(quantization):
        values = table.astype(">u2" if deep_tables else "u1").tobytes()
        out.append(segment(DQT, bytes((deep_tables << 4 | number,)) + values))
    frame = b"".join(bytes((ids[c], h << 4 | v, int(c in (1, 2)))) for c, (h, v) in enumerate(factors))
    out.append(segment(0xC1 if deep_tables else 0xC0, struct.pack(">BHHB", 8, height, width, count) + frame))
    out += [segment(DHT, table) for table in huffman]
    if restart_interval:
        out.append(segment(DRI, struct.pack(">H", restart_interval)))
    for scan in [range(count)] if interleaved else [[c] for c in range(count)]:
        selectors = b"".join(bytes((ids[c], 0x11 if c in (1, 2) else 0)) for c in scan)
        out.append(segment(SOS, bytes((len(scan),)) + selectors + b"\0\x3f\0"))
        mcus = _mcus(planes, factors, scan, (width, height))
        out.append(_entropy_coded(mcus, codes, restart_interval))
    return b"".join(out) + bytes((0xFF, EOI))


def _mcus(
    planes: list[np.ndarray], factors: Sequence[tuple[int, int]], scan: Sequence[int], size: tuple[int, int]
) -> Iterator[list[tuple[int, np.ndarray]]]:
    """The blocks of each MCU of a scan: (component, coefficients)."""
    if len(scan) == 1:
        # The only component of a scan has no blocks beyond its own size.
        [c] = scan
        most = [max(f[axis] for f in factors) for axis in (0, 1)]
        samples = [-(-size[axis] * factors[c][axis] // most[axis]) for axis in (0, 1)]
        columns, rows = (-(-count // 8) for count in samples)
        yield from ([(c, planes[c][y, x])] for y in range(rows) for x in range(columns))
        return
    (h, v), plane = factors[scan[0]], planes[scan[0]]
    for y in range(plane.shape[0] // v):
        for x in range(plane.shape[1] // h):
            yield [
                (c, planes[c][y * factors[c][1] + j, x * factors[c][0] + i])
                for c in scan
                for j in range(factors[c][1])
                for i in range(factors[c][0])
            ]


def _entropy_coded(
    mcus: Iterator[list[tuple[int, np.ndarray]]], codes: dict[int, dict[int, tuple[int, int]]], restart_interval: int
) -> bytes:
    """A scan's data: Huffman tables 0 and 0x10 code the first and the fourth component, 1 and 0x11 the others."""
    bits, out = _Bits(), []
    before = [0] * 4

    def coefficient(value: int, run: int, table: dict[int, tuple[int, int]]) -> None:
        length = abs(value).bit_length()
        bits.put(*table[run << 4 | length])
        bits.put(value if value > 0 else value + (1 << length) - 1, length)

    for number, mcu in enumerate(mcus):
        if restart_interval and number and number % restart_interval == 0:
            out += [bits.flush(), bytes((0xFF, 0xD0 + (number // restart_interval - 1) % 8))]
            before = [0] * 4
        for c, block in mcu:
            dc, ac = codes[int(c in (1, 2))], codes[0x10 | int(c in (1, 2))]
            coefficient(int(block[0]) - before[c], 0, dc)
            before[c], last = int(block[0]), 0
            for at in np.flatnonzero(block[1:]) + 1:
                while at - last > 16:
                    bits.put(*ac[0xF0])
                    last += 16
                coefficient(int(block[at]), int(at) - last - 1, ac)
                last = int(at)
            if last < 63:
                bits.put(*ac[0])
    return b"".join([*out, bits.flush()])
