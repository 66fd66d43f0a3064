"""Converts decoded planes to the exact RGB of framespool (``kernels/SPEC.md``, without transforms)."""

from __future__ import annotations

import re

import numpy as np

#: Luma weights of red and blue (ITU-T H.273, table 4); unspecified is BT.601.
WEIGHTS = {
    "bt709": (0.2126, 0.0722),
    "bt2020nc": (0.2627, 0.0593),
    "fcc": (0.30, 0.11),
    "smpte240m": (0.212, 0.087),
}
BT601 = (0.299, 0.114)
#: Packed formats: byte offsets of red, green and blue in a pixel, and bytes per pixel.
PACKED = {
    "rgb24": ((0, 1, 2), 3),
    "bgr24": ((2, 1, 0), 3),
    "rgba": ((0, 1, 2), 4),
    "bgra": ((2, 1, 0), 4),
    "argb": ((1, 2, 3), 4),
    "abgr": ((3, 2, 1), 4),
    "rgb0": ((0, 1, 2), 4),
    "bgr0": ((2, 1, 0), 4),
    "0rgb": ((1, 2, 3), 4),
    "0bgr": ((3, 2, 1), 4),
}
PLANAR = re.compile(r"(yuvj?|yuva|gray)(4\d\d)?p?(\d+)?(le)?")
#: Right shifts of chroma's width and height.
CHROMA = {"420": (1, 1), "422": (1, 0), "444": (0, 0), "440": (0, 1), "411": (2, 0), "410": (2, 2)}


class UnknownFormat(ValueError):
    """A pixel format that this module does not convert."""


def frame_bytes(pix_fmt: str, width: int, height: int) -> int:
    """Bytes of one frame in a raw file of the ffmpeg program."""
    if pix_fmt in PACKED:
        return width * height * PACKED[pix_fmt][1]
    if pix_fmt == "pal8":
        return width * height + 1024
    if pix_fmt == "gbrp":
        return 3 * width * height
    kind, across, down, bits = _planar(pix_fmt)
    samples = width * height
    if kind != "gray":
        samples += 2 * (-(-width >> across)) * (-(-height >> down))
    if kind == "yuva":
        samples += width * height
    return samples * (1 if bits == 8 else 2)


def _planar(pix_fmt: str) -> tuple[str, int, int, int]:
    found = PLANAR.fullmatch(pix_fmt)
    if not found or (found[1] != "gray" and found[2] not in CHROMA):
        raise UnknownFormat(pix_fmt)
    across, down = CHROMA.get(found[2] or "444", (0, 0))
    return found[1], across, down, int(found[3] or 8)


def rgb(data: bytes, pix_fmt: str, width: int, height: int, matrix: str, full_range: bool) -> np.ndarray:
    """RGB of one raw frame.

    Args:
        data: the planes, concatenated, rows without padding.
        pix_fmt: FFmpeg's name of the pixel format.
        width: pixels of a row.
        height: rows.
        matrix: FFmpeg's name of the color matrix; BT.601 unless it is among `WEIGHTS`.
        full_range: whether luma uses all code values.

    Returns:
        uint8, shape (height, width, 3).

    Raises:
        UnknownFormat: for a pixel format that this module does not convert.
    """
    if pix_fmt in PACKED:
        places, count = PACKED[pix_fmt]
        return np.frombuffer(data, np.uint8).reshape(height, width, count)[..., list(places)]
    if pix_fmt == "pal8":
        pixels = np.frombuffer(data, np.uint8, width * height).reshape(height, width)
        colors = np.frombuffer(data, np.uint8, 1024, width * height).reshape(256, 4)[:, [2, 1, 0]]
        return colors[pixels]
    if pix_fmt == "gbrp":
        green, blue, red = np.frombuffer(data, np.uint8).reshape(3, height, width)
        return np.stack([red, green, blue], axis=-1)
    kind, across, down, bits = _planar(pix_fmt)
    samples = np.frombuffer(data, np.uint8 if bits == 8 else "<u2").astype(np.int64)
    luma = samples[: width * height].reshape(height, width) << (15 - bits)
    full = 255 / 256 * 2**bits / (2**bits - 1)
    scale, chroma_scale = (full, full) if full_range else (255 / 219, 255 / 224)
    luma = luma - (0 if full_range else 2048)
    if kind == "gray":
        columns = [luma]
        rows = [[scale]] * 3
    else:
        narrow, low = -(-width >> across), -(-height >> down)
        planes = samples[width * height : width * height + 2 * narrow * low].reshape(2, low, narrow) << (15 - bits)
        planes = planes.repeat(1 << down, axis=1).repeat(1 << across, axis=2)[:, :height, :width] - 16384
        columns = [luma, planes[0], planes[1]]
        red, blue = WEIGHTS.get(matrix, BT601)
        green = 1 - red - blue
        rows = [
            [scale, 0, 2 * chroma_scale * (1 - red)],
            [scale, -2 * chroma_scale * (1 - blue) * blue / green, -2 * chroma_scale * (1 - red) * red / green],
            [scale, 2 * chroma_scale * (1 - blue), 0],
        ]
    # 13 fractional bits, ties away from zero; the components have 7 more bits.
    factors = [[int(np.copysign(np.floor(abs(value) * 8192 + 0.5), value)) for value in row] for row in rows]
    out = [sum(factor * column for factor, column in zip(row, columns, strict=True)) for row in factors]
    return np.clip((np.stack(out, axis=-1) + (1 << 19)) >> 20, 0, 255).astype(np.uint8)
