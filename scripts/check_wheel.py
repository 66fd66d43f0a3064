#!/usr/bin/env python3
"""Checks that a wheel is fit for release.

    scripts/check_wheel.py target/wheels/framespool-*.whl

Checks: its platform tag is the one that auditwheel finds; its library needs and exports only allowed names; it contains
no path of the build machine; licenses and a correct SBOM are included. Each failure names the remedy.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import sbom
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

#: The newest glibc that the wheel may need: that of RHEL 8 and Debian 10, older than that of Ubuntu 20.04.
NEWEST_GLIBC = (2, 28)
#: Libraries that every Linux distribution has, as defined by manylinux.
MAY_NEED = {
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "libz.so.1",
    "libgcc_s.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
}
#: The only exported symbol, called by Python: FFmpeg's symbols must not collide with another FFmpeg in the process.
SHOWN = {"PyInit__framespool"}
#: License texts in the wheel, below `.dist-info/licenses/`.
_LICENCES = (
    "LICENSE",
    "THIRD_PARTY.md",
    *(f"licenses/{file.name}" for file in sorted((sbom.ROOT / "licenses").glob("*.txt"))),
)
#: Build folders of users and machines. Registry crates are remapped to /crates, see scripts/setup.sh.
_PLACES = re.compile(
    rb"(/(?:root|home/[\w.-]+|Users/[\w.-]+|build/|work/|mnt/|var/folders/|tmp/(?!%))[\w./+-]*|[\w./+-]*\.cargo/registry[\w./+-]*)"
)
#: A crate's version in the file name that a panic message contains.
_CRATE_FILE = re.compile(rb"/crates/[^/\0]+/([A-Za-z0-9_-]+?)-(\d+\.\d+\.\d+[A-Za-z0-9.+-]*)/")


@dataclass
class Wheel:
    """A wheel, read once."""

    path: Path

    @cached_property
    def files(self) -> dict[str, bytes]:
        """All files by name."""
        with zipfile.ZipFile(self.path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}

    @cached_property
    def info(self) -> str:
        """The name of its metadata folder."""
        [folder] = {name.split("/")[0] for name in self.files if ".dist-info/" in name}
        return folder

    @cached_property
    def library(self) -> bytes:
        """The bytes of the extension module."""
        [name] = [name for name in self.files if ".so" in name]
        return self.files[name]

    @cached_property
    def elf(self) -> ELFFile:
        """The extension module, parsed as ELF."""
        return ELFFile(io.BytesIO(self.library))

    @cached_property
    def dynamic(self) -> DynamicSection:
        """The dynamic section."""
        return self.elf.get_section_by_name(".dynamic")

    @cached_property
    def bill(self) -> dict[str, Any]:
        """Its SBOMs; empty if there is none."""
        found = [name for name in self.files if name.startswith(f"{self.info}/sboms/")]
        return json.loads(self.files[found[0]]) if len(found) == 1 else {}


def check_tag(wheel: Wheel) -> Iterator[str]:
    """The file name, the metadata and auditwheel agree on the supported platforms."""
    _, version, python, abi, platform = wheel.path.stem.split("-")
    if (python, abi) != ("cp311", "abi3"):
        yield f"it supports {python}-{abi}, not for every CPython from 3.11 on (cp311-abi3)"
    metadata = wheel.files[f"{wheel.info}/METADATA"].decode()
    if "\nRequires-Python: >=3.11\n" not in metadata:
        yield "its metadata lacks Requires-Python: >=3.11, without which pip installs it on older versions"
    if f"\nTag: {python}-{abi}-{platform}\n" not in wheel.files[f"{wheel.info}/WHEEL"].decode():
        yield f"its file name has the tag {platform}, its metadata another one"
    shown = subprocess.run([sys.executable, "-m", "auditwheel", "show", wheel.path], capture_output=True, text=True)
    said = re.search(r'platform tag:\s+"([^"]+)"', " ".join(shown.stdout.split()))
    if shown.returncode or said is None:
        yield f"auditwheel cannot read it: {shown.stderr.strip() or shown.stdout.strip()}"
    elif said[1] not in platform.split("."):
        yield f"auditwheel finds {said[1]}, its name says {platform}"
    for section in wheel.elf.iter_sections():
        if isinstance(section, GNUVerNeedSection):
            needed = [entry.name for _, entries in section.iter_versions() for entry in entries]
            for name in needed:
                number = tuple(int(part) for part in re.findall(r"\d+", name)) if name.startswith("GLIBC_2") else ()
                if number > NEWEST_GLIBC:
                    yield f"it needs {name}; add it to scripts/link_library.sh or scripts/newer_glibc.c"


def check_library(wheel: Wheel) -> Iterator[str]:
    """The library needs and exports only allowed names, and has the usual hardening."""
    needed = {tag.needed for tag in wheel.dynamic.iter_tags("DT_NEEDED")}
    for name in sorted(needed - MAY_NEED):
        yield f"it needs {name}, which not every Linux distribution has; link it statically"
    symbols = wheel.elf.get_section_by_name(".dynsym")
    shown = {
        s.name for s in symbols.iter_symbols() if s["st_shndx"] != "SHN_UNDEF" and s["st_info"]["bind"] != "STB_LOCAL"
    }
    for name in sorted(shown - SHOWN):
        yield f"it exports {name}; link with scripts/link_library.sh, as scripts/setup.sh does"
    tags = {tag.entry.d_tag for tag in wheel.dynamic.iter_tags()}
    for tag in ("DT_RPATH", "DT_RUNPATH", "DT_TEXTREL"):
        if tag in tags:
            yield f"it has {tag}"
    segments = {segment["p_type"]: segment for segment in wheel.elf.iter_segments()}
    if "PT_GNU_RELRO" not in segments or not tags & {"DT_BIND_NOW", "DT_FLAGS"}:
        yield "its global offset table stays writable (no full RELRO)"
    if "PT_GNU_STACK" not in segments or segments["PT_GNU_STACK"]["p_flags"] & 1:
        yield "its stack is executable; an assembler file lacks .note.GNU-stack"
    if any(section.name.startswith(".debug") for section in wheel.elf.iter_sections()):
        yield "it contains debug information (strip = true in pyproject.toml)"


def check_places(wheel: Wheel) -> Iterator[str]:
    """No path of the build machine is in the wheel."""
    own = {os.fsencode(place) for place in (Path.home(), sbom.ROOT) if len(str(place)) > 1}
    for name, data in wheel.files.items():
        found = {match[1] for match in _PLACES.finditer(data)} if not name.endswith((".py", ".pyi", ".md")) else set()
        found |= {place for place in own if place in data}
        for place in sorted(found)[:3]:
            yield f"{name} contains {place.decode(errors='replace')!r}; scripts/setup.sh remaps such paths"


def check_files(wheel: Wheel) -> Iterator[str]:
    """The wheel contains only the package, its hashes match RECORD, and the licenses are included."""
    for name in wheel.files:
        if not name.startswith(("framespool/", f"{wheel.info}/")) or "__pycache__" in name or "/tests/" in name:
            yield f"{name} does not belong in a wheel"
    record = csv.reader(wheel.files[f"{wheel.info}/RECORD"].decode().splitlines())
    listed = {name: digest for name, digest, _ in record}
    for name, data in wheel.files.items():
        if name.endswith("/RECORD"):
            continue
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        if listed.get(name) != f"sha256={digest}":
            yield f"{name} does not match RECORD"
    for licence in _LICENCES:
        if (sbom.ROOT / licence).read_bytes() != wheel.files.get(f"{wheel.info}/licenses/{licence}"):
            yield f"{licence} is missing or differs from the one in the repository (license-files in pyproject.toml)"


def check_bill(wheel: Wheel) -> Iterator[str]:
    """The SBOM matches these sources and the contents of the library."""
    if not wheel.bill:
        yield "it must have one SBOM; scripts/setup.sh wheel adds it"
        return
    if wheel.bill != sbom.bill():
        yield "its SBOM does not match Cargo.lock and the FFmpeg here; run scripts/setup.sh wheel"
    listed = {(entry["name"], entry["version"]): entry for entry in wheel.bill["components"]}
    files = {(name.decode(), version.decode()) for name, version in _CRATE_FILE.findall(wheel.library)}
    if len(files) < 20:
        yield f"the library names only {len(files)} crates, too few to check the SBOM"
    for name, version in sorted(files - set(listed)):
        yield f"the library contains {name} {version}, which its SBOM does not list"
    by_name = {name: entry for (name, _), entry in listed.items()}
    for name in ("FFmpeg", "dav1d", "SQLite"):
        entry = by_name.get(name)
        said = entry and rb"(?<![\d.])" + re.escape(entry["version"].encode()) + rb"\0"
        if not said or not re.search(said, wheel.library):
            yield f"its SBOM lists {name} {entry and entry['version']}, the library contains another version"
    line = next(
        (p["value"] for p in by_name.get("FFmpeg", {}).get("properties", []) if p["name"] == "configuration"), None
    )
    if line is None or line.encode() not in wheel.library:
        yield "the FFmpeg configuration of the library differs from that in its SBOM"
    elif any(word in line for word in ("--enable-gpl", "--enable-nonfree", "--enable-version3")):
        yield "FFmpeg is configured with parts that are not under the LGPL 2.1, as THIRD_PARTY.md states"


CHECKS = (check_tag, check_library, check_places, check_files, check_bill)


def faults(path: Path, only: str | None = None) -> list[str]:
    """All findings for a wheel, or those of one check."""
    wheel = Wheel(path)
    checks = {check.__name__.removeprefix("check_"): check for check in CHECKS}
    wanted = checks if only is None else {only: checks[only]}
    return [f"{name}: {fault}" for name, check in wanted.items() for fault in check(wheel)]


def main(arguments: list[str]) -> int:
    """Checks the wheels given as arguments."""
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    missing = [argument for argument in arguments if not Path(argument).is_file()]
    if missing:
        print(f"check_wheel: no wheel at {', '.join(missing)}; scripts/setup.sh wheel builds one", file=sys.stderr)
        return 2
    code = 0
    for argument in arguments:
        found = faults(Path(argument))
        code |= bool(found)
        size = Path(argument).stat().st_size / 1e6
        print(f"{Path(argument).name}: {size:.1f} MB, {'valid' if not found else f'{len(found)} faults'}")
        for fault in found:
            print(f"  {fault}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
