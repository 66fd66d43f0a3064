"""The bytes of a frame do not depend on what was decoded before, nor on what was in the memory of its buffer.

FFV1 on several threads, and VP8 whose pictures reuse the segment map of earlier ones, were seen to depend on it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import hashlib, json, sys
import framespool as fsp

path, before, threads = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
for other in before:
    fsp.Video(other, num_threads=threads).frames(range(5))
video = fsp.Video(path, num_threads=threads)
results = []
for frame in [*range(len(video)), *range(len(video) - 1, -1, -1)]:
    try:
        results.append(hashlib.md5(video[frame].tobytes()).hexdigest())
    except fsp.errors.DecodeError:
        results.append(None)
assert results == results[: len(video)] + results[: len(video)][::-1], "another result for the same frame"
print(json.dumps(results[: len(video)]))
"""


def decoded(path: Path, before: list[Path], threads: int, fill: int, *, poison: bool) -> list[str | None]:
    """Digest of each frame, ``None`` for an error, in a process whose new memory is filled with a byte.

    With ``poison`` the frame buffers have that value, too. Without it they are zeros where a decoder does not report
    missing blocks, so that a damaged frame that is not noticed is always the same.
    """
    environment = {
        **os.environ,
        **({"FRAMESPOOL_POISON": str(fill)} if poison else {}),
        "MALLOC_PERTURB_": str(fill),
        "MALLOC_MMAP_THRESHOLD_": str(1 << 30),  # memory from the system would be zeros
    }
    command = [sys.executable, "-c", PROGRAM, path, json.dumps(list(map(str, before))), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    frames: list[str | None] = json.loads(done.stdout)
    return frames


def reads_segment_map(packet: bytes) -> tuple[bool, bool]:
    """Whether the blocks of a VP8 picture have segments, and whether it has their map itself (RFC 6386, 9.3)."""
    is_key = not packet[0] & 1
    data, at, low, span = (
        packet[10 if is_key else 3 :],
        2,
        int.from_bytes(packet[10:12] if is_key else packet[3:5]),
        255,
    )
    shifted = 0

    def bit() -> bool:
        nonlocal low, span, shifted, at
        split = 1 + ((span - 1) * 128 >> 8)
        one = low >= split << 8
        low, span = (low - (split << 8), span - split) if one else (low, split)
        while span < 128:
            low, span, shifted = low << 1, span << 1, shifted + 1
            if shifted == 8:
                low, at, shifted = low | data[at], at + 1, 0
        return one

    if is_key:
        bit(), bit()  # color space and clamping
    return (True, bit()) if bit() else (False, False)


def ivf_packets(data: bytes) -> list[bytes]:
    packets, at = [], 32
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "little")
        packets.append(data[at + 12 : at + 12 + size])
        at += 12 + size
    return packets


def test_the_vp8_video_reuses_segment_maps(videos: Path) -> None:
    found = [reads_segment_map(packet) for packet in ivf_packets((videos / "codecs/vp8_segments.ivf").read_bytes())]
    assert (True, True) in found and (True, False) in found, found


def damaged(path: Path, folder: Path) -> Path:
    """The video with changed bytes inside some pictures."""
    data = bytearray(path.read_bytes())
    for at in range(len(data) // 3, len(data), len(data) // 7):
        data[at : at + 3] = bytes(byte ^ 0x5A for byte in data[at : at + 3])
    made = folder / f"damaged{path.suffix}"
    made.write_bytes(data)
    return made


@pytest.mark.parametrize("whole", [True, False], ids=["intact", "damaged"])
@pytest.mark.parametrize("name", ["derived/ffv1_320x180.mkv", "codecs/ffv1_slices.mkv", "codecs/vp8_segments.ivf"])
def test_frames_do_not_depend_on_memory(videos: Path, tmp_path: Path, name: str, whole: bool) -> None:
    path = videos / name if whole else damaged(videos / name, tmp_path)
    others = [
        videos / other for other in ("derived/ffv1_320x180.mkv", "derived/vp8_640x360.webm", "codecs/hevc_main10.mkv")
    ]
    results = {
        (threads, fill, len(before)): decoded(path, before, threads, fill, poison=whole)
        for threads, fill, before in (
            (1, 1, []),
            (4, 1, []),
            (4, 254, others),
            (3, 254, []),
            (3, 1, others),
        )
    }
    alone = results[1, 1, 0]
    assert any(alone) and (not whole or all(alone))
    for way, found in results.items():
        # Which frames are refused for damage may differ with the number of threads; bytes may not.
        both = [(one, other) for one, other in zip(alone, found, strict=True) if one and other]
        assert all(one == other for one, other in both) and len(both) >= any(found), way
    for threads in (3, 4):
        first, second = (found for way, found in results.items() if way[0] == threads)
        assert first == second, threads
