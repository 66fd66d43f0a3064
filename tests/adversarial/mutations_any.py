"""Mutations of any file, and of files that the ffmpeg program writes."""

from __future__ import annotations

import struct
from pathlib import Path

from adversarial import mp4
from adversarial.bases import Base
from adversarial.mutation import Material, mutation

#: Containers into which the ffmpeg program can copy packets.
MUXERS = ("mp4", "fragments", "mkv", "ts", "ps", "avi", "flv", "ivf", "asf", "ogg")


# ---- any file --------------------------------------------------------------------------------------------------------


@mutation("same", weight=0.3)
def intact(m: Material) -> tuple[bytes, str]:
    """No change."""
    return m.data, ""


@mutation("lost", weight=2)
def cut(m: Material) -> tuple[bytes, str]:
    """The file is truncated."""
    at = m.draw.choice(m.payload)
    return m.data[:at], f"cut at byte {at} of {len(m.data)}"


@mutation("lost")
def cut_tail(m: Material) -> tuple[bytes, str]:
    """A few bytes are missing at the end."""
    count = m.draw.randint(1, 300)
    return m.data[:-count], f"{count} bytes removed"


@mutation("changed", weight=2)
def flip(m: Material) -> tuple[bytes, str]:
    """Some bits close to each other are flipped."""
    out, at = bytearray(m.data), m.draw.choice(m.payload)
    places = sorted({min(at + m.draw.randrange(48), len(out) - 1) for _ in range(m.draw.randint(1, 6))})
    for place in places:
        out[place] ^= 1 << m.draw.randrange(8)
    return bytes(out), f"bits in bytes {places}"


@mutation("changed")
def flip_head(m: Material) -> tuple[bytes, str]:
    """Some bits of the header are flipped."""
    out = bytearray(m.data)
    places = sorted({m.draw.randrange(min(len(out), 1024)) for _ in range(m.draw.randint(1, 4))})
    for place in places:
        out[place] ^= 1 << m.draw.randrange(8)
    return bytes(out), f"bits in bytes {places}"


@mutation("changed")
def zeros(m: Material) -> tuple[bytes, str]:
    """A range of zeros."""
    at, count = m.draw.choice(m.payload), m.draw.choice([4, 16, 64, 188, 512, 4096])
    count = min(count, len(m.data) - at)
    return m.data[:at] + bytes(count) + m.data[at + count :], f"{count} zeros at {at}"


@mutation("changed")
def inserted(m: Material) -> tuple[bytes, str]:
    """Inserted random bytes."""
    at, count = m.draw.choice(m.payload), m.draw.choice([1, 2, 16, 188, 1000])
    return m.data[:at] + m.draw.randbytes(count) + m.data[at:], f"{count} random bytes put in at {at}"


@mutation("changed")
def removed(m: Material) -> tuple[bytes, str]:
    """Missing bytes inside the file."""
    at, count = m.draw.choice(m.payload), m.draw.choice([1, 2, 16, 188, 1000])
    return m.data[:at] + m.data[at + count :], f"{count} bytes removed at {at}"


@mutation("changed")
def moved(m: Material) -> tuple[bytes, str]:
    """Two neighboring ranges are swapped."""
    size, at, data = m.draw.choice([16, 188, 1000]), m.draw.choice(m.payload), m.data
    swapped = data[:at] + data[at + size : at + 2 * size] + data[at : at + size] + data[at + 2 * size :]
    return swapped, f"twice {size} bytes at {at} exchanged"


@mutation("changed")
def head_number(m: Material) -> tuple[bytes, str]:
    """An unlikely value in the header."""
    at = m.draw.randrange(0, min(len(m.data) - 4, 1024))
    order = m.draw.choice("<>")
    (value,) = struct.unpack_from(f"{order}I", m.data, at)
    number = mp4.odd_number(value, m.draw)
    return m.data[:at] + struct.pack(f"{order}I", number) + m.data[at + 4 :], f"{number} ({order}) at byte {at}"


@mutation("same", weight=0.5)
def appended(m: Material) -> tuple[bytes, str]:
    """Bytes after the end."""
    tail = m.draw.choice([bytes(100), b"\xff" * 7, m.draw.randbytes(300), b"TAG" + bytes(125)])
    if m.base.container == "raw":
        tail = bytes(len(tail))  # other bytes belong to the last picture, where they are damage
    return m.data + tail, f"{len(tail)} bytes after the end"


@mutation("same", weight=1.5)
def concatenated(m: Material) -> tuple[bytes, str]:
    """Two files concatenated."""
    if m.base.has_fields and m.base.container == "ts":
        m.rule = "lost"  # The counters jump, and no decoder reports what is missing from a field.
    if m.draw.random() < 0.3:
        return m.data * 2, "twice"

    def fits(base: Base) -> bool:
        """Whether its packets are of the same codec; those of "intra" are of several."""
        same = (base.container, base.codec) == (m.base.container, m.base.codec)
        return same and (base.codec != "intra" or _stem(base) == _stem(m.base))

    other, data = m.partner(fits)
    return m.data + data, f"{other.name} behind it"


def _stem(base: Base) -> str:
    return base.name.partition(".")[0].partition("_")[0]


# ---- files that the ffmpeg program writes ----------------------------------------------------------------------------


def _suffix(m: Material) -> str:
    return Path(m.base.name).suffix


@mutation("changed", *MUXERS)
def dropped_packets(m: Material) -> tuple[bytes, str]:
    """Missing packets."""
    first, count = m.draw.randrange(m.base.frames), m.draw.choice([1, 1, 2, 5])
    return m.remuxed(
        f"-c copy -bsf:v noise=drop=between(n\\,{first}\\,{first + count - 1})", _suffix(m)
    ), f"packets {first} to {first + count - 1} dropped"


@mutation("same", *MUXERS, weight=2)
def other_times(m: Material) -> tuple[bytes, str]:
    """Packets with other timestamps: equal, missing, far away, jittered, in steps, negative."""
    n = m.draw.randrange(1, m.base.frames)
    change = m.draw.choice(
        [
            f"pts=if(eq(N\\,{n})\\,PREV_OUTPTS\\,PTS)",
            f"pts=PTS+if(gte(N\\,{n})\\,{m.draw.choice([1, 7, 1000, 90000, 10_000_000])}\\,0)",
            f"dts=if(eq(N\\,{n})\\,PREV_OUTDTS\\,DTS)",
            f"pts=if(eq(N\\,{n})\\,NOPTS\\,PTS)",
            f"pts=PTS-{m.draw.choice([1, 100, 5000, 100_000])}:dts=DTS-100000",
            "duration=0",
            f"duration=if(eq(N\\,{n})\\,0\\,DURATION)",
            f"pts=PTS+mod(N*{m.draw.choice([3, 7])}\\,5):dts=DTS",
            f"pts=PTS*{m.draw.choice([2, 1000])}:dts=DTS*2",
        ]
    )
    return m.remuxed(f"-c copy -bsf:v setts={change}", _suffix(m), before=m.draw.choice(["", "-copyts"])), change


@mutation("same", *MUXERS)
def begun_late(m: Material) -> tuple[bytes, str]:
    """A copy that starts inside a group of pictures."""
    start = round(m.draw.uniform(0.1, 0.9), 2)
    end = m.draw.choice(["", f" -t {m.draw.uniform(0.05, 0.4):.2f}"])
    if m.base.has_fields:
        m.rule = "lost"  # It may begin or end between two fields. The ffmpeg program then outputs fields of two frames.
    return m.remuxed(f"-c copy{end}", _suffix(m), before=f"-ss {start}"), f"-ss {start}{end}"


@mutation("same", *MUXERS)
def shifted(m: Material) -> tuple[bytes, str]:
    """A copy with offset timestamps."""
    offset = m.draw.choice([-5, 0.033, 2.5, 3600, 36000, 95442])
    return m.remuxed(f"-c copy -output_ts_offset {offset}", _suffix(m)), f"{offset} s later"


@mutation("streams", "mp4", "mkv", "ts", "avi", weight=1.5)
def several_streams(m: Material) -> tuple[bytes, str]:
    """Two or three video streams, in any order, and audio."""
    other, data = m.partner(lambda base: base.container == m.base.container and base.codec == m.base.codec)
    inputs = [(Path(m.base.name).suffix, m.data), (Path(other.name).suffix, data)]
    m.draw.shuffle(inputs)
    maps = "-map 0:v -map 1:v" + m.draw.choice(["", " -map 0:v"])
    marks = m.draw.choice(["", " -disposition:v:0 0 -disposition:v:1 default", " -disposition:v:1 0"])
    return m.remuxed(f"{maps} -c copy{marks}", _suffix(m), *inputs), f"{other.name}{marks}"


@mutation("same", "mp4", "mkv", "ts", "avi", "flv", "fragments")
def with_audio(m: Material) -> tuple[bytes, str]:
    """Audio in addition to the video, before it or shorter."""
    order = m.draw.choice(["-map 0:v -map 1:a", "-map 1:a -map 0:v"])
    length = m.draw.choice([0.2, 1.2, 3])
    codec = "mp2" if m.base.container in ("avi", "ts") else "aac"
    tone = m.remuxed(f"-t {length} -c:a {codec}", ".mka", before="-f lavfi -i sine=frequency=440")
    inputs = [(Path(m.base.name).suffix, m.data), (".mka", tone)]
    return m.remuxed(f"{order} -c copy", _suffix(m), *inputs), f"{length} s, {order}"


@mutation("same", "mp4", "mkv", "fragments", codecs=("h264", "hevc"))
def without_sets(m: Material) -> tuple[bytes, str]:
    """Parameter sets in the packets, not (only) in the header, or vice versa."""
    change = m.draw.choice(["dump_extra=freq=keyframe", "dump_extra=freq=all", "remove_extra=freq=all"])
    return m.remuxed(f"-c copy -bsf:v {change}", _suffix(m)), change


@mutation("same", "mp4", "mkv", "ts", "raw", codecs=("h264", "hevc", "mpeg12"), weight=1.5)
def other_sets(m: Material) -> tuple[bytes, str]:
    """Another encoder's stream appended, with its own parameter sets, in one track."""
    other, data = m.partner(lambda base: base.codec == m.base.codec and base.container == m.base.container)
    note = f"{other.name} appended in one track"
    if m.base.container == "raw":
        return m.data + data, note
    tag = " -tag:v hvc1" if (m.base.container, m.base.codec) == ("mp4", "hevc") else ""
    return m.remuxed(f"-c copy{tag}", _suffix(m), ("", m.data), ("", data), joined=True), note
