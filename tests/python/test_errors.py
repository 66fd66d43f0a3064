"""Every damaged file gives a typed error that names it, or frames; nothing hangs and nothing crashes."""

from __future__ import annotations

import re

import framespool as fsp
import pytest


def test_damaged_file_gives_named_error_or_frames(manifest):
    damaged = [facts["file"] for facts in manifest if facts["path"].startswith("video/corrupt/")]
    assert len(damaged) >= 25
    small = [fsp.transforms.Resize((8, 8))]
    errors = {}
    for path in damaged:
        try:
            video = fsp.Video(path)
            frames = 0
            for i in range(0, len(video), max(1, len(video) // 12)):
                video.frames([i], transforms=small)
                frames += 1
            assert frames > 0
        except fsp.Error as error:
            assert type(error) is not fsp.Error
            assert path in str(error) and error.file is not None and path in error.file
            assert not isinstance(error, fsp.InternalError)
            errors[path] = type(error).__name__
    assert {"InvalidDataError", "DecodeError", "TruncatedError"} <= set(errors.values())


def test_a_missing_file_is_also_a_file_not_found_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere.mp4") as caught:
        fsp.Video(tmp_path / "nowhere.mp4")
    assert isinstance(caught.value, fsp.NotFoundError)
    with pytest.raises(OSError, match="directory"):
        fsp.Video(tmp_path)


def test_file_without_video_reports_its_streams(videos):
    with pytest.raises(fsp.NoVideoError, match="aac"):
        fsp.Video(videos / "odd" / "audio_only.mp4")
    with pytest.raises(fsp.NoVideoError, match="cover art"):
        fsp.Video(videos / "derived" / "cover_art_only.m4a")


def test_an_unknown_codec_is_named(videos):
    with pytest.raises(fsp.UnsupportedError, match="vvc"):
        fsp.Video(videos / "codecs" / "vvc_sample.mp4")[0]


def test_missing_frame_error_has_index_and_count(videos):
    video = fsp.Video(videos / "derived" / "tiny_34x26_h264.mp4")
    for index in (60, -61, 10**12):
        with pytest.raises(IndexError, match=rf"{index}.*60 frames"):
            video[index]


def test_corrupt_packet_is_named_earlier_frames_decode(videos):
    video = fsp.Video(videos / "corrupt" / "derived" / "zero_hole_h264.mp4")
    video.frames(range(20))
    with pytest.raises(fsp.DecodeError, match=r"packet \d+") as caught:
        video.frames(range(72))
    assert caught.value.packet >= 20


def test_every_kind_has_a_class_and_every_class_a_kind():
    classes = {c for c in vars(fsp).values() if isinstance(c, type) and issubclass(c, fsp.Error)}
    assert classes == {fsp.Error, *fsp.errors.BY_KIND.values()}


def test_the_engine_and_python_agree_on_the_kinds():
    import pathlib

    source = (pathlib.Path(__file__).parents[2] / "src" / "error.rs").read_text()
    kinds = set(re.findall(r'=> "([a-z_]+)",', source))
    assert kinds == set(fsp.errors.BY_KIND)
