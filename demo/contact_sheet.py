"""Draws clips as one image: one row per clip, time from left to right, the label at the side."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np

_GAP = 4
_LABEL_WIDTH = 84

# Five rows of three pixels per character, one digit per row; large enough to read a class name.
_FONT = """
    a25755 b65656 c34443 d65556 e74647 f74644 g34753 h55755 i72227 j11153 k55655 l44447 m57755 n65555
    o25552 p65644 q25563 r65655 s34216 t72222 u55557 v55552 w55775 x55255 y55222 z71247 075557 126227
    271747 371317 455711 574717 674757 771122 875757 975717 _00007 -00700
"""
_GLYPHS = {glyph[0]: glyph[1:] for glyph in _FONT.split()}


def _letter(character: str) -> np.ndarray:
    rows = _GLYPHS.get(character.lower(), "00000")
    return np.array([[int(bit) for bit in f"{int(row):03b}"] for row in rows], np.uint8)


def _text(words: str, height: int) -> np.ndarray:
    """White text on dark gray; each pixel of a glyph becomes a square of nine."""
    strip = np.full((height, _LABEL_WIDTH, 3), 40, np.uint8)
    x = 4
    for character in words:
        glyph = np.kron(_letter(character), np.ones((3, 3), np.uint8))
        if x + glyph.shape[1] > _LABEL_WIDTH:
            break
        y = (height - glyph.shape[0]) // 2
        strip[y : y + glyph.shape[0], x : x + glyph.shape[1]][glyph > 0] = 255
        x += glyph.shape[1] + 2
    return strip


def write_png(path: Path, picture: np.ndarray) -> None:
    """``picture``: (H, W, 3) uint8."""
    height, width, _ = picture.shape
    lines = b"".join(b"\0" + row.tobytes() for row in picture)

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    )


def contact_sheet(path: Path, clips: np.ndarray, labels: list[str]) -> None:
    """``clips``: (N, T, H, W, 3) uint8; every second frame of each is shown."""
    rows = []
    for clip, label in zip(clips, labels, strict=True):
        frames = [np.pad(frame, ((0, 0), (0, _GAP), (0, 0))) for frame in clip[::2]]
        row = np.concatenate([_text(label, clip.shape[1]), *frames], axis=1)
        rows.append(np.pad(row, ((0, _GAP), (0, 0), (0, 0))))
    write_png(path, np.concatenate(rows))
