"""Mutations of packets and of codec headers, the same in several containers."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from random import Random

import streams

from adversarial import mp4, packets
from adversarial.mutation import Material, NotApplicable, mutation

#: Containers whose packets :func:`_payloads` finds.
ADDRESSED = ("mp4", "mkv", "avi", "flv", "ivf")


def _blocks(data: bytes) -> list[packets.Element]:
    return [e for e in packets.elements(data) if e.kind in (packets.SIMPLE_BLOCK, packets.BLOCK)]


def _payloads(m: Material) -> list[tuple[int, int]]:
    """(offset, size) of each video packet's payload."""
    container, data = m.base.container, m.data
    if container == "mp4":
        if not mp4.moov_is_last(data):
            raise NotApplicable
        return mp4.samples(data)
    if container == "avi":
        return [(at + 8, size) for at, size in packets.avi_chunks(data)]
    if container == "mkv":
        return [(block.body + 4, block.end - block.body - 4) for block in _blocks(data)]
    if container == "flv":
        tags = [tag for tag in packets.flv_tags(data) if packets.flv_has_picture(data, tag)]
        return [packets.flv_payload(data, tag) for tag in tags]
    found, at = [], 32
    for frame in packets.ivf_frames(data):
        found.append((at + 12, len(frame.payload)))
        at += 12 + len(frame.payload)
    return found


# ---- packets ---------------------------------------------------------------------------------------------------------


@mutation(
    "overwritten",
    *ADDRESSED,
    codecs=("h264", "hevc", "vp8", "vp9", "av1", "mpeg4", "mpeg12", "h263", "flv1"),
    weight=3,
)
def packet_overwritten(m: Material) -> tuple[bytes, str]:
    """The payload of a packet, or of two, consists of zeros, or only its beginning does."""
    every = [(at, size) for at, size in _payloads(m) if size > 20]  # not a placeholder
    chosen = sorted(m.draw.sample(range(len(every)), m.draw.choice([1, 1, 2])))
    most, out = m.draw.choice([None, None, 20, 200]), bytearray(m.data)
    for n in chosen:
        at, size = every[n]
        zeros = size if most is None else min(size, most)
        out[at : at + zeros] = bytes(zeros)
    return bytes(out), f"{'all' if most is None else most} bytes of packets {chosen} are zeros"


@mutation("changed", "mp4", "mkv", "avi", weight=1.5)
def packets_edited(m: Material) -> tuple[bytes, str]:
    """A packet stands in the place of the next one, or occurs twice."""
    every = _payloads(m)
    n = m.draw.randrange(1, len(every) - 1)  # without its first packet, a decoder does not start
    if m.base.container == "mp4":
        every[n], every[n + 1] = every[n + 1], every[n]
        return mp4.with_samples(m.data, every), f"packets {n} and {n + 1} exchanged"
    if m.base.container == "mkv":
        first, second = _blocks(m.data)[n : n + 2]
        if first.kind != packets.SIMPLE_BLOCK or first.end != second.begin:
            raise NotApplicable
        parts = m.data[: first.begin], m.data[first.begin : first.end], m.data[second.begin : second.end]
        return parts[0] + parts[2] + parts[1] + m.data[second.end :], f"blocks {n} and {n + 1} exchanged"
    (at, size), (other, other_size) = every[n], every[n + 1]
    chunk = m.data[at - 8 : at + size + size % 2]
    if m.draw.random() < 0.5:
        return packets.avi_with_inserted(m.data, at - 8, chunk), f"packet {n} twice"
    end = other + other_size + other_size % 2
    moved = m.data[: at - 8] + m.data[other - 8 : end] + chunk + m.data[end:]
    return packets.avi_with_inserted(moved, at - 8, b""), f"packets {n} and {n + 1} exchanged"


# ---- units that a decoder need not understand ------------------------------------------------------------------------

#: SEI messages that change pictures, their orientation, or where decoding may start (H.264 annex D, H.265 annex D):
#: recovery point, film grain, display orientation, hash of the picture.
EFFECTIVE_SEI = {6, 19, 47, 132}


def _sei_payload(draw: Random) -> tuple[bytes, str]:
    """SEI messages: whole, truncated, or of no bytes."""
    kind = draw.choice([n for n in range(210) if n not in EFFECTIVE_SEI])
    body = draw.randbytes(draw.choice([0, 1, 2, 17, 60]))
    stated = len(body) + draw.choice([0, 0, 0, 1, 5, 200])
    head = b"\xff" * (kind // 255) + bytes([kind % 255]) + b"\xff" * (stated // 255) + bytes([stated % 255])
    return head + body + draw.choice([b"\x80", b""]), f"SEI message {kind}, {len(body)} of {stated} bytes"


def _escaped(payload: bytes) -> bytes:
    """The payload of a NAL unit with emulation prevention bytes."""
    return re.sub(rb"\x00\x00(?=[\x00-\x03])", b"\x00\x00\x03", payload)


def _h264_unit(draw: Random) -> tuple[bytes, str]:
    if draw.random() < 0.7:
        payload, note = _sei_payload(draw)
        return b"\x06" + _escaped(payload), note
    kind = draw.choice([9, 12, 16, 17, 18, 22, 23, *range(24, 32)])
    return bytes([kind]) + _escaped(draw.randbytes(draw.choice([0, 1, 20]))), f"NAL unit of type {kind}"


def _hevc_unit(draw: Random) -> tuple[bytes, str]:
    if draw.random() < 0.7:
        payload, note = _sei_payload(draw)
        return b"\x4e\x01" + _escaped(payload), note
    kind = draw.choice([35, 38, *range(41, 48), *range(48, 64)])
    return bytes([kind << 1, 1]) + _escaped(draw.randbytes(draw.choice([0, 1, 20]))), f"NAL unit of type {kind}"


def _obu(draw: Random) -> tuple[bytes, str]:
    kind = draw.choice([5, 5, 9, 10, 12, 14, 15])
    body = draw.randbytes(draw.choice([1, 2, 17]))
    if kind == 5:  # of T.35 or an unknown kind; a decoder, FFmpeg's too, rejects packets with others that are truncated
        body = bytes([draw.choice([0, 4, 6, 31])]) + body[: draw.choice([0, 1, 16])]
    return bytes([kind << 3 | 2, len(body)]) + body, f"OBU of type {kind} with {len(body)} bytes"


def _jpeg_segment(draw: Random) -> tuple[bytes, str]:
    marker = draw.choice([0xE0, 0xE1, 0xE2, 0xE4, 0xE8, 0xED, 0xEF, 0xFE])
    names = {0xE0: b"JFIF\0", 0xE1: b"Exif\0\0", 0xE2: b"ICC_PROFILE\0", 0xED: b"Photoshop 3.0\0"}
    body = names.get(marker, b"") if draw.random() < 0.6 else b""
    body += draw.randbytes(draw.choice([0, 1, 9, 40]))
    return bytes([0xFF, marker]) + (len(body) + 2).to_bytes(2, "big") + body, f"marker {marker:02x}, {len(body)} bytes"


def _mpeg4_unit(draw: Random) -> tuple[bytes, str]:
    return b"\0\0\1\xb2" + bytes(draw.choices(range(1, 256), k=draw.choice([0, 1, 30]))), "user data"


def _with_unit(codec: str, sample: bytes, draw: Random) -> tuple[bytes, str]:
    """A sample of an MP4 with one more unit."""
    if codec in ("h264", "hevc"):
        unit, note = (_h264_unit if codec == "h264" else _hevc_unit)(draw)
        return len(unit).to_bytes(4, "big") + unit + sample, note
    if codec == "av1":
        unit, note = _obu(draw)
        return unit + sample, note
    if codec == "intra":
        segment, note = _jpeg_segment(draw)
        return sample[:2] + segment + sample[2:], note
    unit, note = _mpeg4_unit(draw)
    return unit + sample, note


@mutation("harmless", "mp4", codecs=("h264", "hevc", "av1", "mpeg4", "intra"), weight=4)
def unknown_unit(m: Material) -> tuple[bytes, str]:
    """SEI messages, NAL units, OBUs, APP segments and user data of any type, also truncated; in several containers."""
    data = m.data
    if not mp4.moov_is_last(data) or (m.base.codec == "intra" and not m.base.name.startswith("mjpeg")):
        raise NotApplicable
    count, notes = len(mp4.samples(data)), []
    for n in m.draw.sample(range(count), m.draw.choice([1, 2, count])):
        offset, size = mp4.samples(data)[n]
        sample, note = _with_unit(m.base.codec, data[offset : offset + size], m.draw)
        data = mp4.with_payload(data, n, sample)
        notes.append(f"{n}: {note}")
    suffixes = {
        "h264": [".mkv", ".ts", ".flv"],
        "hevc": [".mkv", ".ts"],
        "av1": [".mkv", ".ivf"],
        "mpeg4": [".avi", ".mkv"],
        "intra": [".avi", ".mkv"],
    }
    suffix = m.draw.choice([".mp4", ".mp4", *suffixes[m.base.codec]])
    m.same_frames_as = m.data
    if suffix != ".mp4":
        first, size = mp4.samples(data)[0]
        if suffix == ".ts" and data[first : first + size].startswith((b"\0\0\0\1", b"\0\0\1")):
            raise NotApplicable  # FFmpeg's muxer takes this length of the first unit for a start code
        end = Path(m.base.name).suffix
        m.same_frames_as = m.remuxed("-c copy", suffix, (end, m.data))
        data = m.remuxed("-c copy", suffix, (end, data))
        m.suffix = suffix
    return data, f"{suffix}, {'; '.join(notes[:3])}"


# ---- headers that change ---------------------------------------------------------------------------------------------


@mutation("same", "mp4", "flv", weight=3)
def configuration_changes(m: Material) -> tuple[bytes, str]:
    """Two streams with their own codec configurations in one track: two sample entries, or two sequence headers."""
    if m.base.container == "flv":
        if m.base.codec != "h264":
            raise NotApplicable
        other, data = m.partner(lambda base: (base.container, base.codec, base.size) == ("mp4", "h264", m.base.size))
        return streams.joined_flv(m.data, m.remuxed("-c copy", ".flv", (".mp4", data))), other.name
    same = (m.base.container, m.base.codec, m.base.size)
    other, data = m.partner(lambda base: (base.container, base.codec, base.size) == same)
    # Without edits, and in the layout that both need.
    first, second = (
        m.remuxed("-c copy -movflags -faststart -use_editlist 0", ".mov", (".mp4", each)) for each in (m.data, data)
    )
    m.suffix = ".mov"
    try:
        return streams.joined_mp4(first, second), other.name
    except (IndexError, struct.error) as error:
        raise NotApplicable from error  # one of them has no table of composition offsets or of sync samples


@mutation("same", "raw", codecs=("mpeg4", "mpeg12"), weight=3)
def headers_once(m: Material) -> tuple[bytes, str]:
    """Headers only before the first picture of each part, in a raw stream or in a container."""
    suffix = Path(m.base.name).suffix
    other, data = m.partner(lambda base: Path(base.name).suffix == suffix)
    once = streams.joined_with_layer_headers_once if m.base.codec == "mpeg4" else _sequence_headers_once
    joined = once(m.data, data)
    m.suffix = m.draw.choice([suffix, ".mkv", *([".avi", ".mp4"] if m.base.codec == "mpeg4" else [".ts"])])
    note = f"{other.name} behind it, {m.suffix}"
    if m.suffix == suffix:
        return joined, note
    before = f"-fflags +genpts -f {'m4v' if m.base.codec == 'mpeg4' else 'mpegvideo'} -framerate 25"
    return m.remuxed("-c copy", m.suffix, (suffix, joined), before=before), note


def _sequence_headers_once(*parts: bytes) -> bytes:
    """Raw streams of MPEG-1 or MPEG-2, each with its sequence header only before its first picture."""

    def once(data: bytes) -> bytes:
        units = re.split(rb"(?=\x00\x00\x01)", data)
        first = next(n for n, unit in enumerate(units) if unit[3:4] == b"\x00")
        kept, in_sequence = units[:first], False
        for unit in units[first:]:
            kind = unit[3:4]
            # Extensions belong to the header before them.
            in_sequence = kind == b"\xb3" or in_sequence and kind == b"\xb5"
            if not in_sequence and kind != b"\xb7":
                kept.append(unit)
        return b"".join(kept)

    return b"".join(map(once, parts))


# ---- containers that are not read ------------------------------------------------------------------------------------

#: For each muxer, the codecs whose packets it copies.
FOREIGN = {
    ".nut": {"h264", "hevc", "vp8", "vp9", "mpeg4", "mpeg12", "intra", "msmpeg4", "wmv", "h263", "flv1", "ffv1"},
    ".wtv": {"h264", "mpeg12", "mpeg4"},
    ".mxf": {"h264", "mpeg12"},
    ".swf": {"flv1"},
    ".mpjpeg": {"intra"},
    ".y4m": set(),
    ".gxf": set(),
    ".rm": set(),
    ".dv": set(),
}
#: Encoders for the muxers that copy nothing here.
ENCODED = {
    ".y4m": "-c:v rawvideo -pix_fmt yuv420p",
    ".gxf": "-c:v mpeg2video -s 720x480 -r 30000/1001",
    ".rm": "-c:v rv10 -s 96x64 -frames:v 4",
    ".dv": "-c:v dvvideo -s 720x480 -r 30000/1001 -pix_fmt yuv411p -frames:v 2",
}


@mutation("refused", "mp4", "mkv", "avi", "raw", "flv", "ps", weight=1.5)
def foreign_container(m: Material) -> tuple[bytes, str]:
    """A container that framespool does not read."""
    suffix = m.draw.choice([end for end, codecs in FOREIGN.items() if not codecs or m.base.codec in codecs])
    arguments = ENCODED.get(suffix, "-c copy -f mpjpeg" if suffix == ".mpjpeg" else "-c copy -strict unofficial")
    before = "-fflags +genpts" if m.base.container == "raw" else ""
    data = m.remuxed(arguments, suffix, before=before)
    # The name must not matter.
    m.suffix = m.draw.choice([suffix, ".mp4", ".mkv", ".mpg", ".m4v"])
    return data, f"{suffix}, named {m.suffix}"


@mutation("refused", "mp4", codecs=("h264", "hevc", "av1"))
def encrypted(m: Material) -> tuple[bytes, str]:
    """Common Encryption of an MP4."""
    key, identifier = m.draw.randbytes(16).hex(), m.draw.randbytes(16).hex()
    arguments = f"-c copy -encryption_scheme cenc-aes-ctr -encryption_key {key} -encryption_kid {identifier}"
    return m.remuxed(arguments, ".mp4"), "cenc"
