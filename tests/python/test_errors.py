"""Every damaged file gives a typed error that names it, or frames; nothing hangs and nothing crashes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import framespool as fsp
import numpy as np
import pytest


def test_damaged_file_gives_named_error_or_frames(manifest):
    damaged = [metadata["file"] for metadata in manifest if metadata["path"].startswith("video/corrupt/")]
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
            assert not isinstance(error, fsp.errors.InternalError)
            errors[path] = type(error).__name__
    assert {"InvalidDataError", "DecodeError", "TruncatedError"} <= set(errors.values())


def test_a_cut_gif_image_is_an_error(encoder, tmp_path):
    """The decoder omits the rows that are missing, without a message."""
    path = tmp_path / "cut.gif"
    source = "testsrc2=size=96x64:rate=10,trim=end_frame=4"
    subprocess.run([encoder, "-v", "error", "-f", "lavfi", "-i", source, path], check=True)
    data = path.read_bytes()
    expected = fsp.Video(path).frames(range(4)).frames.numpy()
    assert data.endswith(b"\0;")
    last = data.rindex(b"\x21\xf9\x04")
    for kept in range(last + 30, len(data) - 2, 37):
        path.write_bytes(data[:kept])
        video = fsp.Video(path, index=False)
        assert np.array_equal(video.frames(range(3)).frames.numpy(), expected[:3])
        with pytest.raises(fsp.errors.DecodeError, match="the end of its image is missing"):
            video[3]
    for complete in (data[:-1], data[:-2], data[:-2] + b";"):  # without the last, empty block, which some programs omit
        path.write_bytes(complete)
        assert np.array_equal(fsp.Video(path, index=False).frames(range(4)).frames.numpy(), expected)


def test_the_cut_last_picture_of_a_raw_jpeg_stream_is_an_error(encoder, tmp_path):
    """If only the last bytes are missing, the decoder does not report it."""
    path = tmp_path / "cut.mjpeg"
    source = "testsrc2=size=96x64:rate=10,trim=end_frame=4"
    subprocess.run([encoder, "-v", "error", "-f", "lavfi", "-i", source, "-c:v", "mjpeg", path], check=True)
    data = path.read_bytes()
    expected = fsp.Video(path).frames(range(4)).frames.numpy()
    assert data.endswith(b"\xff\xd9")
    for missing in (2, 3, 5, 20):
        path.write_bytes(data[:-missing])
        video = fsp.Video(path, index=False)
        assert len(video) == 4 and np.array_equal(video.frames(range(3)).frames.numpy(), expected[:3])
        with pytest.raises(fsp.errors.DecodeError):
            video[3]


@pytest.mark.parametrize("container", ["ts", "m2ts"])
@pytest.mark.parametrize("codec", ["mpeg2video", "h264"])
def test_a_transport_packet_that_is_marked_as_damaged_is_an_error(videos, encoder, tmp_path, codec, container):
    """Decoders do not notice all damage within a picture, and libavformat's mark may be on an earlier picture."""
    path = tmp_path / "damaged.ts"
    if codec == "h264":
        made = ["-framerate", "25", "-i", videos / "odd" / "h264_paff.h264", "-c", "copy", "-fflags", "+genpts"]
    else:
        source = "testsrc2=size=96x64:rate=25,trim=end_frame=14"
        made = ["-f", "lavfi", "-i", source, "-c:v", codec, "-flags", "+ilme+ildct", "-g", "6", "-bf", "2"]
    subprocess.run([encoder, "-v", "error", *made, "-f", "mpegts", path], check=True)
    data = path.read_bytes()
    packets = [data[at : at + 188] for at in range(0, len(data), 188)]
    intact = fsp.Video(path, index=False)
    expected = {frame.numpy().tobytes() for frame in intact}
    before = bytes(4 if container == "m2ts" else 0)
    of_video = [n for n, packet in enumerate(packets) if packet[1] & 0x1F == 1 and packet[2] == 0]
    errors = 0
    for n in of_video[:: max(1, len(of_video) // 40)]:
        packet = bytearray(packets[n])
        packet[1] |= 0x80
        packet[100::9] = bytes(byte ^ 0xFF for byte in packet[100::9])
        path.write_bytes(b"".join(before + part for part in [*packets[:n], bytes(packet), *packets[n + 1 :]]))
        video = fsp.Video(path, index=False)
        errors_before = errors
        for frame in range(len(video)):
            try:
                assert video[frame].numpy().tobytes() in expected, (n, frame)
            except fsp.errors.DecodeError:
                errors += 1
        assert errors - errors_before <= 8, n  # those of a group of pictures
    assert errors >= 40


def test_an_overwritten_first_packet_of_a_gradual_refresh_moves_no_frame(encoder, tmp_path):
    path = tmp_path / "refresh.mkv"
    source = "-f lavfi -i testsrc2=size=96x64:rate=25 -frames:v 30 -c:v libx264 -bf 0"
    refresh = ["-x264-params", "intra-refresh=1:keyint=10"]
    subprocess.run([encoder, "-v", "error", *source.split(), *refresh, path], check=True)
    data = bytearray(path.read_bytes())
    assert len(fsp.Video(bytes(data))) == 30
    at = data.index(b"\x81\x00\x00\x80") + 4  # a simple block of track 1 at time 0, a keyframe
    data[at : at + 600] = bytes(600)
    video = fsp.Video(bytes(data))
    assert len(video) == 30
    for n in range(30):  # there is no other keyframe
        with pytest.raises(fsp.errors.DecodeError, match="packet 0 "):
            video[n]


def test_a_picture_that_the_decoder_does_not_output_stays_a_frame(videos):
    """A field that became a frame picture repeats a picture order count, and its other field is not output."""
    data = bytearray((videos / "odd" / "h264_paff.h264").read_bytes())
    video = fsp.Video(bytes(data))
    intact = [video[n].numpy() for n in range(len(video))]
    slices = [found.end() for found in re.finditer(rb"\x00\x00\x01[\x01\x61]", data)]
    assert data[slices[5] + 2] == 0x40
    data[slices[5] + 2] = 0  # field_pic_flag of the first field of frame 4
    video = fsp.Video(bytes(data))
    assert len(video) == len(intact) == 12
    for n in (0, 1, 2, 8, 9, 10, 11):  # before the damage, and from the next keyframe on
        assert np.array_equal(video[n].numpy(), intact[n]), n
    for n in (4, 5, 6, 7):
        with pytest.raises(fsp.errors.DecodeError):
            video[n]


def test_a_file_whose_edit_list_hides_everything_says_so(videos, encoder, tmp_path):
    source, path = videos / "action" / "bikes_640x272.mp4", tmp_path / "early.mp4"
    shifted = ["-c", "copy", "-an", "-output_ts_offset", "-100", path]
    subprocess.run([encoder, "-v", "error", "-i", source, *shifted], check=True)
    with pytest.raises(fsp.errors.InvalidDataError, match="its edit list hides all of its [0-9]+ packets"):
        fsp.Video(path)


def test_a_missing_file_is_also_a_file_not_found_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere.mp4") as caught:
        fsp.Video(tmp_path / "nowhere.mp4")
    assert isinstance(caught.value, fsp.errors.NotFoundError)
    with pytest.raises(OSError, match="directory"):
        fsp.Video(tmp_path)


def test_file_without_video_reports_its_streams(videos):
    with pytest.raises(fsp.errors.NoVideoError, match="aac"):
        fsp.Video(videos / "odd" / "audio_only.mp4")
    with pytest.raises(fsp.errors.NoVideoError, match="cover art"):
        fsp.Video(videos / "derived" / "cover_art_only.m4a")


def test_an_unknown_codec_is_named(videos):
    with pytest.raises(fsp.errors.UnsupportedError, match="evc"):
        fsp.Video(videos / "codecs" / "evc_sample.mp4")[0]


def test_missing_frame_error_has_index_and_count(videos):
    video = fsp.Video(videos / "derived" / "tiny_34x26_h264.mp4")
    for index in (60, -61, 10**12):
        with pytest.raises(IndexError, match=rf"{index}.*60 frames"):
            video[index]


def test_corrupt_packet_is_named_earlier_frames_decode(videos):
    video = fsp.Video(videos / "corrupt" / "derived" / "zero_hole_h264.mp4")
    video.frames(range(20))
    with pytest.raises(fsp.errors.DecodeError, match=r"packet \d+") as caught:
        video.frames(range(72))
    assert caught.value.packet >= 20


def test_every_kind_has_a_class_and_every_class_a_kind():
    classes = {c for c in vars(fsp.errors).values() if isinstance(c, type) and issubclass(c, fsp.Error)}
    assert classes == {fsp.Error, *fsp.errors.BY_KIND.values()}


def test_the_engine_and_python_agree_on_the_kinds():
    import pathlib

    source = (pathlib.Path(__file__).parents[2] / "src" / "error.rs").read_text()
    kinds = set(re.findall(r'=> "([a-z_]+)",', source))
    assert kinds == set(fsp.errors.BY_KIND)


def segments(line: str) -> Callable[[Path], object]:
    """Reads a list of one line whose times are beyond the frame numbers of any video."""

    def read(folder: Path) -> object:
        (folder / "list.txt").write_text(f"{line}\n")
        return fsp.datasets.dali_file_list(folder / "list.txt", rounding="all_up", fps=30)

    return read


def page_of_another_kind(folder: Path) -> object:
    """Reads a database whose root is an inner page instead of a leaf."""
    lmdb = pytest.importorskip("lmdb")
    path = folder / "kind.mdb"
    with lmdb.open(str(path), subdir=False) as database, database.begin(write=True) as transaction:
        transaction.put(b"a", b"0" * 9)
    data = bytearray(path.read_bytes())
    for page in range(2 * 4096, len(data), 4096):
        data[page + 10] = 1
    path.write_bytes(data)
    return fsp.datasets.lmdb(path)


@pytest.mark.parametrize(
    ("provoke", "said"),
    [
        (segments("v.mp4 0 1000000000"), "starts at frame 30000000000; correct the list"),
        (segments("v.mp4 0 1 1000000000"), "starts at frame 30 and ends before 30000000000; correct the list"),
        (page_of_another_kind, "is a branch page on level 1 of 1"),
        (lambda _: fsp.samplers.RandomClips(sequence_length=1).indices(5, draws=[99]), "number 1 is 99, "),
        (lambda _: fsp.samplers.RandomClips(sequence_length=1).indices(5, draws=[0.5]), "number 1 is 0.5, "),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_messages_have_values_as_users_write_them(tmp_path, provoke, said):
    with pytest.raises(fsp.Error) as caught:
        provoke(tmp_path)
    assert said in str(caught.value)


@pytest.mark.parametrize("on_error", ["skip", "replace", "raise"])
def test_failures_are_logged_once_per_file(short_clips, tmp_path, caplog, monkeypatch, on_error):
    from framespool._common import logs

    monkeypatch.setattr(logs, "_num_warnings", 0)
    monkeypatch.setattr(logs, "_interval_start", float("-inf"))
    monkeypatch.setattr(logs, "_INTERVAL_SECONDS", float("inf"))  # warnings of a slow test count together
    caplog.set_level("DEBUG", "framespool")
    for number in range(30):
        (tmp_path / f"bad{number}.mkv").write_bytes(b"no video" * 99)
    rule = fsp.samplers.RandomClips(sequence_length=2, clips_per_video=2)
    bad = [str(tmp_path / f"bad{number}.mkv") for number in range(3)]
    loader = fsp.ClipLoader([*short_clips[:3], *bad], rule, batch_size=2, on_error=on_error)
    taken = iter(loader)
    for _ in range(len(loader)):
        try:
            next(taken, None)
        except fsp.errors.InvalidDataError:
            assert on_error == "raise"

    def messages(level):
        return [r.getMessage() for r in caplog.records if (r.name, r.levelname) == ("framespool.loader", level)]

    if on_error == "raise":
        assert not caplog.records, "the errors were raised"
        return
    done = {"skip": "skipped", "replace": "replaced"}[on_error]
    assert sorted(text.partition("): ")[2].partition(":")[0] for text in messages("WARNING")) == sorted(bad)
    assert all(text.startswith(f"clips of a file are {done} (invalid_data): ") for text in messages("WARNING"))
    assert len(messages("DEBUG")) >= 3, "further clips of these files"
    before = len(caplog.records)
    list(fsp.ClipLoader(short_clips[:2], rule, batch_size=2, on_error=on_error))
    assert len(caplog.records) == before
    if on_error == "replace":
        return  # with so many bad files, replacements would fail too
    many = [str(tmp_path / f"bad{number}.mkv") for number in range(30)]
    list(fsp.ClipLoader([*short_clips[:3], *many], rule, batch_size=2, on_error=on_error))
    assert len(messages("WARNING")) == 21 and "further warnings are omitted" in messages("WARNING")[-1]


def test_an_exception_in_a_log_handler_loses_no_batch(short_clips, tmp_path, monkeypatch):
    import logging

    class Raising(logging.Filter):
        def filter(self, record):
            raise RuntimeError("a user's filter")

    (tmp_path / "bad.mkv").write_bytes(b"no video" * 99)
    rule = fsp.samplers.RandomClips(sequence_length=2)
    loader = fsp.ClipLoader([*short_clips[:3], tmp_path / "bad.mkv"], rule, batch_size=1, on_error="skip")
    logger, raising = logging.getLogger("framespool.loader"), Raising()
    reported = []
    monkeypatch.setattr("sys.unraisablehook", reported.append)
    monkeypatch.setattr("framespool._common.logs._num_warnings", 0)  # other tests may have reached the limit
    logger.addFilter(raising)
    try:
        assert {video for batch in loader for video in batch.video_ids.tolist()} == {0, 1, 2}
    finally:
        logger.removeFilter(raising)
    assert reported and str(reported[0].exc_value) == "a user's filter"
