"""``scripts/build_ffmpeg.sh``: the sources that it uses and rejects. Nothing is compiled or downloaded."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "build_ffmpeg.sh"
TOOLS = "basename cat cp cut dirname find gcc grep head mkdir mktemp mv nproc realpath rm sed sha256sum sort tail tar"
TOOLS += " touch tr uname xz"
#: Answers like apt-get, from the files in $MIRROR, and logs its arguments.
APT_GET = """#!/bin/bash
echo "$*" >>"$MIRROR/asked"
last=${!#}
case "$*" in
indextargets*) echo http://mirror.invalid/debian ;;
*" source "*)
  version=${last#*=} version=${version#*:}
  cp "$MIRROR/${last%%=*}_${version%-*}.orig.tar.xz" .
  ;;
esac
"""
APT_CACHE = '#!/bin/bash\nsed "s/^/Version: /" "$MIRROR/${!#}" 2>/dev/null\n'
#: Replaces the compilers: creates a prefix with its configure arguments.
FAKE_BUILD = """
build_dav1d() { mkdir -p "$work/prefix/lib/pkgconfig"; }
build_ffmpeg() { touch "$work/prefix/lib/pkgconfig/libavcodec.pc"; echo "$*" >"$work/prefix/arguments"; }
main
"""


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def program(file: Path, text: str = "#!/bin/sh\n") -> None:
    file.write_text(text)
    file.chmod(0o755)


@dataclass
class Machine:
    """A machine with a site and, after ``add_apt()``, a Debian mirror, both folders; ``pins`` as in the script."""

    place: Path
    pins: dict[str, list[str]] = field(default_factory=dict)
    site: str = ""
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for folder in ("bin", "site", "mirror", "cache", "work"):
            (self.place / folder).mkdir(parents=True)
        for tool in TOOLS.split():
            (self.place / "bin" / tool).symlink_to(shutil.which(tool) or tool)
        program(self.place / "bin" / "python3", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        for tool in ("make", "nasm", "patch", "pkg-config", "meson", "ninja"):
            program(self.place / "bin" / tool)
        (self.place / "keyring.gpg").touch()
        self.site = self.site or (self.place / "site").as_uri()
        self.pins = {"ffmpeg": [], "dav1d": []}

    def release(self, package: str, version: str, *, pinned: bool = True) -> Path:
        """A tarball as upstream would release it."""
        file = self.place / f"{package}-{version}.tar.xz"
        (self.place / "VERSION").write_text(f"{package} {version}")
        with tarfile.open(file, "w:xz") as archive:
            archive.add(self.place / "VERSION", f"{package}-{version}/VERSION")
        if pinned:
            self.pins[package].append(f"{version} {sha256(file)}")
        return file

    def to_site(self, file: Path) -> None:
        shutil.copy(file, self.place / "site")

    def add_apt(self, *offered: tuple[str, Path]) -> None:
        """apt with a Debian mirror that has these Debian versions, each with its tarball."""
        program(self.place / "bin" / "apt-get", APT_GET)
        program(self.place / "bin" / "apt-cache", APT_CACHE)
        for version, file in offered:
            package, upstream = file.name.removesuffix(".tar.xz").split("-")
            shutil.copy(file, self.place / "mirror" / f"{package}_{upstream}.orig.tar.xz")
            with (self.place / "mirror" / package).open("a") as versions:
                versions.write(f"{version}\n")

    def run(self, commands: str, script: Path = SCRIPT) -> subprocess.CompletedProcess[str]:
        """Runs ``commands`` after the script's definitions, with this machine's pins and places."""
        quoted = {name.upper(): " ".join(f'"{pin}"' for pin in pins) for name, pins in self.pins.items()}
        lines = [f"source {script}", *(f"{name}_PINS=({pins})" for name, pins in quoted.items())]
        lines += [f"{name}_URL={self.site}/{name.lower()}-VERSION.tar.xz" for name in quoted]
        lines += [f"KEYRING={self.place}/keyring.gpg", f"PATH={self.place}/bin", f"work={self.place}/work", commands]
        environment = {"MIRROR": str(self.place / "mirror"), "FRAMESPOOL_CACHE": str(self.place / "cache")}
        environment |= {"PATH": os.environ["PATH"], "LC_ALL": "C"} | self.environment
        command = [shutil.which("bash") or "bash", "-c", "\n".join(lines)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, cwd=self.place)

    def fetch(self) -> subprocess.CompletedProcess[str]:
        """Fetches FFmpeg; prints its version, its SHA-256 and its tarball."""
        return self.run('take_given ffmpeg; fetch ffmpeg; echo "${version[ffmpeg]} ${sha[ffmpeg]} ${tarball[ffmpeg]}"')

    def asked(self) -> str:
        """The log of apt's arguments."""
        file = self.place / "mirror" / "asked"
        return file.read_text() if file.exists() else ""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")


def taken(done: subprocess.CompletedProcess[str]) -> tuple[str, str, str]:
    assert done.returncode == 0, done.stderr
    version, digest, file = done.stdout.split()
    assert digest == "unpinned" or sha256(Path(file)) == digest
    return version, digest, file


def test_site_is_tried_first_and_download_is_cached(machine):
    newest, older = machine.release("ffmpeg", "9.0.2"), machine.release("ffmpeg", "8.1.2")
    machine.add_apt(("7:9.0.2-4", newest))
    machine.to_site(newest)
    machine.to_site(older)
    version, _, file = taken(machine.fetch())
    assert version == "9.0.2" and Path(file).parent == machine.place / "cache" / "sources"
    assert machine.asked() == "", "apt is asked only if the site has nothing"
    shutil.rmtree(machine.place / "site")
    again = machine.fetch()
    assert taken(again) == (version, sha256(newest), file) and "fetching" not in again.stderr


def test_debian_is_tried_before_an_older_version(machine):
    newest, older = machine.release("ffmpeg", "9.0.2"), machine.release("ffmpeg", "8.1.2")
    machine.site = "http://127.0.0.1:1"
    machine.add_apt(("7:8.1.2-2", older), ("7:9.0.2-4", newest))
    done = machine.fetch()
    assert taken(done)[0] == "9.0.2"
    order = re.findall(r"fetching (\S+ ?\S*)", done.stderr)
    assert order == ["http://127.0.0.1:1/ffmpeg-9.0.2.tar.xz", "Debian's ffmpeg"] and "refused" in done.stderr


def test_older_pin_is_used_when_newest_is_gone(machine):
    machine.release("ffmpeg", "9.0.2")
    machine.add_apt(
        ("7:8.1.2-2", machine.release("ffmpeg", "8.1.2")),
        ("7:9.0.20-1", machine.release("ffmpeg", "9.0.20", pinned=False)),
    )
    done = machine.fetch()
    assert taken(done)[:2] == tuple(machine.pins["ffmpeg"][1].split())
    assert done.stderr.count("not available") == 1 and "unpinned" not in done.stderr


def test_a_given_tarball_needs_no_network(machine):
    machine.release("ffmpeg", "9.0.2")
    older = machine.release("ffmpeg", "8.1.2")
    machine.add_apt()
    given = older.rename(machine.place / "any name.tar.xz")
    machine.environment["FRAMESPOOL_FFMPEG_TARBALL"] = str(given)
    done = machine.run('take_given ffmpeg; fetch ffmpeg; echo "${version[ffmpeg]}=${tarball[ffmpeg]}"')
    assert done.stdout == f"8.1.2={given}\n" and done.stderr == "" and machine.asked() == ""


@pytest.mark.parametrize("source", ["given", "cache", "site", "Debian"])
def test_wrong_hash_is_an_error_for_every_source(source, machine):
    pinned = machine.release("ffmpeg", "9.0.2")
    expected = sha256(pinned)
    machine.to_site(machine.release("ffmpeg", "8.1.2"))  # must not be taken instead
    wrong = pinned
    wrong.write_bytes(pinned.read_bytes() + b"\0")
    if source == "given":
        machine.environment["FRAMESPOOL_FFMPEG_TARBALL"] = str(wrong)
    elif source == "cache":
        (machine.place / "cache" / "sources").mkdir()
        shutil.copy(wrong, machine.place / "cache" / "sources")
    elif source == "site":
        machine.to_site(wrong)
    else:
        machine.add_apt(("7:9.0.2-4", wrong))
    done = machine.fetch()
    assert done.returncode == 1 and done.stdout == ""
    message = done.stderr.splitlines()[-1]
    assert sha256(wrong) in message and expected in message
    name = "ffmpeg_9.0.2.orig.tar.xz" if source == "Debian" else "ffmpeg-9.0.2.tar.xz"
    assert name in message and ("delete it" if source == "cache" else "download") in message
    kept = list((machine.place / "cache").glob("sources/*"))
    assert len(kept) == (source == "cache"), "no rejected file is kept"


def test_a_given_tarball_that_is_not_there_is_an_error(machine):
    machine.to_site(machine.release("ffmpeg", "9.0.2"))
    machine.environment["FRAMESPOOL_FFMPEG_TARBALL"] = "/nowhere/ffmpeg.tar.xz"
    done = machine.fetch()
    assert done.returncode == 1 and "FRAMESPOOL_FFMPEG_TARBALL=/nowhere/ffmpeg.tar.xz: no such file" in done.stderr


@pytest.fixture
def cut_short() -> Iterator[str]:
    """A site whose connections end early."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"0123456789")

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_download_that_ends_early_is_no_wrong_hash(machine, cut_short):
    machine.site = cut_short
    machine.add_apt(("7:9.0.2-4", machine.release("ffmpeg", "9.0.2")))
    done = machine.fetch()
    assert taken(done)[0] == "9.0.2" and "10 of 1000 bytes" in done.stderr


@pytest.mark.parametrize(
    ("lack", "reason"),
    [("apt", "no apt-get here"), ("mirror", "no Debian mirror"), ("keyring", "keyring.gpg is missing")],
)
def test_unavailable_sources_list_reasons_and_remedy(lack, reason, machine):
    newest = machine.release("ffmpeg", "9.0.2")
    if lack != "apt":
        machine.add_apt(("7:9.0.2-4", newest))
    if lack == "mirror":
        program(machine.place / "bin" / "apt-get", "#!/bin/sh\necho http://archive.ubuntu.com/ubuntu\n")
    if lack == "keyring":
        (machine.place / "keyring.gpg").unlink()
    done = machine.fetch()
    assert done.returncode == 1
    for words in (reason, f"{machine.site}/ffmpeg-9.0.2.tar.xz: ", "FRAMESPOOL_FFMPEG_TARBALL", "FRAMESPOOL_FFMPEG to"):
        assert words in done.stderr
    assert done.stderr.count(reason) == 1


@pytest.fixture
def moved_on(machine) -> Machine:
    """A machine whose mirror has newer releases than the pinned ones."""
    machine.release("ffmpeg", "9.0.2")
    offered = [
        (f"7:{version}-1", machine.release("ffmpeg", version, pinned=False)) for version in ("9.0.1", "9.0.3", "9.1.0")
    ]
    machine.add_apt(*offered, ("1.5.4-1", machine.release("dav1d", "1.5.4")))
    return machine


def test_newer_patch_release_is_marked_as_development(moved_on):
    done = moved_on.run(FAKE_BUILD)
    assert done.returncode == 0, done.stderr
    prefix = Path(done.stdout.strip())
    assert (prefix / "BUILT").read_text() == "FFmpeg 9.0.3 (unpinned), dav1d 1.5.4\n"
    assert (prefix / "arguments").read_text() == "--extra-version=unpinned\n"
    [line] = [line for line in done.stderr.splitlines() if "unpinned: " in line]
    assert "ffmpeg 9.0.3" in line and "(9.0.2)" in line
    again = moved_on.run(FAKE_BUILD)
    assert again.stdout == done.stdout and again.stderr.endswith("cached: FFmpeg 9.0.3 (unpinned), dav1d 1.5.4\n")


def test_release_refuses_cached_unpinned_versions(moved_on):
    built = Path(moved_on.run(FAKE_BUILD).stdout.strip())
    assert (built / "BUILT").is_file()
    moved_on.environment["FRAMESPOOL_RELEASE"] = "1"
    done = moved_on.run(FAKE_BUILD)
    assert done.returncode == 1 and done.stdout == "" and "no pinned version of ffmpeg (9.0.2)" in done.stderr
    moved_on.to_site(moved_on.place / "ffmpeg-9.0.2.tar.xz")
    done = moved_on.run(FAKE_BUILD)
    assert done.returncode == 0, done.stderr
    prefix = Path(done.stdout.strip())
    assert (prefix / "BUILT").read_text() == "FFmpeg 9.0.2, dav1d 1.5.4\n" and prefix != built
    assert (prefix / "arguments").read_text() == "\n"
    assert not list((moved_on.place / "cache").glob("build-*")), "the folder in which it is built is removed"


def test_only_relevant_changes_cause_a_rebuild(machine, tmp_path):
    def prefix(change: str = "", old: str = "", new: str = "", hashes: str = "aaaa bbbb") -> str:
        text = SCRIPT.read_text()
        assert old in text
        script = tmp_path / "scripts" / "build_ffmpeg.sh"
        script.parent.mkdir(exist_ok=True)
        script.write_text(text.replace(old, new) if old else text)
        done = machine.run(f"{change}\nprefix_of {hashes}", script)
        assert done.returncode == 0, done.stderr
        return done.stdout

    first = prefix()
    assert prefix(old="# ---- build ---", new="# A remark.\n# ---- build ---") == first
    assert prefix(old="some minutes", new="a while") == first
    changed = [
        prefix("FFMPEG_PINS+=('1.0 cccc')"),
        prefix("CONFIGURE+=(--enable-gpl)"),
        prefix("gcc() { echo 99; }"),
        prefix("uname() { echo aarch64; }"),
        prefix(old="--buildtype=release", new="--buildtype=debug"),
        prefix("FRAMESPOOL_TARGET=aarch64-unknown-linux-gnu"),
        prefix(hashes="aaaa cccc"),
    ]
    assert len({first, *changed}) == len(changed) + 1


def test_pins_are_sorted_and_third_party_has_the_first():
    rows = dict(
        re.findall(r"^\| (FFmpeg|dav1d)\b[^|]*\| ([\d.]+) ", (ROOT / "THIRD_PARTY.md").read_text(), re.MULTILINE)
    )
    for name, version in rows.items():
        [block] = re.findall(rf"^{name.upper()}_PINS=\(\n(.*?)^\)", SCRIPT.read_text(), re.MULTILINE | re.DOTALL)
        pins = re.findall(r'^  "([\d.]+) ([0-9a-f]{64})"$', block, re.MULTILINE)
        assert len(pins) == len(block.splitlines()) > 1 and pins[0][0] == version
        numbers = [tuple(map(int, number.split("."))) for number, _ in pins]
        assert numbers == sorted(numbers, reverse=True)
    assert set(rows) == {"FFmpeg", "dav1d"}


@pytest.mark.parametrize(
    ("built", "fits"),
    [("FFmpeg 9.0.2, dav1d 1.5.4", True), ("FFmpeg 9.0.3 (unpinned), dav1d 1.5.4", False), (None, False)],
)
def test_release_wheel_rejects_unpinned_ffmpeg(built, fits, tmp_path):
    """An external FFmpeg of unknown origin is rejected too."""
    [function] = re.findall(
        r"^ffmpeg\(\) \{\n.*?^\}", (ROOT / "scripts" / "setup.sh").read_text(), re.MULTILINE | re.DOTALL
    )
    prefix = tmp_path / "prefix"
    (prefix / "lib" / "pkgconfig").mkdir(parents=True)
    (prefix / "lib" / "pkgconfig" / "libavcodec.pc").touch()
    (tmp_path / ".venv").mkdir()
    if built:
        (prefix / "BUILT").write_text(built + "\n")
    script = f'set -euo pipefail\ndie() {{ echo "$*" >&2; exit 1; }}\n{function}\nffmpeg'

    def run(**more: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": os.environ["PATH"], "FRAMESPOOL_FFMPEG": str(prefix)} | more
        return subprocess.run(["bash", "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True)

    assert run().returncode == 0, "any FFmpeg is accepted for development"
    done = run(FRAMESPOOL_RELEASE="1")
    assert (done.returncode == 0) == fits
    assert fits or (str(prefix) in done.stderr and "pinned" in done.stderr)


def test_build_script_recognizes_the_patch_by_its_messages():
    """Otherwise every frame of H.264 and HEVC would be filled before it is decoded, which only costs time."""
    (listed,) = re.findall(r"PATCH_MESSAGES: \[&str; \d\] =\s*\[(.*?)\];", (ROOT / "build.rs").read_text(), re.DOTALL)
    added = [line for line in (ROOT / "scripts" / "ffmpeg.patch").read_text().splitlines() if line.startswith("+")]
    for message in re.findall(r'"(.*?)"', listed):
        assert any(f'"{message}' in line for line in added), message
