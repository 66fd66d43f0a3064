"""``framespool validate`` and :func:`framespool.tools.validate`: finds bad files, skips checked ones, resumes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import framespool as fsp
import pytest
from framespool.cli import main


@pytest.fixture
def folder(short_clips, photos, media, tmp_path):
    """Two valid videos, two valid photographs, and a damaged one of each."""
    root = tmp_path / "set"
    (root / "deep" / "er").mkdir(parents=True)
    for path, _ in short_clips[:2]:
        shutil.copy2(path, root / "deep")
    shutil.copy2(media / "video" / "corrupt" / "derived" / "bitflip_h264.mp4", root / "deep" / "er" / "bad.mp4")
    for number, (path, _) in enumerate(photos[:2]):
        shutil.copy2(path, root / f"{number}.jpg")
    whole = (root / "0.jpg").read_bytes()
    (root / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    (root / "notes.txt").write_text("nothing")
    return root


def names(report):
    return [os.path.basename(failure["path"]) for failure in report.failures]


def run(capsys, *arguments):
    code = main(["validate", "--json", *map(str, arguments)])
    return code, json.loads(capsys.readouterr().out)


def test_bad_files_are_found_and_can_be_left_out(folder, tmp_path, capsys):
    failures_file = tmp_path / "bad.jsonl"
    code, found = run(capsys, folder, "--failures", failures_file, "--threads", 2)
    assert code == 1 and (found["samples"], found["checked"]) == (6, 6)
    assert found["other_files"] == {".txt": 1}
    assert [os.path.basename(failure["path"]) for failure in found["failures"]] == ["cut.jpg", "bad.mp4"]
    assert {failure["kind"] for failure in found["failures"]} <= {"decode", "truncated", "invalid_data"}
    dataset = fsp.datasets.Dataset([str(path) for path in sorted(folder.rglob("*.*")) if path.suffix != ".txt"])
    kept = dataset.exclude(failures_file)
    assert len(kept) == 4 and not names(fsp.tools.validate(kept))
    # Every frame of the valid videos was decoded, and each valid image.
    assert fsp.tools.validate(kept).frames == sum(len(fsp.Video(p)) for p, _ in kept if not p.endswith(".jpg")) + 2


def test_a_report_saves_work_until_a_file_changes(folder, tmp_path):
    kept = tmp_path / "kept.check"
    places = [str(path) for path in sorted(folder.rglob("*.*")) if path.suffix != ".txt"]
    first = fsp.tools.validate(places, report=kept)
    seen = []
    again = fsp.tools.validate(places, report=kept, progress=lambda *counts: seen.append(counts))
    assert (first.checked, again.checked) == (6, 0) and seen == [(6, 2, 6)]
    assert again.failures == first.failures and len(first.failures) == 2
    # Repaired: checked again.
    shutil.copy2(folder / "0.jpg", folder / "cut.jpg")
    repaired = fsp.tools.validate(places, report=kept)
    assert (repaired.checked, names(repaired)) == (1, ["bad.mp4"])
    # A run that was killed while writing.
    text = kept.read_text()
    kept.write_text(text[: text.rindex('"state"')])
    after = fsp.tools.validate(places, report=kept)
    assert after.checked == 1 and names(after) == ["bad.mp4"]
    assert fsp.tools.validate(places, report=kept).checked == 0
    assert fsp.tools.validate(places, report=kept, clips_per_video=1).checked == 6


def test_all_invalid_files_are_reported(bad_file, tmp_path):
    report = fsp.tools.validate([bad_file, str(tmp_path / "missing.mp4"), str(tmp_path / "missing.png")])
    assert [failure["kind"] for failure in report.failures] == ["invalid_data", "not_found", "not_found"]
    assert report.frames == 0


def test_what_has_no_clip_is_not_passed_over(short_clips):
    path, frames = short_clips[0][0], len(fsp.Video(short_clips[0][0]))
    part = fsp.datasets.VideoSegment
    entries = [path, part(path, start_frame=frames + 9), part(path, start_seconds=1e6), part(path, end_frame=20)]
    found = fsp.tools.validate(entries)
    assert [(failure["video_id"], failure["kind"]) for failure in found.failures] == [
        (1, "clip_sampling"),
        (2, "clip_sampling"),
    ]
    assert found.frames == frames + 20


def test_unnamed_members_are_typed_by_first_bytes(short_clips, photos, tmp_path):
    picture, video = Path(photos[0][0]).read_bytes(), Path(short_clips[0][0]).read_bytes()
    archive = tmp_path / "a.bin"
    archive.write_bytes(picture + video)
    member = fsp.datasets.ArchiveMember
    entries = [member(archive, 0, len(picture), "k0"), member(archive, len(picture), len(video)), picture]
    found = fsp.tools.validate(entries)
    assert not found.failures and found.frames == 2 + len(fsp.Video(short_clips[0][0]))


def test_changed_frame_folders_are_rescanned(photos, tmp_path):
    folder = tmp_path / "frames"
    folder.mkdir()
    for number in range(3):
        shutil.copy2(photos[0][0], folder / f"{number}.jpg")
    entries, report = [fsp.datasets.ImageSequence(folder)], tmp_path / "r"
    assert (
        fsp.tools.validate(entries, report=report).checked == 1
        and fsp.tools.validate(entries, report=report).checked == 0
    )
    (folder / "1.jpg").write_bytes(b"\0" * 5000)
    again = fsp.tools.validate(entries, report=report)
    assert again.checked == 1 and len(again.failures) == 1


def test_link_cycles_and_unwritable_paths(folder, capsys):
    (folder / "loop").symlink_to(folder)
    (folder / "deep" / "loop").symlink_to(folder / "deep")
    _, found = run(capsys, folder)
    assert found["samples"] == 6
    assert main(["validate", str(folder), "--failures", str(folder / "nowhere" / "q")]) == 2
    assert "--failures" in capsys.readouterr().err


def test_a_path_stands_for_the_files_below_it(videos, tmp_path):
    (tmp_path / "deep").mkdir()
    shutil.copy(videos / "derived" / "tiny_34x26_h264.mp4", tmp_path / "deep" / "b.mp4")
    shutil.copy(videos / "corrupt" / "derived" / "zero_hole_h264.mp4", tmp_path / "a.mp4")
    (tmp_path / "notes.txt").write_text("deep/b.mp4 3\n")
    for folder in (str(tmp_path), tmp_path):
        found = fsp.tools.validate(folder)
        assert found.samples == 2 and names(found) == ["a.mp4"]
    assert fsp.tools.validate(tmp_path / "deep" / "b.mp4").samples == 1
    listed = fsp.tools.validate(str(tmp_path / "notes.txt"))
    assert listed.samples == 1 and not listed.failures
    with pytest.raises(fsp.errors.ArgumentError, match="empty.*has no videos or images"):
        (tmp_path / "empty").mkdir()
        fsp.tools.validate(tmp_path / "empty")


def test_wrong_arguments_are_rejected(tmp_path, capsys):
    with pytest.raises(fsp.errors.ArgumentError, match="empty"):
        fsp.tools.validate([])
    (tmp_path / "other.jsonl").write_text("some text\n")
    with pytest.raises(fsp.errors.ArgumentError, match="line 1: not a report"):
        fsp.tools.validate(["a.mp4"], report=tmp_path / "other.jsonl")
    with pytest.raises(fsp.errors.ArgumentError, match="clips_per_video"):
        fsp.tools.validate(["a.mp4"], clips_per_video=0)
    assert main(["validate", str(tmp_path)]) == 2
    assert "has no videos or images" in capsys.readouterr().err


def test_bytes_members_and_parts_are_checked_too(short_clips, tmp_path):
    path = short_clips[0][0]
    data = Path(path).read_bytes()
    archive = tmp_path / "a.bin"
    archive.write_bytes(b"head" + data)
    entries = [
        data,
        fsp.datasets.ArchiveMember(archive, 4, len(data), "a.mkv"),
        fsp.datasets.VideoSegment(path, start_frame=3, end_frame=9),
        fsp.datasets.ArchiveMember(archive, 0, len(data), "wrong.mkv"),
    ]
    report = tmp_path / "r"
    found = fsp.tools.validate(entries, report=report)
    assert [failure["video_id"] for failure in found.failures] == [3]
    assert found.failures[0]["member"]["name"] == "wrong.mkv"
    # There is no identity for bytes, so they are decoded again.
    assert fsp.tools.validate(entries, report=report).checked == 1


def test_missing_packets_of_a_container_are_reported(videos, tmp_path, capsys):
    """Each frame that is left can be decoded, but the demuxer has seen that a part of the file is missing."""
    whole = (videos / "codecs" / "mjpeg_320x240.avi").read_bytes()
    last = whole.rindex(b"00dc", 0, whole.rindex(b"idx1"))
    (tmp_path / "cut.avi").write_bytes(whole[: last + 8 + 40])
    stream = (videos / "derived" / "mpeg2_interlaced_720x576.ts").read_bytes()
    lost = len(stream) // 188 // 2 * 188
    (tmp_path / "lost.ts").write_bytes(stream[:lost] + stream[lost + 188 :])
    shutil.copy2(videos / "codecs" / "mjpeg_320x240.avi", tmp_path)
    places = sorted(tmp_path.iterdir())
    # Random clips may miss the damaged frame; then only the container reports it.
    for clips in (None, 1):
        report = tmp_path.parent / f"{tmp_path.name}-{clips}.check"
        found = fsp.tools.validate(places, clips_per_video=clips, report=report)
        assert names(found) == ["cut.avi", "lost.ts"], found.failures
        assert fsp.tools.validate(places, clips_per_video=clips, report=report).failures == found.failures
    part = fsp.datasets.VideoSegment(tmp_path / "cut.avi", end_frame=10)
    found = fsp.tools.validate([part, str(tmp_path / "mjpeg_320x240.avi")])
    (failure,) = found.failures
    assert found.frames == 10 + 40 and (failure["video_id"], failure["kind"]) == (0, "invalid_data")
    assert "cut.avi: 1 damaged or incomplete unit of the container" in failure["message"]
    found.write_failures(tmp_path / "bad.jsonl")
    dataset = fsp.datasets.Dataset([part, str(tmp_path / "cut.avi"), str(tmp_path / "mjpeg_320x240.avi")])
    assert len(dataset.exclude(tmp_path / "bad.jsonl")) == 1
    code, found = run(capsys, tmp_path / "cut.avi", "--clips", 1)
    assert code == 1 and len(found["failures"]) == 1


def test_videos_are_never_taken_for_lists(videos, encoder, tmp_path, capsys):
    gif = tmp_path / "made.gif"
    folder = tmp_path / "set" / "class"
    folder.mkdir(parents=True)
    source = "testsrc=size=64x48:rate=5,trim=end_frame=3"
    subprocess.run([encoder, "-v", "error", "-f", "lavfi", "-i", source, gif], check=True)
    for name, source in (
        ("a.gif", gif),
        ("b.vob", videos / "codecs" / "mpeg2_closed_gop.mpg"),
        ("c.video", videos / "codecs" / "mpeg2_closed_gop.mpg"),
        ("d", videos / "codecs" / "h264_b_pyramid.mp4"),
    ):
        shutil.copy2(source, folder / name)
        code, found = run(capsys, folder / name)
        assert (code, found["samples"], found["failures"]) == (0, 1, []), name
    assert [os.path.basename(path) for path, _ in fsp.datasets.folder(tmp_path / "set")] == ["a.gif", "b.vob"]
    listed = folder / "list"
    listed.write_text("a.gif 0\nb.vob 1\n")
    assert run(capsys, listed)[1]["samples"] == 2
