"""Shared by the Python tests: the corpus, which they read and never copy."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import framespool as fsp
import pytest
from framespool._prepare import _program
from servers import S3, Nginx

ROOT = Path(__file__).resolve().parents[2]

# Tests build what they test, and leave the user's cache alone; those about the index say where it is.
os.environ["FRAMESPOOL_INDEX"] = "off"


def _corpus() -> Path | None:
    place = Path(os.environ.get("FRAMESPOOL_CORPUS") or ROOT.parent / "shared" / "corpus")
    if (place / "manifest.json").is_file():
        return place
    if os.environ.get("CI"):
        raise RuntimeError(f"CI must have the corpus at {place}")
    return None


@pytest.fixture
def encoder() -> str:
    """An ffmpeg program, which `prepare` needs."""
    try:
        return _program.find()
    except fsp.UnsupportedError:
        if os.environ.get("CI"):
            raise
        pytest.skip("no ffmpeg program: pip install imageio-ffmpeg")


@pytest.fixture(scope="session")
def corpus() -> Path:
    place = _corpus()
    if place is None:
        pytest.skip("no corpus beside the project; set FRAMESPOOL_CORPUS")
    return place


@pytest.fixture(scope="session")
def manifest(corpus: Path) -> list[dict[str, Any]]:
    return json.loads((corpus / "manifest.json").read_text())["files"]


@pytest.fixture(scope="session")
def videos(corpus: Path) -> Path:
    return corpus / "video"


@pytest.fixture(scope="session")
def asl(videos: Path) -> list[tuple[str, int]]:
    """Thirteen short sign-language clips, 640x480, 47 to 109 frames, one label each."""
    return [(str(path), label) for label, path in enumerate(sorted((videos / "action" / "asl").iterdir()))]


@pytest.fixture(scope="session")
def bad_file(videos: Path) -> str:
    return str(videos / "corrupt" / "broken.mp4")


@pytest.fixture(scope="session")
def photos(corpus: Path) -> list[tuple[str, int]]:
    """Some of the corpus' photographs, labelled by their folders."""
    classes = sorted(folder.name for folder in (corpus / "images" / "classes").iterdir())
    found = sorted((corpus / "images" / "classes").glob("*/*.jpg"))
    return [(str(path), classes.index(path.parent.name)) for path in found[::4]]


@pytest.fixture(scope="session")
def nginx(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    server = Nginx(corpus.resolve(), tmp_path_factory.mktemp("nginx"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    server = S3(tmp_path_factory.mktemp("s3"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def content(videos: Path) -> bytes:
    return (videos / "1080p" / "park_street_30p.mp4").read_bytes()
