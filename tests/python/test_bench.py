"""``fsp.tools.bench`` and ``framespool bench``: counts match the delivered clips, and advice matches the counts."""

from __future__ import annotations

import json

import framespool as fsp
import pytest
from framespool.cli import main
from framespool.tools import _bench

RULE = fsp.samplers.RandomClips(sequence_length=4)


def loader(short_clips, **more):
    keywords = {"batch_size": 4, "transforms": [fsp.transforms.Resize((16, 24))], "num_threads": 2, **more}
    return fsp.ClipLoader(short_clips, RULE, **keywords)


def test_counts_match_delivered_clips(short_clips):
    made = loader(short_clips[:5])
    report = fsp.tools.bench(made, seconds=0.5)
    assert report.clips > 0 and report.frames == 4 * report.clips and report.seconds >= 0.5
    # All but the first batch, in epochs of two batches with four clips and one.
    delivered = made.stats()["clips"]
    assert delivered == report.clips + 4 and report.clips_per_second == pytest.approx(report.clips / report.seconds)
    assert sum(report.shares.values()) == pytest.approx(1) and all(share >= 0 for share in report.shares.values())
    assert report.frames_decoded_per_frame_delivered >= 1 and report.advice
    # The loader can be used afterwards.
    assert sum(len(batch) for batch in made) == 5


def test_command_prints_and_plots(videos, tmp_path, capsys):
    short_clips, plot = videos / "action" / "words", tmp_path / "plot.png"
    arguments = ["bench", str(short_clips), "--frames", "4", "--seconds", "0.3", "--threads", "2"]
    assert main([*arguments, "--plot", str(plot)]) == 0
    printed = capsys.readouterr().out
    assert "clips/s" in printed and "frames decoded per frame delivered" in printed and "\n- " in printed
    assert fsp.decode_image(plot, layout="HWC").shape[1] == 720
    assert main([*arguments, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["clips"] > 0 and said["stats"]["errors"] == {}


def stats(**more):
    plain = {
        "index_cache_error": None,
        "videos_indexed": 0,
        "index_hits": 0,
        "clips_evicted": 0,
        "memory_budget": 1 << 30,
        "errors": {},
        "cpu_fallbacks": {},
    }
    return plain | more


@pytest.mark.parametrize(
    ("shares", "each", "more", "words"),
    [
        ({"decoding": 0.8}, 6.0, {}, "6.0 frames are decoded"),
        ({"decoding": 0.8}, 1.1, {}, "nearly all decoded frames"),
        ({"transform": 0.5}, 1.0, {}, "Transforms take long"),
        ({"reading": 0.5}, 1.0, {}, "Reading takes long"),
        ({"waiting": 0.9}, 1.0, {}, "mostly idle"),
        ({"planning": 0.4}, 1.0, {"videos_indexed": 9}, "framespool index"),
        ({}, 1.0, {"index_cache_error": "disk full"}, "disk full"),
        ({}, 1.0, {"clips_evicted": 7}, "now 1024 MiB"),
        ({}, 1.0, {"errors": {"decode": 2}}, "2 decode"),
        ({}, 1.0, {"cpu_fallbacks": {"film grain": 3}}, "film grain"),
    ],
)
def test_advice_fits_what_was_seen(shares, each, more, words):
    nothing = dict.fromkeys(("planning", "reading", "decoding", "transform", "other work", "waiting"), 0.0)
    (sentence,) = _bench._advice(nothing | shares, each, stats(**more))
    assert words in sentence


def test_wrong_arguments_are_rejected(short_clips):
    with pytest.raises(fsp.errors.ArgumentError, match="seconds"):
        fsp.tools.bench(loader(short_clips), seconds=0)
    with pytest.warns(UserWarning, match="this loader has no batches"):
        none = loader(short_clips[:2], last_batch="drop")
    with pytest.raises(fsp.errors.ArgumentError, match="no batch"):
        fsp.tools.bench(none)


def test_grouped_shuffle_is_advised_where_it_decodes_less(short_clips):
    packets = {"grouped": 20.0, "full": 90.0, "single": 120.0}
    expected = {"packets_per_clip": packets, "mixing": 1.0, "disk_caches": []}
    (sentence,) = _bench.expected_advice(expected, loader(short_clips, shuffle="full"))
    assert 'shuffle="grouped" is expected to decode 4.5 times less' in sentence
    several = fsp.samplers.RandomClips(sequence_length=4, clips_per_video=4)
    grouped = fsp.ClipLoader(short_clips, several, batch_size=4, shuffle="grouped")
    assert _bench.expected_advice(expected, grouped) == []
    assert _bench.expected_advice(None, loader(short_clips, shuffle="full")) == []


def test_without_advice_nothing_stands_out(short_clips, monkeypatch):
    monkeypatch.setattr(_bench, "_advice", lambda *_: [])
    monkeypatch.setattr(_bench, "expected_advice", lambda *_: [])
    assert fsp.tools.bench(loader(short_clips), seconds=0.1).advice == ["Nothing stands out."]


def test_bench_reports_the_expected_cost(short_clips):
    sampler = fsp.samplers.Windows(sequence_length=2, step=4)
    report = fsp.tools.bench(fsp.ClipLoader(short_clips, sampler, batch_size=4, shuffle="full"), seconds=0.1)
    packets = report.expected["packets_per_clip"]
    assert packets["grouped"] <= packets["full"] < packets["single"] and report.as_dict()["expected"] == report.expected
    assert (
        fsp.tools.bench(fsp.ClipLoader(short_clips, sampler, batch_size=4, shuffle=range(1)), seconds=0.1).expected
        is None
    )


def test_command_prints_the_expected_cost_before_it_measures(videos, capsys):
    arguments = ["bench", str(videos / "action" / "words"), "--frames", "2", "--seconds", "0.1", "--threads", "1"]
    options = ["--clips-per-video", "6", "--cache", "25KB", "--num-shards", "2", "--resize", "16"]
    assert main([*arguments, *options, "--shuffle", "full"]) == 0
    printed = capsys.readouterr().out
    assert printed.index("expected in an epoch") < printed.index("times less than full") < printed.index("clips/s")
    # Automatic: grouped for several clips per video, full for one.
    assert main([*arguments, *options]) == 0
    assert "times less than full" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([*arguments, "--shuffle", "groupd"])
    assert "did you mean grouped?" in capsys.readouterr().err
    assert main([*arguments, "--clips-per-video", "2", "--preset", "videomae"]) == 2
    assert "--preset-option" in capsys.readouterr().err


def test_a_disk_cache_is_measured_after_an_epoch(short_clips, tmp_path):
    made = loader(short_clips, cache=fsp.Cache(disk=tmp_path / "clips", disk_size="1GiB", epochs=4))
    report = fsp.tools.bench(made, seconds=0.1)
    assert report.first_epoch_seconds > report.first_batch_seconds
    assert made.epoch >= 2
    # After the first batch, videos are decoded for later epochs too. Idle threads store these clips, at any time.
    while made.stats()["disk_clips_read"] == 0:
        list(made)
    assert fsp.tools.bench(loader(short_clips[:5]), seconds=0.1).first_epoch_seconds is None


def test_command_takes_a_disk_cache(videos, photos, tmp_path, capsys):
    arguments = ["--frames", "2", "--resize", "16", "--seconds", "0.1"]
    for sources in ([str(videos / "action" / "words")], [path for path, _ in photos[:2]]):
        folder = tmp_path / str(len(sources))
        assert main(["bench", *sources, *arguments, "--disk", str(folder), "--disk-size", "1GiB", "--epochs", "4"]) == 0
        assert "filled the disk cache" in capsys.readouterr().out and any(folder.iterdir())
    for wrong, needed in ((["--epochs", "4"], "--disk,"), (["--disk", str(tmp_path)], "--disk-size")):
        assert main(["bench", *sources, *arguments, *wrong]) == 2
        assert needed in capsys.readouterr().err


def test_command_prints_the_number_of_clips(videos, photos, capsys):
    words = ["bench", str(videos / "action" / "words"), "--frames", "2", "--resize", "16", "--seconds", "0.1"]
    assert main([*words, "--clips-per-video", "8", "--cache", "60KB"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("104 clips of 13 samples\nexpected in an epoch: ") and "NVDEC" not in printed
    assert main(["bench", *[path for path, _ in photos[:2]], "--seconds", "0.1"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("2 clips of 2 samples\n") and "expected" not in printed
