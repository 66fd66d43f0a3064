"""Frames that share a Matroska block (lacing), in files built here: their times with and without DefaultDuration."""

from __future__ import annotations

import io
import struct

import framespool as fsp
import numpy as np
import pytest
from PIL import Image

FRAME_MS = 40


def element(name: int, data: bytes) -> bytes:
    """An EBML element with a size of eight bytes."""
    return name.to_bytes((name.bit_length() + 7) // 8, "big") + (1 << 56 | len(data)).to_bytes(8, "big") + data


def number(value: int) -> bytes:
    return value.to_bytes(4, "big")


def block(milliseconds: int, frames: list[bytes]) -> bytes:
    """A SimpleBlock of track 1, laced as in Xiph's formats."""
    sizes = b"".join(b"\xff" * (len(frame) // 255) + bytes([len(frame) % 255]) for frame in frames[:-1])
    lacing = bytes([len(frames) - 1]) + sizes
    head = b"\x81" + struct.pack(">hB", milliseconds, 0x82)
    return element(0xA3, head + lacing + b"".join(frames))


def matroska(frames: list[bytes], per_block: int, default_duration_ms: int | None) -> bytes:
    video = element(0xE0, element(0xB0, number(64)) + element(0xBA, number(64)))
    duration = element(0x23E383, number(default_duration_ms * 1_000_000)) if default_duration_ms else b""
    track = element(0xD7, number(1)) + element(0x73C5, number(1)) + element(0x83, number(1))
    track += element(0x9C, number(1)) + element(0x86, b"V_MJPEG") + duration + video
    starts = range(0, len(frames), per_block)
    blocks = b"".join(block(FRAME_MS * at, frames[at : at + per_block]) for at in starts)
    info = element(0x1549A966, element(0x2AD7B1, number(1_000_000)))
    cluster = element(0x1F43B675, element(0xE7, number(0)) + blocks)
    head = element(0x1A45DFA3, element(0x4282, b"matroska") + element(0x4287, number(4)) + element(0x4285, number(2)))
    return head + element(0x18538067, info + element(0x1654AE6B, element(0xAE, track)) + cluster)


@pytest.fixture(scope="module")
def jpegs() -> list[bytes]:
    """Large enough that libavformat estimates a frame rate before the end of the file."""
    noise = np.random.default_rng(1).integers(0, 256, (240, 64, 64, 3), dtype=np.uint8)
    files = [io.BytesIO() for _ in noise]
    for pixels, file in zip(noise, files, strict=True):
        Image.fromarray(pixels).save(file, "JPEG", quality=98)
    return [file.getvalue() for file in files]


@pytest.mark.parametrize("default_duration_ms", [None, FRAME_MS])
@pytest.mark.parametrize("per_block", [2, 3, 5])
@pytest.mark.parametrize("count", [30, 240])
def test_frames_of_a_lace_follow_each_other_evenly(jpegs, count, per_block, default_duration_ms):
    video = fsp.Video(matroska(jpegs[:count], per_block, default_duration_ms))
    assert len(video) == count
    expected = np.arange(count) * FRAME_MS / 1000
    assert np.abs(np.asarray(video.pts_seconds) - expected).max() < 1e-9
    assert video.info.duration_seconds == pytest.approx(count * FRAME_MS / 1000)
