"""``framespool doctor`` reports problems and exits with 1 if there are any."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
from pathlib import Path, PurePosixPath

import framespool as fsp
import pytest
from framespool.cli import main
from framespool.tools import _doctor


def found(capsys, *arguments):
    code = main(["doctor", "--json", *map(str, arguments)])
    return code, {finding["name"]: finding for finding in json.loads(capsys.readouterr().out)["findings"]}


def test_healthy_machine_passes(tmp_path, capsys, monkeypatch):
    # A development build may contain an unpinned FFmpeg, which is reported as a note.
    monkeypatch.setattr(_doctor._framespool, "ffmpeg_version", "9.0.2")
    code, findings = found(capsys, "--index", tmp_path / "place")
    assert code == 0 and findings["decoding"]["state"] == "ok" and findings["index"]["state"] == "ok"
    assert str(tmp_path / "place") in findings["index"]["text"]
    assert "FFmpeg" in findings["framespool"]["text"] and "numpy" in findings["packages"]["text"]
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("ok    framespool")
    # The tests run without the index, which is reported as a note with a remedy.
    assert any(line.startswith("note  index") for line in lines) and any(
        "unset FRAMESPOOL_INDEX" in line for line in lines
    )


def test_the_name_of_the_user_is_not_in_the_report(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    _, findings = found(capsys, "--index", tmp_path / "place")
    assert findings["index"]["text"].startswith("~/place/") and findings["index"]["state"] == "ok"
    for home in ("/", ""):
        monkeypatch.setenv("HOME", home)
        _, findings = found(capsys, "--index", tmp_path / "place")
        assert findings["index"]["text"].startswith(f"{tmp_path}/place/")


def test_an_unpinned_ffmpeg_is_noted(capsys, monkeypatch):
    monkeypatch.setattr(_doctor._framespool, "ffmpeg_version", "9.0.2")
    _, findings = found(capsys)
    assert findings["framespool"]["state"] == "ok" and "unpinned" not in findings["framespool"]["text"]
    monkeypatch.setattr(_doctor._framespool, "ffmpeg_version", "9.0.3-unpinned")
    code, findings = found(capsys)
    assert code == 0 and findings["framespool"]["state"] == "note"
    assert "FFmpeg 9.0.3-unpinned included" in findings["framespool"]["text"]
    assert "FRAMESPOOL_FFMPEG_TARBALL" in findings["framespool"]["remedy"]


def test_the_build_is_identified(capsys, monkeypatch, tmp_path):
    library = Path(_doctor._framespool.__file__)
    notes = subprocess.run(["readelf", "-n", library], capture_output=True, text=True, check=True).stdout
    [build] = re.findall(r"Build ID: ([0-9a-f]+)", notes)
    _, findings = found(capsys)
    assert findings["framespool"]["text"].endswith(f"; build {build}")
    assert "assembly" not in findings["framespool"]["text"]
    for content in (b"", b"\x7fELF\x02\x01".ljust(64, b"\0"), b"text" * 99):
        (tmp_path / "library.so").write_bytes(content)
        assert _doctor._build_id(tmp_path / "library.so") is None
    monkeypatch.setattr(_doctor._framespool, "ffmpeg_uses_assembly", False)
    code, findings = found(capsys)
    assert code == 0 and findings["framespool"]["state"] == "note" and "nasm" in findings["framespool"]["remedy"]


def test_what_is_inside_is_listed(capsys, monkeypatch, tmp_path):
    class Place(PurePosixPath):
        def locate(self):
            return tmp_path / self.name

    monkeypatch.setattr(_doctor.importlib.metadata, "files", lambda name: [Place(f"{name}.dist-info/RECORD")])
    _, findings = found(capsys)
    assert findings["contents"]["state"] == "note" and "Cargo.lock" in findings["contents"]["remedy"]

    listed = Place("framespool-1.dist-info/sboms/framespool.cdx.json")
    monkeypatch.setattr(_doctor.importlib.metadata, "files", lambda name: [listed])
    entries = [("pkg:cargo/a@1", "a", "1"), ("pkg:generic/ffmpeg@9", "FFmpeg", "9"), ("pkg:cargo/b@2", "b", "2")]
    bill = {"components": [{"purl": purl, "name": name, "version": version} for purl, name, version in entries]}
    (tmp_path / "framespool.cdx.json").write_text(json.dumps(bill))
    _, findings = found(capsys)
    assert findings["contents"]["state"] == "ok"
    assert findings["contents"]["text"] == f"2 crates, FFmpeg 9: {tmp_path / 'framespool.cdx.json'}"

    (tmp_path / "framespool.cdx.json").write_text("{")
    _, findings = found(capsys)
    assert findings["contents"]["state"] == "note" and "cannot be read" in findings["contents"]["text"]


def test_an_index_that_cannot_be_written_is_bad(tmp_path, capsys):
    place = tmp_path / "file"
    place.write_text("no folder")
    code, findings = found(capsys, "--index", place)
    assert code == 1 and findings["index"]["state"] == "bad" and "FRAMESPOOL_INDEX" in findings["index"]["remedy"]
    assert str(place) in findings["index"]["text"]


def test_small_limits_are_noted(capsys, monkeypatch):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        _, findings = found(capsys)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert findings["files"]["state"] == "note" and "ulimit" in findings["files"]["remedy"]
    monkeypatch.setattr(os, "cpu_count", lambda: 1024)
    _, findings = found(capsys)
    assert findings["cores"]["state"] == "note"


@pytest.mark.parametrize("answer", [fsp.decode_image, None])
def test_a_decoder_that_does_not_work_is_bad(answer, capsys, monkeypatch):
    def decode(data, **keywords):
        if answer is None:
            raise fsp.Error("no decoder")
        return answer(data, layout="CHW")

    monkeypatch.setattr(_doctor, "decode_image", decode)
    code, findings = found(capsys)
    assert code == 1 and findings["decoding"]["state"] == "bad"
