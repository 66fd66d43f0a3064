"""Blocks of host memory are reused: few page faults, contents that stay, and memory that returns to the system."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import framespool as fsp
import pytest

PAGE = os.sysconf("SC_PAGE_SIZE")

#: Start of the programs below: page faults so far, and the resident bytes of the process.
COMMON = """
import json, os, resource, sys
import framespool as fsp

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
"""


def run(program: str, *arguments: object) -> Any:
    """The JSON that a program prints in a process of its own."""
    command = [sys.executable, "-c", COMMON + program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def large_photos(pictures: Path) -> list[str]:
    """The largest photographs; each has 3.3 MB of pixels."""
    return sorted(map(str, pictures.rglob("*_1280x853.jpg")))


def test_images_reuse_pages(large_photos: list[str]) -> None:
    program = """
paths = sys.argv[1:] * 4
for round in range(8):
    if round == 3:
        before = faults()
    images = fsp.decode_images(paths, num_threads=2)
print(json.dumps((faults() - before) / 5 / len(paths)))
"""
    assert run(program, *large_photos) < 1280 * 853 * 3 / PAGE / 8


def test_full_size_clips_reuse_pages(videos: Path) -> None:
    program = """
sampler = fsp.samplers.RandomClips(sequence_length=16, clips_per_video=12)
loader = fsp.ClipLoader([sys.argv[1]], sampler, batch_size=1, seed=1, num_threads=2, cache=0, index=False)
for number, batch in enumerate(loader):
    if number == 5:
        before = faults()
print(json.dumps((faults() - before) / 6))
"""
    assert run(program, videos / "1080p/bunny_24p.mp4") < 16 * 1920 * 1080 * 3 / PAGE / 4


def test_memory_returns_after_idle_time_and_at_the_end_of_a_loader(videos: Path) -> None:
    program = """
import time
video = fsp.Video(sys.argv[1])
video[0]
resident_before = resident()
results = [video.frames(range(64)) for _ in range(3)]
held = resident()
del results
kept = resident()
time.sleep(11)
video[0]
after_idle = resident()
results = [video.frames(range(64)) for _ in range(3)]
del results
for batch in fsp.ClipLoader([sys.argv[1]], fsp.samplers.RandomClips(sequence_length=4), batch_size=1, index=False):
    pass
del batch
print(json.dumps([size - resident_before for size in (held, kept, after_idle, resident())]))
"""
    held, kept, after_idle, after_loader = run(program, videos / "derived/base_640x360.mp4")
    size = 3 * 64 * 640 * 360 * 3
    assert held > 0.9 * size and kept > 0.9 * size
    assert after_idle < size / 3 and after_loader < size / 3


def test_results_keep_their_content_while_others_are_released(large_photos: list[str]) -> None:
    def digests(images: list[Any]) -> list[str]:
        return [hashlib.md5(image.tobytes()).hexdigest() for image in images]

    expected = digests(fsp.decode_images(large_photos))
    kept: list[tuple[int, Any]] = []
    lock = threading.Lock()

    def decode(first: int) -> None:
        for number in range(12):
            at = (first + number) % len(large_photos)
            images = fsp.decode_images([large_photos[at], large_photos[at - 1]], num_threads=2)
            with lock:
                # An array and a view of it own the block of which the other results are dropped, by any thread.
                kept.append((at, images[0].numpy() if number % 2 else images[0]))
                if len(kept) > 16:
                    del kept[number % 8]

    threads = [threading.Thread(target=decode, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kept) == 16
    assert digests([image for _, image in kept]) == [expected[at] for at, _ in kept]


def test_a_forked_child_reuses_blocks_of_its_own(large_photos: list[str]) -> None:
    program = """
import hashlib
paths = sys.argv[1:] * 4

def digest():
    return [hashlib.md5(image.tobytes()).hexdigest() for image in fsp.decode_images(paths, num_threads=1)]

expected, kept = digest(), fsp.decode_images(paths, num_threads=1)
child = os.fork()
if child == 0:
    equal = digest() == digest() == expected
    kept = None
    os._exit(0 if equal and digest() == expected else 1)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
equal = [hashlib.md5(image.tobytes()).hexdigest() for image in kept] == expected == digest()
print(json.dumps([code, equal]))
"""
    assert run(program, *large_photos) == [0, True]


@pytest.mark.parametrize("layout", ["NTHWC", "NTCHW"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_float_clips_of_different_sizes_are_cached_as_8_bit_pixels(videos: Path, dtype: str, layout: str) -> None:
    paths = [videos / "derived/base_640x360.mp4", videos / "action/street_426x240.mp4"]
    normalize = fsp.transforms.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))

    def epoch(budget: str | int) -> tuple[str, dict[str, Any]]:
        loader = fsp.ClipLoader(
            paths,
            fsp.samplers.RandomClips(sequence_length=8, stride=2, clips_per_video=12),
            batch_size=2,
            transforms=[normalize],
            shuffle="full",
            seed=5,
            num_threads=1,
            dtype=dtype,
            layout=layout,
            cache=budget,
            index=False,
        )
        digest = hashlib.md5()
        for batch in loader:
            for clip in batch.frames:
                digest.update(clip.tobytes())
        return digest.hexdigest(), loader.stats()

    (expected, _), (found, stats) = epoch(0), epoch("112MiB")
    assert found == expected
    # Enough for all clips with 8 bits, so each picture is decoded once; elements would take 180 or 360 MiB.
    assert stats["clips_evicted"] == 0 and stats["clips_cached_over_8_bits"] == 0 < stats["clip_cache_hits"]
    assert stats["frames_decoded"] <= sum(len(fsp.Video(path)) for path in paths)
    assert stats["clip_cache_peak_bytes"] <= 112 << 20
