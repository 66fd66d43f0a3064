"""Video of high dynamic range: what is told of it, and when a warning comes."""

from __future__ import annotations

import dataclasses
import json
import pickle
import subprocess
import sys

import framespool as fsp
import pytest

PQ = ("bt2020", "smpte2084", "bt2020nc", "limited", "PQ")
HLG = ("bt2020", "arib-std-b67", "bt2020nc", "limited", "HLG")


def colors(info):
    return info.color_primaries, info.color_transfer, info.color_matrix, info.color_range, info.hdr


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("odd/squares_pq_10bit.mp4", PQ),
        ("odd/squares_hlg_10bit.mp4", HLG),
        ("derived/hevc_hdr10_tagged_720p.mp4", PQ),
        ("odd/squares_fcc_pc_8bit.mp4", (None, None, "fcc", "full", None)),
        ("odd/squares_bt2020c.mp4", (None, None, "bt2020c", "limited", None)),
    ],
)
def test_info_tells_color_by_name(videos, path, expected):
    info = fsp.Video(videos / path).info
    found = colors(info)
    # A range that is not written is limited by the standards of these codecs, which decoders may say or leave open.
    assert found == expected or (expected[3] == "limited" and found == (*expected[:3], None, *expected[4:]))
    assert colors(pickle.loads(pickle.dumps(info))) == found
    facts = fsp.probe(videos / path).as_dict()["info"]
    assert (facts["color_primaries"], facts["hdr"]) == (expected[0], expected[4])
    with pytest.raises(fsp.ArgumentError, match="copy without the video"):
        _ = dataclasses.replace(info, path="other").hdr


def test_probe_tells_why_the_color_is_not_known(videos, tmp_path):
    damaged = bytearray((videos / "derived/hevc_hdr10_tagged_720p.mp4").read_bytes())
    begin = damaged.find(b"mdat") + 4
    damaged[begin + 3000 : begin + 6000] = b"\xff" * 3000  # of the first picture, behind its headers
    path = tmp_path / "damaged.mp4"
    path.write_bytes(damaged)
    with pytest.raises(fsp.Error):
        _ = fsp.Video(path, index=False).info.hdr
    facts = fsp.probe(path).as_dict()["info"]
    assert facts["hdr"] is None and "damaged.mp4" in facts["color_error"]


def run(code, *arguments):
    """What a process of its own says: each warning as (category, message)."""
    prelude = (
        "import json, sys, warnings\n"
        "import framespool as fsp\n"
        "caught = warnings.catch_warnings(record=True)\n"
        "seen = caught.__enter__()\n"
        "warnings.simplefilter('always')\n"
    )
    end = "\nprint(json.dumps([(w.category.__name__, str(w.message)) for w in seen]))"
    done = subprocess.run(
        [sys.executable, "-c", prelude + code + end, *map(str, arguments)], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["pq", "hlg"])
@pytest.mark.parametrize(
    "code",
    [
        "v = fsp.Video(sys.argv[1]); v[0]; v[1]; list(v)",
        "list(fsp.Video(sys.argv[1])); fsp.Video(sys.argv[1])[0]",
        "v = fsp.Video(sys.argv[1]); v.frames([0], dtype='float32'); v.frames_at([0.0]); fsp.Video(sys.argv[1])[0]",
        "rule = fsp.sampling.windows(sequence_length=1)\n"
        "for _ in range(2):\n    list(fsp.ClipLoader([sys.argv[1]], rule, batch_size=1, index=False))",
    ],
)
def test_conversion_of_hdr_warns_once_in_a_process(videos, name, code):
    ((category, message),) = run(code, videos / f"odd/squares_{name}_10bit.mp4")
    assert category == "HdrWarning"
    assert f"squares_{name}_10bit.mp4" in message and name.upper() in message
    assert "transforms.ToneMap" in message and 'hdr="ignore"' in message


@pytest.mark.parametrize(
    "code",
    [
        "fsp.Video(sys.argv[1], hdr='ignore')[0]; list(fsp.Video(sys.argv[1], hdr='ignore'))",
        "import pickle; pickle.loads(pickle.dumps(fsp.Video(sys.argv[1], hdr='ignore')))[0]",
        "rule = fsp.sampling.windows(sequence_length=1)\n"
        "list(fsp.ClipLoader([sys.argv[1]], rule, batch_size=1, index=False, hdr='ignore'))",
        "fsp.check([sys.argv[1]]); fsp.Video(sys.argv[1]).info.hdr; fsp.probe(sys.argv[1]).as_dict()",
    ],
)
def test_no_warning_where_hdr_is_meant_or_nothing_is_converted(videos, code):
    assert run(code, videos / "odd/squares_pq_10bit.mp4") == []


def test_no_warning_for_standard_dynamic_range(videos):
    assert run("fsp.Video(sys.argv[1])[0]", videos / "odd/squares_bt2020nc_tv_10bit.mp4") == []


def test_hdr_is_one_of_two_words(videos):
    path = videos / "odd/squares_pq_10bit.mp4"
    with pytest.raises(fsp.ArgumentError, match='hdr must be one of "warn", "ignore", got "off"'):
        fsp.Video(path, hdr="off")
    with pytest.raises(fsp.ArgumentError, match="hdr must be one of"):
        fsp.ClipLoader([path], fsp.sampling.windows(sequence_length=1), batch_size=1, hdr=None)
