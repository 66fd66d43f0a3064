#!/usr/bin/env python3
"""Writes the wheel's CycloneDX SBOM, for its `.dist-info/sboms` (PEP 770), and the licenses of the Rust crates.

    scripts/sbom.py list FILE        writes the SBOM; called by scripts/setup.sh wheel
    scripts/sbom.py licences         writes licenses/rust-crates.txt
    scripts/sbom.py check            checks that this file is up to date

Sources of the data: cargo, for the crates that are compiled into the library on this platform (no build tools, no
macros); Cargo.lock, for their checksums; the linked FFmpeg, for its version and configuration; the crates' sources,
for the C libraries in them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LICENCES = ROOT / "licenses" / "rust-crates.txt"
PACKAGE = "framespool-python"

#: FFmpeg's license strings and their SPDX expressions.
_FFMPEG_LICENCES = {
    "LGPL version 2.1 or later": "LGPL-2.1-or-later",
    "LGPL version 3 or later": "LGPL-3.0-or-later",
    "GPL version 2 or later": "GPL-2.0-or-later",
    "GPL version 3 or later": "GPL-3.0-or-later",
}


def _run(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"sbom: {' '.join(command)} failed:\n{done.stderr}")
    return done.stdout


#: A source distribution lacks the test crates, and cargo removes them from Cargo.lock.
LOCKED = [] if (ROOT / "PKG-INFO").is_file() else ["--locked"]


@cache
def _target() -> str:
    """The target that is compiled for, as set by scripts/env.sh."""
    if target := os.environ.get("FRAMESPOOL_TARGET"):
        return target
    return dict(line.split(": ", 1) for line in _run("rustc", "-vV").splitlines() if ": " in line)["host"]


@cache
def _metadata() -> dict[str, Any]:
    return json.loads(_run("cargo", "metadata", *LOCKED, "--format-version=1", f"--filter-platform={_target()}"))


@cache
def crates() -> dict[tuple[str, str], dict[str, Any]]:
    """cargo's metadata of each crate whose code is in the library, by name and version."""
    edges = "--edges=normal,no-proc-macro"
    tree = _run("cargo", "tree", *LOCKED, f"--package={PACKAGE}", edges, f"--target={_target()}", "--prefix=none")
    wanted = {(words[0], words[1].removeprefix("v")) for line in tree.splitlines() if (words := line.split())}
    known = {(package["name"], package["version"]): package for package in _metadata()["packages"]}
    return {key: known[key] for key in sorted(wanted)}


def _own(package: dict[str, Any]) -> bool:
    return package["source"] is None


def _checksums() -> dict[tuple[str, str], str]:
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    return {(p["name"], p["version"]): p["checksum"] for p in lock["package"] if "checksum" in p}


def spdx(licence: str) -> str:
    """The old slash notation of a choice, as an SPDX expression."""
    return re.sub(r"\s*/\s*", " OR ", licence)


# ---- what is not Rust ----------------------------------------------------------------------------------------------


def _prefix() -> Path:
    """The linked FFmpeg's prefix, as set by scripts/env.sh."""
    named = os.environ.get("FRAMESPOOL_FFMPEG")
    target = os.environ.get("FRAMESPOOL_TARGET")
    noted = ROOT / ".venv" / ("ffmpeg-prefix" + (f"-{target}" if target else ""))
    if not named and not noted.is_file():
        raise SystemExit("sbom: no FFmpeg is set up; run scripts/setup.sh tools first, or set FRAMESPOOL_FFMPEG")
    return Path(named or noted.read_text().strip())


def _strings(data: bytes, pattern: bytes) -> list[str]:
    """Strings of a C program that match completely."""
    return [found.decode() for found in re.findall(rb"(?<![ -~])" + pattern + rb"(?=\0)", data)]


def ffmpeg_properties(data: bytes) -> dict[str, str]:
    """Version, configuration and license, from the bytes of a libavutil, or of a library that contains it."""
    version = _strings(data, rb"FFmpeg version [^\0]+")
    line = [text for text in _strings(data, rb"--[^\0]+") if "--prefix" in text or "--disable-" in text]
    licence = _strings(data, rb"libav[a-z]+ license: [^\0]+")
    if not (version and line and licence):
        raise SystemExit("sbom: no version, configuration and license found in the linked FFmpeg")
    words = licence[0].split(": ", 1)[1]
    if words not in _FFMPEG_LICENCES:
        raise SystemExit(
            f"sbom: an FFmpeg under '{words}' cannot be redistributed; configure it without --enable-nonfree"
        )
    number = version[0].removeprefix("FFmpeg version ")
    return {"version": number, "configuration": max(line, key=len), "licence": _FFMPEG_LICENCES[words]}


def _pkg_config_version(name: str) -> str:
    folder = _prefix() / "lib" / "pkgconfig"
    environment = os.environ | {"PKG_CONFIG_PATH": f"{folder}:{os.environ.get('PKG_CONFIG_PATH', '')}"}
    done = subprocess.run(["pkg-config", "--modversion", name], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"sbom: pkg-config does not find {name}, which FFmpeg is linked with: {done.stderr}")
    return done.stdout.strip()


def _folder(crate: str) -> Path:
    [package] = [package for (name, _), package in crates().items() if name == crate]
    return Path(package["manifest_path"]).parent


def _found(crate: str, file: str, pattern: str) -> str:
    match = re.search(pattern, (_folder(crate) / file).read_text(errors="replace"))
    if match is None:
        raise SystemExit(f"sbom: no version found in {file} of {crate}")
    return match[1]


@cache
def libraries() -> list[dict[str, Any]]:
    """C libraries and the Rust standard library, each with the crate or library that contains it."""
    ffmpeg = ffmpeg_properties((_prefix() / "lib" / "libavutil.a").read_bytes())
    found = [
        {
            "name": "FFmpeg",
            "version": ffmpeg["version"],
            "licence": ffmpeg["licence"],
            "by": "ffmpeg-sys-next",
            "configuration": ffmpeg["configuration"],
        }
    ]
    if "--enable-libdav1d" in ffmpeg["configuration"]:
        version = _pkg_config_version("dav1d")
        found.append({"name": "dav1d", "version": version, "licence": "BSD-2-Clause", "by": "FFmpeg"})
    jpeg = _found("turbojpeg-sys", "libjpeg-turbo/CMakeLists.txt", r"set\(VERSION ([\d.]+)\)")
    found.append({"name": "libjpeg-turbo", "version": jpeg, "licence": "IJG AND BSD-3-Clause", "by": "turbojpeg-sys"})
    sqlite = _found("libsqlite3-sys", "sqlite3/sqlite3.h", r'#define SQLITE_VERSION\s+"([\d.]+)"')
    found.append({"name": "SQLite", "version": sqlite, "licence": "blessing", "by": "libsqlite3-sys"})
    [zstd] = [version for name, version in crates() if name == "zstd-sys"]
    found.append({"name": "zstd", "version": zstd.rpartition("zstd.")[2], "licence": "BSD-3-Clause", "by": "zstd-sys"})
    rust = re.search(r"^release: (.+)$", _run("rustc", "-vV"), re.MULTILINE)
    assert rust is not None
    found.append({"name": "rust-std", "version": rust[1], "licence": "MIT OR Apache-2.0", "by": PACKAGE})
    return found


# ---- the list ------------------------------------------------------------------------------------------------------


def _purl(name: str, version: str, kind: str = "cargo") -> str:
    return f"pkg:{kind}/{name.lower()}@{version.replace('+', '%2B')}"


def _components() -> Iterator[dict[str, Any]]:
    checksums = _checksums()
    for (name, version), package in crates().items():
        purl = _purl(name, version)
        component = {
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": version,
            "licenses": [{"expression": spdx(package["license"])}],
            "purl": purl,
        }
        if not _own(package):
            component["hashes"] = [{"alg": "SHA-256", "content": checksums[name, version]}]
        yield component
    for library in libraries():
        purl = _purl(library["name"], library["version"], "generic")
        component = {
            "type": "library",
            "bom-ref": purl,
            "name": library["name"],
            "version": library["version"],
            "licenses": [{"expression": library["licence"]}],
            "purl": purl,
        }
        if "configuration" in library:
            component["properties"] = [{"name": "configuration", "value": library["configuration"]}]
        yield component


def _dependencies(root: str) -> list[dict[str, Any]]:
    packages = {package["id"]: (package["name"], package["version"]) for package in _metadata()["packages"]}
    references = {key: _purl(*key) for key in crates()}
    by_name = {name: reference for (name, _), reference in references.items()}
    uses: dict[str, set[str]] = {reference: set() for reference in references.values()}
    for node in _metadata()["resolve"]["nodes"]:
        key = packages[node["id"]]
        if key in references:
            normal = (d for d in node["deps"] if any(kind["kind"] is None for kind in d["dep_kinds"]))
            uses[references[key]] |= {
                references[packages[d["pkg"]]] for d in normal if packages[d["pkg"]] in references
            }
    for library in libraries():
        reference = _purl(library["name"], library["version"], "generic")
        by_name[library["name"]] = reference
        uses[reference] = set()
        uses[by_name[library["by"]]].add(reference)
    uses[root] = {by_name[PACKAGE]}
    return [{"ref": reference, "dependsOn": sorted(uses[reference])} for reference in sorted(uses)]


def bill() -> dict[str, Any]:
    """The SBOM, reproducible: it contains no time and no random number."""
    version = next(package["version"] for package in crates().values() if package["name"] == PACKAGE)
    version = version.replace("-rc.", "rc")  # Python's notation, which the wheel has
    root = f"pkg:pypi/framespool@{version}"
    components = list(_components())
    said = json.dumps(components, sort_keys=True)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, said)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": root,
                "name": "framespool",
                "version": version,
                "licenses": [{"expression": "Apache-2.0"}],
                "purl": root,
            }
        },
        "components": components,
        "dependencies": _dependencies(root),
    }


# ---- licences ------------------------------------------------------------------------------------------------------


def _texts(package: dict[str, Any]) -> list[str]:
    """License texts of a crate; of a choice with Apache-2.0, which the wheel has anyway, the other ones."""
    folder = Path(package["manifest_path"]).parent
    names = re.compile(r"(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)
    depths = [folder.glob(depth) for depth in ("*", "*/*", "*/*/*")]
    files = sorted(f for depth in depths for f in depth if names.match(f.name) and f.suffix in ("", ".md", ".txt"))
    files = [f for f in files if f.is_file() and not {"tests", "test", "benches"} & set(f.relative_to(folder).parts)]
    texts = [f.read_text(errors="replace").strip().replace("\r\n", "\n") for f in files]
    texts = [text for text in texts if text and "GNU GENERAL PUBLIC LICENSE" not in text]  # zstd's alternative
    if " OR " in spdx(package["license"]):
        texts = [t for t in texts if "Version 2.0, January 2004" not in t or "Permission is hereby" in t] or texts
    return texts


def licence_texts() -> str:
    """licenses/rust-crates.txt: each text once, with the list of its crates."""
    groups: dict[str, tuple[str, list[str]]] = {}
    without = []
    for (name, version), package in crates().items():
        if _own(package):
            continue
        texts = _texts(package)
        line = f"{name} {version}: {spdx(package['license'])}"
        if not texts:
            by = ", ".join(package["authors"]) or "the authors that its repository names"
            without.append(f"{line}; by {by}; {package['repository'] or 'no repository named'}")
        for text in texts:
            groups.setdefault(" ".join(text.split()), (text, []))[1].append(line)
    parts = [
        "Licences of the Rust crates that are compiled into framespool's wheel, as the crates bring them.\n"
        "Where a crate may be had under Apache-2.0 or another licence, the other one's text is here; Apache-2.0 is in\n"
        "LICENSE.\n"
        "Written by scripts/sbom.py licences."
    ]
    for text, lines in sorted(groups.values(), key=lambda group: group[1]):
        parts.append("\n".join(lines) + "\n\n" + text)
    if without:
        parts.append("Crates that bring no text; their licences' usual ones hold:\n\n" + "\n".join(without))
    return ("\n\n" + "=" * 100 + "\n\n").join(parts) + "\n"


def main(arguments: list[str]) -> int:
    """Command line entry point."""
    match arguments:
        case ["list", file]:
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            Path(file).write_text(json.dumps(bill(), indent=1) + "\n")
        case ["licences"]:
            LICENCES.write_text(licence_texts())
        case ["check"]:
            if not LICENCES.is_file() or LICENCES.read_text() != licence_texts():
                print(
                    "sbom: licenses/rust-crates.txt does not match Cargo.lock; run scripts/sbom.py licences",
                    file=sys.stderr,
                )
                return 1
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
