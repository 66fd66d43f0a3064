"""The files about the project agree with each other: extras, versions, workflows, issue forms, scripts of a release."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from framespool.cli import main

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")

project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]


def minimum_versions(extra: str) -> dict[str, str]:
    """The packages of an extra with their minimum versions, without other extras of framespool."""
    found = {}
    for requirement in project["optional-dependencies"][extra]:
        if not requirement.startswith("framespool["):
            name, minimum = requirement.split(">=")
            found[name] = minimum
    return found


def pinned(file: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==([\w.]+)", (ROOT / file).read_text(), re.MULTILINE))


def test_extras_are_documented():
    extras = list(project["optional-dependencies"])
    start = (ROOT / "docs/start.md").read_text()
    [sentence] = re.findall(r"Extras of the wheel(.*?)\(\[versions\]", start, re.DOTALL)
    assert re.findall(r"`(\w+)`", sentence) == [*extras, "lerobot"] and extras[-1] == "all"
    [table] = re.findall(
        r"<!-- extras:begin -->(.*)<!-- extras:end -->", (ROOT / "docs/reference/versions.md").read_text(), re.DOTALL
    )
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", table, re.MULTILINE))
    assert list(rows) == extras
    for extra in extras[:-1]:
        shown = dict(re.findall(r"([\w\[\]-]+) (\d[\d.]*)", rows[extra]))
        assert shown == minimum_versions(extra), extra
    [everything] = project["optional-dependencies"]["all"]
    assert re.findall(r"\w+", everything) == ["framespool", *(e for e in extras[:-1] if e != "lerobot")]


def test_minimum_versions_are_tested():
    oldest, newest = pinned("requirements-oldest.txt"), pinned("requirements-frameworks.txt")
    for extra in project["optional-dependencies"]:
        for name, minimum in minimum_versions(extra).items():
            # LeRobot does not accept the versions of other packages with which it would have to be tested.
            tested = (newest if name == "lerobot" else oldest)[name.partition("[")[0]]
            assert f"{tested}.".startswith(f"{minimum}."), (
                f"{extra}: {name} {minimum} and later, but {tested} is tested"
            )


def test_supported_pythons_are_tested():
    shown = [c.rpartition(" ")[2] for c in project["classifiers"] if re.search(r"Python :: 3\.\d+$", c)]
    wheel = (ROOT / "scripts/check_wheel_pythons.sh").read_text()
    assert re.findall(r"^for version in (.*); do$", wheel, re.MULTILINE) == [" ".join(shown)]
    jobs = (ROOT / ".github/workflows/test.yml").read_text()
    assert re.findall(r'python: "(3\.\d+)"', jobs) == shown
    assert project["requires-python"] == f">={shown[0]}"


def test_version_of_the_citation():
    text = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (.*)$", text, re.MULTILINE) == [cargo["version"].replace("-rc.", "rc")]
    assert re.findall(r"^license: (.*)$", text, re.MULTILINE) == [cargo["license"]]
    assert re.findall(r"^repository-code: (.*)$", text, re.MULTILINE) == [cargo["repository"]]
    assert project["urls"]["Source"] == cargo["repository"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_call_only_what_runs_locally(path):
    text = path.read_text()
    steps = re.findall(r"\brun: *(.*)", text)
    targets = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for step in steps:
        program, *arguments = step.split()
        if program == "make":
            assert arguments[0] in targets, step
        else:
            script = ROOT / program
            assert program.startswith("scripts/") and script.is_file() and script.stat().st_mode & 0o100, step
            # A script rejects unknown arguments before it does anything.
            if program == "scripts/check_release.sh":
                assert f"\n{arguments[0]})\n" in script.read_text(), step
    for called in re.findall(r"uses: \./(\S+)", text):
        assert (ROOT / called).is_file(), called
    assert f"`{path.stem}`" in (ROOT / "docs/development.md").read_text()


def test_actions_have_one_version_each():
    """A tag can be moved to other code, a commit hash cannot. Comments name the release for readers."""
    versions: dict[str, set[tuple[str, str]]] = {}
    for path in WORKFLOWS:
        for action, at in re.findall(r"uses: ([^.\s@]\S*?)@(.*)", path.read_text()):
            found = re.fullmatch(r"([0-9a-f]{40}) # (v\d+\.\d+\.\d+)", at)
            assert found, f"{path.name}: {action}@{at}"
            versions.setdefault(action, set()).add((found[1], found[2]))
    assert versions and all(len(each) == 1 for each in versions.values()), versions


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_issue_forms_request_output_of_existing_commands(path, capsys):
    text = " ".join(path.read_text().split())
    assert "Output of `framespool doctor`" in text
    commands = set(re.findall(r"`framespool (\w+)", text))
    assert commands >= {"bug": {"validate", "probe"}, "speed": {"bench", "probe"}}.get(path.stem, set())
    helps = ""
    for command in commands:
        with pytest.raises(SystemExit, match="0"):
            main([command, "--help"])
        helps += capsys.readouterr().out
        assert f"framespool {command}" in helps
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))
    assert options <= set(re.findall(r"--[a-z][a-z-]*", helps))


#: The files that scripts/check_release.sh reads, of a project whose version is 0.2.0.
PROJECT = {
    "Cargo.toml": '[workspace.package]\nversion = "0.2.0"\nrepository = "https://example.org/project"\n',
    "Cargo.lock": '[[package]]\nname = "framespool-python"\nversion = "0.2.0"\n',
    "CITATION.cff": "version: 0.2.0\n",
    "CHANGELOG.md": (
        "# Changelog\n\n## Unreleased\n\n- Later.\n\n## 0.2.0 — 2026-12-01\n\n- Faster ([how](docs/plan.md), "
        "[why](https://example.org)).\n\n## 0.1.9\n\n- First.\n"
    ),
}
#: The same as a release candidate.
CANDIDATE = {name: text.replace("0.2.0", "0.2.0-rc.1") for name, text in PROJECT.items() if name.startswith("Cargo")}
CANDIDATE |= {"CITATION.cff": "version: 0.2.0rc1\n"}


@pytest.fixture
def release(tmp_path):
    """Runs scripts/check_release.sh here with some files replaced, and a program `gh` that records its calls."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/check_release.sh", tmp_path / "scripts")
    gh = tmp_path / "gh"
    gh.write_text('#!/bin/sh\n[ "$2" != view ] || exec cat state\n{ echo "$@"; [ "$2" != create ] || cat; } >>calls\n')
    gh.chmod(0o755)

    def check(*arguments: str, files: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        for name, text in (PROJECT | (files or {})).items():
            (tmp_path / name).write_text(text)
        environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        command = ["bash", "scripts/check_release.sh", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    return check


@pytest.mark.parametrize(
    ("tag", "files", "message"),
    [
        ("v0.2.0", {}, ""),
        ("v0.2.0rc1", CANDIDATE, ""),
        ("0.2.0", {}, "not a tag of the form"),
        ("v0.2.0-rc.1", CANDIDATE, "not a tag of the form"),
        ("v0.2.1", {}, "Cargo.toml has version 0.2.0"),
        ("v0.2.0", CANDIDATE, "Cargo.toml has version 0.2.0rc1"),
        ("v0.2.0", {"Cargo.lock": CANDIDATE["Cargo.lock"]}, "Cargo.lock has version 0.2.0rc1"),
        ("v0.2.0", {"CITATION.cff": "version: 0.1.9\n"}, "CITATION.cff has version 0.1.9"),
        ("v0.2.0", {"CHANGELOG.md": "## 0.2.0\n\n## 0.1.9\n\n- First.\n"}, "no section '## 0.2.0'"),
        ("v0.2.0", {"CHANGELOG.md": "## 0.2.01\n\n- First.\n"}, "no section '## 0.2.0'"),
        ("v0.2.0rc1", CANDIDATE | {"CHANGELOG.md": "## 0.2.0\n\n- First.\n"}, "no section '## Unreleased'"),
    ],
)
def test_a_release_needs_equal_versions(release, tag, files, message):
    said = release("tag", tag, files=files).stderr
    assert message in said and bool(message) == bool(said)


def test_a_rehearsal_needs_equal_versions_only(release):
    assert release("tag").returncode == release("tag", files=CANDIDATE).returncode == 0
    assert release("tag", files={"CHANGELOG.md": "# Changelog\n"}).returncode == 0
    assert "Cargo.lock has version 0.2.0" in release("tag", files={"Cargo.toml": CANDIDATE["Cargo.toml"]}).stderr


def test_a_release_is_drafted_and_then_published(release, tmp_path):
    dist = tmp_path / "dist"
    dist.mkdir()
    with zipfile.ZipFile(dist / "framespool-0.2.0-cp311-abi3-manylinux_2_28_x86_64.whl", "w") as wheel:
        wheel.writestr("framespool-0.2.0.dist-info/sboms/framespool.cdx.json", "{}")
    calls, state = tmp_path / "calls", tmp_path / "state"
    state.write_text("")
    assert release("draft", "v0.2.0", "dist").returncode == 0
    command, _, *notes = calls.read_text().splitlines()
    assert command.startswith(
        "release create v0.2.0 --draft --verify-tag --title framespool 0.2.0 --notes-file - dist/"
    )
    assert (dist / "framespool-0.2.0-cp311-abi3-manylinux_2_28_x86_64.cdx.json").read_text() == "{}"
    assert len(re.findall(r"dist/", command)) == 2
    assert notes == [
        "- Faster ([how](https://example.org/project/blob/v0.2.0/docs/plan.md), [why](https://example.org)).",
        "",
    ]

    # Again: the first draft is replaced. A published release is not.
    state.write_text("true")
    calls.unlink()
    assert release("draft", "v0.2.0rc1", "dist", files=CANDIDATE).returncode == 0
    first, second, *notes = calls.read_text().splitlines()
    assert first == "release delete v0.2.0rc1 --yes" and "--draft --prerelease --verify-tag" in second
    assert notes == ["", "- Later.", ""]
    state.write_text("false")
    assert "published already" in release("draft", "v0.2.0", "dist").stderr

    calls.unlink()
    assert release("publish", "v0.2.0").returncode == 0
    assert calls.read_text() == "release edit v0.2.0 --draft=false\n"


def test_sites_of_all_versions_are_one_site(tmp_path):
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/docs_versions.sh", tmp_path / "scripts")
    site = tmp_path / "target" / "site"
    site.mkdir(parents=True)

    def run(*arguments: str) -> None:
        command = ["bash", "scripts/docs_versions.sh", *arguments]
        # Without GH_TOKEN, with which archives are downloaded.
        subprocess.run(command, cwd=tmp_path, env={"PATH": "/usr/bin:/bin"}, check=True, capture_output=True)

    archives = tmp_path / "target" / "docs-archives"
    archives.mkdir()
    for version in ("0.9.0", "0.10.0"):
        (site / "index.html").write_text(f"page of {version}")
        run("archive", f"v{version}")
        shutil.move(tmp_path / "target" / f"framespool-docs-{version}.tar.gz", archives)
    with tarfile.open(archives / "framespool-docs-0.9.0.tar.gz") as archive:
        assert "./index.html" in archive.getnames()
    run("archive", "topic/rehearsal")
    assert (tmp_path / "target" / "framespool-docs-topic-rehearsal.tar.gz").is_file()

    (site / "index.html").write_text("page of main")
    run()
    pages = tmp_path / "target" / "pages"
    assert {path.parent.name: path.read_text() for path in pages.glob("*/index.html")} == {
        "0.9.0": "page of 0.9.0",
        "0.10.0": "page of 0.10.0",
        "dev": "page of main",
    }
    assert "url=0.10.0/index.html" in (pages / "index.html").read_text()
    assert re.findall(r'href="(.*?)/', (pages / "versions.html").read_text()) == ["0.10.0", "0.9.0", "dev"]

    shutil.rmtree(archives)
    run()
    assert "url=dev/index.html" in (pages / "index.html").read_text()


@pytest.mark.parametrize("is_named", [True, False])
def test_the_gpu_tests_say_which_framespool_they_import(is_named, tmp_path):
    (tmp_path / "scripts").mkdir()
    for name in ("test_gpu.sh", "env.sh"):
        shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts")
    package = tmp_path / "packages" / "framespool"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    # In place of the builds and the tests: pytest exits with 5 if no test has the name. An interpreter that starts in
    # the folder of the package finds it there first, as an installed one.
    folder = tmp_path if is_named else package.parent
    programs = {"cargo": "", "python": f'[ "$1" = -m ] && exit 5\ncd "{folder}"\nexec "{sys.executable}" "$@"'}
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "FRAMESPOOL_GPU": "real"}
    environment["PYTHONPATH"] = str(package.parent) if is_named else ""
    command = ["bash", "scripts/test_gpu.sh", "-k", "none"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    how = "named by PYTHONPATH" if is_named else "the installed one; PYTHONPATH selects another"
    assert done.stdout == f"test_gpu: the Python tests import framespool from {package} ({how})\n", done.stderr
    assert done.returncode == 0
