"""Mutations of a base file: one function per kind, with all random draws from the given generator.

A mutation takes a :class:`Material` and returns the bytes of the new file with a description. Its rule states
what is known about the result:

``same``
    Unusual but readable: if the oracle decodes it without an error, framespool must too, frame by
    frame, with the oracle's timestamps.
``changed``
    Bytes were changed, and may decode to anything that no decoder can distinguish from a good frame: a
    delivered frame must be the oracle's, or one of the intact file's.
``lost``
    Data is missing in a way that a reader can notice: a delivered frame must be one of the intact file's.
``streams``
    As ``same``, for one of several video streams.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import make
import streams

from adversarial import mp4, packets
from adversarial.bases import Base

ANNEXB = {"h264": "-bsf:v h264_mp4toannexb", "hevc": "-bsf:v hevc_mp4toannexb"}
#: Containers into which the ffmpeg program can copy packets.
MUXERS = ("mp4", "fragments", "mkv", "ts", "ps", "avi", "flv", "ivf", "asf", "ogg")


class NotApplicable(Exception):
    """The mutation does not fit this file; another one is drawn."""


@dataclass
class Material:
    """The input of a mutation.

    Attributes:
        base: the base file's description.
        data: its bytes.
        draw: the generator of all random draws.
        folder: folder of the bases.
        every: all bases by name.
    """

    base: Base
    data: bytes
    draw: Random
    folder: Path
    every: dict[str, Base]
    #: Further bases whose frames the result may contain.
    others: list[str] = field(default_factory=list)

    @property
    def payload(self) -> range:
        """A range of the file after its header."""
        return range(min(len(self.data) // 8, 2048), len(self.data))

    def partner(self, fits: Callable[[Base], bool]) -> tuple[Base, bytes]:
        """Another base, drawn among those that fit."""
        names = [name for name, base in self.every.items() if name != self.base.name and fits(base)]
        if not names:
            raise NotApplicable
        name = self.draw.choice(names)
        self.others.append(name)
        return self.every[name], (self.folder / name).read_bytes()

    def remuxed(
        self, arguments: str, suffix: str, *inputs: tuple[str, bytes], before: str = "", joined: bool = False
    ) -> bytes:
        """Output of the ffmpeg program.

        Args:
            arguments: of the output.
            suffix: of the output's name, which determines the container.
            inputs: suffix and bytes of each input; by default it reads the base.
            before: arguments in front of the first input.
            joined: whether the inputs are concatenated.
        """
        with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
            command = [*make.QUIET, "-v", "error", *before.split()]
            given = []
            for number, (end, data) in enumerate(inputs or [(Path(self.base.name).suffix, self.data)]):
                given.append(Path(folder) / f"{number}{end}")
                given[-1].write_bytes(data)
            if joined:
                listed = Path(folder) / "list"
                listed.write_text("".join(f"file '{path}'\n" for path in given))
                command += ["-f", "concat", "-safe", "0"]
                given = [listed]
            for path in given:
                command += ["-i", str(path)]
            out = Path(folder) / f"out{suffix}"
            try:
                make.run([*command, *arguments.split(), *make.EXACT, str(out)])
                made = out.read_bytes()
            except (RuntimeError, OSError) as error:
                raise NotApplicable from error
        # The oracle crashes in the text of service descriptions.
        return streams.without_service_descriptions(made) if suffix == ".ts" else made


@dataclass(frozen=True)
class Mutation:
    """A mutation with its rule and the containers and codecs that it supports (empty: all)."""

    name: str
    apply: Callable[[Material], tuple[bytes, str]]
    rule: str
    containers: frozenset[str]
    codecs: frozenset[str]
    #: Its weight when drawn.
    weight: float

    def fits(self, base: Base) -> bool:
        """Whether it can be drawn for this base."""
        return (not self.containers or base.container in self.containers) and (
            not self.codecs or base.codec in self.codecs
        )


ALL: list[Mutation] = []


def mutation(rule: str, *containers: str, codecs: tuple[str, ...] = (), weight: float = 1.0):
    """Registers a function in `ALL`."""

    def put(function: Callable[[Material], tuple[bytes, str]]):
        ALL.append(Mutation(function.__name__, function, rule, frozenset(containers), frozenset(codecs), weight))
        return function

    return put


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
    return m.data[:-count], f"{count} bytes cut off"


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
    return m.data + tail, f"{len(tail)} bytes after the end"


@mutation("same", weight=1.5)
def concatenated(m: Material) -> tuple[bytes, str]:
    """Two files concatenated."""
    if m.draw.random() < 0.3:
        return m.data * 2, "twice"
    other, data = m.partner(lambda base: (base.container, base.codec) == (m.base.container, m.base.codec))
    return m.data + data, f"{other.name} behind it"


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
def with_sound(m: Material) -> tuple[bytes, str]:
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


@mutation("same", "mp4", codecs=("h264",), weight=1.5)
def sets_at_any_packet(m: Material) -> tuple[bytes, str]:
    """Picture parameter sets that change at a non-key packet; in MP4, Matroska or a transport stream."""
    data = _tables(m)
    units = packets.units(m.remuxed(f"-c copy {ANNEXB['h264']} -f h264", ".h264"))
    sets = [unit[unit.find(b"\x01") + 1 :] for unit in units if packets.unit_kind(unit, "h264") == 8]
    key = set(mp4.sync_samples(data))
    inner = [n for n in range(len(mp4.samples(data))) if n + 1 not in key]
    if not sets or not inner:
        raise NotApplicable
    chosen, delta = sorted(m.draw.sample(inner, m.draw.choice([1, 2]))), m.draw.choice([0, 3, -3, 6])
    for n, change in zip(chosen, (delta, 0), strict=False):  # the second one reverts the change
        offset, size = mp4.samples(data)[n]
        unit = packets.with_other_chroma_qp(b"\x00\x00\x01" + sets[0], change)[3:]
        data = mp4.with_payload(data, n, struct.pack(">I", len(unit)) + unit + data[offset : offset + size])
    suffix = m.draw.choice([".mp4", ".mkv", ".ts"])
    note = f"quantizer of chroma {delta:+d} at sample {chosen[0] + 1}, {suffix}"
    if len(chosen) > 1:
        note += f", and back at {chosen[1] + 1}"
    if suffix != ".mp4":
        return m.remuxed("-c copy", suffix, (".mp4", data)), note
    entry = data.index(b"stsd")  # avc1 allows parameter sets only in the sample entry
    return data[:entry] + data[entry:].replace(b"avc1", b"avc3", 1), note


# ---- MP4 -------------------------------------------------------------------------------------------------------------


def _tables(m: Material) -> bytes:
    if not mp4.moov_is_last(m.data):
        raise NotApplicable
    return m.data


@mutation("changed", "mp4", "fragments", weight=3)
def table_number(m: Material) -> tuple[bytes, str]:
    """An unlikely value in a table or header."""
    kinds = mp4.TABLES if m.draw.random() < 0.75 else mp4.HEADERS
    box = m.draw.choice(mp4.of_kinds(m.data, kinds) or mp4.of_kinds(m.data, mp4.HEADERS))
    at = box.begin + 8 + 4 * m.draw.randrange(max(1, min(box.size - 8, 96) // 4))
    if at + 4 > len(m.data):
        raise NotApplicable
    (value,) = struct.unpack_from(">I", m.data, at)
    number = mp4.odd_number(value, m.draw)
    return mp4.with_number(m.data, at, number), f"{box.kind.decode()} at {at - box.begin}: {value} is {number}"


@mutation("changed", "mp4", "fragments")
def table_count(m: Material) -> tuple[bytes, str]:
    """A table with a wrong number of entries."""
    boxes = mp4.of_kinds(m.data, list(mp4.COUNTS))
    if not boxes:
        raise NotApplicable
    box = m.draw.choice(boxes)
    at = box.begin + mp4.COUNTS[box.kind]
    (value,) = struct.unpack_from(">I", m.data, at)
    number = m.draw.choice([0, max(value - 1, 0), value + 1, value + 50, 1 << 24, 20_000_000, 0x7FFFFFFF, 0xFFFFFFFF])
    return mp4.with_number(m.data, at, number), f"{box.kind.decode()} of {value} says {number}"


@mutation("changed", "mp4")
def endless_tables(m: Material) -> tuple[bytes, str]:
    """Tables of a few bytes that declare millions of samples."""
    count = m.draw.choice([100_000, 4_000_000, 20_000_000, 0x7FFFFFFF])
    return mp4.endless(_tables(m), count), f"{count} samples of one byte"


@mutation("changed", "mp4", "fragments")
def box_size(m: Material) -> tuple[bytes, str]:
    """A box with a wrong size."""
    box = m.draw.choice(list(mp4.boxes(m.data)))
    number = mp4.odd_number(box.size, m.draw)
    return mp4.with_number(m.data, box.begin, number), f"{box.kind!r} of {box.size} says {number}"


@mutation("same", "mp4", "fragments", weight=1.5)
def box_left_out(m: Material) -> tuple[bytes, str]:
    """A box that is not needed to find the samples is missing."""
    boxes = mp4.of_kinds(
        m.data, [b"stss", b"ctts", b"edts", b"elst", b"udta", b"vmhd", b"pasp", b"mfra", b"sidx", b"ftyp"]
    )
    if not boxes:
        raise NotApplicable
    box = m.draw.choice(boxes)
    return m.data[: box.begin + 4] + b"free" + m.data[box.begin + 8 :], f"no {box.kind.decode()}"


@mutation("same", "mp4", weight=1.5)
def zero_durations(m: Material) -> tuple[bytes, str]:
    """Samples of zero duration."""
    chosen: list[int] = []

    def change(values: list[int]) -> list[int]:
        count = m.draw.choice([1, 1, 2, len(values)])
        chosen.extend(m.draw.sample(range(len(values)), min(count, len(values))))
        return [0 if n in chosen else value for n, value in enumerate(values)]

    return mp4.edited_table(_tables(m), b"stts", change), f"samples {sorted(chosen)[:6]} last 0"


@mutation("same", "mp4", weight=1.5)
def other_offsets(m: Material) -> tuple[bytes, str]:
    """Composition offsets that make timestamps equal, negative or far away."""
    notes: list[str] = []

    def change(values: list[int]) -> list[int]:
        at = m.draw.randrange(len(values) - 1)
        kind = m.draw.choice(["equal", "zero", "negative", "far", "all zero"])
        notes.append(f"{kind} from sample {at}")
        step = max(values) or 512
        if kind == "equal":
            values[at + 1] = values[at] - 512
        elif kind == "all zero":
            values = [0] * len(values)
        else:
            values[at] = {"zero": 0, "negative": -step, "far": step * 100}[kind]
        return values

    made = mp4.edited_table(_tables(m), b"ctts", change)
    if not notes:
        raise NotApplicable
    return made, notes[0]


@mutation("same", "mp4", weight=2)
def other_sync_samples(m: Material) -> tuple[bytes, str]:
    """The table of sync samples is incomplete, empty, or lists others."""
    numbers = mp4.sync_samples(_tables(m))
    if not numbers:
        raise NotApplicable
    kind = m.draw.choice(["incomplete", "only the first", "none", "not the first", "more", "all"])
    other = {
        "incomplete": [n for n in numbers if m.draw.random() < 0.5],
        "only the first": numbers[:1],
        "none": [],
        "not the first": numbers[1:],
        "more": sorted({*numbers, *(m.draw.randint(1, m.base.frames) for _ in range(4))}),
        "all": list(range(1, m.base.frames + 1)),
    }[kind]
    return mp4.with_sync_samples(m.data, other), f"{kind}: {other[:12]}"


@mutation("same", "mp4")
def scattered_samples(m: Material) -> tuple[bytes, str]:
    """Each sample is a chunk; the chunks are in any order, or occur twice."""
    data = _tables(m)
    placed = mp4.samples(data)
    if m.draw.random() < 0.3:
        n = m.draw.randrange(1, len(placed))
        placed[n] = placed[n - 1]
        return mp4.with_samples(data, placed), f"sample {n + 1} repeats the previous one"
    box = next(box for box in mp4.boxes(data) if box.kind == b"mdat")
    order, at, body = list(range(len(placed))), box.begin + 8, bytearray()
    m.draw.shuffle(order)
    where = [(0, 0)] * len(placed)
    for n in order:
        offset, size = placed[n]
        where[n] = (at + len(body), size)
        body += data[offset : offset + size]
    old = box.size - 8
    body = body[:old] + bytes(max(0, old - len(body)))
    return mp4.with_samples(data[:at] + bytes(body) + data[at + old :], where), "samples in another order"


@mutation("changed", "mp4", weight=1.5)
def sample_size(m: Material) -> tuple[bytes, str]:
    """A sample with a wrong size, or size zero."""
    data = _tables(m)
    placed = mp4.samples(data)
    n = m.draw.randrange(len(placed))
    size = m.draw.choice([0, 1, placed[n][1] - 1, placed[n][1] // 2, placed[n][1] + 5, 1 << 20, 0x7FFFFFFF, 0xFFFFFFFF])
    placed[n] = (placed[n][0], max(size, 0))
    return mp4.with_samples(data, placed), f"sample {n + 1} of {size} bytes"


@mutation("same", "mp4", weight=1.5)
def empty_samples(m: Material) -> tuple[bytes, str]:
    """Samples of zero bytes between the others, with their own timestamps."""
    data = _tables(m)
    placed = mp4.samples(data)
    n = m.draw.randrange(1, len(placed) + 1)
    placed.insert(n, (placed[n - 1][0], 0))

    def edit(kind: bytes, body: bytes) -> tuple[bytes, bytes]:
        if kind in (b"stts", b"ctts"):
            values = mp4.values(body)
            values.insert(n, values[min(n, len(values) - 1)])
            return kind, mp4.packed_runs(body[:4], values)
        return kind, body

    data = mp4.rewritten(data, edit)
    numbers = mp4.sync_samples(data)
    if numbers:
        data = mp4.with_sync_samples(data, [number + (number > n) for number in numbers])
    return mp4.with_samples(data, placed), f"an empty sample after the first {n}"


@mutation("same", "mp4", weight=1.5)
def edit_list(m: Material) -> tuple[bytes, str]:
    """Another edit list: none, empty edits, several ranges, one inside a group of pictures, beyond the end."""
    data = _tables(m)
    movie, media, length = mp4.timescales(data)
    if not media or not length:
        raise NotApplicable
    whole = length * movie // media
    part = m.draw.randrange(1, length)
    rate = 1 << 16
    kind, edits = m.draw.choice(
        [
            ("from the middle", [(max(1, whole - part * movie // media), part, rate)]),
            ("only a range", [(whole // 3, part // 2, rate)]),
            ("an empty edit in front", [(m.draw.randint(1, 3 * whole), -1, rate), (whole, 0, rate)]),
            ("two ranges", [(whole // 2, 0, rate), (whole // 3, part, rate)]),
            ("one range twice", [(whole // 2, 0, rate), (whole // 2, 0, rate)]),
            ("beyond the end", [(whole, length * 2, rate)]),
            ("standing still", [(whole, 0, 0)]),
            ("nothing but an empty edit", [(whole, -1, rate)]),
            ("no entries", []),
        ]
    )
    return mp4.with_edits(data, edits), f"{kind}: {edits}"


@mutation("changed", "mp4", "fragments")
def stated_size(m: Material) -> tuple[bytes, str]:
    """Another width or height in the header."""
    entry = m.draw.choice(mp4.of_kinds(m.data, [b"stsd", b"tkhd"]))
    at = entry.begin + (16 + 32 if entry.kind == b"stsd" else entry.size - 8)
    width, height = (m.draw.choice([0, 1, 16, 95, 97, 640, 8192, 32767]) for _ in range(2))
    numbers = struct.pack(">HH", width, height) if entry.kind == b"stsd" else struct.pack(">HHHH", width, 0, height, 0)
    return m.data[:at] + numbers + m.data[at + len(numbers) :], f"{entry.kind.decode()}: {width}x{height}"


# ---- transport and program streams -----------------------------------------------------------------------------------


@mutation("lost", "ts", weight=3)
def lost_ts_packets(m: Material) -> tuple[bytes, str]:
    """Missing transport packets."""
    parts = packets.ts_packets(m.data)
    count = m.draw.choice([1, 1, 1, 2, 3, 7, 20])
    first = m.draw.randrange(3, len(parts) - count)
    if m.draw.random() < 0.8:
        gone = set(range(first, first + count))
    else:
        gone = {m.draw.randrange(3, len(parts)) for _ in range(count)}
    return b"".join(p for n, p in enumerate(parts) if n not in gone), f"packets {sorted(gone)} lost"


@mutation("lost", "ts")
def flagged_ts_packet(m: Material) -> tuple[bytes, str]:
    """A transport packet that is marked as corrupt, and is."""
    parts = packets.ts_packets(m.data)
    n = m.draw.randrange(3, len(parts))
    packet = bytearray(parts[n])
    packet[1] |= 0x80
    packet[m.draw.randrange(100, 188)] ^= 0xFF
    parts[n] = bytes(packet)
    return b"".join(parts), f"packet {n} marked"


@mutation("same", "ts")
def repeated_ts_packet(m: Material) -> tuple[bytes, str]:
    """A repeated transport packet, which is allowed."""
    parts = packets.ts_packets(m.data)
    n = m.draw.randrange(len(parts))
    return b"".join([*parts[: n + 1], *parts[n:]]), f"packet {n} twice"


@mutation("changed", "ts")
def swapped_ts_packets(m: Material) -> tuple[bytes, str]:
    """Two transport packets in the wrong order."""
    parts = packets.ts_packets(m.data)
    n = m.draw.randrange(3, len(parts) - 1)
    parts[n], parts[n + 1] = parts[n + 1], parts[n]
    return b"".join(parts), f"packets {n} and {n + 1} exchanged"


@mutation("same", "ts")
def without_tables(m: Material) -> tuple[bytes, str]:
    """A recording that starts or continues without the program's tables."""
    parts = packets.ts_packets(m.data)
    video = packets.ts_video_pid(parts)
    keep = m.draw.choice([1, 1, 0])
    seen: dict[int, int] = {}
    out = []
    for part in parts:
        pid = packets.ts_pid(part)
        seen[pid] = seen.get(pid, 0) + 1
        if pid == video or seen[pid] <= keep:
            out.append(part)
    return b"".join(out), f"{keep} of each table"


@mutation("same", "ts", "ps", weight=2)
def packets_without_pts(m: Material) -> tuple[bytes, str]:
    """PES packets without timestamps."""
    share = m.draw.choice([0.1, 0.5, 1.0])
    return packets.without_pts(m.data, m.draw, share), f"{share:.0%} without times"


# ---- IVF, Matroska, AVI, FLV, Ogg ------------------------------------------------------------------------------------


@mutation("changed", "ivf", weight=2)
def ivf_edited(m: Material) -> tuple[bytes, str]:
    """Frames dropped, repeated, swapped or empty."""
    frames = packets.ivf_frames(m.data)
    n, kind = m.draw.randrange(1, len(frames) - 1), m.draw.choice(["dropped", "twice", "exchanged", "empty"])
    if kind == "dropped":
        del frames[n]
    elif kind == "twice":
        frames.insert(n, frames[n])
    elif kind == "exchanged":
        frames[n], frames[n + 1] = frames[n + 1], frames[n]
    else:
        frames[n].payload = b""
    return packets.ivf(m.data, frames), f"frame {n} {kind}"


@mutation("same", "ivf")
def ivf_times(m: Material) -> tuple[bytes, str]:
    """Timestamps that are equal, decreasing or far away."""
    frames = packets.ivf_frames(m.data)
    n, kind = m.draw.randrange(1, len(frames)), m.draw.choice(["equal", "backwards", "far", "all equal"])
    for at in range(n, len(frames) if kind == "far" else n + 1):
        frames[at].pts = {"equal": frames[n - 1].pts, "backwards": 0, "far": frames[at].pts + (1 << 31)}.get(kind, 0)
    if kind == "all equal":
        for frame in frames:
            frame.pts = 0
    return packets.ivf(m.data, frames), f"{kind} from frame {n}"


@mutation("changed", "ivf")
def ivf_size(m: Material) -> tuple[bytes, str]:
    """Another frame size, rate or duration in the header."""
    at = m.draw.choice([12, 14, 16, 20, 24])
    number = m.draw.choice([0, 1, 95, 640, 0xFFFF])
    return m.data[:at] + struct.pack("<H", number) + m.data[at + 2 :], f"{number} at byte {at}"


def _blocks(m: Material) -> list[packets.Element]:
    blocks = [e for e in packets.elements(m.data) if e.kind in (packets.SIMPLE_BLOCK, packets.BLOCK)]
    if len(blocks) < 3:
        raise NotApplicable
    return blocks


@mutation("changed", "mkv", weight=1.5)
def block_lost(m: Material) -> tuple[bytes, str]:
    """A missing block."""
    n = m.draw.randrange(1, len(_blocks(m)))
    return packets.voided(m.data, _blocks(m)[n]), f"block {n} is void"


@mutation("same", "mkv", weight=1.5)
def block_flags(m: Material) -> tuple[bytes, str]:
    """Key flags that are missing or wrong."""
    out, kind = bytearray(m.data), m.draw.choice(["none", "all", "one wrong"])
    blocks = [e for e in _blocks(m) if e.kind == packets.SIMPLE_BLOCK]
    for block in blocks if kind != "one wrong" else [m.draw.choice(blocks)] if blocks else []:
        flags = out[block.body + 3]
        out[block.body + 3] = flags ^ 0x80 if kind == "one wrong" else flags | 0x80 if kind == "all" else flags & 0x7F
    return bytes(out), f"key flags: {kind}"


@mutation("same", "mkv", weight=1.5)
def block_times(m: Material) -> tuple[bytes, str]:
    """Timestamps of blocks or clusters that are equal, negative or far away."""
    out, blocks = bytearray(m.data), _blocks(m)
    n, kind = m.draw.randrange(1, len(blocks)), m.draw.choice(["equal", "negative", "far"])
    time = {"equal": out[blocks[n - 1].body + 1 : blocks[n - 1].body + 3], "negative": b"\xff\x00", "far": b"\x7f\x00"}
    out[blocks[n].body + 1 : blocks[n].body + 3] = time[kind]
    return bytes(out), f"block {n}: {kind}"


@mutation("same", "mkv")
def element_left_out(m: Material) -> tuple[bytes, str]:
    """Matroska without its cues, its frame duration or another optional element."""
    wanted = {packets.CUES: "cues", packets.DEFAULT_DURATION: "duration", 0x1254C367: "tags", 0x114D9B74: "seek head"}
    found = [e for e in packets.elements(m.data) if e.kind in wanted]
    if not found:
        raise NotApplicable
    element = m.draw.choice(found)
    return packets.voided(m.data, element), f"no {wanted[element.kind]}"


@mutation("changed", "mkv")
def element_number(m: Material) -> tuple[bytes, str]:
    """Another size or other first bytes of an element."""
    element = m.draw.choice(list(packets.elements(m.data)))
    at, out = m.draw.choice([element.begin, element.body - 1, element.body]), bytearray(m.data)
    if at >= len(out):
        raise NotApplicable
    out[at] = m.draw.randrange(256)
    return bytes(out), f"element {element.kind:x} at {element.begin}: byte {at - element.begin} is {out[at]}"


@mutation("same", "avi", weight=1.5)
def avi_empty_chunk(m: Material) -> tuple[bytes, str]:
    """A chunk of zero bytes, which repeats the previous frame, and no index."""
    chunks = packets.avi_chunks(m.data)
    n = m.draw.randrange(1, len(chunks))
    kind = m.data[chunks[n][0] : chunks[n][0] + 4]
    return packets.avi_with_inserted(m.data, chunks[n][0], kind + bytes(4)), f"an empty chunk before chunk {n}"


@mutation("changed", "avi")
def avi_chunk_lost(m: Material) -> tuple[bytes, str]:
    """A chunk that is no longer marked as video."""
    chunks = packets.avi_chunks(m.data)
    at = m.draw.choice(chunks)[0]
    return m.data[:at] + b"JUNK" + m.data[at + 4 :], f"the chunk at {at} is junk"


@mutation("changed", "avi")
def avi_index(m: Material) -> tuple[bytes, str]:
    """A wrong index."""
    begin = m.data.rfind(b"idx1")
    if begin < 0:
        raise NotApplicable
    entries = struct.unpack_from("<I", m.data, begin + 4)[0] // 16
    n, place = m.draw.randrange(entries), m.draw.choice([4, 8, 12])
    at = begin + 8 + 16 * n + place
    number = mp4.odd_number(struct.unpack_from("<I", m.data, at)[0], m.draw)
    return m.data[:at] + struct.pack("<I", number) + m.data[at + 4 :], f"entry {n}, byte {place}: {number}"


@mutation("changed", "flv", weight=2)
def flv_edited(m: Material) -> tuple[bytes, str]:
    """Tags dropped, repeated, swapped, or with other timestamps or flags."""
    tags = packets.flv_tags(m.data)
    n, kind = m.draw.randrange(1, len(tags) - 1), m.draw.choice(["dropped", "twice", "time", "flags", "size"])
    begin, size = tags[n]
    end, out = begin + size + 4, bytearray(m.data)
    if kind == "dropped":
        del out[begin:end]
    elif kind == "twice":
        out[end:end] = out[begin:end]
    elif kind == "time":
        out[begin + 4 : begin + 8] = m.draw.choice([bytes(4), b"\xff\xff\xff\x7f", b"\x00\x00\x01\x00"])
    elif kind == "flags":
        out[begin + 11] ^= 0x30
    else:
        out[begin + 1 : begin + 4] = m.draw.choice([bytes(3), b"\xff\xff\xff", b"\x00\x00\x05"])
    return bytes(out), f"tag {n}: {kind}"


@mutation("lost", "ogg", weight=0.7)
def ogg_page_lost(m: Material) -> tuple[bytes, str]:
    """A page that is missing, or has a wrong checksum."""
    pages = packets.ogg_pages(m.data)
    n = m.draw.randrange(2, len(pages))
    if m.draw.random() < 0.5:
        return b"".join([*pages[:n], *pages[n + 1 :]]), f"page {n} of {len(pages)} lost"
    page = bytearray(pages[n])
    page[-1] ^= 0x55
    pages[n] = bytes(page)
    return b"".join(pages), f"page {n} of {len(pages)} damaged"


@mutation("same", "ogg", weight=0.5)
def ogg_empty_packet(m: Material) -> tuple[bytes, str]:
    """An empty packet: Theora's way to repeat a frame."""
    pages = packets.ogg_pages(m.data)
    n = m.draw.randrange(2, len(pages))
    pages[n] = packets.ogg_with_empty_packet(pages[n], m.draw)
    return b"".join(pages), f"in page {n}"


# ---- raw streams -----------------------------------------------------------------------------------------------------


@mutation("changed", "raw", weight=2)
def units_edited(m: Material) -> tuple[bytes, str]:
    """Units (NAL units, pictures) dropped, repeated or swapped."""
    units = packets.units(m.data)
    if len(units) < 6:
        raise NotApplicable
    n, kind = m.draw.randrange(3, len(units) - 1), m.draw.choice(["dropped", "twice", "exchanged", "cut"])
    if kind == "dropped":
        del units[n]
    elif kind == "twice":
        units.insert(n, units[n])
    elif kind == "exchanged":
        units[n], units[n + 1] = units[n + 1], units[n]
    else:
        units[n] = units[n][: m.draw.randrange(5, len(units[n]) + 5)]
    return b"".join(units), f"unit {n} of {len(units)} {kind}"
