"""``make bench``: records are valid; README, docs and plots match them; an interrupted run resumes.

Nothing here measures: small substitutes replace the programs, and no test depends on a time.
"""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from processes import wait_until

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benches"))

import bench as program  # noqa: E402
import plots  # noqa: E402
import readme_table  # noqa: E402
from harness.record_format import record_text  # noqa: E402
from suite import machine, record, running  # noqa: E402
from suite.benches import BENCHES  # noqa: E402
from suite.environments import Environment, Missing  # noqa: E402
from suite.parsers import clips, epochs, images  # noqa: E402
from suite.published_tables import HEADLINES, PLOTS, README_ROWS, SENTENCES, Headline, Quoted  # noqa: E402
from suite.record import Row, Spread, Table  # noqa: E402
from suite.svg import HATCH  # noqa: E402


@pytest.fixture(scope="module")
def records() -> record.Records:
    return record.Records()


# ---- committed files


def test_records_are_valid_and_contain_no_host_name(records):
    assert {kept["bench"] for _, kept in records.records} <= set(BENCHES)
    for path, kept in records.records:
        text = path.read_text()
        assert not kept["short"], path.name
        assert (path.parent / kept["text"]).is_file(), path.name
        assert path.name.startswith(f"{kept['date']}-"), path.name
        assert not any(f'"{folder}/' in text or f" {folder}/" in text for folder in ("/home", "/root", "/work", "/tmp"))


def test_records_have_one_line_per_row():
    """Records of benches and of GPUs; also those that were corrected by hand."""
    paths = sorted(record.FOLDER.rglob("*.json"))
    assert paths
    for path in paths:
        text = path.read_text()
        kept = json.loads(text)
        assert text == record_text(kept), f"{path.name}: write it with benches/harness/record_format.py"
        lines = {line.strip().removesuffix(",") for line in text.splitlines()}
        rows = [row for table in kept.get("tables", [kept]) for row in table["rows"]]
        assert [row for row in rows if json.dumps(row, ensure_ascii=False) not in lines] == [], path.name


@pytest.mark.parametrize("name", readme_table.FILES)
def test_readme_and_docs_tables_match_the_records(name, records):
    text = (ROOT / name).read_text()
    begin, end = readme_table.between(text, name)
    assert text[begin:end] == readme_table.FILES[name](records), "run benches/readme_table.py"


def test_readme_chart_is_drawn_from_the_newest_record(records):
    assert (plots.DOCS / plots.CHART_FILE).read_text() == plots.draw_chart(records), "run benches/plots.py"
    assert f"](docs/benchmarks/{plots.CHART_FILE})" in (ROOT / "README.md").read_text()


def test_quoted_figures_of_readme_are_in_their_records(records):
    quoted = [each for each in README_ROWS if isinstance(each, Quoted)]
    assert quoted
    for each in quoted:
        text = (record.FOLDER / each.record).read_text()
        figures = set(re.findall(r"\d+(?:\.\d+)?", text))
        assert set(each.quotes) <= figures, (each.record, set(each.quotes) - figures)
        own, peer, ratio = map(float, each.quotes)
        assert abs(own / peer / ratio - 1) < 0.03, each


def test_plots_show_every_row_of_their_tables(records):
    """The build of the documentation draws them; they are not committed."""
    made = plots.pictures(records)
    assert [picture.bench for picture in made] == list(PLOTS)
    for picture in made:
        drawn = ElementTree.fromstring(plots.draw(picture))
        texts = {element.text for element in drawn.iter() if element.tag.endswith("}text")}
        rows = [row for found in picture.panels for row in found.table["rows"]]
        assert {word for row in rows for word in (row["label"], plots.value_words(row))} <= texts, picture.bench
        bars = [e for e in drawn.iter() if e.tag.endswith("}rect") and e.get("y")]
        assert len(bars) == len(rows), picture.bench
        hatched = [bar for bar in bars if bar.get("fill") == HATCH]
        assert len(hatched) == sum(row["right"] is False for row in rows), picture.bench


def test_what_headlines_name_is_measured(records):
    """A headline of a table that no record has would never be shown."""
    named = [(each.bench, each.table) for each in (*HEADLINES, *SENTENCES)]
    assert [name for name in named if records.newest(*name) is None] == []
    for each in SENTENCES:
        found = records.newest(each.bench, each.table)
        assert each.label in [row["label"] for row in found.table["rows"]]
    assert set(PLOTS) == set(BENCHES)


def test_programs_and_set_ups_of_the_list_are_there():
    for bench in BENCHES.values():
        source = (ROOT / "benches" / bench.program).read_text()
        for word in (*bench.words, *bench.short_words, "--json"):
            assert not word.startswith("--") or f'"{word}"' in source, f"{bench.program} has no {word}"
    for environment in running.environments().values():
        assert all((ROOT / source).is_file() for source in environment.sources)
        assert os.access(ROOT / environment.setup[0], os.X_OK)


# ---- a table's row


def found(rows: list[Row], **load) -> record.Found:
    kept = {"machine": {"cpu": "A CPU", "cores": 2}, "load": {"quiet": True, **load}, "date": "2026-01-02"}
    table = Table("cpu", "A job", "CPU ms", rows, baseline="framespool")
    kept["tables"] = record.to_json(record.Result([table], {}))["tables"]
    return record.Found(Path("2026-01-02-x.json"), kept, kept["tables"][0])


def test_both_fastest_peers_are_shown():
    rows = [
        Row("framespool", Spread(2.0), own=True, right=True, ratio=Spread(1.0)),
        Row("framespool, exact", Spread(2.1), own=True, right=True, ratio=Spread(1.05)),
        Row("wrong", Spread(1.0), right=False, ratio=Spread(0.5)),
        Row("unchecked", Spread(1.0), ratio=Spread(0.5)),
        Row("far", Spread(8.0), right=True, ratio=Spread(4.0)),
        Row("near", Spread(3.0), right=True, ratio=Spread(1.5, 1.4, 1.7, 9, "quartiles"), note="aliases: two pixels"),
    ]
    job = Headline("bench", "cpu", "A job", "some data")
    line = readme_table.line(job, found(rows), readme_table.Notes("", []))
    assert line.startswith(
        "| A job; CPU ms | some data | 2.00 | near (aliases): 3.00 | 1.50 (1.40 to 1.70) | wrong: 1.00"
    )
    assert "unchecked" not in line and "not quiet" not in line
    assert "2026-01-02-x.json), not quiet" in readme_table.line(
        job, found(rows, quiet=False), readme_table.Notes("", [])
    )
    several = readme_table.line(job, found(rows), readme_table.Notes("", ["Another CPU"]))
    assert "machine B" in several
    assert "| the same |" in readme_table.line(job, found([*rows[:2], *rows[4:]]), readme_table.Notes("", []))
    assert readme_table.line(job, found(rows[:4]), readme_table.Notes("", [])) is None


def test_headlines_state_data_clips_and_budget(records):
    """Numbers of clips, files and images that a record states are those of the headline."""
    for each in HEADLINES:
        assert re.search(r"clip cache of|no cache|no clips", each.data), each
        assert re.search(r"H\.264|JPEG|1080p", each.data) and re.search(
            r"\d+ (?:s|frames)\b|mean size|1080p frames", each.data
        )
        found = records.newest(each.bench, each.table)
        for number in re.findall(r"([\d,]+) clips to", found.table["title"]):
            assert f"{number} clips" in each.data
        for pattern in (r"(\d+) different pictures", r"^(\d+) MP4s", r"^(\d+) frames of", r"^(\d+) files"):
            for number in re.findall(pattern, found.record["data"])[:1]:
                assert number in each.data.replace(",", ""), (each, number)


def test_a_figure_changed_by_hand_is_noticed(records):
    text = (ROOT / "docs/benchmarks.md").read_text()
    begin, end = readme_table.between(text, "docs")
    wanted = readme_table.docs_block(records)
    other = copy.deepcopy(records)
    # The newest of all has its own headline, and so has every other one.
    for _, kept in other.records:
        for table in kept["tables"]:
            for row in table["rows"]:
                row["value"]["median"] *= 1.5
    assert text[begin:end] == wanted != readme_table.docs_block(other)
    for broken in (text.replace(readme_table.END, ""), text + readme_table.BEGIN):
        with pytest.raises(ValueError, match="needs the line"):
            readme_table.between(broken, "docs")


# ---- records


def test_ratios_use_pairs_and_spreads_are_labeled():
    own = {1: 10.0, 2: 20.0, 3: 90.0, 4: 1.0}
    base = {1: 5.0, 2: 20.0, 3: 30.0}
    assert record.paired(own, base) == Spread(2.0, 1.0, 3.0, 3, "range")
    assert record.paired({9: 1.0}, base) is None
    assert Spread.of([4.0]) == Spread(4.0, None, None, 1, None)
    assert Spread.of([1, 2, 3, 4, 100]) == Spread(3, 2, 4, 5, "quartiles")


def test_invalid_record_is_rejected(tmp_path, records):
    path, good = records.records[0]
    assert record.problems(good) == []

    def broken(change) -> list[str]:
        bad = copy.deepcopy(good)
        change(bad)
        found = record.problems(bad)
        assert found
        with pytest.raises(ValueError, match="not a record"):
            record.write(tmp_path / "bad.json", bad)
        return found

    assert "'machine'" in broken(lambda bad: bad.pop("machine"))[0]
    assert "no row 'missing'" in broken(lambda bad: bad["tables"][0].update(baseline="missing"))[0]
    assert (
        "two with the same label" in broken(lambda bad: bad["tables"][0]["rows"].append(bad["tables"][0]["rows"][0]))[0]
    )
    row = {"label": "x", "own": False, "value": {"median": 5.0, "low": 6.0, "high": 7.0, "n": 3, "spread": "range"}}
    assert "is not between" in broken(lambda bad: bad["tables"][0]["rows"].append(row))[0]
    broken(lambda bad: bad["tables"].clear())
    assert not list(tmp_path.iterdir())
    record.write(tmp_path / path.name, good)
    assert record.read(tmp_path / path.name) == good


def test_newest_table_wins_and_records_are_kept(tmp_path, records):
    good = copy.deepcopy(next(kept for _, kept in records.records if kept["bench"] == "random_clips"))
    names = []
    for began in ("2026-12-01T10:00:00Z", "2026-12-01T09:00:00Z"):
        path = record.free_path(tmp_path, "2026-12-01", good["bench"])
        record.write(path, good | {"date": "2026-12-01", "began": began})
        names.append(path.name)
    assert names == ["2026-12-01-random-clips.json", "2026-12-01-random-clips-2.json"]
    (tmp_path / "2026-12-02-random-clips.txt").touch()
    assert record.free_path(tmp_path, "2026-12-02", "random_clips").name == "2026-12-02-random-clips-2.json"
    # A newer record with another table does not hide this one.
    later = good | {"date": "2026-12-03", "tables": [good["tables"][0] | {"name": "other"}]}
    record.write(tmp_path / "2026-12-03-random-clips.json", later)
    made = record.Records(tmp_path)
    assert made.newest("random_clips", "cpu").path.name == "2026-12-01-random-clips.json"
    assert made.newest("random_clips", "other").path.name == "2026-12-03-random-clips.json"
    assert made.newest("random_clips", "third") is None


# ---- from the programs' own JSON


def sample(peer: str, clip: int, cpu_ms: float) -> dict:
    return {"peer": peer, "file": "a.mp4", "clip": clip, "repeat": 0, "cpu_ms": cpu_ms, "wall_ms": 2 * cpu_ms}


def test_random_clips_report_wrong_and_failed_peers():
    check = {"by_file": {"a.mp4": {"frames": 32, "wrong": 0}}, "difference": 0.0, "failure": None}
    raw = {
        "mode": "cold", "clips_per_file": 2, "repeats": 1, "seed": 0, "baseline": "framespool",
        "peers": ["framespool", "pyav", "opencv", "decord"],
        "versions": {"framespool": "0.1.0", "pyav": "18"},
        "checks": {
            "framespool": check,
            "pyav": check | {"by_file": {"a.mp4": {"frames": 32, "wrong": 3}}},
            "opencv": check | {"failure": "a.mp4: no such codec"},
        },
        "by_file": {"a.mp4": {}},
        "samples": [
            sample("framespool", 0, 10), sample("framespool", 1, 20), sample("pyav", 0, 40), sample("pyav", 1, 20),
        ],
    }  # fmt: skip
    result = clips.random_clips(raw)
    own, pyav = result.tables[0].rows
    assert own.own and own.right and own.value == Spread(15.0, 10.0, 20.0, 2, "range")
    assert (
        pyav.right is False and pyav.answers == "WRONG 3 of 32 frames" and pyav.ratio == Spread(2.5, 1, 4, 2, "range")
    )
    assert result.left_out == {"opencv": "a.mp4: no such codec", "decord": "did not start"}


def test_peers_of_an_epoch_are_scaled_to_all_of_it():
    def side(name: str, clips: int, cpu_s: float, **more) -> dict:
        usage = {"wall_s": cpu_s, "cpu_s": cpu_s, "clips": clips}
        return {
            "version": "1", "workers": None, "frames_checked": 64, "frames_wrong": 0, "notes": [],
            "runs": [{"clips": clips, "usage": usage, "pictures_per_picture": 1.0}], **more,
        }  # fmt: skip

    sides = {"framespool": side("framespool", 96, 24.0), "decord": side("decord", 16, 10.0, workers=2)}
    task = {
        "sides": sides,
        "left_out": {"framespool_buffer": "unknown"},
        "peers_pictures_per_picture": 4.6,
        "budgets": [],
    }
    result = epochs.shuffled_epochs({"tasks": {"random_8": task}})
    cpu = result.tables[0]
    assert [row.label for row in cpu.rows] == ["framespool", "decord, 2 workers"]
    assert cpu.rows[1].value.median == 60.0 and cpu.rows[1].ratio.median == 2.5
    assert result.left_out == {"framespool_buffer, random_8": "unknown"}


def test_rows_of_the_disk_cache_have_their_frames_and_their_size_on_disk():
    loader = {"frames_decoded": 90.0, "disk_bytes_per_video": 0}
    cached = {"frames_decoded": 16.0, "disk_bytes_per_video": 20e6}
    peer = {"version": "1", "difference": 1.5}
    found = {
        "size": "340x256", "videos": 16, "version": "2", "jpeg_bytes": 10e6,
        "expected": {"0": [98.0, 98.0], "16": [15.0, 186.0]},
        "runs": {
            "spdl": [{"cpu_ms": 50.0, **peer}, {"cpu_ms": 60.0, **peer}],
            "jpeg": [{"cpu_ms": 8.0, **peer}, {"cpu_ms": 9.0, **peer}],
            "0": [{"cpu_ms": 30.0, **loader}, {"cpu_ms": 36.0, **loader}],
            "16": [{"cpu_ms": 10.0, **cached}, {"cpu_ms": 12.0, **cached}],
        },
    }  # fmt: skip
    result = epochs.disk_cache({"340x256": found})
    cpu, decoded, disk = result.tables
    assert [row.label for row in cpu.rows] == [
        "spdl",
        "JPEG frames",
        "framespool",
        "framespool, disk cache of 16 epochs",
    ]
    assert cpu.baseline == "framespool, disk cache of 16 epochs" and cpu.rows[0].ratio.median == 5.0
    assert [row.own for row in cpu.rows] == [False, False, True, True]
    assert [(row.value.median, row.note) for row in decoded.rows] == [(90.0, "98.0 expected"), (16.0, "15.0 expected")]
    assert {row.label: row.value.median for row in disk.rows} == {
        "JPEG frames": 10.0,
        "framespool, disk cache of 16 epochs": 20.0,
    }
    assert result.versions == {"framespool": "2", "spdl": "1", "jpeg": "1"}
    read = {"cpu_ms": 0.3, "wall_ms": 0.4}
    runs = {"loader": [{"cpu_ms": 0.6, "wall_ms": 0.7}], "read": [read], "read and copy": [read]}
    found = {"videos": 4, "threads": 2, "runs": runs, "frames_decoded": 1, "clips_read": 4, "clips": 4}
    (table,) = epochs.disk_cache({"validation": found}).tables
    assert table.rows[0].right is False and table.rows[0].ratio.median == 2.0


def test_image_rows_keep_answers_for_any_workers():
    turns = [{"images_per_s": 100.0, "cpu_ms": 10.0}, {"images_per_s": 50.0, "cpu_ms": 20.0}]
    lines = [
        {"label": "framespool", "entry": "framespool", "note": "", "turns": turns},
        {"label": "Pillow, 2 workers", "entry": "Pillow", "note": "slow", "turns": turns[::-1]},
    ]
    raw = {
        "versions": {"framespool": "framespool 0.1.0", "opencv": "OpenCV 5, simplejpeg 1.9"},
        "left_out": {}, "tasks": {"train": "random resized crop"},
        "answers": {"train Pillow": {"pixels": {"text": "off by 9", "wrong": True}}},
        "tables": [{"table": {"task": "train", "pictures": "photos", "threads": 2, "shards": 1}, "lines": lines}],
    }  # fmt: skip
    result = images.images(raw)
    own, pillow = result.tables[0].rows
    assert own.right is None and pillow.right is False and pillow.note == "slow" and pillow.ratio.low == 0.5
    assert result.tables[1].better == "higher"
    assert result.versions == {"framespool": "0.1.0", "OpenCV": "5", "simplejpeg": "1.9"}


# ---- running


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A repository with one program, which does what `do` says and writes output like random_clips.py."""
    raw = {
        "mode": "cold", "clips_per_file": 1, "repeats": 1, "seed": 0, "baseline": "framespool", "python": "3.11",
        "versions": {"framespool": "0.1.0"}, "by_file": {"a.mp4": {}},
        "checks": {"framespool": {"by_file": {"a.mp4": {"frames": 1, "wrong": 0}}, "failure": None}},
        "samples": [sample("framespool", 0, 10)],
    }  # fmt: skip
    source = f"""
import json, os, subprocess, sys, time
target, place = sys.argv[-1], os.environ["FRAMESPOOL_CORPUS"]
with open(os.path.join(place, "ran"), "a") as out:
    out.write("x")
do = open(os.path.join(place, "do")).read()
print("reading", place + "/video/a.mp4")
if do == "hang":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    open(os.path.join(place, "half"), "w").write(str(child.pid))
    os.rename(os.path.join(place, "half"), os.path.join(place, "child"))
    time.sleep(600)
if do == "fail":
    sys.exit("out of luck")
json.dump({raw!r}, open(target, "w"))
sys.exit(3 if do == "wrong" else 0)
"""
    (tmp_path / "benches").mkdir()
    (tmp_path / "benches/fake.py").write_text(source)
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus/do").write_text("well")
    here = Environment("fake", Path(sys.prefix), ["true"], [], [], 0.0)
    monkeypatch.setattr(running, "ROOT", tmp_path)
    monkeypatch.setattr(running, "environments", lambda: {"fake": here})
    monkeypatch.setenv("FRAMESPOOL_CORPUS", str(tmp_path / "corpus"))
    return tmp_path


FAKE = replace(BENCHES["random_clips"], program="fake.py", environment="fake", words=["{corpus}/a.mp4"], short_words=[])


def test_run_writes_a_record_and_resumes(place, capfd):
    run = running.Run("r", short=False, again=False)
    assert not run.has(FAKE)
    kept = record.read(run.one(FAKE, setup=False))
    assert kept["command"] == "benches/fake.py $FRAMESPOOL_CORPUS/a.mp4" and kept["answers"]["ended"] == 0
    assert isinstance(kept["load"]["quiet"], bool) and kept["machine"]["cores"] >= 1 and kept["source"] == "measured"
    text = run.result(FAKE).with_suffix(".txt").read_text()
    assert "reading $FRAMESPOOL_CORPUS/video/a.mp4" in text and str(place) not in text + run.result(FAKE).read_text()
    assert running.Run("r", short=False, again=False).has(FAKE)
    assert not running.Run("r", short=False, again=True).has(FAKE)
    # A trial's result is not a measurement.
    assert not running.Run("r", short=True, again=False).has(FAKE)
    (place / "corpus/do").write_text("wrong")
    assert record.read(run.one(FAKE, setup=False))["answers"]["ended"] == 3
    assert (place / "corpus/ran").read_text() == "xx"


def test_failed_bench_leaves_no_result(place, capfd):
    (place / "corpus/do").write_text("fail")
    run = running.Run("r", short=False, again=False)
    with pytest.raises(running.BenchError, match="code 1 and no figures; random_clips.log"):
        run.one(FAKE, setup=False)
    assert not run.result(FAKE).exists() and "out of luck" in (run.folder / "random_clips.log").read_text()
    assert "out of luck" in capfd.readouterr().err


def test_hung_bench_is_killed_with_its_children(place, monkeypatch, capfd):
    (place / "corpus/do").write_text("hang")
    run, wait = running.Run("r", short=False, again=False), subprocess.Popen.wait

    def times_out_once_it_has_a_child(process, timeout=None):
        if timeout is not None:
            wait_until(lambda: (place / "corpus/child").exists())
            timeout = 0
        return wait(process, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", times_out_once_it_has_a_child)
    with pytest.raises(running.BenchError, match="hung"):
        run.one(FAKE, setup=False)
    child = int((place / "corpus/child").read_text())

    def has_ended():
        try:
            return Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
        except (FileNotFoundError, ProcessLookupError):
            return True

    wait_until(has_ended)


def test_environment_is_rebuilt_when_its_list_changes(tmp_path):
    venv, listed, calls = tmp_path / "venv", tmp_path / "list.txt", tmp_path / "calls"
    listed.write_text("one")
    setup = tmp_path / "setup.sh"
    setup.write_text(f"mkdir -p {venv}/bin && touch {venv}/bin/python && echo x >> {calls}\n")
    made = Environment("x", venv, ["bash", str(setup)], [str(listed)], [], 0.0)
    assert not made.ready()
    for _ in range(2):
        made.make(tmp_path / "log")
    assert made.ready() and calls.read_text() == "x\n"
    listed.write_text("two")
    assert not made.ready()
    made.make(tmp_path / "log")
    assert calls.read_text() == "x\nx\n"
    setup.write_text("echo 'no network' >&2; exit 7\n")
    listed.write_text("three")
    with pytest.raises(Missing, match="code 7: no network"):
        made.make(tmp_path / "log")
    assert not made.ready()


def test_load_by_other_processes_is_separate(monkeypatch):
    clock, busy, own = [0.0], [100.0], [10.0]
    monkeypatch.setattr(machine.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(machine, "busy_seconds", lambda: busy[0])
    monkeypatch.setattr(machine, "own_seconds", lambda: own[0])
    monkeypatch.setattr(machine, "cores", lambda: 2)

    def watched(machine_secs: float, own_secs: float) -> dict:
        watch = machine.Watch.start()
        clock[0] += 10
        busy[0] += machine_secs
        own[0] += own_secs
        return watch.stop()

    alone, shared = watched(20, 19), watched(20, 15)
    assert (alone["elsewhere_cores"], alone["quiet"]) == (0.1, True)
    assert (shared["elsewhere_cores"], shared["quiet"]) == (0.5, False)


def test_the_cpu_time_of_orphans_is_ones_own():
    """In its own process: adopting affects the complete process, and so does waiting for any child."""
    code = """
import subprocess, sys
from suite import machine
machine.adopt_orphans()
work = "import os, sys; sys.exit() if os.fork() else sum(i * i for i in range(3_000_000))"
before = machine.own_seconds()
subprocess.run([sys.executable, "-c", work], check=True)
parent_alone = machine.own_seconds()
machine.reap_orphans(timeout_secs=60)
assert machine.own_seconds() > parent_alone > before
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT / "benches", check=True)


def test_the_plan_is_said_and_wrong_names_are_refused(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(running, "ROOT", tmp_path)
    monkeypatch.setattr(running, "POLL_SECS", 0.0)
    monkeypatch.setattr(sys, "argv", ["bench.py", "--list", "--only", "scaling,start_up", "--run", "r"])
    assert program.main() == 0
    printed = capsys.readouterr().out
    assert (
        "scaling" in printed
        and "start_up" in printed
        and "pixels" not in printed
        and re.search(r"expected: \d+ minutes", printed)
    )
    for wrong in (["--only", "scalings"], ["--run", "../x"]):
        monkeypatch.setattr(sys, "argv", ["bench.py", *wrong])
        with pytest.raises(SystemExit):
            program.parse_arguments()
    assert json.loads(json.dumps(running.scrubbed_json({"a": [str(tmp_path / "b"), 1, None]}))) == {
        "a": ["./b", 1, None]
    }
