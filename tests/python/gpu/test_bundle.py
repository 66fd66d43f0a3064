"""The scripts for a GPU machine: without a GPU, and with a simulated one."""

from __future__ import annotations

import fnmatch
import importlib
import inspect
import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import framespool as fsp
import pytest
from framespool import gpu
from processes import wait_until

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "benches" / "gpu"
BUNDLER = ROOT / "scripts" / "gpu_bundle.sh"
MAX_BYTES = 56_000_000


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
def test_scripts_exit_with_3_without_a_gpu(script: str, tmp_path: Path):
    if gpu.devices():
        pytest.skip("a GPU is here")
    run = subprocess.run(
        [sys.executable, str(FOLDER / script), "--out", str(tmp_path / "a.json")],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 3, run.stderr
    assert "no GPU here" in run.stderr and str(gpu.unavailable_reason()) in run.stderr
    assert not list(tmp_path.iterdir())


def test_missing_driver_gives_empty_list_and_reason():
    if gpu.devices():
        assert gpu.unavailable_reason() is None
        return
    assert "libcuda" in str(gpu.unavailable_reason()) or "device" in str(gpu.unavailable_reason())
    with pytest.raises(fsp.errors.GpuError):
        gpu.startup_seconds()
    with pytest.raises(fsp.errors.ArgumentError, match="cuda:N"):
        gpu.decoder_cache_stats("cpu")


def test_properties_of_each_gpu():
    for device in gpu.devices():
        assert device.name and device.uuid.startswith("GPU-") and 0 < device.free_bytes <= device.total_bytes
        assert device.engines == max((codec.engines for codec in device.decodes), default=0)
        for codec in device.decodes:
            assert all(a <= b for a, b in zip(codec.min_size, codec.max_size, strict=True)) and codec.layouts


def test_simulated_gpu_writes_no_record(load, capsys: pytest.CaptureFixture[str]):
    common = load("common")
    simulated, real = SimpleNamespace(name="Simulated H200"), SimpleNamespace(name="NVIDIA H100 80GB HBM3")
    records = ROOT / "benches" / "record"
    assert records not in common.record_place(simulated, "bench", None).parents
    for place in (records / "a.json", records / "nvidia-h200" / "a.json", FOLDER / ".." / "record" / "a.json"):
        with pytest.raises(SystemExit) as ended:
            common.record_place(simulated, "bench", str(place))
        assert ended.value.code == 2 and "simulated" in capsys.readouterr().err
    assert common.record_place(real, "check", None).parent == records / "nvidia-h100-80gb-hbm3"


def paths(root: Path) -> list[str]:
    return [entry["path"] for entry in json.loads((root / "manifest.json").read_text())["files"]]


def test_every_line_of_the_list_names_media(load, media: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("FRAMESPOOL_CORPUS", raising=False)
    common = load("common")
    for pattern, _ in common.listed("media.txt"):
        assert fnmatch.filter(paths(media), pattern), pattern
    for group in frozenset().union(*(groups for _, groups in common.listed("clips.txt"))):
        found = common.clips(group)
        assert found and all(clip.path.is_file() for clip in found) and common.timed(group) == found, group


def test_every_clip_of_the_list_is_in_the_corpus(load, corpus: Path):
    listed = [name for name, _ in load("common").listed("clips.txt")]
    assert len(set(listed)) == len(listed)
    left_out = json.loads((corpus / "manifest.json").read_text()).get("left_out", [])  # of a bundle
    assert set(listed) <= {*paths(corpus), *left_out}


def bundled(folder: Path, wheel_bytes: int, corpus: Path | None) -> tuple[Path, str]:
    """Creates a bundle with a dummy wheel and unpacks it; returns the folder and the program's output."""
    if not BUNDLER.exists():
        pytest.skip("a bundle cannot create another bundle")
    wheel, tar = folder / "framespool-0-py3-none-any.whl", folder / "bundle.tar"
    with wheel.open("wb") as file:
        file.truncate(wheel_bytes)
    made = subprocess.run(
        ["bash", str(BUNDLER), "--wheel", str(wheel), "--out", str(tar)],
        capture_output=True,
        text=True,
        env=os.environ | {"FRAMESPOOL_CORPUS": str(corpus or "")},
    )
    assert made.returncode == 0, made.stderr
    assert tar.stat().st_size <= MAX_BYTES
    subprocess.run(["tar", "-xf", str(tar), "-C", str(folder)], check=True)
    return folder / "framespool-gpu", made.stderr


def test_bundle_checks_gpu_with_generated_media(gpu: None, media: Path, tmp_path: Path):
    bundle, said = bundled(tmp_path, 1, None)
    assert "FRAMESPOOL_CORPUS is not set" in said and not (bundle / "corpus").exists()
    assert not (bundle / "media").is_symlink() and all((bundle / "media" / path).is_file() for path in paths(media))
    variables = {name: value for name, value in os.environ.items() if not name.startswith("FRAMESPOOL_")}
    out = tmp_path / "check.json"
    items = ["--only", "^(decode-vp8|interface|jpeg$)", "--match", "vp9_odd"]
    run = subprocess.run(
        [str(bundle / "run.sh"), "check", *items, "--out", str(out)],
        capture_output=True,
        text=True,
        env=variables | {"FRAMESPOOL_VENV": sys.prefix},
    )
    assert run.returncode == 0, run.stdout + run.stderr
    rows = json.loads(out.read_text())["rows"]
    assert {row["item"] for row in rows} == {"decode-vp8-vp9-av1", "interface", "jpeg"}
    tests = [sys.executable, "-m", "pytest", "--collect-only", "-q", str(bundle / "tests" / "python" / "gpu")]
    collected = subprocess.run(tests, capture_output=True, text=True, cwd=bundle, env=variables)
    assert collected.returncode == 0, "the bundle has the tests' own modules: " + collected.stdout + collected.stderr
    (decoded,) = [row for row in rows if row["item"] == "decode-vp8-vp9-av1"]
    assert decoded["name"] == "video/odd/vp9_odd_161x121.webm" and decoded["result"] == "ok"


def test_bundle_takes_corpus_clips_that_fit(load, media: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    common = load("common")
    first, *others = (name for name, _ in common.listed("clips.txt"))
    corpus = tmp_path / "corpus"
    for name in (first, *others):
        for file in (corpus / name, corpus / "frames" / f"{name}.txt"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(name)
    os.truncate(corpus / first, 9_000_000)
    (corpus / "manifest.json").write_text(json.dumps({"files": [{"path": name} for name in (first, *others)]}))
    taken = sum(file.stat().st_size for file in media.resolve().rglob("*") if file.is_file())
    bundle, said = bundled(tmp_path, MAX_BYTES - taken - 8_000_000, corpus)
    assert [line for line in said.splitlines() if "skipped" in line] == [
        f"gpu-bundle: skipped, no room: corpus/{first}"
    ]
    part = bundle / "corpus"
    assert paths(part) == others and json.loads((part / "manifest.json").read_text())["left_out"] == [first]
    assert all((part / name).read_text() == (part / "frames" / f"{name}.txt").read_text() == name for name in others)
    monkeypatch.setenv("FRAMESPOOL_CORPUS", str(part))
    found = common.clips("bench")
    of_media = [clip for clip in found if clip.path.is_relative_to(media)]
    of_corpus = [clip for clip in found if clip.name.startswith("corpus/") and clip.path.is_relative_to(part)]
    assert of_media and of_corpus and of_media + of_corpus == found and common.timed("bench") == of_corpus


class LimitedByEvents(subprocess.Popen):
    """A job whose time is over once it has written its row if it hangs, and never if it does not."""

    is_over = False

    def wait(self, timeout: float | None = None) -> int:
        if self.is_over or timeout is None or not any("hang" in word for word in self.args):
            return super().wait()
        self.is_over = True
        written = self.args[self.args.index("--into") + 1] if "--into" in self.args else self.args[-1]
        wait_until(lambda: Path(written).is_file() and Path(written).stat().st_size > 0)
        raise subprocess.TimeoutExpired(self.args, timeout)


def test_crashed_or_hung_item_keeps_its_rows(load, tmp_path: Path, monkeypatch):
    items = load("items")
    monkeypatch.setattr(subprocess, "Popen", LimitedByEvents)
    script = tmp_path / "script.py"
    script.write_text(
        f"""
import os, signal, sys
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
    signal.pause()
@items.item("raise")
def fail(context):
    yield items.Row("first", "", items.OK)
    raise ValueError("so it is")
items.run_in_process(sys.argv[2], None, Path(sys.argv[4]))
"""
    )
    said = {}
    for name in ("crash", "hang", "raise"):
        entry = items.RegisteredItem(name, lambda context: iter(()), 1, "")
        rows = items.run_in_subprocess(entry, script, [], budget_seconds=1, extra_seconds=1)
        assert [row.result for row in rows] == [items.OK, items.FAILED]
        said[name] = rows[1].why
    assert "SIGABRT" in said["crash"] and "did not finish" in said["hang"] and "so it is" in said["raise"]


def test_plan_keeps_the_rows_of_killed_and_crashed_jobs(load, tmp_path: Path, monkeypatch, capsys):
    plan = load("plan")
    monkeypatch.setattr(subprocess, "Popen", LimitedByEvents)
    program = (
        "import json, os, signal, sys; row = {'item': 'a', 'name': 'n', 'result': 'ok', 'why': ''};"
        "open(sys.argv[1], 'w').write(json.dumps({'rows': [row]}));"
    )
    ends = {"hang": "signal.pause()", "crash": "os.abort()", "end": ""}

    class Fake(plan.Job):
        def command(self, out: Path) -> list[str]:
            return [sys.executable, "-c", program + ends[self.only], str(out)]

    rows = plan.run_stage([Fake("check", name, 2, 1) for name in ends], tmp_path, 0.0)
    assert [[row["result"] for row in job] for job in rows] == [["ok", "FAILED"], ["ok", "FAILED"], ["ok"]]
    said = capsys.readouterr().out
    assert said.count("1 ok") == 3 and said.count("FAILED hang: the job: killed after its time") == 1
    assert f"FAILED crash: the job: code -{signal.SIGABRT.value}" in said


def test_core_keeps_the_rows_of_killed_and_hanging_experiments(load, tmp_path: Path, monkeypatch):
    plan, items = load("plan"), load("items")
    monkeypatch.setattr(subprocess, "Popen", LimitedByEvents)
    script = tmp_path / "bench.py"
    script.write_text(
        f"""
import json, os, signal, sys
sys.path.insert(0, {str(FOLDER)!r})
from pathlib import Path
import items
def ends(name, end):
    @items.item(name)
    def run(context):
        yield items.Row(os.environ.get("FRAMESPOOL_GPU_DISABLE", ""), "", items.OK, figures=context.arguments)
        end()
ends("killed", lambda: os.kill(os.getpid(), signal.SIGKILL))
ends("hang", signal.pause)
ends("whole", lambda: None)
given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
context = items.Context(None, 1, "", 0, json.loads(given["--arguments"]))
items.run_in_process(given["--child"], context, Path(given["--into"]))
"""
    )
    monkeypatch.setattr(plan, "HERE", tmp_path)
    for name in ("killed", "hang", "whole"):
        items.item(name)(lambda context: iter(()))
    chosen = [plan.Experiment(0, name, 1, {"n": number}) for number, name in enumerate(("killed", "hang", "whole"))]
    chosen += [plan.Experiment(0, "whole", 1, without="least-priority"), plan.Experiment(1, "whole", 2000)]
    place, counts = tmp_path / "core.json", []

    def write(path: Path, record: dict) -> None:
        counts.append(len(record["rows"]))
        path.write_text(json.dumps(record))

    monkeypatch.setattr(plan, "write", write)
    plan.run_experiments(chosen, place, 1000, 1.0, {})
    assert counts == [2, 4, 5, 6, 7], "the record is written after each experiment"
    rows = json.loads(place.read_text())["rows"]
    assert [row["result"] for row in rows] == ["ok", "FAILED", "ok", "FAILED", "ok", "ok", "not possible"]
    assert "SIGKILL" in rows[1]["why"] and "did not finish" in rows[3]["why"] and "did not start" in rows[6]["why"]
    assert [row["figures"] for row in rows[:5:2]] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert rows[5]["name"] == rows[5]["experiment"]["without"] == "least-priority"


def test_experiments_fit_into_their_time_and_name_items_and_parameters(load):
    plan, items = load("plan"), load("items")
    registered = []
    for program in ("checks", "measurements"):
        items.REGISTRY.clear()
        load(program).load()
        registered.append(dict(items.REGISTRY))
    # A start and verification take about four seconds.
    assert sum(each.seconds + 4 for each in plan.EXPERIMENTS) <= plan.CORE_SECONDS <= 600
    assert [each.number for each in plan.EXPERIMENTS] == sorted(each.number for each in plan.EXPERIMENTS)
    for each in plan.EXPERIMENTS:
        (entry,) = [known[each.item] for known in registered if each.item in known]
        source = inspect.getsource(sys.modules[entry.run.__module__]) + inspect.getsource(items)
        assert all(f'"{name}"' in source for name in each.arguments), each
        assert each.without in ("", *plan.SWITCHES)


def test_smoke_names_the_mechanism_to_turn_off(load, tmp_path: Path, monkeypatch):
    plan = load("plan")

    row = {"item": "strided", "name": "a.mp4", "asked": "the same"}

    def rerun(jobs, folder, begun):
        assert [job.without for job in jobs] == ["nothing", *plan.SWITCHES]
        found = {"decode-status": "ok", "skipping": "not possible"}
        return [[row | {"result": found.get(job.without, "FAILED")}] for job in jobs]

    monkeypatch.setattr(plan, "run_stage", rerun)
    lines = plan.conclusion([("strided", "a.mp4", "the same")], tmp_path, 1.0, 0.0)
    assert lines[0] == "conclusion: decode-status: off recommended: strided a.mp4 then pass"
    assert len(lines) == len(plan.SWITCHES) and all(line.endswith("makes no difference") for line in lines[1:])
    assert json.loads((tmp_path / "smoke.json").read_text())["conclusion"] == lines
    assert "nothing failed" in plan.conclusion([], tmp_path, 1.0, 0.0)[0]


@pytest.mark.parametrize("name", ["smoke", "peers"])
def test_plans_fit_into_their_time_and_name_items(load, name: str):
    plan, items = load("plan"), load("items")
    for program in ("checks", "measurements"):
        load(program).load()
    # Within a command of ten minutes; a stage takes as long as its longest job.
    assert sum(max(job.seconds for job in stage) for stage in plan.PLANS[name]) <= 600
    for stage in plan.PLANS[name]:
        for job in stage:
            assert items.selected(job.only), job


@pytest.mark.parametrize(
    ("name", "only", "item", "results"),
    [
        ("smoke", "interface", "interface", {"ok"}),
        ("core", "ceiling", "ceiling", {"ok"}),
        ("core", "work=random priority=greatest", "during-training", {"ok"}),
        ("core", "two-processes", "two-processes", {"ok"}),
        # Without the peers' wheels a row says what is missing.
        ("peers", "peer-", "peer-torchcodec", {"ok", "not possible"}),
    ],
)
def test_plan_runs_on_the_simulated_gpu(gpu: None, tmp_path: Path, name: str, only: str, item: str, results: set[str]):
    if not os.environ.get("FRAMESPOOL_GPU_TESTS"):
        pytest.skip("takes the time of the real plan on a GPU")
    command = [sys.executable, str(FOLDER / "plan.py"), name, "--out", str(tmp_path), "--only", only]
    environment = os.environ | {"FRAMESPOOL_TRY": "1"}
    run = subprocess.run([*command, "--scale", "0.05"], capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "killed" not in run.stdout and ("conclusion: nothing failed" in run.stdout) == (name == "smoke")
    rows = [row for record in tmp_path.glob("*.json") for row in json.loads(record.read_text()).get("rows", [])]
    found = {row["result"] for row in rows if row["item"] == item}
    assert found and found <= results, rows


def test_lines_of_dmon_are_read_by_their_columns(load):
    parse = load("dmon").parse
    names, row = parse("# gpu     sm    mem    enc    dec    jpg    ofa \n", [])
    assert row is None
    names, row = parse("# Idx      %      %      %      %      %      % \n", names)
    assert row is None and names[4] == "dec"
    _, row = parse("    0      3      1      0     97      0      - \n", names)
    assert row == {"gpu": 0, "sm": 3, "mem": 1, "enc": 0, "dec": 97, "jpg": 0}


def test_the_fixed_cost_is_where_the_line_begins(load):
    begin, slope = load("measurements.costs").line([(n, 0.7 + 0.25 * n) for n in (1, 2, 4, 8)])
    assert abs(begin - 0.7) < 1e-9 and abs(slope - 0.25) < 1e-9


def test_difference_has_position_and_size(load):
    same = load("equality")
    assert same.byte_difference(b"\x00\x05\x09", b"\x00\x07\xff") == (2, 1, 246)


#: Parameters of the functions that the simulated nvJPEG lacks, by NVIDIA's header.
DECOUPLED = {
    "nvjpegDecoderCreate": 3,
    "nvjpegDecoderStateCreate": 3,
    "nvjpegBufferPinnedCreate": 3,
    "nvjpegBufferDeviceCreate": 3,
    "nvjpegStateAttachPinnedBuffer": 2,
    "nvjpegStateAttachDeviceBuffer": 2,
    "nvjpegDecodeParamsCreate": 2,
    "nvjpegDecodeParamsSetOutputFormat": 2,
    "nvjpegJpegStreamCreate": 2,
    "nvjpegJpegStreamParse": 6,
    "nvjpegDecodeJpegHost": 5,
    "nvjpegDecodeJpegTransferToDevice": 5,
    "nvjpegDecodeJpegDevice": 5,
}
BATCHED = {"nvjpegJpegStateCreate": 2, "nvjpegDecodeBatchedInitialize": 5, "nvjpegDecodeBatched": 6}


@pytest.mark.parametrize(("api", "batch", "wanted"), [("decoupled", 1, DECOUPLED), ("batched", 3, BATCHED)])
def test_nvjpeg_is_called_as_its_header_says(load, api: str, batch: int, wanted: dict[str, int]):
    calls = load("measurements.nvjpeg_calls")
    seen: dict[str, int] = {}
    handles = itertools.count(1)

    class Library:
        def __getattr__(self, name: str):
            def function(*arguments: object) -> int:
                seen[name] = len(arguments)
                if name.endswith("Create"):
                    arguments[-1]._obj.value = next(handles)
                return 0

            return function

    library = calls.Nvjpeg.__new__(calls.Nvjpeg)
    library.lib, library.handle = Library(), 1
    driver = SimpleNamespace(check=lambda *arguments: None, allocate=lambda size: 4096)
    photos = [calls.Photo(bytes([n]), 10 + n, 8) for n in range(3)]
    slot = calls.APIS[api](driver, library, 1, photos, batch)
    slot.decode(photos[:batch])
    assert seen == wanted and slot.last == photos[:batch]
    assert [planes.pitch[0] for planes in slot.planes] == [256] * batch
    assert slot.planes[0].channel[1] == 4096 + 256 * 32


@pytest.mark.parametrize(
    "reason",
    [
        "H.264 4:2:0 10 bit is not decoded by this GPU",
        "this GPU decodes H.264 4:2:0 8 bit from 48x16 on, but the frames are 34x26",
        "on the GPU, mpeg4: its standard does not define bit-exact output",
        "on the GPU, av1 with film grain, which decoders add in different ways",
    ],
)
def test_unsupported_gpu_feature_is_not_a_failure(load, reason: str):
    assert load("checks.decoding").ACCEPTED_FALLBACKS.search(reason)


def test_a_picture_that_never_came_is_a_failure(load):
    decoding = load("checks.decoding")
    for reason in (
        "the decoder did not output the picture of access unit 3 (1 missing in total); "
        "decode this range on the CPU instead",
        "the video parser's pictures do not match the access units fed to it: …",
        "the picture of access unit 3 is damaged (decode status 9: error, concealed)",
    ):
        assert not decoding.ACCEPTED_FALLBACKS.search(reason)
