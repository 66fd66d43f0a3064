"""Shared by the Python tests: the test media, which they read and never change."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docs_snippets
import framespool as fsp
import pytest
from framespool.datasets import _dataset
from framespool.tools._transcode import _ffmpeg
from servers import S3, Nginx, reserved_port

ROOT = Path(__file__).resolve().parents[2]

# Tests do not touch the user's cache; tests of the index name its folder.
os.environ["FRAMESPOOL_INDEX"] = "off"
# Requests to the servers of the tests use no proxy.
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"


class _Outcomes:
    """Records passed and skipped tests, for the table of skipped tests (scripts/test.sh)."""

    def __init__(self, path: str) -> None:
        self.path = path

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._note("skipped", report.nodeid, report.longrepr)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped:
            self._note("skipped", report.nodeid, report.longrepr)
        elif report.when == "call" and report.passed:
            self._note("passed", report.nodeid)
            self._note(
                "passed", report.nodeid.partition("::")[0]
            )  # for files that another environment skips completely

    def _note(self, outcome: str, test: str, why: object = "") -> None:
        reason = why[2] if isinstance(why, tuple) else why
        with open(self.path, "a") as file:
            file.write(f"{outcome}\t{test}\t{' '.join(str(reason).removeprefix('Skipped: ').split())}\n")


def pytest_configure(config: pytest.Config) -> None:
    path = os.environ.get("FRAMESPOOL_OUTCOMES")
    if path and not hasattr(config, "workerinput"):  # with several processes, the one that gathers
        config.pluginmanager.register(_Outcomes(path))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Groups that ``--dist loadgroup`` runs in one process: a file's tests, and everything that starts Ray.

    Two clusters of Ray on one machine find and starve each other, and end the process that waits for them.
    """
    for item in items:
        page = getattr(item, "callspec", None) and item.callspec.params.get("page")
        starts_ray = item.path.name in ("test_ray.py", "test_ray_data.py", "test_ray_faults.py") or (
            page and "ray" in docs_snippets.packages((ROOT / page).read_text())
        )
        item.add_marker(pytest.mark.xdist_group("ray" if starts_ray else item.path.name))


#: Output of Rust's derived Debug: a struct, or a variant with its value. Python's own messages have neither.
DEBUG_OUTPUT = re.compile(
    r"\b[A-Z]\w+ \{ ?\w+: |\b(Some|Ok|Err|Ints?|Floats?|Str|Numbers?|Memory)\(|\b(and|before|after) None\b"
)
#: Messages about files that the crates arrow and parquet read: they quote these, which print values in this way.
QUOTED_MESSAGE = re.compile(r"\.(arrow|parquet), byte ")


@pytest.fixture(autouse=True)
def messages_without_debug_output(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fails a test that provokes an error, expected or not, whose message has output meant for developers."""
    wrong: list[str] = []

    def record(self: fsp.Error, *arguments: object) -> None:
        Exception.__init__(self, *arguments)
        own = (text for text in map(str, arguments) if not QUOTED_MESSAGE.search(text))
        wrong.extend(text for text in own if DEBUG_OUTPUT.search(text))

    monkeypatch.setattr(fsp.Error, "__init__", record)
    yield
    assert not wrong, wrong


@pytest.fixture(autouse=True)
def no_earlier_loaders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loaders of other tests, whose classes have other numbers, cause no warning."""
    monkeypatch.setattr(_dataset, "_numberings", {})


@pytest.fixture(scope="session")
def encoder() -> str:
    """An ffmpeg program, which `prepare` needs."""
    try:
        return _ffmpeg.find()
    except fsp.errors.UnsupportedError:
        if os.environ.get("CI"):
            raise
        pytest.skip("no ffmpeg program: pip install imageio-ffmpeg")


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The additional corpus, for tests that need it."""
    place = os.environ.get("FRAMESPOOL_CORPUS")
    if not place:
        pytest.skip("needs the additional corpus, but FRAMESPOOL_CORPUS is not set")
    return Path(place)


@pytest.fixture(scope="session")
def manifest(media: Path) -> list[dict[str, Any]]:
    """Manifest entries of all generated media and, if FRAMESPOOL_CORPUS is set, of the additional corpus.

    ``properties["file"]`` is the path of the file.
    """
    roots = [media, *(Path(root) for root in [os.environ.get("FRAMESPOOL_CORPUS")] if root)]
    found = []
    for root in roots:
        found += [
            {**properties, "file": str(root / properties["path"])}
            for properties in json.loads((root / "manifest.json").read_text())["files"]
        ]
    return found


@pytest.fixture(scope="session")
def videos(media: Path) -> Path:
    return media / "video"


@pytest.fixture(scope="session")
def short_clips(videos: Path) -> list[tuple[str, int]]:
    """Thirteen short clips, 640x480, 47 to 109 frames, one label each."""
    return [(str(path), label) for label, path in enumerate(sorted((videos / "action" / "words").iterdir()))]


@pytest.fixture(scope="session")
def tiny_clips(encoder: str, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, int]]:
    """Videos with the numbers of frames and the random access points of ``short_clips``, and 100th of their pixels.

    For tests that count frames of many videos: what they decode costs little.
    """
    folder = tmp_path_factory.mktemp("tiny")
    command = [encoder, "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=64x48:rate=25"]
    lengths = {77: 0, 63: 33, 109: 0, 65: 35, 47: 0, 58: 30, 49: 0, 61: 31, 51: 0, 68: 38, 66: 0, 73: 43, 72: 0}
    for length, second in lengths.items():
        command += ["-frames:v", str(length), "-g", "250", "-sc_threshold", "0", "-c:v", "libx264", "-threads", "1"]
        command += ["-pix_fmt", "yuv420p", *(["-force_key_frames", f"expr:eq(n,{second})"] if second else [])]
        command += [str(folder / f"{length}.mkv")]
    subprocess.run(command, check=True)
    return [(str(folder / f"{length}.mkv"), label) for label, length in enumerate(lengths)]


@pytest.fixture(scope="session")
def bad_file(videos: Path) -> str:
    return str(videos / "corrupt" / "broken.mp4")


@pytest.fixture(scope="session")
def media() -> Path:
    """The folder of the generated media."""
    place = Path(os.environ.get("FRAMESPOOL_MEDIA") or ROOT / "target" / "media")
    if not (place / "manifest.json").is_file():
        raise RuntimeError(f"no test media at {place}: run scripts/setup.sh tests, which generates them")
    return place


@pytest.fixture(scope="session")
def pictures(media: Path) -> Path:
    """The generated images: photographs in classes/<label>, varieties in odd, damaged files in corrupt."""
    return media / "images"


@pytest.fixture(scope="session")
def photos(pictures: Path) -> list[tuple[str, int]]:
    """Some of the photographs, labeled by their folders."""
    classes = sorted(folder.name for folder in (pictures / "classes").iterdir())
    found = sorted((pictures / "classes").glob("*/*.jpg"))
    return [(str(path), classes.index(path.parent.name)) for path in found[::4]]


@pytest.fixture(scope="session")
def nginx(media: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    server = Nginx(media.resolve(), tmp_path_factory.mktemp("nginx"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def refusing() -> Iterator[str]:
    """Host and port of a server that refuses connections."""
    with reserved_port() as reserved:
        yield f"127.0.0.1:{reserved.getsockname()[1]}"


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    server = S3(tmp_path_factory.mktemp("s3"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def content(videos: Path, encoder: str, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An MP4 of 3.5 MB, six groups of 120 small frames, too large for one response; its tables are at the end."""
    path, made = videos / "action" / "phone_176x144.mp4", tmp_path_factory.mktemp("content") / "long.mp4"
    subprocess.run([encoder, "-v", "error", "-stream_loop", "5", "-i", path, "-c", "copy", made], check=True)
    return made.read_bytes()
