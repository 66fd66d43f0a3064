"""The wheel built by setup is fit for release, and the checks detect unfit ones."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def check_wheel() -> ModuleType:
    pytest.importorskip("auditwheel")
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        return importlib.import_module("check_wheel")
    finally:
        sys.path.remove(str(ROOT / "scripts"))


@pytest.fixture(scope="module")
def wheel() -> Path:
    found = sorted((ROOT / "target" / "wheels").glob("framespool-*.whl"))
    if len(found) != 1:
        assert not os.environ.get("CI"), f"setup built {len(found)} wheels"
        pytest.skip(f"{len(found)} wheels in target/wheels; scripts/setup.sh wheel builds one")
    return found[0]


def changed(wheel: Path, folder: Path, change) -> Path:
    """A copy of a wheel with its files modified by ``change``; RECORD stays unchanged."""
    target = folder / wheel.name
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return target


def one(files: dict[str, bytes], ending: str) -> str:
    [name] = [name for name in files if name.endswith(ending)]
    return name


def test_wheel_passes_all_checks(check_wheel, wheel):
    assert check_wheel.faults(wheel) == []


def add_a_path(files):
    files[one(files, "METADATA")] += b"\nbuilt in /home/someone/framespool\n"


def drop_a_license(files):
    del files[one(files, "dav1d-BSD-2-Clause.txt")]


def drop_the_sbom(files):
    del files[one(files, ".cdx.json")]


def drop_a_crate(files):
    name = one(files, ".cdx.json")
    bill = json.loads(files[name])
    bill["components"] = [entry for entry in bill["components"] if entry["name"] not in ("tokio", "FFmpeg")]
    files[name] = json.dumps(bill).encode()


def change_sqlite_version(files):
    name = one(files, ".cdx.json")
    bill = json.loads(files[name])
    [entry] = [entry for entry in bill["components"] if entry["name"] == "SQLite"]
    entry["version"] = "3.1.1"
    files[name] = json.dumps(bill).encode()


def add_a_file(files):
    files["tests/test_a.py"] = b""


def change_a_file(files):
    files[one(files, "framespool/errors.py")] += b"\n"


def change_tag(files):
    name = one(files, "WHEEL")
    files[name] = files[name].replace(b"manylinux", b"musllinux")


def allow_older_pythons(files):
    name = one(files, "METADATA")
    files[name] = files[name].replace(b"Requires-Python: >=3.11", b"Requires-Python: >=3.8")


def add_needed_library(files):
    name = one(files, ".so")
    files[name] = files[name].replace(b"\0libz.so.1\0", b"\0libq.so.1\0")


def export_another_symbol(files):
    name = one(files, ".so")
    files[name] = files[name].replace(b"\0PyInit__framespool\0", b"\0PyInit__framespoon\0")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (add_a_path, "places: .*METADATA contains '/home/someone"),
        (drop_a_license, "files: licenses/dav1d"),
        (drop_the_sbom, "bill: it must have one SBOM"),
        (drop_a_crate, "bill: .*tokio .*does not list.*bill: .*FFmpeg"),
        (change_sqlite_version, "bill: .*SQLite 3.1.1"),
        (add_a_file, "files: tests/test_a.py"),
        (change_a_file, "files: framespool/errors.py does not match RECORD"),
        (change_tag, "tag: its file name has the tag"),
        (allow_older_pythons, "tag: .*Requires-Python"),
        (add_needed_library, "library: it needs libq.so.1"),
        (export_another_symbol, "library: it exports PyInit__framespoon"),
    ],
)
def test_what_makes_a_wheel_unfit_is_seen(change, words, check_wheel, wheel, tmp_path):
    unfit = changed(wheel, tmp_path, change)
    found = " | ".join(check_wheel.faults(unfit, words.split(":")[0]))
    assert re.search(words, found), found


def test_a_tag_that_the_library_is_too_new_for_is_seen(check_wheel, wheel, tmp_path):
    renamed = tmp_path / re.sub(r"manylinux_\d+_\d+", "manylinux_2_17", wheel.name)
    shutil.copy(wheel, renamed)
    found = " | ".join(check_wheel.faults(renamed, "tag"))
    assert re.search(r"auditwheel finds manylinux_2_2\w+, its name says manylinux_2_17", found), found


def test_build_paths_are_recognized(check_wheel):
    build_paths = [b"/%s/src/a.rs" % folder for folder in (b"home/me", b"root", b"build", b"work", b"mnt", b"tmp")]
    build_paths.append(b"x/.cargo/registry/src/a/b.rs")
    assert all(check_wheel._PLACES.search(place) for place in build_paths)
    others = [b"/crates/index/bytes-1.12.2/src/lib.rs", b"/rustc/5980/library/std/src/io.rs", b"/tmp/%sXXXXXX"]
    assert not any(check_wheel._PLACES.search(place) for place in [*others, b"/framespool/src/lib.rs", b"/var/tmp"])


def test_third_party_names_the_versions_that_are_built(check_wheel):
    rows = re.findall(r"^\| ([\w-]+)[^|]*\| ([\d.]+)", (ROOT / "THIRD_PARTY.md").read_text(), flags=re.MULTILINE)
    said = {name.lower(): version for name, version in rows}
    built = {entry["name"].lower(): entry["version"] for entry in check_wheel.sbom.libraries()}
    # The first pin of each, for any release that the build on this machine used.
    script = (ROOT / "scripts" / "build_ffmpeg.sh").read_text()
    for name in ("ffmpeg", "dav1d"):
        assert name in built
        built[name] = re.search(rf'^{name.upper()}_PINS=\(\n +"([\d.]+) ', script, flags=re.MULTILINE)[1]
    assert {name: built.get(name) for name in said} == said
    assert set(built) - set(said) == {"rust-std"}, "a row for each library"


def test_every_licence_text_is_named_in_third_party(check_wheel):
    text = (ROOT / "THIRD_PARTY.md").read_text()
    files = sorted(file.name for file in (ROOT / "licenses").iterdir())
    assert files and [name for name in files if f"(licenses/{name})" not in text] == []
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license-files"]
    assert {"LICENSE", "THIRD_PARTY.md", "licenses/*.txt"} == set(patterns)


def test_licences_of_crates_are_those_of_the_lock_file(check_wheel):
    sbom = check_wheel.sbom
    assert sbom.LICENCES.read_text() == sbom.licence_texts(), "run scripts/sbom.py licences"
    assert "BoringSSL" in sbom.LICENCES.read_text()
    assert "GNU GENERAL PUBLIC LICENSE" not in sbom.LICENCES.read_text()


def test_ffmpeg_license_is_read_and_nonfree_is_refused(check_wheel):
    properties = check_wheel.sbom.ffmpeg_properties
    intact = (
        b"\0x\0FFmpeg version 9.0.2\0--prefix=/ffmpeg --disable-all\0libavutil license: LGPL version 2.1 or later\0"
    )
    assert properties(intact) == {
        "version": "9.0.2",
        "configuration": "--prefix=/ffmpeg --disable-all",
        "licence": "LGPL-2.1-or-later",
    }
    with pytest.raises(SystemExit, match="cannot be redistributed"):
        properties(intact.replace(b"LGPL version 2.1 or later", b"nonfree and unredistributable"))
    with pytest.raises(SystemExit, match="no version, configuration and license"):
        properties(b"\0nothing\0")


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> Path:
    """The source distribution, unpacked."""
    maturin = Path(sys.executable).with_name("maturin")
    if not maturin.exists():
        assert not os.environ.get("CI"), "setup installs maturin"
        pytest.skip("maturin is not installed here")
    folder = tmp_path_factory.mktemp("sdist")
    subprocess.run([maturin, "sdist", "--out", folder], cwd=ROOT, check=True, capture_output=True)
    [packed] = folder.glob("framespool-*.tar.gz")
    assert packed.stat().st_size < 4_000_000, "sources alone: neither videos nor what was built"
    # Python 3.11 has extraction filters from 3.11.4 on, and Debian 12 has 3.11.2.
    careful = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(packed) as archive:
        archive.extractall(folder, **careful)
    [unpacked] = (entry for entry in folder.iterdir() if entry.is_dir())
    return unpacked


def test_ptx_is_that_of_the_kernel_sources():
    """By a hash; scripts/kernels.py check, a step of make test-all, compiles them again."""
    spec = importlib.util.spec_from_file_location("kernels", ROOT / "scripts" / "kernels.py")
    kernels = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kernels)
    assert kernels.SOURCES_HASH.read_text().strip() == kernels.sources_hash(), "run scripts/kernels.py generate"
    assert re.findall(r"\.entry (\w+)\(", kernels.committed_ptx()), "the compressed PTX has kernels"


def test_sdist_has_everything_for_a_build(sources):
    needed = ["LICENSE", "THIRD_PARTY.md", "SECURITY.md", "Cargo.lock", ".cargo/config.toml", "scripts/build_ffmpeg.sh"]
    needed += [
        "scripts/setup.sh",
        "scripts/env.sh",
        "scripts/sbom.py",
        "scripts/link_library.sh",
        "scripts/newer_glibc.c",
        "Makefile",
    ]
    needed += [
        "src/image/libjpeg.c",
        "kernels/cuda/gen/pixel_pass.ptx.gz",
        "requirements-dev.txt",
        "python/framespool/py.typed",
    ]
    needed += [f"licenses/{file.name}" for file in (ROOT / "licenses").iterdir()]
    assert [name for name in needed if not (sources / name).is_file()] == []
    kinds = {".mp4", ".mkv", ".webm", ".jpg", ".png", ".so", ".whl", ".pyc"}
    figures = sources / "docs" / "figures"
    assert [str(f) for f in sources.rglob("*") if f.suffix in kinds and f.parent != figures] == []


def test_make_builds_where_no_file_may_be_run(sources):
    """As in a source distribution, in which no file is executable."""
    assert not any(os.access(file, os.X_OK) for file in (sources / "scripts").iterdir())
    # The tests may run under make, whose variables would make this one print its folder first.
    clean = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    make = ["make", "-n", "wheel"]
    planned = subprocess.run(make, cwd=sources, env=clean, check=True, capture_output=True, text=True).stdout
    assert planned.startswith("bash scripts/setup.sh wheel\n"), planned


def test_sdist_builds_from_the_same_crates(sources):
    def tree(folder: Path) -> set[str]:
        # Not --locked: the test crates, which it lacks, are removed from its Cargo.lock.
        command = ["cargo", "tree", "--offline", "--package=framespool-python", "--edges=normal", "--prefix=none"]
        done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
        return {" ".join(line.split()[:2]) for line in done.stdout.splitlines()}

    assert tree(sources) == tree(ROOT)


def test_sdist_reports_the_components_of_its_library(sources, tmp_path):
    prefix = ROOT / ".venv" / "ffmpeg-prefix"
    if not prefix.is_file():
        pytest.skip("no .venv created by scripts/setup.sh")
    (sources / ".venv").mkdir()
    shutil.copy(prefix, sources / ".venv")
    command = [sys.executable, "scripts/sbom.py", "list", str(tmp_path / "list.json")]
    done = subprocess.run(command, cwd=sources, env={**os.environ, "CARGO_NET_OFFLINE": "true"}, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert {part["name"] for part in json.loads((tmp_path / "list.json").read_text())["components"]} >= {
        "png",
        "rustls",
    }


def test_record_is_read_as_installers_read_it(wheel):
    """``changed`` leaves RECORD alone, so a repacked wheel is valid except for that."""
    with zipfile.ZipFile(wheel) as archive:
        record = archive.read(one(dict.fromkeys(archive.namelist(), b""), "RECORD")).decode()
        listed = {row[0] for row in csv.reader(io.StringIO(record))}
        assert listed == set(archive.namelist())


def test_symbols_of_the_library_are_kept(check_wheel, wheel):
    elf = check_wheel.Wheel(wheel).elf
    assert elf.get_section_by_name(".symtab") is None, "the wheel itself is stripped"
    (build_id,) = [
        note["n_desc"]
        for note in elf.get_section_by_name(".note.gnu.build-id").iter_notes()
        if note["n_type"] == "NT_GNU_BUILD_ID"
    ]
    file = ROOT / "target" / "symbols" / f"{build_id}.debug"
    if not file.is_file():
        pytest.skip("the wheel was not built here")
    with file.open("rb") as stream:
        names = {symbol.name for symbol in check_wheel.ELFFile(stream).get_section_by_name(".symtab").iter_symbols()}
    assert "PyInit__framespool" in names and "avcodec_send_packet" in names
    assert any("framespool_kernels" in name for name in names)
