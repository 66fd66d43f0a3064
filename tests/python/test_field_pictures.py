"""Video with a field in each packet: a frame is two fields, and one without the other is an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import framespool as fsp
import imageio_ffmpeg
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from adversarial import mp4, packets  # noqa: E402

FRAMES = 20
MISSING = "a part of its picture is missing"


@pytest.fixture(scope="module")
def intact(videos) -> bytes:
    return (videos / "odd" / "mpeg2_fields.avi").read_bytes()


@pytest.fixture(scope="module")
def expected(intact) -> np.ndarray:
    return fsp.Video(intact).frames(range(FRAMES)).frames.numpy()


def check(path: Path, data: bytes, wrong: set[int], expected: np.ndarray, message: str = MISSING) -> None:
    """Frame n of the file is that of the intact one, or an error, in any order of requests."""
    path.write_bytes(data)
    video = fsp.Video(path, index=False)
    assert len(video) == FRAMES
    for n in [*np.random.default_rng(0).permutation(FRAMES).tolist(), *range(FRAMES)]:
        if n in wrong:
            with pytest.raises(fsp.errors.DecodeError, match=message):
                video[n]
        else:
            assert np.array_equal(video[n].numpy(), expected[n]), n
    windows = fsp.samplers.Windows(sequence_length=1)
    options = {"batch_size": 1, "shuffle": "full", "on_error": "skip", "index": False}
    loader = fsp.ClipLoader([str(path)], windows, **options)
    delivered = {batch.indices.tolist()[0][0]: np.asarray(batch.frames[0])[0] for batch in loader}
    assert delivered.keys() == {*range(FRAMES)} - wrong
    for n, frame in delivered.items():
        assert np.array_equal(frame, expected[n]), n


def test_two_fields_are_a_frame(intact, expected, tmp_path):
    assert len(packets.avi_chunks(intact)) == 2 * FRAMES
    check(tmp_path / "fields.avi", intact, set(), expected)


@pytest.mark.parametrize("lost", [0, 1, 14, 15, 38, 39])
def test_a_field_without_the_other_one_is_an_error(lost, intact, expected, tmp_path):
    data = bytearray(intact)
    at, _ = packets.avi_chunks(data)[lost]
    data[at : at + 4] = b"JUNK"
    index = data.rindex(b"idx1")
    data[index : index + 4] = b"JUNK"
    check(tmp_path / "fields.avi", bytes(data), {lost // 2}, expected)


@pytest.mark.parametrize("overwritten", [[0], [1], [14], [15], [14, 15], [15, 16], [39]])
def test_an_overwritten_field_moves_no_other_frame(overwritten, intact, expected, tmp_path):
    data = bytearray(intact)
    for number in overwritten:
        at, size = packets.avi_chunks(data)[number]
        data[at + 8 : at + 8 + size] = bytes(size)
    check(tmp_path / "fields.avi", bytes(data), {number // 2 for number in overwritten}, expected)


@pytest.mark.parametrize("lost", range(5, 60, 6))
def test_a_lost_transport_packet_is_an_error(lost, intact, expected, tmp_path):
    source, target = tmp_path / "fields.m2v", tmp_path / "fields.ts"
    source.write_bytes(b"".join(intact[at + 8 : at + 8 + size] for at, size in packets.avi_chunks(intact)))
    program = imageio_ffmpeg.get_ffmpeg_exe()
    subprocess.run([program, "-v", "error", "-fflags", "+genpts", "-i", source, "-c", "copy", target], check=True)
    data = target.read_bytes()
    of_video = [at for at in range(0, len(data), 188) if data[at + 1] & 0x1F == 1 and data[at + 2] == 0]
    at = of_video[lost]
    target.write_bytes(data[:at] + data[at + 188 :])
    video = fsp.Video(target, index=False)
    is_whole = len(video) == FRAMES  # otherwise the packet was the first one of a picture
    errors = 0
    for n in range(len(video)):
        try:
            frame = video[n].numpy()
        except fsp.errors.DecodeError:
            errors += 1
        else:
            assert any(np.array_equal(frame, one) for one in (expected[n : n + 1] if is_whole else expected)), n
    assert 1 <= errors <= 3


@pytest.mark.parametrize("packet", [14, 15])
def test_a_slice_that_is_missing_from_a_field_is_an_error(packet, intact, expected, tmp_path):
    data = bytearray(intact)
    at, size = packets.avi_chunks(data)[packet]
    slice_at = data.index(b"\0\0\1\2", at, at + size)  # the second row of macroblocks
    after = data.index(b"\0\0\1", slice_at + 4, at + size)
    data[slice_at:after] = bytes(after - slice_at)
    check(tmp_path / "fields.avi", bytes(data), {packet // 2}, expected, "row 1 of macroblocks of a field has no slice")


def test_threads_find_the_same_damage_in_fields_of_h264(videos, tmp_path):
    """libavcodec's threads do not: with one thread, it reports what a repeated field does to reference pictures."""
    data = (videos / "odd" / "h264_paff.mp4").read_bytes()
    placed = mp4.samples(data)
    placed[4] = placed[3]
    path = tmp_path / "repeated.mp4"
    path.write_bytes(mp4.with_samples(data, placed))
    found = []
    for threads in (1, 2, 4):
        video = fsp.Video(path, index=False, num_threads=threads)
        frames = []
        for n in range(len(video)):
            try:
                frames.append(video[n].numpy().tobytes())
            except fsp.errors.DecodeError:
                frames.append(None)
        found.append(frames)
    assert found[0] == found[1] == found[2] and None in found[0]
