"""The package: light to import, typed, and its README true."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import framespool as fsp
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]


def test_import_is_light():
    program = (
        "import sys, framespool; "
        "heavy = {'torch', 'numpy', 'jax'} & set(sys.modules); "
        "assert not heavy, heavy; print(framespool.__version__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == fsp.__version__


def test_the_wheel_brings_its_own_ffmpeg():
    from framespool import _framespool

    needed = subprocess.run(["ldd", _framespool.__file__], capture_output=True, text=True, check=True).stdout
    assert "libav" not in needed and "dav1d" not in needed
    assert re.match(r"\d+\.\d+", _framespool.ffmpeg_version)


def test_public_names_are_documented():
    for name in fsp.__all__:
        if name.startswith("__"):
            continue
        assert getattr(fsp, name).__doc__, name


def snippets(text):
    """What is to be run: not what another library's users have now, which is marked."""
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


@pytest.fixture
def beside(tmp_path, monkeypatch, videos):
    """The files that README.md and docs/ speak of, in the working directory."""
    (tmp_path / "videos").mkdir()
    for name in ("again", "bird", "book"):
        folder = tmp_path / "videos" / name
        folder.mkdir()
        (folder / f"{name}.mkv").symlink_to(videos / "action" / "asl" / f"{name}.mkv")
    shutil.copy(videos / "derived" / "base_640x360.mp4", tmp_path / "a.mp4")  # a link would go into a tar as a link
    photos = sorted((videos.parent / "images" / "classes").rglob("*.jpg"))
    for number, (name, photo) in enumerate([(n, p) for n in ("dog", "cat") for p in photos[:5]]):
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number % 5 + 1}.jpg").symlink_to(photo)
    (tmp_path / "frames").mkdir()
    for number in range(1, 9):
        Image.new("RGB", (32, 16), (number, 0, 0)).save(tmp_path / "frames" / f"img_{number:05}.png")
    monkeypatch.chdir(tmp_path)


def run_in_order(code, where):
    """Runs snippets in one namespace; skips, by name, where one needs what is not installed."""
    assert code, f"{where} has no Python"
    namespace = {}
    for n, snippet in enumerate(code):
        for package in re.findall(r"^(?:import|from) (?:framespool\.)?(torch|ray)\b", snippet, flags=re.MULTILINE):
            pytest.importorskip(package)
        exec(compile(snippet, f"{where}, snippet {n + 1}", "exec"), namespace)


@pytest.mark.usefixtures("beside")
def test_readme_snippets_run():
    run_in_order(snippets((ROOT / "README.md").read_text()), "README.md")


def migrations():
    """The parts of docs/migrating.md by their headings."""
    _, *parts = re.split(r"^## ", (ROOT / "docs" / "migrating.md").read_text(), flags=re.MULTILINE)
    return {part.splitlines()[0]: part for part in parts}


@pytest.mark.usefixtures("beside")
@pytest.mark.timeout(240)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("heading", migrations())
def test_what_replaces_another_library_runs(heading):
    part = migrations()[heading]
    assert "```python before" in part, "what it replaces is shown"
    run_in_order(snippets(part), heading)
