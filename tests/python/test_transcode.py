"""``fsp.tools.transcode``: the same frames at the same times with short GOPs; runs resume and stop cleanly."""

from __future__ import annotations

import json
import os
import shutil
import stat
import struct
import threading
from fractions import Fraction
from pathlib import Path

import framespool as fsp
import numpy as np
import pytest
from framespool.tools._transcode import _encode, _ffmpeg, _manifest, _output_paths
from framespool.tools._transcode._estimate import frames_decoded_per_clip
from framespool.tools._transcode._mp4 import Clock
from framespool.tools._transcode._options import Options
from PIL import Image

QUICK = {"preset": "ultrafast", "jobs": 2}


pytestmark = pytest.mark.usefixtures("encoder")


def times(path):
    video = fsp.Video(path, layout="THWC")
    return [*video._video.all_pts_seconds(), video.info.end_seconds]


def has_b_frames(path):
    return fsp.Video(path)._video.analyze_access(1, 1)["reordered"] > 0


@pytest.mark.parametrize(
    "name",
    [
        "derived/vfr_60_15_30_640x360.mp4",  # variable rate
        "derived/vfr_jitter_640x360.mkv",  # milliseconds
        "derived/delayed_start_640x360.mp4",  # starts late
        "derived/ts_start_10h_640x360.ts",  # starts after 2^32 ticks
        "derived/h264_cut_mid_gop_1080p.mp4",  # an edit list hides frames
        "odd/first_pts_10s.mp4",  # fragments that start late
        "odd/single_frame.mp4",
        "derived/odd_333x251_mpeg4.avi",
        "odd/rotate_90_phone.mov",
        "action/vp9_512x288.webm",
    ],
)
@pytest.mark.parametrize("b_frames", [0, 2])
def test_every_frame_keeps_its_time(videos, name, b_frames, tmp_path):
    done = fsp.tools.transcode(
        [str(videos / name)], tmp_path, gop=8, b_frames=b_frames, size=64, on_error="raise", **QUICK
    )
    (made,) = done.paths
    assert made == str(tmp_path / f"{Path(name).stem}.mp4")
    old, new = fsp.Video(videos / name).info, fsp.Video(made).info
    assert len(times(made)) == len(times(videos / name))
    tick = float(Fraction(*old.time_base))
    assert np.abs(np.subtract(times(made), times(videos / name)))[: old.num_frames].max() < tick / 1000
    if old.num_frames > 1:
        assert abs(new.end_seconds - old.end_seconds) < tick / 1000
    assert new.keyframes == tuple(range(0, old.num_frames, 8)) and not new.rotation
    assert min(new.width, new.height) <= 64 and new.width % 2 == new.height % 2 == 0
    assert (new.width > new.height) == (old.width > old.height)
    assert has_b_frames(made) == (b_frames > 0 and old.num_frames > 2)


@pytest.mark.parametrize(
    ("name", "color"),
    [
        ("derived/base_640x360.mp4", None),
        ("derived/h264_bt601_tagged_720x480_sar.mp4", None),
        ("derived/h264_full_range_640x360.mp4", None),
        ("derived/rotate_cw90_640x360.mp4", None),
        ("derived/odd_333x251_vp9.webm", None),
        ("derived/hevc_hdr10_tagged_720p.mp4", (9, 16, 9)),
    ],
)
def test_pictures_and_colors_are_those_of_the_source(videos, name, color, tmp_path):
    done = fsp.tools.transcode([str(videos / name)], tmp_path, crf=0, gop=8, on_error="raise", **QUICK)
    old, new = fsp.Video(videos / name, layout="THWC"), fsp.Video(done.paths[0], layout="THWC")
    frames = [0, 5, len(old) - 1]
    theirs, ours = (video.frames(frames).frames.numpy().astype(int) for video in (old, new))
    theirs = theirs[:, : ours.shape[1], : ours.shape[2]]
    # Rounded twice; a wrong matrix or range, or chroma shifted by a pixel, would differ much more.
    assert np.abs(ours - theirs).mean() < 0.7 and np.abs((ours - theirs).mean((0, 1, 2))).max() < 0.3
    assert new.info.sample_aspect == old.info.sample_aspect
    primaries, transfer, matrix, full = new._video.color()
    assert not full and matrix in (1, 5, 6, 9)
    if color is not None:
        assert (primaries, transfer, matrix) == color == old._video.color()[:3]


def test_hevc_and_the_long_side(videos, tmp_path):
    done = fsp.tools.transcode(
        [str(videos / "derived/tall_240x1200_h264.mp4")], tmp_path, codec="hevc", long_side=320, gop=10, **QUICK
    )
    info = fsp.Video(done.paths[0]).info
    assert (info.codec, info.width, info.height, info.keyframes[1]) == ("hevc", 64, 320, 10)


def test_non_file_sources_are_written_to_files(short_clips, photos, tmp_path):
    data = Path(short_clips[0][0]).read_bytes()
    (tmp_path / "in" / "deep").mkdir(parents=True)
    archive = tmp_path / "in" / "deep" / "shard.tar"
    archive.write_bytes(b"head" + data)
    folder = tmp_path / "in" / "frames"
    folder.mkdir()
    for number in range(5):
        Image.new("RGB", (64, 48), (40 * number, 90, 10)).save(folder / f"{number}.png")
    shutil.copy2(short_clips[1][0], tmp_path / "in" / "a.mkv")
    shutil.copy2(short_clips[2][0], tmp_path / "in" / "a.mp4")  # Matroska with another suffix
    part = fsp.datasets.VideoSegment
    dataset = fsp.datasets.Dataset(
        [
            (fsp.datasets.ArchiveMember(archive, 4, len(data), "../x/b.mkv"), 1),
            (fsp.datasets.ImageSequence(folder, fps=12.5), 0),
            (part(tmp_path / "in" / "a.mkv", start_frame=3, end_frame=9), 1),
            (part(tmp_path / "in" / "a.mkv", start_frame=9), 0),
            (tmp_path / "in" / "a.mp4", -1),
            (data, 1),
        ],
        ["no", "yes"],
        {"note": list("abcdef")},
    )
    done = fsp.tools.transcode(dataset, tmp_path / "out", size=32, **QUICK)
    assert not done.failures and (done.videos, done.transcoded) == (5, 5)
    names = ["deep/shard/x/b", "frames", "a.mkv", "a.mkv", "a.mp4", "bytes/000004"]
    assert [os.path.relpath(path, tmp_path / "out") for path in done.paths] == [f"{name}.mp4" for name in names]
    assert [label for _, label in done.dataset] == [1, 0, 1, 0, -1, 1] and done.dataset.classes == ["no", "yes"]
    assert done.dataset.samples[2][0] == part(done.paths[2], start_frame=3, end_frame=9)
    assert len(fsp.Video(done.paths[0])) == len(fsp.Video(data)) == len(fsp.Video(done.paths[5]))
    assert times(done.paths[1]) == pytest.approx([0, 0.08, 0.16, 0.24, 0.32, 0.4])
    again = fsp.datasets.json_lines(done.list_file, in_frames=True)
    assert [label for _, label in again] == [1, 0, 1, 0, -1, 1] and again.columns["note"] == list("abcdef")
    assert again.samples[3][0].start_frame == 9 and not fsp.tools.validate(again).failures


def test_rerun_transcodes_only_changed_videos(short_clips, bad_file, tmp_path, monkeypatch):
    root = tmp_path / "in"
    root.mkdir()
    for path, _ in short_clips[:3]:
        shutil.copy2(path, root)
    entries = sorted(str(path) for path in root.iterdir())
    options = {"size": 32, **QUICK}
    first = fsp.tools.transcode([*entries, bad_file], tmp_path / "out", root=root, **options)
    assert (first.transcoded, first.found, len(first.failures)) == (3, 0, 1)
    assert first.failures[0]["path"] == bad_file and first.failures[0]["kind"] == "invalid_data"
    assert first.paths[3] is None and len(first.dataset) == 3
    made = [os.stat(path).st_mtime_ns for path in first.paths[:3]]
    # A partial line of a killed run, and a partial file; both are ignored.
    hidden = tmp_path / "out" / _manifest.FOLDER
    with open(hidden / "done.jsonl", "a") as file:
        file.write('{"video": "x", "sta')
    (hidden / "half-7.mp4.raw").write_bytes(b"half")
    again = fsp.tools.transcode(entries, tmp_path / "out", root=root, **options)
    assert (again.transcoded, again.found) == (0, 3)
    assert made == [os.stat(path).st_mtime_ns for path in again.paths]
    os.utime(entries[1], (5, 5))
    Path(again.paths[2]).unlink()
    second = fsp.tools.transcode(entries, tmp_path / "out", root=root, **options)
    assert (second.transcoded, second.found) == (2, 1)
    assert fsp.tools.transcode(entries, tmp_path / "out", root=root, **options).transcoded == 0
    assert fsp.tools.transcode(entries, tmp_path / "out", root=root, **(options | {"gop": 4})).transcoded == 3
    left = {path.name for path in hidden.iterdir()}
    assert left == {"done.jsonl", "lock"} and fsp.datasets.folder(tmp_path / "out")
    with pytest.raises(fsp.errors.InvalidDataError):
        fsp.tools.transcode([*entries, bad_file], tmp_path / "out", root=root, on_error="raise", **options)


def test_runs_share_no_folder_and_keep_their_source(short_clips, videos, tmp_path):
    held = _manifest.Manifest(str(tmp_path))
    held.open()
    with pytest.raises(fsp.errors.ArgumentError, match="another run"):
        fsp.tools.transcode([short_clips[0][0]], tmp_path, **QUICK)
    held.close()
    copy = tmp_path / "a.mp4"
    shutil.copy2(videos / "derived" / "tiny_34x26_h264.mp4", copy)
    with pytest.raises(fsp.errors.ArgumentError, match="replace"):
        fsp.tools.transcode([copy], tmp_path, **QUICK)
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(fsp.errors.ReadError, match="file"):
        fsp.tools.transcode([short_clips[0][0]], tmp_path / "file", **QUICK)


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_missing_or_failing_programs_are_named(short_clips, encoder, tmp_path, monkeypatch):
    entries = [short_clips[0][0]]
    with pytest.raises(fsp.errors.ArgumentError, match=r"nowhere.*pip install imageio-ffmpeg"):
        fsp.tools.transcode(entries, tmp_path / "o", ffmpeg=tmp_path / "nowhere")
    with pytest.raises(fsp.errors.UnsupportedError, match="no encoder libx265"):
        fsp.tools.transcode(entries, tmp_path / "o", ffmpeg=script(tmp_path / "old", "echo libx264"), codec="hevc")
    encoders = 'case "$*" in *-encoders) echo libx264; exit;; esac'
    full = script(tmp_path / "full", f"{encoders}; echo No space left on device >&2; exit 1")
    failed = fsp.tools.transcode(entries, tmp_path / "o", ffmpeg=full)
    assert failed.failures[0]["kind"] == "io" and "No space left" in failed.failures[0]["message"]
    # Frames are lost: the output is a complete file, but differs from the source.
    lossy = script(
        tmp_path / "lossy", f'{encoders}; for last; do :; done; (head -c 2764800; cat >/dev/null) | {encoder} "$@"'
    )
    monkeypatch.setenv(_ffmpeg.VARIABLE, str(lossy))
    failed = fsp.tools.transcode(entries, tmp_path / "o")
    assert failed.failures[0]["kind"] == "internal" and "the encoder wrote" in failed.failures[0]["message"]
    assert not list((tmp_path / "o").glob("*.mp4"))
    monkeypatch.delenv(_ffmpeg.VARIABLE)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(__import__("sys").modules, "imageio_ffmpeg", None)
    with pytest.raises(fsp.errors.UnsupportedError, match="apt-get install ffmpeg"):
        _ffmpeg.find()


def test_a_result_that_is_not_the_source_is_refused(videos, tmp_path):
    """The comparison itself: each kind of difference is reported."""
    options = Options.checked(8, 0, None, None, "h264", None, "ultrafast")
    source = str(videos / "derived" / "tiny_34x26_h264.mp4")
    (made,) = fsp.tools.transcode([source], tmp_path, gop=8, b_frames=0, **QUICK).paths
    video = fsp.Video(source, layout="THWC")
    right = _encode.clock_of(video, len(video))
    _encode.compare(made, "a", right, (34, 26), options)
    later = [*right.times[:9], right.times[9] + 1, *right.times[10:]]
    for clock, size, gop, what in [
        (Clock(right.scale, right.times[:-1], right.end), (34, 26), 8, "60 frames instead of 59"),
        (Clock(right.scale, later, right.end), (34, 26), 8, "frame 9 is at"),
        (Clock(right.scale, right.times, right.end + 1), (34, 26), 8, "the end is at"),
        (right, (34, 24), 8, "34x26"),
        (right, (34, 26), 7, "a GOP of 8"),
    ]:
        with pytest.raises(fsp.errors.InternalError, match=what):
            _encode.compare(made, "a", clock, size, Options.checked(gop, 0, None, None, "h264", None, "fast"))


def test_the_encoders_file_may_be_anything(tmp_path):
    from framespool.tools._transcode import _mp4

    for data in (b"", b"no file at all, but long enough", struct.pack(">I4s", 8, b"moov") * 3):
        (tmp_path / "a").write_bytes(data)
        with pytest.raises(fsp.errors.InternalError):
            _mp4.retime(str(tmp_path / "a"), str(tmp_path / "b"), Clock(25, [0], 1))


def test_times_before_zero_are_kept(videos, tmp_path):
    from framespool.tools._transcode import _mp4

    given = str(videos / "derived" / "tiny_34x26_h264.mp4")
    (source,) = fsp.tools.transcode([given], tmp_path / "o", b_frames=3, **QUICK).paths
    frames = len(fsp.Video(source))
    assert has_b_frames(source)
    clock = Clock(1000, [33 * n - 200 for n in range(frames)], 33 * frames)
    _mp4.retime(source, str(tmp_path / "a.mp4"), clock)
    assert times(tmp_path / "a.mp4") == [t / 1000 for t in (*clock.times, clock.end)]


def test_work_that_is_stopped_leaves_nothing_behind(videos, tmp_path, monkeypatch):
    stop = _ffmpeg.CancelToken()
    options = Options.checked(8, 0, None, None, "h264", None, "veryslow")
    source = str(videos / "1080p" / "bunny_60p.mp4")
    canceling, write = threading.Thread(target=stop.cancel), _ffmpeg.EncoderProcess.write

    def third_write_cancels(encoding, data):
        written.append(len(data))
        if len(written) == 3:
            canceling.start()
        write(encoding, data)

    written: list[int] = []
    monkeypatch.setattr(_ffmpeg.EncoderProcess, "write", third_write_cancels)
    with pytest.raises(_ffmpeg.TranscodeCancelled):
        _encode.encode(source, str(tmp_path / "a.mp4"), options, _ffmpeg.find(), 1, stop, False)
    canceling.join()
    with pytest.raises(_ffmpeg.TranscodeCancelled):
        _encode.encode(source, str(tmp_path / "a.mp4"), options, _ffmpeg.find(), 1, stop, False)


@pytest.mark.parametrize(
    ("gop", "b_frames", "length", "stride"), [(8, 0, 4, 5), (12, 2, 6, 3), (9, 3, 5, 1), (1, 0, 4, 4)]
)
def test_the_forecast_comes_true(videos, gop, b_frames, length, stride, tmp_path):
    source = [str(videos / "derived" / "h264_single_keyframe_720p.mp4")]
    options = {"gop": gop, "b_frames": b_frames, "size": 32, **QUICK}
    clip = {"sequence_length": length, "stride": stride}
    planned = fsp.tools.transcode(source, tmp_path / "o", dry_run=True, **clip, **options)
    said = planned.estimate
    assert not (tmp_path / "o").exists() and (said["videos"], said["frames"]) == (1, 130)
    assert said["frames_decoded_now"] == fsp.tools.probe(source, **clip).frames_per_clip
    report = fsp.tools.transcode(source, tmp_path / "o", **options)
    (made,) = report.paths
    assert planned.paths == [made] and list(planned.dataset) == list(report.dataset) and report.estimate is None
    assert (planned.videos, planned.transcoded, planned.found) == (1, 0, 0)
    found = fsp.tools.probe([made], **clip)
    assert said["frames_decoded_after"] == pytest.approx(found.frames_per_clip, rel=0.1)
    assert said["pixels_now"] / said["pixels_after"] == pytest.approx(1280 * 720 / (56 * 32))
    assert said["bytes_after"] == pytest.approx(os.stat(made).st_size, rel=0.6) and said["seconds"] > 0
    assert said["gain"] > 10 and not any("not recommended" in sentence for sentence in said["summary"])
    done = fsp.tools.transcode(source, tmp_path / "o", dry_run=True, **options)
    assert done.estimate is None and done.found == 1


def test_the_forecast_says_where_nothing_is_gained(videos, tmp_path):
    intra = str(videos / "derived" / "h264_all_intra_640x360.mp4")
    said = fsp.tools.transcode([intra], tmp_path, dry_run=True, sequence_length=4, stride=8, **QUICK).estimate
    assert said["frames_decoded_now"] == 4 < said["frames_decoded_after"]
    assert "not recommended" in " ".join(said["summary"])
    assert "nothing is gained" in said["summary"][-1]
    short = fsp.tools.transcode([intra], tmp_path, dry_run=True, sequence_length=400, **QUICK).estimate
    assert short["gain"] is None and "the gain is unknown" in " ".join(short["summary"])


def test_decoded_frames_of_a_clip_are_counted():
    """Against a direct count: a picture is decoded if it is requested, or a later requested one needs it."""
    for gop, b, frames, stride in [(16, 0, 16, 4), (16, 2, 16, 4), (12, 3, 5, 7), (5, 1, 3, 1), (1, 0, 2, 2)]:
        total = 0
        for first in range(gop):
            wanted = {first + n * stride for n in range(frames)}
            for group in {place // gop for place in wanted}:
                inside = {place - group * gop for place in wanted if place // gop == group}
                anchors = [place for place in range(gop) if place % (b + 1) == 0 or place == gop - 1]
                last = min(anchor for anchor in anchors if anchor >= max(inside))
                total += len({anchor for anchor in anchors if anchor <= last} | inside)
        assert frames_decoded_per_clip(frames, stride, gop, b) == pytest.approx(total / gop)


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"gop": 0}, "gop must be at least 1"),
        ({"size": 63}, "size must be even"),
        ({"size": 64, "long_side": 64}, "not both"),
        ({"codec": "vp9"}, '"h264", "hevc", got "vp9"'),
        ({"crf": 52}, "crf must be at most 51"),
        ({"preset": "quick"}, "preset must be one of"),
        ({"on_error": "replace"}, "on_error"),
        ({"jobs": 0}, "jobs"),
    ],
)
def test_wrong_arguments_are_rejected(short_clips, wrong, what, tmp_path):
    with pytest.raises(fsp.errors.ArgumentError, match=what):
        fsp.tools.transcode([short_clips[0][0]], tmp_path / "o", **wrong)
    assert not (tmp_path / "o").exists()
    with pytest.raises(fsp.errors.ArgumentError, match="empty"):
        fsp.tools.transcode([], tmp_path / "o")


def test_the_list_says_what_a_list_can_say(short_clips, tmp_path):
    part = fsp.datasets.VideoSegment
    mixed = [part(short_clips[0][0], start_frame=3), part(short_clips[0][0], start_seconds=0.5)]
    done = fsp.tools.transcode(mixed, tmp_path, size=32, **QUICK)
    assert done.list_file is None and len(done.dataset) == 2
    done = fsp.tools.transcode(mixed[1:], tmp_path, size=32, **QUICK)
    assert done.found == 1 and json.loads(Path(done.list_file).read_text())["start"] == 0.5


def test_files_of_other_runs_are_not_replaced(short_clips, tmp_path):
    sources = [tmp_path / side / "one.mkv" for side in ("train", "val")]
    for source in sources:
        source.parent.mkdir()
        shutil.copy(short_clips[0][0], source)
    train, val = map(str, sources)
    out = tmp_path / "out"
    fsp.tools.transcode([train], out, size=32, **QUICK)
    before = (out / "one.mp4").stat()
    with pytest.raises(fsp.errors.ArgumentError, match=r"one\.mp4 already exists and is not the result of sample 0"):
        fsp.tools.transcode([val], out, size=32, **QUICK)
    assert (out / "one.mp4").stat().st_ino == before.st_ino
    assert fsp.tools.transcode([train], out, size=32, **QUICK).found == 1
    assert fsp.tools.transcode([train], out, size=32, gop=4, **QUICK).transcoded == 1, "it may replace its own files"
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "one.mp4").write_bytes(b"precious")
    with pytest.raises(fsp.errors.ArgumentError, match="is not the result of"):
        fsp.tools.transcode([train], tmp_path / "own", size=32, **QUICK)
    assert (tmp_path / "own" / "one.mp4").read_bytes() == b"precious"


def test_lists_say_labels_as_they_are_or_nothing(tmp_path):
    def lines(**columns):
        return _output_paths.manifest_rows(fsp.datasets.Dataset([("/x/a.mp4", -1)], columns=columns), "/x")

    (line,) = lines(label=[[3, 4]], score=[float("nan")], deep=[{"a": [float("inf"), 1.5]}])
    assert line == {"uri": "a.mp4", "label": [3, 4], "score": None, "deep": {"a": [None, 1.5]}}
    (tmp_path / "list.jsonl").write_text(json.dumps(line) + "\n")
    again = fsp.datasets.json_lines(tmp_path / "list.jsonl")
    assert again.columns["label"] == [[3, 4]] and again[0][1] == -1
    for columns in ({"label": ["a dog runs"]}, {"start": [1.0]}, {"end": [2]}, {"uri": ["s3://"]}, {"class": ["dog"]}):
        assert lines(**columns) is None, columns


def test_other_rate_of_a_frame_folder_is_other_video():
    one, other, same = (_output_paths.identity(fsp.datasets.ImageSequence("/f", fps=fps)) for fps in (25, 30, 25.0))
    assert one == same != other
