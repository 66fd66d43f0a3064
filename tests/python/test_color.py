"""Matrix and range come from the stream: squares of known color against ITU-T H.273 and the ffmpeg program's zscale."""

from __future__ import annotations

import subprocess

import framespool as fsp
import numpy as np
import pytest

#: Luma weights of red and blue (ITU-T H.273, table 4).
WEIGHTS = {"smpte170m": (0.299, 0.114), "bt709": (0.2126, 0.0722), "bt2020nc": (0.2627, 0.0593)}


def squares(bits: int) -> np.ndarray:
    """Y', Cb and Cr of the recipe's 128x64 pixels, float64 of shape (3, 64, 128)."""
    y, x = np.mgrid[0:64, 0:128]
    unit = 1 << (bits - 8)
    luma = (16 + x // 16 * 31) * unit
    return np.stack([luma, (16 + y // 16 * 74) * unit, (240 - (x + y) // 32 * 44) * unit]).astype(float)


def exact_rgb(planes: np.ndarray, matrix: str, full_range: bool, bits: int) -> np.ndarray:
    """8-bit R'G'B' of shape (64, 128, 3), not rounded: ITU-T H.273, equations 20 to 31 and 38 to 44, solved for it."""
    red, blue = WEIGHTS[matrix]
    unit, top = 1 << (bits - 8), (1 << bits) - 1
    luma = planes[0] / top if full_range else (planes[0] - 16 * unit) / (219 * unit)
    cb, cr = ((plane - 128 * unit) / (top if full_range else 224 * unit) for plane in planes[1:])
    r, b = luma + 2 * (1 - red) * cr, luma + 2 * (1 - blue) * cb
    g = (luma - red * r - blue * b) / (1 - red - blue)
    return np.clip(255 * np.stack([r, g, b], axis=-1), 0, 255)


@pytest.mark.parametrize("matrix", WEIGHTS)
@pytest.mark.parametrize(("range_", "bits"), [("tv", 8), ("pc", 8), ("tv", 10)])
def test_colors_follow_the_streams_matrix_and_range(videos, encoder, matrix, range_, bits):
    path = videos / "odd" / f"squares_{matrix}_{range_}_{bits}bit.mp4"
    found = fsp.Video(path)[0].numpy().astype(float)
    exact = exact_rgb(squares(bits), matrix, range_ == "pc", bits)
    assert np.abs(found - exact).max() <= 1
    # Another matrix or range is far away: the stream's tags are what is tested.
    for other in WEIGHTS:
        for full in (False, True):
            if (other, full) != (matrix, range_ == "pc"):
                assert np.abs(found - exact_rgb(squares(bits), other, full, bits)).max() > 4
    command = [encoder, "-v", "error", "-i", path, "-vf", "zscale=matrix=gbr:range=full:dither=none,format=gbrp"]
    said = subprocess.run(
        [*command, "-f", "rawvideo", "-"], check=True, capture_output=True, stdin=subprocess.DEVNULL
    ).stdout
    green, blue, red = np.frombuffer(said, np.uint8).reshape(3, 64, 128).astype(float)
    assert np.abs(found - np.stack([red, green, blue], axis=-1)).max() <= 1
