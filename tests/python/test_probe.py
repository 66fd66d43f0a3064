"""``fsp.tools.probe`` and ``framespool probe``: what a dataset contains, and notes on what will be slow."""

from __future__ import annotations

import json
import pickle
import random
import re
import shutil
import sys
from pathlib import Path

import framespool as fsp
import pytest
from framespool.cli import main
from framespool.tools._probe._distribution import distribution
from PIL import Image


def summary_of(files, **keywords):
    return fsp.tools.probe(fsp.datasets.Dataset([str(file) for file in files]), **keywords)


@pytest.mark.parametrize("kind", ["ints", "near", "wide", "fractions", "single", "zeros"])
def test_bins_contain_every_number_once(kind):
    draw = random.Random(kind)
    numbers = {
        "ints": lambda: draw.randrange(1, 400),
        "near": lambda: draw.uniform(9.5, 10.2),
        "wide": lambda: 10 ** draw.uniform(-2, 5),
        "fractions": lambda: draw.choice([23.976, 25.0, 29.97, 30.0, 60.0]),
        "single": lambda: 7,
        "zeros": lambda: draw.choice([0, 0, 3]),
    }[kind]
    drawn = [numbers() for _ in range(501)]
    found = distribution({number: drawn.count(number) for number in drawn})
    ordered = sorted(drawn)
    assert (found.count, found.min, found.median, found.max) == (501, ordered[0], ordered[250], ordered[-1])
    assert found.mean == pytest.approx(sum(drawn) / 501)
    for low, high, count in found.bins:
        assert low < high and count == sum(low <= number < high for number in drawn)
    assert sum(count for _, _, count in found.bins) == 501 and len(found.bins) <= 20
    assert all(after[0] == before[1] for before, after in zip(found.bins, found.bins[1:], strict=False))
    assert found.bins[0][2] and found.bins[-1][2], "no empty interval at an end"
    assert distribution({}) is None


def test_counts_are_those_of_the_manifest(manifest):
    recorded = {
        entry["file"]: entry
        for entry in manifest
        if entry["path"].startswith(("video/derived/", "video/codecs/")) and entry.get("frame_hashes")
    }
    files = sorted(recorded)
    summary = summary_of(files, max_files=None)
    assert summary.num_samples == summary.num_files == summary.num_files_read == len(files) > 60
    assert not summary.failures
    codecs = [recorded[file]["codec"] for file in files]
    assert summary.codecs == {codec: codecs.count(codec) for codec in codecs}
    assert summary.num_frames == sum(recorded[file]["frames_decoded"] for file in files)
    assert summary.num_bytes == sum(Path(file).stat().st_size for file in files)
    counts = list(summary.codecs.values())
    assert counts == sorted(counts, reverse=True)
    infos = [fsp.Video(file).info for file in files]
    assert summary.gop_lengths.count == sum(len(info.keyframes) for info in infos)
    assert summary.total_seconds == pytest.approx(sum(info.duration_seconds for info in infos))
    assert summary.durations.max == max(info.duration_seconds for info in infos)


@pytest.mark.parametrize(("length", "stride"), [(16, 1), (8, 4), (3, 40)])
def test_packets_per_clip_are_those_that_a_loader_plans(videos, length, stride):
    names = ["derived/base_640x360.mp4", "action/street_340x256.mp4", "action/phone_176x144.mp4", "1080p/bunny_25p.mp4"]
    seen = 0
    for path in (str(videos / name) for name in names):
        found = summary_of([path], sequence_length=length, stride=stride).packets_per_clip
        if found is None:
            assert len(fsp.Video(path)) < (length - 1) * stride + 1
            continue
        sampler = fsp.samplers.RandomClips(sequence_length=length, stride=stride, clips_per_video=200)
        planned = fsp.ClipLoader([path], sampler, batch_size=4)._estimate_cost()["packets_per_clip"]["single"]
        assert found == pytest.approx(planned, rel=0.12), path  # at random positions
        seen += 1
    assert seen >= 2


def test_of_a_loader_the_expected_cost_is_reported(short_clips, photos, bad_file):
    sampler = fsp.samplers.RandomClips(sequence_length=3, stride=2, clips_per_video=4)
    loader = fsp.ClipLoader(short_clips, sampler, batch_size=4, shuffle="full", cache="1MB")
    found = fsp.tools.probe(loader)
    expected = found.expected
    assert (found.sequence_length, found.stride, found.num_samples) == (3, 2, 13)
    packets = expected["packets_per_clip"]
    assert packets["grouped"] <= packets["full"] <= packets["single"] and expected["frames_per_clip"] > 3
    assert packets["single"] == pytest.approx(found.packets_per_clip, rel=0.2) and loader.stats()["frames_decoded"] == 0
    text = " ".join(str(found).split())
    assert f'{packets["grouped"]:.0f} packets per clip with shuffle="grouped"' in text
    assert ("times less than" in found.notes[1]) == (packets["full"] > 1.2 * packets["grouped"])
    assert found.as_dict()["expected"] == expected and max(map(len, str(found).splitlines())) <= 100
    given = fsp.tools.probe(loader, sequence_length=2, stride=1)
    assert (given.sequence_length, given.stride, given.expected) == (2, 1, expected)
    by_time = fsp.ClipLoader(
        short_clips, fsp.samplers.Windows(sequence_length=3, fps=5), batch_size=4, shuffle=range(1)
    )
    timed = fsp.tools.probe(by_time)
    assert (timed.sequence_length, timed.stride, timed.expected) == (3, 4, None)
    of_images = fsp.tools.probe(fsp.ImageLoader(photos, batch_size=1))
    assert of_images.expected is None and of_images.image_formats and of_images.frames_per_clip is None
    assert fsp.tools.probe(short_clips).expected is None
    unreadable = fsp.tools.probe(fsp.ClipLoader([bad_file], sampler, batch_size=1, on_error="skip"))
    assert unreadable.expected is None and len(unreadable.failures) == 1


def test_notes_name_what_is_slow(videos, manifest):
    long_gop = summary_of([videos / "action" / "street_340x256.mp4"], stride=1)
    assert long_gop.gop_lengths.max == 250
    [note] = long_gop.notes
    assert "clips_per_video" in note and f"needs {long_gop.packets_per_clip:.0f} packets" in note
    assert "up to 250 frames apart" in note
    [intra] = [entry["file"] for entry in manifest if entry["path"] == "video/codecs/mjpeg_320x240.avi"]
    cheap = summary_of([intra], stride=1)
    assert cheap.packets_per_clip == 16 and cheap.gop_lengths.max == 1
    assert any("the CPU decodes 1 of 1 videos. mjpeg (1): its standard" in note for note in cheap.notes)
    large = summary_of(sorted((videos / "1080p").iterdir())[:1])
    assert any("1 of 1 videos are larger than 1280x720" in note for note in large.notes)


def test_formats_that_few_gpus_decode_are_named(manifest):
    deep = [e for e in manifest if e.get("codec") == "hevc" and "10" in e["path"] and e.get("frame_hashes")]
    assert deep
    summary = summary_of([deep[0]["file"]])
    assert summary.bit_depths == {10: 1} and "10" in next(iter(summary.pixel_formats))
    if fsp.gpu.unavailable_reason():
        assert any("only some GPUs decode" in note and "HEVC" in note for note in summary.notes)


def test_short_videos_and_differing_rates_are_noted(short_clips, videos):
    summary = summary_of([short_clips[0][0], videos / "derived" / "base_640x360.mp4"], sequence_length=4000)
    assert any("2 of 2 videos are shorter than a clip (4000 frames, 4 apart)" in note for note in summary.notes)
    assert summary.packets_per_clip is None
    rates = sorted(summary.frame_rates)
    assert any("fps=" in note for note in summary.notes) == (rates[-1] > 1.2 * rates[0])


def test_unreadable_files_are_listed_not_raised(short_clips, bad_file, photos, tmp_path):
    (tmp_path / "cut.jpg").write_bytes(b"\xff\xd8\xff")
    files = [short_clips[0][0], bad_file, str(tmp_path / "gone.mp4"), photos[0][0], str(tmp_path / "cut.jpg")]
    dataset = fsp.datasets.Dataset(files)
    summary = fsp.tools.probe(dataset)
    assert [(failure["path"], failure["video_id"]) for failure in summary.failures] == [
        (files[1], 1),
        (files[2], 2),
        (files[4], 4),
    ]
    assert [failure["kind"] for failure in summary.failures[:2]] == ["invalid_data", "not_found"]
    assert any(note.startswith("3 of 5 files cannot be read") for note in summary.notes)
    rest = dataset.exclude(summary.failures)
    assert [source for source, _ in rest] == [files[0], files[3]]
    assert not fsp.tools.probe(rest).failures
    assert "gone.mp4" in str(summary) and "gone.mp4" in summary._repr_html_()
    only_bad = summary_of([bad_file])
    assert only_bad.durations is None and len(only_bad.failures) == 1 and str(only_bad)


def test_a_subset_is_random_and_always_the_same(short_clips):
    dataset = fsp.datasets.Dataset(short_clips)
    some = fsp.tools.probe(dataset, max_files=5)
    assert (some.num_samples, some.num_files, some.num_files_read) == (13, 13, 5)
    assert some == fsp.tools.probe(dataset, max_files=5, num_threads=3)
    assert some.durations != fsp.tools.probe(fsp.datasets.Dataset(short_clips[:5])).durations
    assert sum(some.codecs.values()) == 5 and "13 files; 5 of the files were read" in str(some)
    about = re.search(r"duration +([\d.]+) s, about ([\d.]+) s in all", str(some))
    assert float(about[2]) == pytest.approx(some.total_seconds * 13 / 5, abs=0.1)
    assert (
        fsp.tools.probe(dataset, max_files=13) == fsp.tools.probe(dataset, max_files=None) == fsp.tools.probe(dataset)
    )


def test_segments_share_their_file(short_clips):
    path, seconds = short_clips[0][0], fsp.Video(short_clips[0][0]).info.duration_seconds
    part = fsp.datasets.VideoSegment
    segments = [
        (part(path, start_seconds=0.25, end_seconds=0.75), 0),
        (part(path, start_frame=10, end_frame=10_000), 1),
        (Path(path), 1),
    ]
    summary = fsp.tools.probe(fsp.datasets.Dataset(segments, ["a", "b", "c"]))
    assert (summary.num_samples, summary.num_files, summary.durations.count) == (3, 1, 1)
    assert summary.classes == {"b": 2, "a": 1, "c": 0}
    rate = fsp.Video(path).info.average_fps
    found = summary.segment_durations
    assert found.count == 2 and found.min == pytest.approx(0.5)
    assert found.max == pytest.approx(seconds - 10 / rate, abs=1e-6)


def test_images_and_other_sources(photos, pictures, short_clips, tmp_path):
    shutil.copy(photos[0][0], tmp_path / "misnamed.png")
    data = Path(short_clips[0][0]).read_bytes()
    (tmp_path / "a.bin").write_bytes(b"head" + data)
    member = fsp.datasets.ArchiveMember(tmp_path / "a.bin", 4, len(data), "a.mkv")
    pngs = sorted((pictures / "odd").glob("*.png"))[:3]
    files = [*[path for path, _ in photos], *map(str, pngs), str(tmp_path / "misnamed.png")]
    summary = fsp.tools.probe(fsp.datasets.Dataset([*files, member, data]))
    sizes = []
    for file in files:
        with Image.open(file) as image:
            turned = image.getexif().get(0x0112, 1) >= 5
            sizes.append("x".join(map(str, image.size[::-1] if turned else image.size)))
    sizes += 2 * ["640x480"]
    assert summary.frame_sizes == {size: sizes.count(size) for size in sizes}
    assert summary.image_formats == {"jpeg": len(photos) + 1, "png": 3}
    assert summary.num_bytes == sum(Path(file).stat().st_size for file in files) + 2 * len(data)
    assert summary.durations.count == 2 and summary.classes == {}


def test_image_sequences_are_videos(photos, tmp_path):
    for number in range(9):
        shutil.copy(photos[0][0], tmp_path / f"{number}.jpg")
    summary = fsp.tools.probe(fsp.datasets.Dataset([fsp.datasets.ImageSequence(tmp_path, fps=10)]), sequence_length=4)
    assert summary.frame_rates == {10.0: 1} and summary.num_frames == 9 and summary.gop_lengths.max == 1
    assert summary.num_bytes == 9 * Path(photos[0][0]).stat().st_size and "0.9" in str(summary)
    assert summary.durations.median == pytest.approx(0.9) and not summary.image_formats


def test_labels_that_are_lists_are_counted(short_clips):
    files = [path for path, _ in short_clips[:3]]
    rows = fsp.datasets.Dataset(zip(files, [[1, 0, 1], [0, 0, 1], [0, 0, 1]], strict=True), ["x", "y", "z"])
    assert fsp.tools.probe(rows).classes == {"z": 3, "x": 1, "y": 0}
    assert fsp.tools.probe(fsp.datasets.Dataset([(files[0], 0.5)])).classes == {}


def test_text_fits_a_terminal_and_html_is_escaped(short_clips, tmp_path):
    folder = tmp_path / ("long " * 30).strip()
    folder.mkdir()
    names = ["<b>&" + "n" * 60, *(f"class {number}" for number in range(12))]
    gone = [(str(folder / f"{number}.mp4"), number) for number in range(30)]
    dataset = fsp.datasets.Dataset([*short_clips, *[(path, number % 13) for path, number in gone]], names)
    summary = fsp.tools.probe(dataset)
    lines = str(summary).splitlines()
    assert max(map(len, lines)) <= 100 and lines[0] == "43 samples in 43 files"
    assert any("####" in line and "640x480" in line for line in lines)
    assert "10 more in summary.failures" in str(summary) and "3 others" in str(summary)
    shown = summary._repr_html_()
    assert "<b>&n" not in shown and "&lt;b&gt;&amp;n" in shown and "width:300px" in shown
    assert "DatasetSummary(43 samples" in repr(summary)


def test_saved_reports_have_the_frames(short_clips, photos, tmp_path, monkeypatch):
    dataset = fsp.datasets.Dataset([path for path, _ in [*short_clips[:3], *photos[:10]]])
    summary = fsp.tools.probe(dataset)
    summary.save(tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert page.count("<img ") == 3 + 2 and summary._repr_html_() in page
    summary.save(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as image:
        # The contact sheet is below the text: rows of frames 96 pixels high, with many colors.
        height, colors = image.height, image.convert("RGB").crop((4, image.height - 130, 900, image.height))
    assert len(colors.getcolors(1 << 20)) > 1000 and height > 5 * 130
    with pytest.raises(fsp.errors.ArgumentError, match=r"\.png or \.html"):
        summary.save(tmp_path / "a.jpg")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(fsp.errors.UnsupportedError, match="pip install numpy pillow"):
        summary.save(tmp_path / "b.png")
    summary.save(tmp_path / "b.html")
    assert "<img" not in (tmp_path / "b.html").read_text() and not (tmp_path / "b.png").exists()


def test_index_cache_and_progress(short_clips, tmp_path):
    calls = []
    dataset = fsp.datasets.Dataset([*short_clips, (str(tmp_path / "gone.mp4"), 0)])
    fsp.tools.probe(dataset, index=tmp_path / "index", progress=lambda *counts: calls.append(counts))
    assert calls[0] == (0, 0, 14) and calls[-1] == (14, 1, 14) and calls == sorted(calls)
    fsp._framespool.flush_index()
    sampler = fsp.samplers.RandomClips(sequence_length=2)
    loader = fsp.ClipLoader(short_clips, sampler, batch_size=13, index=tmp_path / "index")
    next(iter(loader))
    assert loader.stats()["videos_indexed"] == 0 and loader.stats()["index_hits"] == 13


@pytest.mark.parametrize(
    "keywords", [{"max_files": 0}, {"sequence_length": 0}, {"stride": 0}, {"num_threads": 0}, {"index": 3}]
)
def test_wrong_arguments_are_rejected(short_clips, keywords):
    with pytest.raises(fsp.errors.ArgumentError, match=next(iter(keywords))):
        fsp.tools.probe(fsp.datasets.Dataset(short_clips), **keywords)
    with pytest.raises(fsp.errors.ArgumentError, match="empty"):
        fsp.tools.probe(fsp.datasets.Dataset([]))


def test_the_command_prints_the_summary(short_clips, bad_file, tmp_path, capsys):
    for name in ("again", "bird"):
        (tmp_path / "videos" / name).mkdir(parents=True)
        shutil.copy(Path(short_clips[0][0]).parent / f"{name}.mkv", tmp_path / "videos" / name)
    folder = str(tmp_path / "videos")
    summary = fsp.tools.probe(fsp.datasets.folder(folder))
    assert main(["probe", folder]) == 0
    assert capsys.readouterr().out == f"{summary}\n"
    assert main(["probe", folder, "--json", "--max-files", "1", "--output", str(tmp_path / "a.html")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["command"], found["num_files"], found["num_files_read"]) == ("probe", 2, 1)
    assert found["classes"] == {"again": 1, "bird": 1} and found["durations"]["count"] == 1
    assert "<img " in (tmp_path / "a.html").read_text()
    assert main(["probe", folder, bad_file, "--max-files", "all"]) == 1
    printed = capsys.readouterr()
    assert "3 samples in 3 files" in printed.out and bad_file in " ".join(printed.out.split())
    assert main(["probe", folder, "--output", str(tmp_path / "a.gif")]) == 2
    assert main(["probe", str(tmp_path / "nowhere")]) == 1


def test_fields_and_pixels_that_are_not_square_are_reported(videos):
    interlaced, stretched, usual = (
        videos / "derived" / name
        for name in ("h264_mbaff_720x576.mp4", "h264_bt601_tagged_720x480_sar.mp4", "h264_bt709_tagged_640x360.mp4")
    )
    assert fsp.Video(interlaced).info.field_order == "tt"
    assert pickle.loads(pickle.dumps(fsp.Video(interlaced).info)).field_order == "tt"
    assert fsp.Video(usual).info.field_order == "progressive"
    summary = fsp.tools.probe(fsp.datasets.Dataset([str(interlaced), str(stretched), str(usual)]))
    assert summary.field_orders == {"progressive": 2, "tt": 1}
    num, den = fsp.Video(stretched).info.sample_aspect
    assert num != den and f"{round(720 * num / den)}x480" in summary.display_sizes
    assert "640x360" in summary.display_sizes and "720x480" in summary.frame_sizes
    assert any("1 of 3 videos are interlaced" in note for note in summary.notes)
    assert "display size" in str(summary) and "field order" in str(summary)
    alone = fsp.tools.probe(fsp.datasets.Dataset([str(usual)]))
    assert "display size" not in str(alone) and "field order" not in str(alone)
