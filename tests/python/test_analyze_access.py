"""``fsp.tools.analyze_access`` and ``framespool analyze``: reported costs match those of loaders."""

from __future__ import annotations

import json

import framespool as fsp
import pytest
from framespool.cli import main


def measured(path, length, stride):
    """Mean frames and bytes to decode one clip alone, over all its positions."""
    loader = fsp.ClipLoader(
        [path],
        fsp.samplers.windows(sequence_length=length, stride=stride, step=1),
        batch_size=1,
        transforms=[fsp.transforms.Resize((8, 8))],
        num_threads=1,
        prefetch_batches=0,
        cache=fsp.Cache(0, lookahead=0),
    )
    clips = sum(len(batch) for batch in loader)
    stats = loader.stats()
    return clips, stats["frames_decoded"] / clips


@pytest.mark.parametrize(
    ("name", "length", "stride"),
    [
        ("action/words/again.mkv", 6, 3),
        ("derived/h264_open_gop_720p.mp4", 4, 6),
        ("derived/base_640x360.mp4", 4, 5),
    ],
)
def test_reported_clip_cost_is_measured_cost(videos, name, length, stride):
    found = fsp.tools.analyze_access(videos / name, sequence_length=length, stride=stride)
    clips, pictures = measured(str(videos / name), length, stride)
    if clips <= 64:
        assert found.frames_decoded_per_clip == pytest.approx(pictures)
    else:  # a sample of the positions
        assert found.frames_decoded_per_clip == pytest.approx(pictures, rel=0.15)
    assert 0 < found.clip_bytes <= 8 * found.bits_per_second * found.info.duration_seconds


def test_report_are_those_of_the_manifest(manifest):
    seen = 0
    for report in manifest:
        if not report["path"].startswith(("video/1080p", "video/codecs", "video/derived")):
            continue
        if report.get("frames_decoded", 0) < 8 or not report["keyframe_packets"] or report.get("decode_error_lines"):
            continue
        if report["codec"] not in ("h264", "hevc", "mpeg4", "mpeg2video"):
            continue
        found = fsp.tools.analyze_access(report["file"], sequence_length=4, stride=1)
        # What the corpus calls has_b_frames is how long a decoder waits, which it may do in vain; of joined
        # streams neither is recorded.
        if report.get("has_b_frames") == 0:
            assert not found.has_b_frames, report["path"]
        elif report["codec"] != "hevc" and "picture_types" in report:
            assert found.has_b_frames == ("B" in report["picture_types"]), report["path"]
        # Groups go from the first start to the end of the file.
        packets = found.num_gops * found.mean_gop_packets
        assert packets == pytest.approx(found.info.num_packets), report["path"]
        assert found.mean_gop_packets <= found.max_gop_packets <= packets + 0.5
        seen += 1
        if report["codec"] in ("h264", "hevc"):
            assert found.nvdec == {"h264": "H.264", "hevc": "HEVC"}[report["codec"]]
        else:
            assert found.nvdec is None and "standard" in found.nvdec_reason
    assert seen > 20


def test_analyze_reports_bad_files_and_continues(videos, bad_file, short_clips, capsys):
    intact = str(videos / "derived" / "base_640x360.mp4")
    assert main(["analyze", intact, bad_file, short_clips[0][0], "--frames", "4000"]) == 1
    printed = capsys.readouterr()
    assert "h264 in mov,mp4, 640x360" in printed.out and "too short for a clip of 4000 frames" in printed.out
    assert bad_file in printed.err and short_clips[0][0] in printed.out
    assert main(["analyze", "--json", intact]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["info"]["num_frames"] == len(fsp.Video(intact)) and said["frames_decoded_per_clip"] > 16


def test_folders_and_bytes_can_be_probed(short_clips, photos, tmp_path):
    with open(short_clips[0][0], "rb") as file:
        assert fsp.tools.analyze_access(file.read()).info.num_frames == len(fsp.Video(short_clips[0][0]))
    for number in range(3):
        with open(photos[0][0], "rb") as file:
            (tmp_path / f"{number}.jpg").write_bytes(file.read())
    found = fsp.tools.analyze_access(fsp.datasets.ImageSequence(tmp_path), sequence_length=2, stride=1)
    assert (found.num_gops, found.frames_decoded_per_clip, found.has_b_frames) == (3, 2.0, False)
