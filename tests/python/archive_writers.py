"""Writers of TFRecord and RecordIO files, from the format specifications alone, to test the readers."""

from __future__ import annotations

import struct

_CASTAGNOLI = []
for _byte in range(256):
    for _ in range(8):
        _byte = (_byte >> 1) ^ (0x82F63B78 if _byte & 1 else 0)
    _CASTAGNOLI.append(_byte)


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _CASTAGNOLI[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


assert _crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C


def _masked(data: bytes) -> bytes:
    crc = _crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def tfrecord(records: list[bytes]) -> bytes:
    """Each record as length, its checksum, data, its checksum."""
    out = b""
    for data in records:
        length = struct.pack("<Q", len(data))
        out += length + _masked(length) + data + _masked(data)
    return out


def _varint(number: int) -> bytes:
    number &= 2**64 - 1
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def example(**features: bytes | str | int | float | list[int]) -> bytes:
    """A ``tf.train.Example``; ``__`` in a name stands for ``/``."""
    pairs = b""
    for name, value in features.items():
        if isinstance(value, (bytes, str)):
            data = value.encode() if isinstance(value, str) else value
            feature = _field(1, _field(1, data))
        elif isinstance(value, float):
            feature = _field(2, _field(1, struct.pack("<f", value)))
        else:
            numbers = value if isinstance(value, list) else [value]
            feature = _field(3, _field(1, b"".join(map(_varint, numbers))))
        pairs += _field(1, _field(1, name.replace("__", "/").encode()) + _field(2, feature))
    return _field(1, pairs)


_MAGIC = struct.pack("<I", 0xCED7230A)


def recordio(records: list[bytes]) -> tuple[bytes, list[int]]:
    """The file, and the offset of each record. Data is split where the magic number is at a multiple of 4."""
    out, begins = b"", []
    for data in records:
        begins.append(len(out))
        cuts = [at for at in range(0, len(data) - 3, 4) if data[at : at + 4] == _MAGIC]
        pieces = [data[a:b] for a, b in zip([0, *(cut + 4 for cut in cuts)], [*cuts, len(data)], strict=True)]
        for number, piece in enumerate(pieces):
            kind = 0 if len(pieces) == 1 else 1 if number == 0 else 3 if number == len(pieces) - 1 else 2
            out += _MAGIC + struct.pack("<I", kind << 29 | len(piece)) + piece + bytes(-len(piece) % 4)
    return out, begins


def packed_picture(label: float | list[float], picture: bytes, key: int = 0) -> bytes:
    """An image with its label or labels, in the format of a record."""
    several = label if isinstance(label, list) else []
    head = struct.pack("<IfQQ", len(several), 0.0 if several else label, key, 0)
    return head + struct.pack(f"<{len(several)}f", *several) + picture
