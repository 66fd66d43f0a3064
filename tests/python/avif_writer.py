"""Writes AVIF files of given AV1 data, also those that Pillow does not write: 10 bits, grids, and wrong ones."""

from __future__ import annotations

import struct
from collections.abc import Sequence


def box(kind: str, *content: bytes) -> bytes:
    body = b"".join(content)
    return struct.pack(">I4s", len(body) + 8, kind.encode()) + body


def full(kind: str, *content: bytes, version: int = 0) -> bytes:
    return box(kind, bytes((version, 0, 0, 0)), *content)


def ispe(width: int, height: int) -> bytes:
    return full("ispe", struct.pack(">II", width, height))


def config(*, deep: bool = False, gray: bool = False) -> bytes:
    """An av1C box, 4:2:0."""
    return box("av1C", bytes((0x81, 0, 0x40 * deep | 0x10 * gray | 0x0C, 0)))


def avif(
    items: Sequence[tuple[int, int, bytes, bytes]],
    *,
    essential: bytes = b"",
    grid: tuple[int, int, int, int] | None = None,
    endless: bool = False,
) -> bytes:
    """An AVIF of items (width, height, av1C, data), or of a grid: rows, columns, width and height.

    Args:
        items: The coded items.
        essential: A property that all readers must know.
        grid: The grid that joins all items; without it the first item is the picture.
        endless: Whether the meta box is the last one and has the size 0, which means: up to the end of the file.
    """
    kinds = ["av01"] * len(items) + (["grid"] if grid else [])
    payloads = [item[3] for item in items]
    properties, associations = [], []

    def associate(*boxes: bytes) -> None:
        start = len(properties)
        properties.extend(boxes)
        associations.append(bytes(0x80 | (start + n) for n in range(1, len(boxes) + 1)))

    for width, height, av1c, _ in items:
        associate(ispe(width, height), av1c, *([essential] if essential else []))
    idat = b""
    if grid:
        idat = struct.pack(">BBBBHH", 0, 0, grid[0] - 1, grid[1] - 1, *grid[2:])
        associate(ispe(*grid[2:]))
    infe = [full("infe", struct.pack(">HH4sx", n, 0, kind.encode()), version=2) for n, kind in enumerate(kinds, 1)]
    ipma = b"".join(struct.pack(">HB", n, len(list_)) + list_ for n, list_ in enumerate(associations, 1))

    def meta(start: int) -> bytes:
        locations, at = [], start
        for n, payload in enumerate(payloads, 1):
            locations.append(struct.pack(">HHHHII", n, 0, 0, 1, at, len(payload)))
            at += len(payload)
        if grid:
            locations.append(struct.pack(">HHHHII", len(kinds), 1, 0, 1, 0, len(idat)))
        parts = [
            full("hdlr", bytes(4), b"pict", bytes(13)),
            full("pitm", struct.pack(">H", len(kinds) if grid else 1)),
            full("iloc", struct.pack(">BBH", 0x44, 0, len(locations)), *locations, version=1),
            full("iinf", struct.pack(">H", len(infe)), *infe),
            box("iprp", box("ipco", *properties), full("ipma", struct.pack(">I", len(associations)), ipma)),
        ]
        if grid:
            tiles = struct.pack(f">HH{len(items)}H", len(kinds), len(items), *range(1, len(items) + 1))
            parts += [full("iref", box("dimg", tiles)), box("idat", idat)]
        return full("meta", *parts)

    head = box("ftyp", b"mif1", bytes(4), b"mif1avifmiaf")
    if endless:
        return head + box("mdat", *payloads) + bytes(4) + meta(len(head) + 8)[4:]
    start = len(head) + len(meta(0)) + 8
    return head + meta(start) + box("mdat", *payloads)
