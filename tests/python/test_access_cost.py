"""Costs of random access that ``fsp.tools.probe`` reports are those of loaders."""

from __future__ import annotations

import framespool as fsp
import pytest
from framespool.tools._probe import _read_files


def measured(path, length, stride):
    """Mean frames and bytes to decode one clip alone, over all its positions."""
    loader = fsp.ClipLoader(
        [path],
        fsp.samplers.Windows(sequence_length=length, stride=stride, step=1),
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
    found = fsp.tools.probe([videos / name], sequence_length=length, stride=stride)
    clips, pictures = measured(str(videos / name), length, stride)
    if clips <= 64:
        assert found.frames_per_clip == pytest.approx(pictures)
    else:  # a sample of the positions
        assert found.frames_per_clip == pytest.approx(pictures, rel=0.15)
    assert 0 < found.bytes_per_clip <= found.num_bytes and found.frames_per_clip <= found.packets_per_clip
    assert 0 <= found.skippable_share < 1


def test_structure_is_that_of_the_manifest(manifest):
    seen = 0
    for report in manifest:
        if not report["path"].startswith(("video/1080p", "video/codecs", "video/derived")):
            continue
        if report.get("frames_decoded", 0) < 8 or not report["keyframe_packets"] or report.get("decode_error_lines"):
            continue
        if report["codec"] not in ("h264", "hevc", "mpeg4", "mpeg2video"):
            continue
        video = fsp.Video(report["file"])
        found = video._video.analyze_access(4, 1)
        # What the corpus calls has_b_frames is how long a decoder waits, which it may do in vain; of joined
        # streams neither is recorded.
        if report.get("has_b_frames") == 0:
            assert not found["reordered"], report["path"]
        elif report["codec"] != "hevc" and "picture_types" in report:
            assert (found["reordered"] > 0) == ("B" in report["picture_types"]), report["path"]
        # Groups go from the first start to the end of the file.
        assert sum(found["gop_packets"]) == video.info.num_packets, report["path"]
        seen += 1
        assert (found["nvdec"], found["nvdec_reason"]) == video._video.nvdec()
        if report["codec"] in ("h264", "hevc"):
            assert found["nvdec"] == {"h264": "H.264", "hevc": "HEVC"}[report["codec"]]
        else:
            assert found["nvdec"] is None and "standard" in found["nvdec_reason"]
    assert seen > 20


def test_image_sequences_and_bytes_have_costs(short_clips, photos, tmp_path):
    with open(short_clips[0][0], "rb") as file:
        of_bytes = fsp.tools.probe([file.read()], sequence_length=2)
    of_file = fsp.tools.probe([short_clips[0][0]], sequence_length=2)
    assert of_bytes.frames_per_clip == of_file.frames_per_clip > 2
    for number in range(3):
        with open(photos[0][0], "rb") as file:
            (tmp_path / f"{number}.jpg").write_bytes(file.read())
    found = fsp.tools.probe([fsp.datasets.ImageSequence(tmp_path)], sequence_length=2, stride=1)
    assert (found.gop_lengths.count, found.frames_per_clip, found.skippable_share) == (3, 2.0, 0.0)


def test_packets_of_large_and_remote_files_are_not_read(tmp_path, monkeypatch):
    files = [str(tmp_path / f"{number}.mp4") for number in range(100)]
    for file in files:
        with open(file, "wb") as made:
            made.truncate(1 << 20)
    examined = _read_files._examined
    assert examined([]) == examined(["https://host/a.mp4"]) == set()
    assert examined(["https://host/a.mp4", *files[:2]]) == {1, 2}
    assert len(examined(files)) == 32 and max(examined(files)) > 90
    monkeypatch.setattr(_read_files, "_EXAMINED_BYTES", 5 << 20)
    assert len(examined(files)) == 5
    monkeypatch.setattr(_read_files, "_EXAMINED_BYTES", 0)
    assert examined(files) == {0}
