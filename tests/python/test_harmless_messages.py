"""Errors of libavcodec that concern no pixel: the frames are delivered, and equal those of a file without them."""

from __future__ import annotations

import functools
import re
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import framespool as fsp
import numpy as np
import pytest

FRAMES = 8


def encode(encoder: str, output: str, *options: str) -> bytes:
    source = f"testsrc2=size=96x64:rate=25,trim=end_frame={FRAMES}"
    command = [encoder, "-v", "error", "-f", "lavfi", "-i", source, *options, "-threads", "1", "-f", output, "-"]
    return subprocess.run(command, check=True, capture_output=True).stdout


def units(stream: bytes) -> list[bytes]:
    """NAL units, or sections of MPEG video, without their start codes."""
    return [unit.rstrip(b"\0") if unit[-1:] == b"\0" else unit for unit in re.split(b"\0?\0\0\1", stream)[1:]]


def joined(parts: list[bytes]) -> bytes:
    return b"".join(b"\0\0\0\1" + part for part in parts)


def bits_of(unit: bytes) -> str:
    """The bits of an H.264 or HEVC unit up to its stop bit."""
    plain = re.sub(b"\0\0\3", b"\0\0", unit)
    return "".join(f"{byte:08b}" for byte in plain).rstrip("0")[:-1]


def unit_of(bits: str) -> bytes:
    bits += "1"
    bits += "0" * (-len(bits) % 8)
    plain = bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits), 8))
    return re.sub(rb"\0\0(?=[\0-\3])", b"\0\0\3", plain)


def before_pictures(stream: bytes, extra: bytes, *, hevc: bool = False) -> bytes:
    """Inserts a unit before each picture."""
    out = []
    for unit in units(stream):
        kind = unit[0] >> 1 & 63 if hevc else unit[0] & 31
        if kind < 32 if hevc else kind in (1, 5):
            out.append(extra)
        out.append(unit)
    return joined(out)


def behind_pictures(stream: bytes, extra: bytes) -> bytes:
    out = []
    for unit in units(stream):
        out.append(unit)
        if unit[0] >> 1 & 63 < 32:
            out.append(extra)
    return joined(out)


def without_time_scale(stream: bytes) -> bytes:
    ticks = f"{1:032b}{50:032b}"

    def change(bits: str) -> str:
        assert bits.count(ticks) == 1
        return bits.replace(ticks, f"{1:032b}{0:032b}")

    return joined([unit_of(change(bits_of(unit))) if unit[0] & 31 == 7 else unit for unit in units(stream)])


def with_wrong_picture_structure(stream: bytes) -> bytes:
    """Picture timing messages with the reserved structure 15."""
    out = []
    for unit in units(stream):
        if unit[:2] == b"\x06\x01":
            unit = unit[:3] + bytes([unit[3] | 0xF0]) + unit[4:]
        out.append(unit)
    return joined(out)


def with_three_layers(stream: bytes) -> bytes:
    """Video parameter sets with an extension for three layers, except the first one, which is read before decoding."""
    out: list[bytes] = []
    for unit in units(stream):
        if unit[0] >> 1 == 32 and out:
            bits = bits_of(unit)
            assert bits[-1] == "0"  # vps_extension_flag
            unit = unit_of(bits[:22] + f"{2:06b}" + bits[28:-1] + "1" + "1" * 16)
        out.append(unit)
    return joined(out)


def images_of(stream: bytes) -> list[bytes]:
    return [b"\xff\xd8" + image for image in stream.split(b"\xff\xd8")[1:]]


def with_broken_exif(stream: bytes) -> bytes:
    return stream.replace(b"\xff\xd8", b"\xff\xd8\xff\xe1\0\x12Exif\0\0no TIFF!!")


def with_endless_segment(stream: bytes) -> bytes:
    """A segment APP0 that claims more bytes than there are."""
    return stream.replace(b"\xff\xd8", b"\xff\xd8\xff\xe0\xff\xffAVI1\0\0")


def without_aspect(stream: bytes) -> bytes:
    """Sequence headers with the forbidden aspect ratio 0."""
    return re.sub(rb"(\0\0\x01\xb3...)(.)", lambda found: found[1] + bytes([found[2][0] & 15]), stream, flags=re.S)


def not_progressive(stream: bytes) -> bytes:
    """Interlaced pictures in a progressive sequence."""
    change = lambda found: found[1] + bytes([found[2][0] & 127])  # noqa: E731
    return re.sub(rb"(\0\0\x01\xb5[\x80-\x8f]...)(.)", change, stream, flags=re.S)


def with_low_delay(stream: bytes) -> bytes:
    """A video object layer without control parameters, which excludes bidirectional pictures in this profile."""
    at = stream.index(b"\0\0\1\x20") + 4
    end = stream.index(b"\0\0\1", at)
    bits = "".join(f"{byte:08b}" for byte in stream[at:end])
    aspect = 1 + 8 + 1 + 7 * int(bits[9])
    control = aspect + 4 + 16 * (bits[aspect : aspect + 4] == "1111")
    assert bits[control] == "1" and bits[control + 3 : control + 5] == "00"  # low_delay, vbv_parameters
    bits = bits[:control] + "0" + bits[control + 5 :]
    # Stuffing is a zero and ones up to the next byte.
    bits = bits.rstrip("1")
    bits += "1" * (-len(bits) % 8)
    return stream[:at] + bytes(int(bits[n : n + 8], 2) for n in range(0, len(bits), 8)) + stream[end:]


def ivf_packets(ivf: bytes, change: Callable[[int, bytes], bytes]) -> bytes:
    """An IVF file with changed packets, of which each begins with a temporal delimiter."""
    out, at, number = [ivf[:32]], 32, 0
    while at < len(ivf):
        size, pts = struct.unpack_from("<IQ", ivf, at)
        packet = change(number, ivf[at + 12 : at + 12 + size])
        out.append(struct.pack("<IQ", len(packet), pts) + packet)
        at += 12 + size
        number += 1
    return b"".join(out)


def with_unit(unit: bytes) -> Callable[[bytes], bytes]:
    def change(_: int, packet: bytes) -> bytes:
        assert packet[:2] == b"\x12\0"
        return packet[:2] + unit + packet[2:]

    return lambda ivf: ivf_packets(ivf, change)


H264 = ("h264", ["-c:v", "libx264", "-g", "8", "-bf", "2"], "h264")
X265 = "log-level=none:keyint=4:bframes=2:open-gop=0:repeat-headers=1"
HEVC = ("hevc", ["-c:v", "libx265", "-x265-params", X265], "h265")
MPEG2 = ("mpeg2video", ["-c:v", "mpeg2video", "-g", "4", "-bf", "1"], "m2v")
JPEG = ("mjpeg", ["-c:v", "mjpeg", "-pix_fmt", "yuvj420p"], "avi")
AV1 = ("ivf", ["-c:v", "libaom-av1", "-cpu-used", "8", "-g", "8", "-lag-in-frames", "0"], "ivf")


def sei(*message: int) -> bytes:
    return bytes((6, *message, 0x80))


CASES: dict[str, tuple[tuple[str, list[str], str], Callable[[bytes], bytes]]] = {
    "H.264, message longer than its unit": (H264, lambda s: before_pictures(s, sei(5, 32, *range(1, 19)))),
    "H.264, buffering period of an unknown set": (H264, lambda s: before_pictures(s, sei(0, 2, 0x24, 0x24, 5, 1, 9))),
    "H.264, picture timing of 60 bytes": (H264, lambda s: before_pictures(s, sei(1, 60, *range(1, 61)))),
    "H.264, recovery in 70000 frames": (H264, lambda s: before_pictures(s, sei(6, 5, 0, 0, 0x88, 0xB8, 0x90))),
    "H.264, reserved picture structure": (
        ("h264", [*H264[1], "-x264-params", "pic-struct=1"], "h264"),
        with_wrong_picture_structure,
    ),
    "H.264, time scale 0": (H264, without_time_scale),
    "HEVC, unit type 62": (HEVC, lambda s: behind_pictures(s, bytes((62 << 1, 1, *range(1, 40), 0x80)))),
    "HEVC, active parameter sets": (
        HEVC,
        lambda s: before_pictures(s, bytes((78, 1, 129, 2, 0, 0x2B, 0x80)), hevc=True),
    ),
    "HEVC, three layers": (HEVC, with_three_layers),
    "AV1, reserved unit": (AV1, with_unit(b"\x4a\3abc")),
    "AV1, unknown metadata": (AV1, with_unit(b"\x2a\3\x7f\1\x80")),
    "AV1, T.35 of one byte": (AV1, with_unit(b"\x2a\3\4\xb5\x80")),
    "MPEG-2, aspect ratio 0": (MPEG2, without_aspect),
    "MPEG-2, interlaced in a progressive sequence": (MPEG2, not_progressive),
    "MPEG-1, aspect ratio 0": (("mpeg1video", ["-c:v", "mpeg1video", "-g", "4"], "m1v"), without_aspect),
    "MPEG-4, B pictures with low delay": (("m4v", ["-c:v", "mpeg4", "-bf", "2", "-g", "6"], "mkv"), with_low_delay),
    "Motion JPEG, broken EXIF": (JPEG, with_broken_exif),
    "Motion JPEG, endless APP0": (JPEG, with_endless_segment),
}


def written(path: Path, encoder: str, output: str, stream: bytes) -> Path:
    """Writes a stream to a file, in a container or as it is."""
    if path.suffix == ".avi":
        return avi(path, images_of(stream))
    if path.suffix != ".mkv":
        path.write_bytes(stream)
    else:
        options = ["-v", "error", "-y", "-r", "25", "-f", output, "-i", "-", "-c", "copy", path]
        subprocess.run([encoder, *options], input=stream, check=True)
    return path


@pytest.mark.parametrize("name", CASES)
def test_frames_are_those_of_the_file_without_the_message(encoder, tmp_path, name):
    (output, options, extension), change = CASES[name]
    stream = encode(encoder, output, *options)
    changed = change(stream)
    assert changed != stream
    want = fsp.Video(written(tmp_path / f"usual.{extension}", encoder, output, stream), layout="THWC")
    for num_threads in (1, 2):
        video = fsp.Video(
            written(tmp_path / f"odd.{extension}", encoder, output, changed), num_threads=num_threads, layout="THWC"
        )
        assert len(video) == len(want) >= FRAMES - 1
        every = range(len(want))
        assert np.array_equal(video.frames(every).frames.numpy(), want.frames(every).frames.numpy())


@pytest.mark.parametrize("num_threads", [1, 2])
def test_frame_whose_av1_unit_has_a_damaged_type_is_an_error(encoder, tmp_path, num_threads):
    # Decoders ignore reserved types, so the frame is lost, and those that refer to it would be wrong.
    stream = encode(encoder, AV1[0], *AV1[1])
    damaged = functools.partial(damage_type, at=5)
    path = tmp_path / "a.ivf"
    path.write_bytes(ivf_packets(stream, damaged))
    video = fsp.Video(path, num_threads=num_threads, layout="THWC")
    want = fsp.Video(written(tmp_path / "b.ivf", encoder, "ivf", stream), layout="THWC")
    assert len(want) == FRAMES
    outcomes = []
    for number in range(len(video)):
        try:
            outcomes.append(np.array_equal(video[number].numpy(), want[number].numpy()))
        except fsp.errors.DecodeError:
            outcomes.append(None)
    assert False not in outcomes and outcomes.count(None) == 3


def damage_type(number: int, packet: bytes, *, at: int) -> bytes:
    if number != at:
        return packet
    assert packet[2] >> 3 & 15 == 6  # a frame
    return packet[:2] + bytes([packet[2] & 0x87 | 9 << 3]) + packet[3:]


def test_picture_in_a_segment_of_wrong_length_is_not_delivered(encoder, tmp_path):
    # The decoder searches for the next marker within the segment, and would find the thumbnail.
    stream = encode(encoder, "mjpeg", *JPEG[1])
    images = images_of(stream)
    source = "testsrc=size=32x16:rate=25,trim=end_frame=1"
    command = [encoder, "-v", "error", "-f", "lavfi", "-i", source, "-c:v", "mjpeg", "-f", "mjpeg", "-"]
    thumbnail = subprocess.run(command, check=True, capture_output=True).stdout
    images[3] = b"\xff\xd8\xff\xe1\xff\xfe" + thumbnail + images[3][2:]
    video = fsp.Video(avi(tmp_path / "a.avi", images), layout="THWC")
    with pytest.raises(fsp.errors.DecodeError):
        video[3]
    assert video[2].shape == video[4].shape == (64, 96, 3)


def avi(path: Path, images: list[bytes]) -> Path:
    """Writes an AVI file of JPEG images, without an index."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)

    main = struct.pack("<14I", 40000, 0, 0, 0, len(images), 0, 1, 0, 96, 64, 0, 0, 0, 0)
    stream = b"vidsMJPG" + struct.pack("<10I4H", 0, 0, 0, 1, 25, 0, len(images), 0, 0, 0, 0, 0, 96, 64)
    picture = struct.pack("<IiiHH4sIiiII", 40, 96, 64, 1, 24, b"MJPG", 0, 0, 0, 0, 0)
    strl = chunk(b"LIST", b"strl" + chunk(b"strh", stream) + chunk(b"strf", picture))
    movie = b"movi" + b"".join(chunk(b"00dc", image) for image in images)
    body = chunk(b"LIST", b"hdrl" + chunk(b"avih", main) + strl) + chunk(b"LIST", movie)
    path.write_bytes(chunk(b"RIFF", b"AVI " + body))
    return path
