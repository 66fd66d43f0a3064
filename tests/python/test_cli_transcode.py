"""``framespool transcode``: output, prompts, files, exit codes, and interruption at any time."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import framespool as fsp
import pytest
from framespool.cli import main
from processes import child_process, wait_until

QUICK = ["--preset", "ultrafast", "--jobs", "2", "--size", "32"]


pytestmark = pytest.mark.usefixtures("encoder")


@pytest.fixture
def folder(short_clips, tmp_path):
    """Four videos in two class folders."""
    root = tmp_path / "videos"
    for number, (path, _) in enumerate(short_clips[:4]):
        (root / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, root / "ab"[number % 2])
    return root


def run(capsys, *arguments):
    code = main(["transcode", "--json", *map(str, arguments), *QUICK])
    return code, json.loads(capsys.readouterr().out)


def test_class_folders_stay(folder, bad_file, tmp_path, capsys):
    shutil.copy2(bad_file, folder / "b" / "bad.mp4")
    out, failures_file = tmp_path / "out", tmp_path / "bad.jsonl"
    code, said = run(capsys, folder, "--out", out, "--failures", failures_file)
    result = said["result"]
    assert code == 1 and (result["videos"], result["transcoded"], len(result["failures"])) == (5, 4, 1)
    old, new = fsp.datasets.folder(folder).exclude(failures_file), fsp.datasets.folder(out)
    assert len(new) == len(old) == 4 and new.classes == old.classes == ["a", "b"]
    for (theirs, label), (ours, same) in zip(old, new, strict=True):
        assert label == same and Path(ours).stem == Path(theirs).stem and len(fsp.Video(ours)) == len(fsp.Video(theirs))
    assert fsp.datasets.json_lines(out / "dataset.jsonl").columns["class"] == ["a", "a", "b", "b"]
    (folder / "b" / "bad.mp4").unlink()
    code, said = run(capsys, folder, "--out", out)
    assert code == 0 and said["result"]["found"] == 4 and said["estimate"] is None


def test_lists_are_written_again(folder, short_clips, tmp_path, capsys):
    (tmp_path / "train.txt").write_text(
        f"# some\n{folder / 'a' / Path(short_clips[0][0]).name} 3\nvideos/b/{Path(short_clips[1][0]).name}\n"
    )
    (tmp_path / "val.txt").write_text(
        f"videos/a/{Path(short_clips[2][0]).name} 1\n{folder / 'a' / Path(short_clips[0][0]).name} 3\n"
    )
    out = tmp_path / "out"
    code, said = run(capsys, tmp_path / "train.txt", tmp_path / "val.txt", "--out", out)
    assert code == 0 and said["result"]["videos"] == 3
    assert said["result"]["lists"] == [str(out / "train.txt"), str(out / "val.txt")]
    train, val = (fsp.datasets.annotation_file(path) for path in said["result"]["lists"])
    assert [label for _, label in train] == [3, -1] and [label for _, label in val] == [1, 3]
    assert train[0][0] == val[1][0] == str(out / "videos" / "a" / f"{Path(short_clips[0][0]).stem}.mp4")
    assert not fsp.tools.validate(train + val).failures


def test_dry_run_prints_and_writes_nothing(folder, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["transcode", str(folder), "--out", str(out), "--dry-run", *QUICK]) == 0
    printed = capsys.readouterr().out
    for part in (
        "4 videos to transcode",
        "a random clip of 16 frames, 4 apart",
        "fewer pixels",
        "on disk",
        "decode each",
    ):
        assert part in printed
    code, said = run(capsys, folder, "--out", out, "--dry-run", "--frames", 4, "--stride", 2)
    assert code == 0 and said["result"] is None and said["estimate"]["sequence_length"] == 4 and not out.exists()


def test_places_that_do_not_fit_are_refused(folder, tmp_path, capsys):
    for words, what in [
        ([folder, "--out", folder / "new"], "choose a folder outside"),
        ([tmp_path / "nowhere", "--out", tmp_path / "o"], "nowhere"),
        ([folder, "--out", tmp_path / "o", "--failures", tmp_path / "no" / "q"], "cannot be written"),
        ([folder, "--out", tmp_path / "o", "--size", "31", "--long-side", "32"], "not both"),
    ]:
        code = main(["transcode", *map(str, words)])
        # Nothing there is an error of reading; the others are errors of the command line.
        assert code == (1 if words[0] == tmp_path / "nowhere" else 2)
        assert what in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


def test_two_lists_of_one_name_are_refused(short_clips, tmp_path, capsys):
    lists = [tmp_path / side / "train.txt" for side in "ab"]
    for n, path in enumerate(lists):
        path.parent.mkdir()
        path.write_text(f"{Path(short_clips[n][0]).resolve()} {n}\n")
    assert main(["transcode", *map(str, lists), "--out", str(tmp_path / "o"), "--yes", *QUICK]) == 2
    assert "rename one" in capsys.readouterr().err and not (tmp_path / "o").exists()
    before = lists[0].read_text()
    assert main(["transcode", str(lists[0]), "--out", str(lists[0].parent), "--yes", *QUICK]) == 2
    assert "would replace" in capsys.readouterr().err and lists[0].read_text() == before


def command(folder, out, *more):
    return [sys.executable, "-m", "framespool", "transcode", str(folder), "--out", str(out), *QUICK, *more]


@pytest.mark.parametrize(("answer", "code", "made"), [("y\n", 0, 4), ("\n", 1, 0)])
def test_on_a_terminal_it_asks(folder, tmp_path, answer, code, made):
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command(folder, tmp_path / "out"), stdin=theirs, stdout=subprocess.PIPE, stderr=theirs
    ) as asked:
        os.close(theirs)
        os.write(ours, answer.encode())
        asked.stdout.read()
        shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert asked.returncode == code and "write 4 videos to" in shown
    assert len(list((tmp_path / "out").glob("[ab]/*.mp4"))) == made
    assert ("4/4 videos" in shown) == bool(made)


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_it_can_be_ended_at_any_time(folder, videos, by, tmp_path):
    """A long video among short ones: all files are complete when it ends, and the next run creates the rest."""
    shutil.copy2(videos / "action" / "street_426x240.mp4", folder / "a")
    out = tmp_path / "out"
    words = [word if word != "32" else "240" for word in command(folder, out, "--yes", "--crf", "51")]
    with child_process(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_until(lambda: list(out.glob("[ab]/*.mp4")) or process.poll() is not None)
        process.send_signal(by)
        _, errors = process.communicate()
    if by == signal.SIGINT and process.returncode != 0:
        assert process.returncode == 130 and b"stopped" in errors and b"Traceback" not in errors
        assert not list((out / ".framespool-transcode").glob("half-*"))
    there = {path: path.stat().st_mtime_ns for path in out.glob("[ab]/*.mp4")}
    assert there
    for path in there:
        assert len(fsp.Video(path)) == len(fsp.Video(folder / path.parent.name / _source(folder, path)))
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "5 videos" in done.stdout and len(list(out.glob("[ab]/*.mp4"))) == 5
    assert done.stderr == ""
    # A file whose line was not written before the kill is created again; the rest is unchanged.
    again = [path for path, when in there.items() if path.stat().st_mtime_ns != when]
    assert len(again) <= (0 if by == signal.SIGINT else 2)
    # Encoders may survive the kill, and write while the second run does. A run after their end deletes what they left.
    wait_until(lambda: not _encoders(out))
    subprocess.run(words, capture_output=True, check=True)
    assert len(list(out.glob("[ab]/*.mp4"))) == 5
    assert not list((out / ".framespool-transcode").glob("half-*"))


def _encoders(out):
    """The processes that write below a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if os.fsencode(out / ".framespool-transcode") in (process / "cmdline").read_bytes():
                found.append(process.name)
    return found


def _source(folder, made):
    return next(path.name for path in (folder / made.parent.name).iterdir() if path.stem == made.stem)


def test_a_table_becomes_the_list_of_the_results(folder, tmp_path, capsys):
    table = tmp_path / "all.csv"
    files = sorted(str(path.relative_to(tmp_path)) for path in folder.rglob("*.*"))[:2]
    table.write_text(f"split,path,label\ntrain,{files[0]},walk\nval,{files[1]},run\n")
    code, said = run(capsys, table, "--out", tmp_path / "out")
    assert code == 0 and said["result"]["videos"] == 2 and said["result"]["lists"] == []
    new = fsp.datasets.json_lines(tmp_path / "out" / "dataset.jsonl", label="class")
    assert ([label for _, label in new], new.classes, new.columns["split"]) == (
        [1, 0],
        ["run", "walk"],
        ["train", "val"],
    )
