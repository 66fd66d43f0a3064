"""tools.split_shots and `framespool shots`: segments that no cut crosses."""

from __future__ import annotations

import colorsys
import itertools
import json
import os
import random
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import framespool as fsp
import numpy as np
import pytest
from framespool import _framespool
from framespool.cli import main
from framespool.tools import _shots

COLORS = ("red", "blue", "white", "black", "green", "yellow")
#: Encodings with different distances of keyframes and different references.
ENCODINGS = {
    "scenecut.mp4": ["-c:v", "libx264"],
    "long_gop.mp4": ["-c:v", "libx264", "-g", "250", "-sc_threshold", "0", "-bf", "3"],
    "open_gop.mkv": ["-c:v", "libx264", "-x264-params", "open-gop=1:keyint=12:scenecut=0"],
    "no_b_frames.mp4": ["-c:v", "libx264", "-g", "32", "-bf", "0", "-sc_threshold", "0"],
    "intra.avi": ["-c:v", "mjpeg", "-pix_fmt", "yuvj420p"],
    "mpeg4.mp4": ["-c:v", "mpeg4", "-bf", "2"],
}


@pytest.fixture(scope="session")
def make(encoder, tmp_path_factory):
    """Makes a video of shots with these numbers of frames; in each shot, something moves."""
    folder = tmp_path_factory.mktemp("shots")

    def made(name: str, lengths: list[int], *options: str, size: str = "320x180") -> Path:
        path = folder / name
        if not path.exists():
            command, graph = [encoder, "-v", "error"], ""
            for number, length in enumerate(lengths):
                color = COLORS[number % len(COLORS)]
                command += ["-f", "lavfi", "-i", f"color={color}:size={size}:rate=25"]
                graph += (
                    f"[{number}]drawbox=x=t*50:y=40:w=60:h=40:color=gray:t=fill,trim=end_frame={length}[s{number}];"
                )
            graph += "".join(f"[s{number}]" for number in range(len(lengths))) + f"concat=n={len(lengths)}[out]"
            command += ["-filter_complex", graph, "-map", "[out]", "-pix_fmt", "yuv420p", "-threads", "1"]
            subprocess.run([*command, *(options or ENCODINGS["scenecut.mp4"]), str(path)], check=True)
        return path

    return made


def bounds(report: fsp.tools.ShotReport) -> list[tuple[int, int]]:
    return [(source.start_frame, source.end_frame) for source, _ in report.dataset]


def starts_of(path: object, **options: object) -> list[int]:
    return [start for start, _ in bounds(fsp.tools.split_shots([path], on_error="raise", **options))]


@pytest.mark.parametrize("name", ENCODINGS)
def test_shots_begin_at_hard_cuts(make, name):
    path = make(name, [30, 41, 18, 77], *ENCODINGS[name])
    report = fsp.tools.split_shots([path])
    assert bounds(report) == [(0, 30), (30, 71), (71, 89), (89, 166)] and report.frames == 166
    assert report.dataset.columns["shot"] == [0, 1, 2, 3]
    pts = fsp.Video(path).pts_seconds
    assert report.dataset.columns["shot_start"] == [pts[0], pts[30], pts[71], pts[89]]
    assert report.dataset.columns["shot_end"] == [pts[30], pts[71], pts[89], fsp.Video(path).info.end_seconds]
    if name != "intra.avi":
        assert report.compared < 166


@pytest.mark.parametrize("name", ENCODINGS)
def test_small_chunks_find_the_same_cuts(make, name, monkeypatch):
    path = make(name, [30, 41, 18, 77], *ENCODINGS[name])
    for chunk_frames in (4, 5, 9):
        monkeypatch.setattr(_shots, "_CHUNK_FRAMES", chunk_frames)
        assert starts_of(path) == [0, 30, 71, 89], chunk_frames


def test_fades_and_motion_are_no_cuts(make, encoder, tmp_path):
    fade = tmp_path / "fade.mp4"
    source = "color=white:size=320x180:rate=25:duration=4,fade=in:0:30,fade=out:50:40"
    subprocess.run([encoder, "-v", "error", "-f", "lavfi", "-i", source, str(fade)], check=True)
    assert starts_of(fade) == [0]
    # Frames of a fade differ by about 255 / 40 in value, which is a third of the content.
    assert len(starts_of(fade, threshold=1.5)) > 1
    assert starts_of(make("one.mp4", [60])) == [0]


@pytest.mark.parametrize("rest", [1, 2, 3, 4])
def test_a_cut_shortly_before_the_end_is_found(make, rest):
    assert starts_of(make(f"end{rest}.mp4", [30, rest])) == [0, 30]


def test_the_least_length_merges_cuts(make):
    path = make("fast.mp4", [30, 6, 30, 40])
    assert starts_of(path, min_frames=1) == [0, 30, 36, 66]
    # The second cut is within 15 frames of the first; with the third one, the series spans 30 frames.
    assert starts_of(path) == [0, 30, 66]
    # No frame is 36 frames after another cut or the start.
    assert starts_of(path, min_frames=36) == [0]


def merged_frame_by_frame(above: set[int], begin: int, end: int, least: int, at: Sequence[int]) -> list[int]:
    """The rule as it is defined: for each frame in turn."""
    cuts, last, series, may_merge = [], begin, None, False
    for frame in range(begin, end):
        is_far = at[frame] - at[last] >= least
        if frame in above:
            last = frame
        if series is not None:
            if is_far and frame not in above and at[last] - at[series] >= least:
                cuts.append(last)
                series = None
        elif frame in above and is_far:
            cuts.append(frame)
            may_merge = True
        elif frame in above and may_merge:
            series = frame
    return cuts


def test_merging_is_that_of_a_pass_over_all_frames():
    rng = random.Random(0)
    for _ in range(3000):
        begin, length, least = rng.randrange(5), rng.randrange(1, 60), rng.randrange(1, 9)
        above = {frame for frame in range(begin + 1, begin + length) if rng.random() < rng.choice((0.1, 0.4))}
        at = list(itertools.accumulate(rng.choice((1, 1, 1, 0, 3)) for _ in range(begin + length)))
        words = (begin, begin + length, least, at)
        assert _shots.merged(sorted(above), *words) == merged_frame_by_frame(above, *words), (above, words)


def test_differences_are_those_of_hue_saturation_and_value():
    rng = np.random.default_rng(1)
    frames = rng.integers(0, 256, (3, 3, 7, 9), np.uint8)
    frames[1, :, :2] = 80  # gray
    frames[2, 1] = frames[2, 0]  # red and green are equal

    def planes(frame: np.ndarray) -> np.ndarray:
        pixels = [colorsys.rgb_to_hsv(*(pixel / 255)) for pixel in frame.reshape(3, -1).T]
        # Halves are rounded up.
        return np.array([[np.floor(h * 180 + 0.5) % 180, np.floor(s * 255 + 0.5), v * 255] for h, s, v in pixels])

    want = [np.abs(planes(frames[n + 1]) - planes(frames[n])).sum() for n in range(2)]
    tensor = _framespool.tensor_of(frames.tobytes(), frames.shape, "uint8")
    # A pixel whose exact value is a half may be rounded in either direction.
    assert _framespool.content_differences(tensor) == pytest.approx(want, abs=6)
    # Named colors have the values of OpenCV: hue of blue is 120, of magenta 150.
    named = np.array([[0, 0, 0], [0, 0, 255], [255, 0, 255], [255, 0, 0]], np.uint8).reshape(4, 3, 1, 1)
    tensor = _framespool.tensor_of(named.tobytes(), named.shape, "uint8")
    assert _framespool.content_differences(tensor) == [120 + 255 + 255, 30, 150]
    with pytest.raises(ValueError, match="T, 3, H, W"):
        _framespool.content_differences(tensor[0])


def test_cuts_of_real_videos_are_those_of_comparing_all_frames(videos, short_clips):
    paths = [path for path, _ in short_clips[:4]] + [str(videos / "derived" / "base_640x360.mp4")]
    found = 0
    for path in paths:
        video = fsp.Video(path)
        for threshold in (27.0, 4.0):
            size = _shots._size(video)
            step = [fsp.transforms.Resize(size, antialias=False)]
            sums = _framespool.content_differences(video.frames(range(len(video)), transforms=step).frames)
            above = {n for n, by in enumerate(sums, 1) if by / (3 * size[0] * size[1]) >= threshold}
            want = [0, *merged_frame_by_frame(above, 0, len(video), 15, range(len(video)))]
            assert starts_of(path, threshold=threshold) == want, (path, threshold)
            found += len(want) - 1
    assert found  # some of the low threshold


def test_variable_frame_rate_keeps_times(make, encoder, tmp_path):
    path, vfr = make("scenecut.mp4", [30, 41, 18, 77], *ENCODINGS["scenecut.mp4"]), tmp_path / "vfr.mkv"
    # Every third frame of the first 60.
    keep = ["-vf", "select='gte(n,60)+not(mod(n,3))'", "-fps_mode", "vfr", "-c:v", "libx264"]
    subprocess.run([encoder, "-v", "error", "-i", str(path), *keep, str(vfr)], check=True)
    report = fsp.tools.split_shots([vfr], min_frames=5)
    assert bounds(report) == [(0, 10), (10, 31), (31, 49), (49, 126)]
    assert report.dataset.columns["shot_start"] == pytest.approx([0, 30 / 25, 71 / 25, 89 / 25], abs=0.002)


def test_labels_columns_and_order_do_not_depend_on_threads(make, short_clips):
    first, second = make("a.mp4", [30, 25]), make("b.mp4", [60])
    samples = [(str(second), "walk"), (short_clips[0][0], "run"), (str(first), "walk"), (str(first), None)]
    dataset = fsp.datasets.Dataset(samples, columns={"fold": [7, 8, 9, 10]})
    reports = [fsp.tools.split_shots(dataset, num_threads=threads) for threads in (1, 3, 8)]
    assert all(report.dataset == reports[0].dataset and not report.failures for report in reports)
    made = reports[0].dataset
    assert [label for _, label in made] == [1, 0, 1, 1, -1, -1] and made.classes == ["run", "walk"]
    assert made.columns["fold"] == [7, 8, 9, 9, 10, 10] and made.columns["shot"] == [0, 0, 0, 1, 0, 1]
    seen = []
    fsp.tools.split_shots(dataset, progress=lambda *numbers: seen.append(numbers))
    assert seen == [(done, 0, 4) for done in (1, 2, 3, 4)]


def test_segments_are_split_within_their_bounds(make):
    path = str(make("scenecut.mp4", [30, 41, 18, 77], *ENCODINGS["scenecut.mp4"]))
    part = fsp.datasets.VideoSegment
    cases = [
        (part(path, start_frame=10, end_frame=80), [(10, 30), (30, 71), (71, 80)]),
        # The cut at frame 71 is too close to the start.
        (part(path, start_frame=65, end_frame=999), [(65, 89), (89, 166)]),
        # Without the frame before, the first frame is no cut.
        (part(path, start_frame=30, end_frame=31), [(30, 31)]),
        (part(path, start_seconds=1.0, end_seconds=2.0), [(25, 50)]),
        (part(path, start_seconds=0.4, end_seconds=2.0), [(10, 30), (30, 50)]),
    ]
    for source, want in cases:
        assert bounds(fsp.tools.split_shots([(source, 0)])) == want, source
    with pytest.warns(UserWarning, match="has no frames, the video has 166"):
        report = fsp.tools.split_shots([(part(path, start_frame=166), 0), (path, 0)])
    assert len(report.dataset) == 4 and [each["kind"] for each in report.failures] == ["clip_sampling"]


def test_bad_files_are_reported_or_raised(make, videos, bad_file, tmp_path):
    good, nowhere = str(make("a.mp4", [30, 25])), str(tmp_path / "nowhere.mp4")
    hole = str(videos / "corrupt" / "derived" / "zero_hole_h264.mp4")
    with pytest.warns(UserWarning, match="3 of 4 samples cannot be split .* the first: .*broken"):
        report = fsp.tools.split_shots([bad_file, good, nowhere, hole])
    assert [(each["video_id"], each["path"]) for each in report.failures] == [(0, bad_file), (2, nowhere), (3, hole)]
    assert all(each["kind"] and each["message"] for each in report.failures)
    assert bounds(report) == [(0, 30), (30, 55)] and (report.samples, report.frames) == (4, 55)
    assert report.write_failures(tmp_path / "bad.jsonl") == 3
    kept = fsp.datasets.Dataset([(path, 0) for path in (bad_file, good, nowhere, hole)]).exclude(tmp_path / "bad.jsonl")
    assert [source for source, _ in kept] == [good]
    with pytest.raises(fsp.errors.NotFoundError, match="nowhere"):
        fsp.tools.split_shots([good, nowhere], on_error="raise")


def test_no_clip_crosses_a_cut(make):
    path = make("scenecut.mp4", [30, 41, 18, 77], *ENCODINGS["scenecut.mp4"])
    shots = fsp.tools.split_shots([(path, 5)]).dataset
    samplers = [
        fsp.samplers.RandomClips(sequence_length=8, stride=2, clips_per_video=6),
        fsp.samplers.UniformClips(sequence_length=24, clips_per_video=3),  # longer than a shot
        fsp.samplers.Windows(sequence_length=5),
        fsp.samplers.Segments(num_segments=4),
    ]
    for sampler in samplers:
        seen = 0
        for batch in fsp.ClipLoader(shots, sampler, batch_size=3, shuffle=True, seed=3):
            for clip, number in zip(batch.indices.tolist(), batch.columns["shot"].tolist(), strict=True):
                start, end = [(0, 30), (30, 71), (71, 89), (89, 166)][number]
                assert start <= min(clip) <= max(clip) < end
                seen += 1
        assert seen >= 4
    whole = fsp.ClipLoader([(path, 5)], samplers[2], batch_size=1)
    crossing = [clip for batch in whole for clip in batch.indices.tolist() if min(clip) < 71 <= max(clip)]
    assert crossing  # without shots, some do


def test_shots_are_saved_and_read_again(make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = make("a.mp4", [30, 25])
    dataset = fsp.datasets.Dataset([(os.path.relpath(path), "run"), (str(path), "walk")], columns={"fold": [1, None]})
    report = fsp.tools.split_shots(dataset)
    (tmp_path / "lists").mkdir()
    report.save("lists/shots.jsonl")
    read = fsp.datasets.json_lines("lists/shots.jsonl", in_frames=True)
    assert [label for _, label in read] == [0, 0, 1, 1] and read.classes == ["run", "walk"]
    assert read.columns == report.dataset.columns
    assert [os.path.realpath(source.source) for source, _ in read] == [os.path.realpath(path)] * 4
    assert [source.bounds() for source, _ in read] == [source.bounds() for source, _ in report.dataset]
    plain = fsp.tools.split_shots([(path, 3), (path, -1)])
    plain.save("plain.jsonl")
    assert [label for _, label in fsp.datasets.json_lines("plain.jsonl", in_frames=True)] == [3, 3, -1, -1]
    stored = fsp.tools.split_shots([path.read_bytes()])
    assert bounds(stored) == [(0, 30), (30, 55)]
    with pytest.raises(fsp.errors.ArgumentError, match="sample 0 .* has no path"):
        stored.save("bytes.jsonl")
    for samples, columns, message in [
        ([(path, 0.5)], {}, "the label 0.5 is no class"),
        ([(path, 0)], {"start": [3]}, "the column 'start' has another meaning"),
    ]:
        report = fsp.tools.split_shots(fsp.datasets.Dataset(samples, columns=columns))
        with pytest.raises(fsp.errors.ArgumentError, match=message):
            report.save("bytes.jsonl")
    assert not os.path.exists("bytes.jsonl")


def test_wrong_arguments(make):
    path = make("a.mp4", [30, 25])
    for options, message in [
        ({"threshold": 0}, "threshold must be above 0"),
        ({"threshold": 256}, "threshold must be above 0"),
        ({"min_frames": 0}, "min_frames"),
        ({"on_error": "replace"}, "on_error"),
        ({"num_threads": 0}, "num_threads"),
    ]:
        with pytest.raises(fsp.errors.ArgumentError, match=message):
            fsp.tools.split_shots([path], **options)
    with pytest.raises(fsp.errors.ArgumentError, match="empty"):
        fsp.tools.split_shots([])
    mixed = fsp.datasets.mix((fsp.datasets.Dataset([(path, 0)]), 1), (fsp.datasets.Dataset([(path, 1)]), 2))
    with pytest.raises(fsp.errors.ArgumentError, match="a mixture cannot be split"):
        fsp.tools.split_shots(mixed)
    twice = fsp.tools.split_shots([path]).dataset
    with pytest.raises(fsp.errors.ArgumentError, match="column 'shot' already"):
        fsp.tools.split_shots(twice)


def test_an_interrupt_ends_the_threads(make, monkeypatch):
    short, long = make("a.mp4", [30, 25]), make("no_b_frames.mp4", [30, 41, 18, 77], *ENCODINGS["no_b_frames.mp4"])
    chunks = []
    find = _shots._above

    def slow(video: fsp.Video, *words: object) -> object:
        if len(video) > 55:
            chunks.append(len(video))
            time.sleep(0.1)
        return find(video, *words)

    def interrupt(*_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_shots, "_CHUNK_FRAMES", 4)
    monkeypatch.setattr(_shots, "_above", slow)
    fsp.tools.split_shots([long])
    complete, chunks[:] = len(chunks), []
    with pytest.raises(KeyboardInterrupt):
        fsp.tools.split_shots([short, long], num_threads=2, progress=interrupt)
    assert len(chunks) < complete
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("framespool")]


def test_command_line(make, bad_file, tmp_path, capsys):
    path, out = make("a.mp4", [30, 25]), tmp_path / "shots.jsonl"
    assert main(["shots", str(path), "--output", str(out)]) == 0
    assert capsys.readouterr().out.startswith("1 videos: 2 shots, 0 bad; 55 frames, ")
    assert len(fsp.datasets.json_lines(out, in_frames=True)) == 2
    words = ["shots", str(path), bad_file, "--output", str(out), "--failures", str(tmp_path / "bad.jsonl"), "--json"]
    assert main([*words, "--min-frames", "40", "--threads", "1"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["command"], said["samples"], said["shots"], len(said["failures"])) == ("shots", 2, 1, 1)
    assert json.loads((tmp_path / "bad.jsonl").read_text())["path"] == bad_file
    assert main(["shots", str(path), "--output", str(tmp_path / "no" / "where")]) == 2
    assert "--output" in capsys.readouterr().err
    assert main(["shots", str(path), "--output", str(out), "--threshold", "300"]) == 2
