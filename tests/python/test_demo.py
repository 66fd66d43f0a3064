"""demo/demo.py: it compares the frames of three ways, writes its page, and fails if a frame differs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: One bit of one frame of one clip of the first way is changed.
ONE_BIT = """
import threading, ways
read = ways.read_clip
def wrong(path, indices, flip):
    frames = read(path, indices, flip)
    if path.endswith("/77.mkv") and threading.current_thread() is not threading.main_thread() and next(first, False):
        frames = frames.copy()
        frames[3, 50, 60, 1] ^= 1
    return frames
first = iter([True])
ways.read_clip = wrong
"""
#: The first way does not deliver the clips of one file.
NO_CLIPS = """
import framespool, threading, ways
read = ways.read_clip
def wrong(path, indices, flip):
    # Not in the choice of the videos, in which the main thread reads.
    if path.endswith("/77.mkv") and threading.current_thread() is not threading.main_thread():
        raise framespool.errors.DecodeError(f"{path}: refused")
    return read(path, indices, flip)
ways.read_clip = wrong
"""


@pytest.fixture(scope="module")
def folder(tiny_clips, bad_file, tmp_path_factory):
    """Six tiny videos in two class folders, and a damaged file."""
    root = tmp_path_factory.mktemp("demo")
    for number, (path, _) in enumerate(tiny_clips[:6]):
        place = root / ("odd" if number % 2 else "even")
        place.mkdir(exist_ok=True)
        shutil.copy(path, place)
    shutil.copy(bad_file, root / "odd" / "damaged.mp4")
    return root


def run(videos, out, change=""):
    """Runs the demo after a change of its modules; returns its exit code, output and page."""
    # The choice of the videos must not depend on the speed of the machine.
    unlimited = "import choose, math, sys\nchoose.BUDGET = choose.CHOICE_SECONDS = math.inf"
    program = f"{unlimited}\n{change}\nimport demo\nsys.exit(demo.main(sys.argv[1:]))"
    words = ["--videos", str(videos), "--out", str(out), "--threads", "2", "--no-open"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "demo"), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, env=environment)
    page = out / "index.html"
    return done.returncode, done.stdout + done.stderr, page.read_text() if page.exists() else ""


@pytest.fixture(scope="module")
def unchanged(folder, tmp_path_factory):
    """A run of the demo as it is: its output folder, output and page."""
    out = tmp_path_factory.mktemp("out")
    code, said, page = run(folder, out)
    assert code == 0, said
    return out, said, page


def test_demo_finds_equal_frames(unchanged):
    _, said, page = unchanged
    # Two loaders, 6 videos of 4 clips, 8 epochs, 16 frames.
    equal = f"{2 * 6 * 4 * 8 * 16:,} frames of the two loaders equal"
    assert equal in said and equal in page
    assert page.count('class="passed"') == 2 and 'class="failed"' not in page


def test_page_of_the_demo_has_figures_and_frames(unchanged):
    _, _, page = unchanged
    values = [float(value) for value in re.findall(r'class="value">([\d.]+) ms', page)]
    assert len(values) == 3 and min(values) > 0
    rows = re.findall(r"<tr><td>(Clip[^<]*)<td>([\d.]+)<td>([\d.]+)<td>([\d.]+)", page)
    decoded = [float(row[3]) for row in rows]
    assert [row[0] for row in rows] == ["Clip by clip", "ClipLoader", "ClipLoader, disk cache"]
    assert decoded[0] > decoded[1] > decoded[2], "each way decodes fewer frames than the one before it"
    assert page.count("data:image/jpeg;base64,") == 4 * 8


def test_page_of_the_demo_is_self_contained(unchanged):
    out, _, page = unchanged
    sources = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert sources and all(source.startswith("data:") for source in sources)
    assert "url(" not in page and "@import" not in page and "$" not in page
    assert [path.name for path in out.iterdir()] == ["index.html"], "the disk cache is deleted"


def test_demo_names_a_damaged_file(unchanged, folder):
    _, said, page = unchanged
    named = f"{folder}/odd/damaged.mp4: no known container"
    assert f"skipped: {named}" in said and f"<li>{named}" in page
    assert "6 of 7 videos<" in page


def test_demo_fails_if_one_bit_of_a_frame_differs(folder, tmp_path):
    code, said, page = run(folder, tmp_path, ONE_BIT)
    assert code == 1, said
    assert "<h1>The frames of the three ways differ</h1>" in page
    for loader in ("ClipLoader", "ClipLoader, disk cache"):
        assert re.search(rf'class="failed">{loader}: \S*/77.mkv, epoch \d+, clip \d+: frames \d+ differ<', page), said
    assert page.count('class="failed"') == 2 and 'class="passed"' not in page


def test_demo_fails_if_clips_are_not_delivered(folder, tmp_path):
    code, said, page = run(folder, tmp_path, NO_CLIPS)
    assert code == 1, said
    assert re.search(r'class="failed">ClipLoader: \S*/77.mkv, epoch \d+, clip \d+: delivered by the loader only<', page)
    assert f"<li>clips of {folder}/even/77.mkv: refused</li>" in page


def test_demo_uses_a_part_of_many_videos(folder, tmp_path):
    code, said, page = run(folder, tmp_path, "import choose\nchoose.MAX_VIDEOS = 2")
    assert code == 0, said
    assert "2 of 7 videos, chosen at random" in said and "2 of 7 videos, chosen at random" in page


def test_demo_refuses_folders_without_videos(tmp_path):
    code, said, _ = run(tmp_path, tmp_path / "out")
    assert code == 2 and "demo: " in said and "Traceback" not in said
    (tmp_path / "empty.mp4").touch()
    code, said, _ = run(tmp_path, tmp_path / "out")
    assert code == 1 and "empty.mp4: the file is empty" in said and "Traceback" not in said


def test_a_film_that_cannot_be_downloaded_is_reported(tmp_path):
    program = "import sys, film, pathlib\nfilm.cut_film(pathlib.Path(sys.argv[1]))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "demo"), "PIP_NO_INDEX": "1"}
    command = [sys.executable, "-c", program, tmp_path / "film"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert "FilmUnavailableError: " in done.stderr and "moviepy" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "film").exists()
