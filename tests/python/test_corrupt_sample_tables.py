"""Files whose tables declare more than they contain: a typed error within little memory, never a crash."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import framespool as fsp
import pytest

#: Address space of the process that opens a file; Python with the library takes a part of it.
SPACE = 1 << 30
#: Memory that it may touch: the need of opening a valid file of this size, with a margin.
MAX_RSS = 300 << 20

CHILD = """
import json, re, resource, sys
import framespool as fsp
resource.setrlimit(resource.RLIMIT_AS, ({space}, {space}))
try:
    video = fsp.Video(sys.argv[1], index=False, num_threads=1)
    report = {{"frames": len(video)}}
    video.frames([0])
except fsp.Error as error:
    report = {{**locals().get("report", {{}}), "error": type(error).__name__, "message": str(error)}}
# Not ru_maxrss, which counts the memory of the process that started this one.
report["rss"] = 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
print(json.dumps(report))
"""


def opened(path: Path) -> dict[str, object]:
    """The result of opening a file in a process with little memory."""
    child = [sys.executable, "-c", CHILD.format(space=SPACE), str(path)]
    done = subprocess.run(child, capture_output=True, text=True)
    assert done.returncode == 0, f"exit status {done.returncode}: {done.stderr[-2000:]}"
    report: dict[str, object] = json.loads(done.stdout)
    return report


def boxes(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    while at + 8 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        yield kind, data[at + 8 : at + size]
        at += size


def box(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(body), kind) + body


#: Boxes that hold boxes.
NESTED = {b"moov", b"trak", b"mdia", b"minf", b"stbl", b"mvex", b"moof", b"traf"}


def changed(data: bytes, new: dict[bytes, bytes | None]) -> bytes:
    """Boxes, some of which are replaced or removed at any depth."""
    made = b""
    for kind, body in boxes(data):
        replaced = new.get(kind, body)
        if replaced is not None:
            made += box(kind, changed(body, new) if kind in NESTED and kind not in new else replaced)
    return made


def table(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers) + 1}I", 0, *numbers)


def written(path: Path, head: bytes, length: int) -> Path:
    """A sparse file of this length that starts with `head`."""
    with path.open("wb") as file:
        file.write(head)
        file.truncate(length)
    return path


@pytest.fixture(scope="module")
def head(videos: Path) -> tuple[bytes, bytes]:
    """`ftyp` and `moov` of a valid file with one track and no `stss`, with tables as given."""
    data = (videos / "derived/base_640x360.mp4").read_bytes()
    found = dict(boxes(data))
    return box(b"ftyp", found[b"ftyp"]), changed(box(b"moov", found[b"moov"]), {b"ctts": None, b"edts": None})


def samples(head: tuple[bytes, bytes], count: int, size: int, *, keys: bool = True) -> bytes:
    """A file's begin: a track of samples of one size, all in one chunk at byte 65536."""
    tables: dict[bytes, bytes | None] = {
        b"stts": table(1, count, 512),
        b"stsc": table(1, 1, count, 1),
        b"stsz": table(size, count),
        b"stco": table(1, 1 << 16),
        b"stss": None if keys else table(1, 1),
    }
    return head[0] + changed(head[1], tables)


@pytest.mark.parametrize(
    ("count", "size", "length"),
    [
        (20_000_000, 1, 1 << 33),
        (20_000_000, 100, 1 << 33),
        (8_000_000, 1, 1 << 30),
        (4_000_000, 1, 1 << 30),
        (8_000_000, 1, 118_000),
        (100_000, 1, 118_000),
        (2**32 - 1, 1, 118_000),
        (2**32 - 1, 1, 1 << 40),
        (2**32 - 1, 2**32 - 1, 1 << 40),
    ],
)
@pytest.mark.parametrize("keys", [True, False])
def test_samples_of_one_size(
    head: tuple[bytes, bytes], tmp_path: Path, count: int, size: int, length: int, keys: bool
) -> None:
    path = written(tmp_path / "claims.mp4", samples(head, count, size, keys=keys), length)
    report = opened(path)
    assert report["error"] in ("LimitError", "ReadError"), report
    assert "claims.mp4" in str(report["message"])
    assert int(str(report["rss"])) < MAX_RSS, report


def test_tables_may_claim_what_no_sample_uses(head: tuple[bytes, bytes], videos: Path, tmp_path: Path) -> None:
    """Run lengths determine no allocation: a file with more times than samples opens normally."""
    intact = videos / "derived/base_640x360.mp4"
    data = intact.read_bytes()
    (stts,) = [body for kind, body in walk(data) if kind == b"stts"]
    entries, count, delta = struct.unpack(">III", stts[4:16])
    assert entries == 1
    path = tmp_path / "runs.mp4"
    path.write_bytes(data.replace(stts, table(1, 2**32 - 1, delta)))
    report = opened(path)
    assert (report.get("frames"), report.get("error")) == (count, None)
    assert int(str(report["rss"])) < MAX_RSS


@pytest.mark.parametrize("count", [0, 5])
def test_the_last_duration_continues_where_the_table_ends(videos: Path, tmp_path: Path, count: int) -> None:
    intact = videos / "derived/base_640x360.mp4"
    data = intact.read_bytes()
    (stts,) = [body for kind, body in walk(data) if kind == b"stts"]
    _, _, delta = struct.unpack(">III", stts[4:16])
    path = tmp_path / "ends.mp4"
    path.write_bytes(data.replace(stts, table(1, count, delta)))
    video, right = fsp.Video(path, index=False), fsp.Video(intact, index=False)
    assert video.pts_seconds == right.pts_seconds and video[7].tobytes() == right[7].tobytes()


def walk(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    for kind, body in boxes(data):
        yield kind, body
        if kind in NESTED:
            yield from walk(body)


def trun(count: int, flags: int = 0, entries: bytes = b"") -> bytes:
    return box(b"trun", struct.pack(">II", flags, count) + entries)


def fragments(head: tuple[bytes, bytes], runs: list[bytes]) -> bytes:
    empty = {b"stts": table(0), b"stsc": table(0), b"stsz": table(0, 0), b"stco": table(0), b"stss": None}
    ftyp, moov = head[0], changed(head[1], empty)
    (tkhd,) = [body for kind, body in walk(moov) if kind == b"tkhd"]
    (track,) = struct.unpack_from(">I", tkhd, 12)
    trex = box(b"trex", table(track, 1, 512, 100, 0))
    moov = box(b"moov", next(boxes(moov))[1] + box(b"mvex", trex))
    traf = box(b"traf", box(b"tfhd", struct.pack(">II", 0x20000, track)) + b"".join(runs))
    return ftyp + moov + box(b"moof", box(b"mfhd", table(1)) + traf)


@pytest.mark.parametrize(
    "runs",
    {
        "one_run": lambda: [trun(2**32 - 1)],
        "many_runs": lambda: [trun(60_000)] * 1000,
        "listed": lambda: [trun(2**32 - 1, 0x200, bytes(4096))],
        "listed_zeros": lambda: [trun(30_000_000, 0x200, bytes(120_000_000))],
    }.items(),
    ids=lambda item: item[0],
)
def test_runs_of_fragments(
    head: tuple[bytes, bytes], tmp_path: Path, runs: tuple[str, Callable[[], list[bytes]]]
) -> None:
    path = written(tmp_path / "runs.mp4", fragments(head, runs[1]()), 1 << 30)
    report = opened(path)
    assert report["error"] in ("LimitError", "ReadError", "InvalidDataError"), report
    assert int(str(report["rss"])) < MAX_RSS + (256 << 20) * (runs[0] == "listed_zeros"), report


@pytest.mark.parametrize("kind", [b"soun", b"text", b"vide"])
def test_other_tracks_claims(head: tuple[bytes, bytes], videos: Path, tmp_path: Path, kind: bytes) -> None:
    """Tracks without a native reader go through libavformat, which allocates memory for each of their samples."""
    intact = videos / "derived/base_640x360.mp4"
    data = dict(boxes(intact.read_bytes()))
    moov = dict(boxes(data[b"moov"]))
    count = 2**32 - 1
    tables: dict[bytes, bytes | None] = {
        b"stts": table(1, count, 2),
        b"stsc": table(1, 1, count, 1),
        b"stsz": table(1, count),
        b"stco": table(1, 1 << 16),
        b"hdlr": struct.pack(">II4s", 0, 0, kind) + bytes(13),
    }
    other = changed(box(b"trak", moov[b"trak"]), {**tables, b"stss": None, b"ctts": None, b"edts": None})
    lying = box(b"moov", data[b"moov"] + other)
    path = written(tmp_path / "tracks.mp4", box(b"ftyp", data[b"ftyp"]) + lying, 1 << 32)
    report = opened(path)
    assert report["error"] == "LimitError", report
    assert int(str(report["rss"])) < MAX_RSS, report


@pytest.mark.parametrize("size", [1 << 20, 1 << 28, (1 << 28) + 1, 1 << 30, 2**32 - 1])
def test_a_header_of_zeros(head: tuple[bytes, bytes], tmp_path: Path, size: int) -> None:
    start = head[0] + struct.pack(">I4s", size, b"moov")
    report = opened(written(tmp_path / "zeros.mp4", start, 1 << 33))
    assert report["error"] in ("LimitError", "ReadError", "InvalidDataError", "NoVideoError"), report
    assert int(str(report["rss"])) < MAX_RSS + (256 << 20), report


def test_a_large_packet_is_an_error_of_its_frame(head: tuple[bytes, bytes], tmp_path: Path) -> None:
    """Packets of the maximum size and larger: both without the memory for them."""
    for size, errors in (((1 << 28) - 1, ("ReadError", "DecodeError", "InvalidDataError")), (1 << 29, ("LimitError",))):
        path = written(tmp_path / "large.mp4", samples(head, 3, size), 1 << 33)
        report = opened(path)
        assert report["error"] in (*errors, "InvalidDataError"), report


def test_truncated_download_keeps_valid_sample_tables(head: tuple[bytes, bytes], tmp_path: Path) -> None:
    """A truncated download: as many samples as tables can list in the received bytes."""
    count = 500_000
    tables: dict[bytes, bytes | None] = {
        b"stts": table(1, count, 512),
        b"stsc": table(1, 1, count, 1),
        b"stsz": table(0, count, *[1000] * count),
        b"stco": table(1, 1 << 22),
        b"stss": table(1, 1),
    }
    path = tmp_path / "cut.mp4"
    path.write_bytes(head[0] + changed(head[1], tables) + bytes(16))
    report = opened(path)
    assert report["error"] == "InvalidDataError", report


#: Memory that one file may take.
MAX_MEMORY = 1 << 30

MEASURED = """
import json, re, sys
import framespool as fsp

def bytes_read():
    return int(re.search(r"rchar: (\\d+)", open("/proc/self/io").read())[1])

before = bytes_read()
try:
    video = fsp.Video(sys.argv[1], index=False, num_threads=1)
    video.frames([len(video) - 1])
    error = None
except fsp.Error as raised:
    error = type(raised).__name__
peak = 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
print(json.dumps([error, bytes_read() - before, peak]))
"""


def cost(path: Path) -> tuple[str | None, int, int]:
    """Error of opening a file without a memory limit, bytes read, and peak memory."""
    child = [sys.executable, "-c", MEASURED, str(path)]
    done = subprocess.run(child, capture_output=True, text=True)
    assert done.returncode == 0, f"exit status {done.returncode}: {done.stderr[-2000:]}"
    error, read, peak = json.loads(done.stdout)
    return error, read, peak


def overlapping(head: tuple[bytes, bytes], count: int, size: int) -> bytes:
    """A file's begin: samples of one size, each in a chunk of its own, all of them in the same bytes."""
    tables: dict[bytes, bytes | None] = {
        b"stts": table(1, count, 512),
        b"stsc": table(1, 1, 1, 1),
        b"stsz": table(size, count),
        b"stco": table(count, *[1 << 20] * count),
        b"stss": table(1, 1),
    }
    return head[0] + changed(head[1], tables)


def test_samples_in_the_same_bytes_are_not_all_read(head: tuple[bytes, bytes], tmp_path: Path) -> None:
    """A file of 2 MiB whose samples have 60 GB together."""
    path = written(tmp_path / "overlap.mp4", overlapping(head, 60_000, 1 << 20), 1 << 21)
    error, read, peak = cost(path)
    assert error == "LimitError"
    assert read < 1 << 30 and peak < MAX_RSS, (read, peak)


@pytest.mark.parametrize("count", [20_000_000, 4_000_000])
def test_ticks_of_one_do_not_excuse_a_count_of_video_samples(
    head: tuple[bytes, bytes], tmp_path: Path, count: int
) -> None:
    """Only in an audio track does a sample that lasts one tick take no memory of its own.

    libavformat reads this track: Motion-JPEG has no reader of its own.
    """
    tables: dict[bytes, bytes | None] = {
        b"stts": table(1, count, 1),
        b"stsc": table(1, 1, count, 1),
        b"stsz": table(1, count),
        b"stco": table(1, 1 << 16),
        b"stss": None,
    }
    moov = changed(head[1], tables).replace(b"avc1", b"jpeg")
    error, read, peak = cost(written(tmp_path / "ticks.mov", head[0] + moov, 118_000))
    assert error == "LimitError", (error, read, peak)
    assert read < 4 * 118_000 and peak < MAX_RSS, (read, peak)


def test_the_largest_index_stays_within_its_memory(head: tuple[bytes, bytes], videos: Path, tmp_path: Path) -> None:
    """A sparse file with a quarter of the samples that a video may have, all zeros; four times as many would need four
    times the memory."""
    path = written(tmp_path / "sparse.mp4", samples(head, 1 << 20, 16), 1 << 25)
    (error, _, peak), (*_, least) = cost(path), cost(videos / "derived/base_640x360.mp4")
    assert error == "DecodeError" and least + 4 * (peak - least) < MAX_MEMORY, (error, peak, least)
