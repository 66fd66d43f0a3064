"""Open GOPs in files whose presentation times follow decode order, as after ``ffmpeg -r 25 -i x.hevc -c copy x.mp4``.

The frames of the original file, which has presentation times, are the reference.
"""

from __future__ import annotations

import subprocess

import framespool as fsp
import numpy as np
import pytest

ENCODERS = {
    "hevc": "libx265 -x265-params log-level=none:keyint=20:min-keyint=20:scenecut=0:open-gop=1:bframes=3:b-adapt=0",
    "h264": "libx264 -x264-params keyint=20:min-keyint=20:scenecut=0:open-gop=1:bframes=3:b-adapt=0",
    "mpeg2": "mpeg2video -g 12 -bf 2 -q:v 4",
}


@pytest.fixture(scope="module", params=ENCODERS)
def remuxed(request, encoder, tmp_path_factory):
    """A path whose presentation times are decoding times, and the frames that it must have."""
    folder = tmp_path_factory.mktemp("remuxed")
    original, path = str(folder / "original.mp4"), str(folder / "decode_order.mp4")
    source = "-f lavfi -i testsrc2=size=160x120:rate=25 -frames:v 60 -c:v"
    encode = [encoder, "-v", "error", *source.split(), *ENCODERS[request.param].split(), original]
    subprocess.run(encode, check=True)
    times = "setts=pts=N*512:dts=N*512:time_base=1/12800"
    subprocess.run([encoder, "-v", "error", "-i", original, "-c", "copy", "-bsf:v", times, path], check=True)
    video = fsp.Video(original, layout="THWC")
    return path, video.frames(range(len(video))).frames.numpy()


def test_each_frame_and_each_range_equals_sequential_decoding(remuxed):
    path, expected = remuxed
    video = fsp.Video(path, layout="THWC")
    assert len(video) == len(expected)
    for i, frame in enumerate(expected):
        assert np.array_equal(video.frames([i]).frames.numpy()[0], frame), i
    for start in range(0, len(video), 7):
        frames = video.frames(range(start, min(start + 11, len(video)))).frames.numpy()
        assert np.array_equal(frames, expected[start : start + 11]), start


@pytest.mark.parametrize("shuffle", [False, "full", "buffer", "grouped"])
@pytest.mark.parametrize("sequence_length", [1, 3])
def test_loader_delivers_every_clip_from_the_first_start(remuxed, shuffle, sequence_length):
    path, expected = remuxed
    rule = fsp.samplers.Windows(sequence_length=sequence_length, step=1)
    loader = fsp.ClipLoader([path], rule, batch_size=1, shuffle=shuffle, layout="NTHWC", on_error="skip", num_threads=2)
    clips = 0
    for batch in loader:
        clips += 1
        assert np.array_equal(batch.frames[0].numpy(), expected[batch.indices.numpy()[0]])
    assert clips == len(expected) - sequence_length + 1
    assert loader.stats()["decode_ranges_repeated"] == 0
