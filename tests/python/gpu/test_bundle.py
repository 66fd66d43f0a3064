"""The scripts that go to a machine with a GPU: without one, and what they never do with a simulated one."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import framespool as fsp
import pytest
from framespool import gpu

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "benches" / "gpu"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch):
    """Modules of benches/gpu, which is a folder of scripts."""
    monkeypatch.syspath_prepend(str(FOLDER))

    def of(name: str) -> ModuleType:
        return importlib.import_module(name)

    before = set(sys.modules)
    yield of
    for name in set(sys.modules) - before:
        if str(FOLDER) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.parametrize("script", ["check.py", "bench.py"])
def test_without_a_gpu_the_scripts_end_at_once_with_code_3(script: str, tmp_path: Path):
    if gpu.devices():
        pytest.skip("a GPU is here")
    run = subprocess.run(
        [sys.executable, str(FOLDER / script), "--out", str(tmp_path / "a.json")],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert run.returncode == 3, run.stderr
    assert "no GPU here" in run.stderr and str(gpu.reason()) in run.stderr
    assert not list(tmp_path.iterdir())


def test_a_missing_driver_is_an_empty_list_and_a_reason():
    if gpu.devices():
        assert gpu.reason() is None
        return
    assert "libcuda" in str(gpu.reason()) or "device" in str(gpu.reason())
    with pytest.raises(fsp.GpuError):
        gpu.open_times()
    with pytest.raises(fsp.ArgumentError, match="cuda:N"):
        gpu.pool("cpu")


def test_facts_of_each_gpu():
    for device in gpu.devices():
        assert device.name and device.uuid.startswith("GPU-") and 0 < device.free_bytes <= device.total_bytes
        assert device.engines == max((codec.engines for codec in device.decodes), default=0)
        for codec in device.decodes:
            assert all(a <= b for a, b in zip(codec.min_size, codec.max_size, strict=True)) and codec.layouts


def test_no_figure_of_a_simulated_gpu_lands_among_the_records(load, capsys: pytest.CaptureFixture[str]):
    common = load("common")
    simulated, real = SimpleNamespace(name="Simulated H200"), SimpleNamespace(name="NVIDIA H100 80GB HBM3")
    records = ROOT / "benches" / "record"
    assert records not in common.record_place(simulated, "bench", None).parents
    for place in (records / "a.json", records / "nvidia-h200" / "a.json", FOLDER / ".." / "record" / "a.json"):
        with pytest.raises(SystemExit) as ended:
            common.record_place(simulated, "bench", str(place))
        assert ended.value.code == 2 and "simulated" in capsys.readouterr().err
    assert common.record_place(real, "check", None).parent == records / "nvidia-h100-80gb-hbm3"


def test_every_clip_of_the_list_is_in_the_corpus(load, corpus: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FRAMESPOOL_CORPUS", str(corpus))
    common = load("common")
    listed = [name for name, _ in common.listed()]
    assert len(set(listed)) == len(listed)
    known = {entry["path"] for entry in json.loads((corpus / "manifest.json").read_text())["files"]}
    assert set(listed) <= known
    assert sum((corpus / name).stat().st_size for name in listed if (corpus / name).is_file()) < 50_000_000


def test_an_item_that_crashes_or_hangs_keeps_what_it_found(load, tmp_path: Path):
    items = load("items")
    script = tmp_path / "script.py"
    script.write_text(
        f"""
import os, sys, time
sys.path.insert(0, {str(FOLDER)!r})
from pathlib import Path
import items
@items.item("crash")
def crash(context):
    yield items.Row("first", "", items.OK)
    os.abort()
@items.item("hang")
def hang(context):
    yield items.Row("first", "", items.OK)
    time.sleep(60)
@items.item("raise")
def fail(context):
    yield items.Row("first", "", items.OK)
    raise ValueError("so it is")
items.run_here(sys.argv[2], None, Path(sys.argv[4]))
"""
    )
    said = {}
    for name in ("crash", "hang", "raise"):
        entry = items.Entry(name, lambda context: iter(()), 1, "")
        rows = items.run_apart(entry, script, [], budget_seconds=1, extra_seconds=1)
        assert [row.verdict for row in rows] == [items.OK, items.FAILED]
        said[name] = rows[1].why
    assert "SIGABRT" in said["crash"] and "did not end" in said["hang"] and "so it is" in said["raise"]


def test_lines_of_dmon_are_read_by_their_columns(load):
    parse = load("dmon").parse
    names, row = parse("# gpu     sm    mem    enc    dec    jpg    ofa \n", [])
    assert row is None
    names, row = parse("# Idx      %      %      %      %      %      % \n", names)
    assert row is None and names[4] == "dec"
    _, row = parse("    0      3      1      0     97      0      - \n", names)
    assert row == {"gpu": 0, "sm": 3, "mem": 1, "enc": 0, "dec": 97, "jpg": 0}


def test_the_fixed_cost_is_where_the_line_begins(load):
    begin, slope = load("measures.costs").line([(n, 0.7 + 0.25 * n) for n in (1, 2, 4, 8)])
    assert abs(begin - 0.7) < 1e-9 and abs(slope - 0.25) < 1e-9


def test_a_difference_is_told_with_its_place_and_size(load):
    same = load("same")
    assert same.byte_difference(b"\x00\x05\x09", b"\x00\x07\xff") == (2, 1, 246)


@pytest.mark.parametrize(
    "reason",
    [
        "H.264 4:2:0 10 bit is not decoded by this GPU",
        "this GPU decodes H.264 4:2:0 8 bit from 48x16 on, and the pictures are 34x26",
        "on the GPU, mpeg4: its standard does not define pictures to the bit",
        "on the GPU, av1 with film grain, which is added in one way by each decoder",
    ],
)
def test_what_a_gpu_cannot_do_is_no_failure(load, reason: str):
    assert load("checks.decoding").FAIR.search(reason)


def test_a_picture_that_never_came_is_a_failure(load):
    decoding = load("checks.decoding")
    for reason in (
        "the picture of unit 3 never came out of the decoder (1 such units); decode this stretch on the CPU instead",
        "the video parser's pictures do not match the units that it was given: …",
        "the picture of unit 3 is damaged (decode status 9: error, concealed)",
    ):
        assert not decoding.FAIR.search(reason)
