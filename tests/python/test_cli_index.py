"""``framespool index``: building, checking, exporting and importing, output and exit codes."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import framespool as fsp
import pytest
from framespool.cli import main
from processes import child_process, wait_until, wait_until_settled
from servers import FaultyResponse, FaultyServer

RULE = fsp.samplers.Windows(sequence_length=4)


@pytest.fixture
def folder(short_clips, tmp_path):
    """Eight videos in two folders, and one outside of them."""
    root = tmp_path / "videos"
    for n, (path, _) in enumerate(short_clips[:9]):
        below = root if n == 8 else root / f"class {n % 2}"
        below.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, below)
    (root / "notes.txt").write_text("no video")
    return root


def index(capsys, *arguments):
    """The exit code and the summary."""
    code = main(["index", "--json", *map(str, arguments)])
    return code, json.loads(capsys.readouterr().out)


def counts(summary):
    return summary["videos"], summary["found"], summary["indexed"], len(summary["failed"])


def test_a_folder_is_filled_once_and_then_found(folder, tmp_path, capsys):
    place = tmp_path / "place"
    code, summary = index(capsys, folder, "--index", place, "--threads", 2)
    assert (code, counts(summary)) == (0, (9, 0, 9, 0))
    assert summary["index"] == str(place / "framespool-index.sqlite3") and summary["index_cache_error"] is None
    assert summary["frames"] == sum(len(fsp.Video(path)) for path in folder.rglob("*.mkv"))
    code, summary = index(capsys, folder, "--index", place)
    assert (code, counts(summary)) == (0, (9, 9, 0, 0))
    loader = fsp.ClipLoader([str(path) for path in folder.rglob("*.mkv")], RULE, batch_size=1, index=place)
    assert (loader.stats()["index_hits"], loader.stats()["videos_indexed"]) == (9, 0)


def test_lists_and_files_are_read_without_duplicates(short_clips, tmp_path, capsys):
    (tmp_path / "list.txt").write_text("".join(f"{path} {label}\n" for path, label in short_clips[:4]))
    arguments = [tmp_path / "list.txt", short_clips[3][0], short_clips[4][0], "--index", tmp_path / "place"]
    assert counts(index(capsys, *arguments)[1]) == (5, 0, 5, 0)


def test_a_bad_file_is_named_and_the_rest_is_done(folder, bad_file, tmp_path, capsys):
    shutil.copy(bad_file, folder / "bad.mp4")
    place = tmp_path / "place"
    code, summary = index(capsys, folder, "--index", place)
    assert (code, counts(summary)) == (1, (10, 0, 9, 1))
    assert summary["failed"][0]["path"] == str(folder / "bad.mp4")
    assert "bad.mp4" in summary["failed"][0]["error"] and summary["failed"][0]["kind"] in fsp.errors.BY_KIND
    assert main(["index", str(folder), "--index", str(place)]) == 1
    said = capsys.readouterr()
    assert "10 videos: 9 found, 0 indexed, 1 failed" in said.out
    assert said.err.count("bad.mp4") == 1


def test_indices_travel_with_the_videos(folder, tmp_path, capsys):
    lines = tmp_path / "indices.jsonl"
    code, summary = index(capsys, folder, "--index", tmp_path / "here", "--export", lines)
    assert (code, summary["exported"], summary["export_unfit"]) == (0, 9, [])
    assert str(tmp_path) not in lines.read_text(), "no paths of this machine"
    there = shutil.copytree(folder, tmp_path / "there", copy_function=shutil.copy)  # with other times
    wait_until_settled(*there.rglob("*.mkv"))
    code, summary = index(capsys, there, "--index", tmp_path / "place", "--import", lines)
    assert (code, summary["imported"], summary["import_unfit"]) == (0, 9, [])
    assert counts(summary) == (9, 9, 0, 0)
    code, summary = index(capsys, there, "--index", tmp_path / "place", "--check")
    assert (code, counts(summary), summary["wrong"]) == (0, (9, 9, 0, 0), [])


def test_what_does_not_fit_is_named_and_not_imported(folder, short_clips, tmp_path, capsys):
    lines = tmp_path / "indices.jsonl"
    index(capsys, folder, "--index", tmp_path / "here", "--export", lines)
    entries = {Path(entry["path"]).name: entry for entry in map(json.loads, lines.read_text().splitlines())}
    names = sorted(entries)
    there = shutil.copytree(folder, tmp_path / "there")
    where = {path.name: path for path in there.rglob("*.mkv")}
    where[names[0]].unlink()  # gone
    shutil.copy(short_clips[9][0], where[names[1]])  # another file
    content = bytearray(where[names[2]].read_bytes())
    content[-1] ^= 1
    where[names[2]].write_bytes(content)  # the same length
    damaged = bytearray(entries[names[3]]["index"], "ascii")
    damaged[100] ^= 1
    entries[names[3]]["index"] = damaged.decode()
    entries[names[4]]["path"] = "../videos/" + entries[names[4]]["path"]
    entries[names[5]]["format"] = 0
    entries[names[6]]["ffmpeg"] = "0.1"
    lines.write_text("".join(json.dumps(entry) + "\n" for entry in entries.values()) + "no JSON\n\n")
    wait_until_settled(*there.rglob("*.mkv"))
    code, summary = index(capsys, there, "--index", tmp_path / "place", "--import", lines)
    assert (code, summary["imported"]) == (0, 2)
    reasons = {Path(entry["path"]).name: entry["reason"] for entry in summary["import_unfit"]}
    expected = ["no such file", "bytes", "differs in content", "", "outside the root", "format", "FFmpeg 0.1"]
    assert len(reasons) == 8 and "not JSON" in reasons["line 10"]
    for name, reason in zip(names, expected, strict=False):
        assert reason in reasons[name], name
    assert counts(summary) == (8, 2, 6, 0)


def test_check_finds_what_is_wrong_stale_and_gone(folder, short_clips, tmp_path, capsys):
    place = tmp_path / "place"
    index(capsys, folder, "--index", place)
    first, second, third = sorted(folder.rglob("*.mkv"))[:3]
    # The entry of one video under the key of another, with a valid checksum, is ignored.
    database = sqlite3.connect(place / "framespool-index.sqlite3")
    rows = dict(database.execute("SELECT id, value FROM record"))
    ids = {str(path): key for key, value in rows.items() for path in (first, second) if os.fsencode(path) in value}
    with database:
        database.execute("UPDATE record SET value = ? WHERE id = ?", (rows[ids[str(second)]], ids[str(first)]))
    database.close()
    third.unlink()
    shutil.copy(short_clips[9][0], second)
    code, summary = index(capsys, folder, "--index", place, "--check")
    assert (code, counts(summary), summary["gone"]) == (0, (8, 6, 2, 0), 1)
    code, summary = index(capsys, folder, "--index", place, "--check")
    assert (code, counts(summary), summary["gone"]) == (0, (8, 8, 0, 0), 0)


def days(place, sql=None):
    """The day of the last use of each file below the parent of `place`, by its name there."""
    with contextlib.closing(sqlite3.connect(place / "framespool-index.sqlite3")) as database, database:
        if sql is not None:
            database.execute(sql)
        rows = database.execute("SELECT value, day FROM lookup JOIN record USING (number)").fetchall()
    start = os.fsencode(place.parent) + b"/"
    return {value.partition(start)[2].partition(b".mkv")[0].decode(): day for value, day in rows}


def today() -> int:
    """Days since 1970, as in the index."""
    return int(time.time() // 86400)


def test_day_of_the_last_use_is_written_once_a_day(folder, tmp_path, capsys):
    place = tmp_path / "place"
    index(capsys, folder, "--index", place)
    assert len(days(place)) == 9
    days(place, "UPDATE lookup SET day = day - 40")
    before = days(place)
    used = sorted(folder.rglob("*.mkv"))[:3]
    names = {str(path.relative_to(tmp_path).with_suffix("")) for path in used}
    for _ in range(2):
        begun = today()
        index(capsys, *used, "--index", place)
        found = days(place)
        assert {name: day for name, day in found.items() if name not in names} == {
            name: day for name, day in before.items() if name not in names
        }
        assert all(begun <= found[name] <= today() for name in names)
        written = (place / "framespool-index.sqlite3").stat().st_mtime_ns
        index(capsys, *used, "--index", place)
        is_written = (place / "framespool-index.sqlite3").stat().st_mtime_ns != written
        assert not is_written or today() > begun, "nothing was written, unless the day has changed"


def many_links(short_clips, folder, count):
    folder.mkdir()
    first = folder / "base.mkv"
    shutil.copy(short_clips[0][0], first)
    for number in range(count):
        os.link(first, folder / f"{number:04}.mkv")
    wait_until_settled(first)


def test_full_cache_removes_missing_files_then_the_least_recently_used(short_clips, tmp_path, capsys, monkeypatch):
    place = tmp_path / "place"
    many_links(short_clips, tmp_path / "first", 199)
    many_links(short_clips, tmp_path / "second", 99)
    index(capsys, tmp_path / "first", "--index", place)
    code, summary = index(capsys, "stats", "--index", place)
    assert (code, summary["entries"], summary["max_bytes"]) == (0, 200, 1 << 30)
    days(place, "UPDATE lookup SET day = day - 40")
    recent = [tmp_path / "first" / f"{number:04}.mkv" for number in range(50)]
    index(capsys, *recent, "--index", place)
    for number in range(40, 50):
        recent[number].unlink()
    # The limit applies to databases that are opened from then on.
    monkeypatch.setenv("FRAMESPOOL_INDEX_MAX_BYTES", str(summary["bytes"]))
    command = [sys.executable, "-m", "framespool", "index", tmp_path / "second", "--index", place]
    subprocess.run(command, check=True, capture_output=True)
    _, limited = index(capsys, "stats", "--index", place)
    assert 0.5 * summary["bytes"] < limited["bytes"] <= limited["max_bytes"] == summary["bytes"]
    kept = days(place)
    assert {f"first/{number:04}" for number in range(40)} <= set(kept), "those used today are kept"
    assert not {f"first/{number:04}" for number in range(40, 50)} & set(kept), "missing files"
    assert sum(name.startswith("second/") for name in kept) == 100 and len(kept) < 250


def test_prune_shrinks_the_file_and_keeps_what_is_not_mounted(short_clips, tmp_path, capsys, monkeypatch):
    place = tmp_path / "place"
    for name in ("first", "second"):
        many_links(short_clips, tmp_path / name, 99)
        index(capsys, tmp_path / name, "--index", place)
    (tmp_path / "first" / "0000.mkv").unlink()
    shutil.rmtree(tmp_path / "second")
    code, summary = index(capsys, "prune", "--index", place)
    assert (code, summary["gone"], summary["unused"], summary["entries"]) == (0, 1, 0, 199)
    code, summary = index(capsys, "prune", tmp_path, "--index", place)
    assert (code, summary["gone"], summary["entries"]) == (0, 100, 99)
    file = place / "framespool-index.sqlite3"
    assert file.stat().st_size == summary["bytes"] < summary["bytes_before"]
    monkeypatch.setenv("FRAMESPOOL_INDEX_MAX_BYTES", "20000")
    summary = index(capsys, "prune", "--index", place)[1]
    assert summary["entries"] + summary["unused"] == 99 and summary["bytes"] <= 20_000 == summary["max_bytes"]
    monkeypatch.setenv("FRAMESPOOL_INDEX_MAX_BYTES", "1GB")
    summary = index(capsys, tmp_path / "first", "--index", tmp_path / "other")[1]
    assert "must be a number of bytes, got" in summary["index_cache_error"]


def test_stored_indexes_of_a_folder_are_exported(folder, tmp_path, capsys):
    index(capsys, folder, "--index", tmp_path / "place")
    code, summary = index(capsys, "export", tmp_path / "some.jsonl", folder / "class 0", "--index", tmp_path / "place")
    names = [json.loads(line)["path"] for line in (tmp_path / "some.jsonl").read_text().splitlines()]
    assert (code, summary["exported"], summary["root"]) == (0, len(names), str(folder / "class 0"))
    assert names == sorted(path.name for path in (folder / "class 0").iterdir())
    assert main(["index", "export"]) == main(["index", "stats", "videos/"]) == 2
    assert "needs a FILE" in capsys.readouterr().err
    assert main(["index", "stats", "--index", str(tmp_path / "place")]) == 0
    assert "9 indexes" in capsys.readouterr().out


def test_wrong_usage_is_reported(folder, tmp_path, capsys, monkeypatch):
    for wrong in (["index"], ["no such command"], ["index", str(folder), "--threads", "0"]):
        with pytest.raises(SystemExit) as ended:
            main(wrong)
        assert ended.value.code == 2
    capsys.readouterr()
    assert main(["index", str(tmp_path / "nowhere")]) == 1
    assert "nowhere" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["index", str(folder), "--index", str(tmp_path / "file")]) == 1
    assert "file" in capsys.readouterr().err
    monkeypatch.setenv("FRAMESPOOL_INDEX", "off")
    assert main(["index", str(folder)]) == 2
    assert "FRAMESPOOL_INDEX" in capsys.readouterr().err


def test_on_a_terminal_there_is_a_bar(folder, tmp_path):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "framespool", "index", folder, "--index", tmp_path / "place"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, check=True)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert "9/9 videos" in shown and "[" + "#" * 30 + "]" in shown and shown.endswith("\x1b[K")
    assert b"9 videos: 0 found, 9 indexed" in done.stdout
    plain = subprocess.run(command, capture_output=True, check=True)
    assert plain.stderr == b""


def _kept(place) -> int:
    """Number of entries of an index that another process may be writing."""
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(
            sqlite3.connect(f"{(place / 'framespool-index.sqlite3').as_uri()}?mode=ro", uri=True)
        ) as index,
    ):
        return index.execute("SELECT count(*) FROM record").fetchone()[0]
    return 0


def test_ctrl_c_ends_it_and_keeps_what_was_done(videos, tmp_path):
    """The command cannot end before: a server does not answer for the last video."""
    first = shutil.copy(videos / "codecs" / "av1_10bit_426x240.webm", tmp_path)
    place = tmp_path / "place"
    with FaultyServer(b"", lambda number, asked: FaultyResponse(held=True)).running() as server:
        command = [sys.executable, "-m", "framespool", "index", first, server.url(), "--index", place, "--threads", "2"]
        with child_process(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            wait_until(lambda: (_kept(place) and server.ranges) or process.poll() is not None)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate()
    assert process.returncode == 130, errors
    assert b"stopped" in errors and b"Traceback" not in errors
    assert _kept(place) == 1
