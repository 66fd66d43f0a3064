"""Each demuxer and decoder of the FFmpeg build with its own file: frames and times match the ffmpeg program's.

A demuxer built without its parser still opens files, but splits frames at the wrong bytes.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import framespool as fsp
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from adversarial import bases, oracle  # noqa: E402

#: Each demuxer's files, and the container's name in ``Video.info``.
DEMUXERS = {
    "mov": ("mov", ["h264.mp4", "h264_fragments.mp4", "av1.mp4", "vp9_plain.mp4", "cinepak_plain.mov"]),
    "matroska": ("matroska", ["h264_plain.mkv", "vp8.webm", "av1_plain.mkv", "raw_plain.mkv", "theora_plain.mkv"]),
    "avi": ("avi", ["mpeg4_plain.avi", "vp8_plain.avi", "wmv2_plain.avi"]),
    "mpegts": ("mpegts", ["h264_plain.ts", "hevc_plain.ts", "mpeg1_plain.ts", "mpeg2_plain.ts", "mpeg4_plain.ts"]),
    "mpegps": ("mpeg", ["mpeg1.mpg", "mpeg2.mpg"]),
    "mpegvideo": ("mpegvideo", ["mpeg1_plain.m1v", "mpeg2_plain.m2v"]),
    "flv": ("flv", ["flv1.flv", "h264_plain.flv", "hevc_plain.flv", "av1_plain.flv", "vp9_plain.flv"]),
    "ogg": ("ogg", ["theora.ogv", "vp8_plain.ogv"]),
    "h264": ("h264", ["h264_plain.h264"]),
    "hevc": ("hevc", ["hevc_plain.h265"]),
    "ivf": ("ivf", ["vp8_plain.ivf", "vp9_plain.ivf", "av1_plain.ivf"]),
    "obu": ("obu", ["av1_plain.obu"]),
    "av1": ("av1", ["av1annexb.obu"]),
    "mjpeg": ("mjpeg", ["mjpeg_plain.mjpeg"]),
    "m4v": ("m4v", ["mpeg4_plain.m4v"]),
    "asf": ("asf", ["wmv1.wmv", "msmpeg4v3_plain.wmv"]),
    "gif": ("gif", ["gif.gif", "gifdelays.gif"]),
}
#: Each decoder's file, the codec's name in ``Video.info``, and the parser that FFmpeg has for the codec.
DECODERS = {
    "h264": ("h264.mp4", "h264", "h264"),
    "hevc": ("hevc.mp4", "hevc", "hevc"),
    "vp8": ("vp8.webm", "vp8", "vp8"),
    "vp9": ("vp9.webm", "vp9", "vp9"),
    "libdav1d": ("av1.mp4", "av1", "av1"),
    "mpeg4": ("mpeg4.mp4", "mpeg4", "mpeg4video"),
    "msmpeg4v2": ("msmpeg4v2.avi", "msmpeg4v2", None),
    "msmpeg4v3": ("msmpeg4v3.avi", "msmpeg4v3", None),
    "mpeg1video": ("mpeg1.mpg", "mpeg1video", "mpegvideo"),
    "mpeg2video": ("mpeg2.mpg", "mpeg2video", "mpegvideo"),
    "mjpeg": ("mjpeg.avi", "mjpeg", "mjpeg"),
    "png": ("png.mov", "png", "png"),
    "rawvideo": ("raw.avi", "rawvideo", None),
    "ffv1": ("ffv1inter.mkv", "ffv1", "ffv1"),
    "flv": ("flv1.flv", "flv1", None),
    "h263": ("h263.3gp", "h263", "h263"),
    "theora": ("theora.ogv", "theora", "vp3"),
    "wmv1": ("wmv1.wmv", "wmv1", None),
    "wmv2": ("wmv2.wmv", "wmv2", None),
    "prores": ("prores.mov", "prores", "prores"),
    "gif": ("gif.gif", "gif", "gif"),
    "cinepak": ("cinepak.avi", "cinepak", None),
}
#: Decoders without a file, with the parser and the reason.
UNTESTED = {
    "msmpeg4v1": (None, "no encoder exists; only the layout of headers differs from version 2"),
    "vc1": ("vc1", "the ffmpeg program has no encoder; tested where FRAMESPOOL_CORPUS is set"),
    "vvc": ("vvc", "the ffmpeg program has no encoder; tests/engine/vvc.rs has files"),
    "wmv3": (None, "the ffmpeg program has no encoder; the same decoder as vc1"),
}
#: Demuxers without a file here, with the reason.
UNTESTED_DEMUXERS = {"vvc": UNTESTED["vvc"][1]}
#: Bitstream filters that a demuxer or decoder of the build needs, and the component that uses them.
FILTERS = {
    "av1_frame_merge": "the obu and av1 demuxers",
    "vp9_superframe_split": "the vp9 decoder",
    "extract_extradata": "libavformat, for streams whose headers stand in packets",
}


@pytest.fixture(scope="module")
def built() -> dict[str, set[str]]:
    """The components that scripts/build_ffmpeg.sh enables, by kind."""
    kinds = ("DEMUXERS", "DECODERS", "PARSERS", "BSFS")
    command = f"source {ROOT / 'scripts' / 'build_ffmpeg.sh'}; printf '%s\\n' {' '.join(f'${kind}' for kind in kinds)}"
    said = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True).stdout.split()
    return {kind: set(line.split(",")) for kind, line in zip(kinds, said, strict=True)}


def test_demuxers_and_decoders_have_file_or_reason(built):
    assert set(DEMUXERS) | set(UNTESTED_DEMUXERS) == built["DEMUXERS"]
    assert set(DECODERS) | set(UNTESTED) == built["DECODERS"]
    assert not set(DECODERS) & set(UNTESTED)


def test_needed_parsers_and_filters_are_built(built):
    needed = {parser for _, _, parser in DECODERS.values()} | {parser for parser, _ in UNTESTED.values()}
    assert needed - {None} == built["PARSERS"]
    assert set(FILTERS) <= built["BSFS"]


FILES = sorted({name for _, names in DEMUXERS.values() for name in names} | {name for name, _, _ in DECODERS.values()})


@pytest.mark.parametrize("name", FILES)
def test_frames_and_times_match_the_ffmpeg_program(name):
    path = bases.folder() / name
    expected = oracle.decode(path)
    assert expected.decoder_error is None and expected.compared and expected.frames
    video = fsp.Video(path, index=False, layout="THWC")
    num, den = video.info.time_base
    times = [round(seconds * den / num) for seconds in video.pts_seconds]
    found = [oracle.digest(frame.numpy()) for frame in video]
    assert found == [answer for _, answer in expected.frames]
    (container,) = {base.container for base in bases.bases() if base.name == name}
    if container not in bases.TIMELESS:
        assert times == [pts for pts, _ in expected.frames]
    for demuxer, (said, names) in DEMUXERS.items():
        if name in names:
            assert video.info.container.split(",")[0] == said, demuxer
    for decoder, (file, codec, _) in DECODERS.items():
        if name == file:
            assert video.info.codec == codec, decoder


def test_pictures_are_skipped_where_parameter_sets_change(encoder, tmp_path):
    """Two H.264 streams with different sets of the same numbers, one after the other."""
    path = tmp_path / "both.h264"
    for refs in (1, 2):
        options = f"keyint=30:min-keyint=30:scenecut=0:bframes=3:b-adapt=0:b-pyramid=none:ref={refs}"
        source = "-f lavfi -i testsrc2=size=160x120:rate=25 -frames:v 60 -c:v libx264 -x264-params"
        part = tmp_path / f"{refs}.h264"
        subprocess.run([encoder, "-v", "error", *source.split(), options, str(part)], check=True)
        with path.open("ab") as whole:
            whole.write(part.read_bytes())
    video = fsp.Video(path, layout="THWC")
    expected = video.frames(range(120)).frames.numpy()
    clip_sampler = fsp.samplers.Windows(sequence_length=2, stride=8, step=16)
    loader = fsp.ClipLoader([str(path)], clip_sampler, batch_size=1, layout="NTHWC", num_threads=1)
    for batch in loader:
        assert np.array_equal(batch.frames[0].numpy(), expected[batch.indices.numpy()[0]])
    stats = loader.stats()
    # Of 92 packets in the decode ranges, those of the B pictures that no clip has.
    assert stats["packets_skipped"] >= 50 and stats["frames_decoded"] <= 42, stats
    assert stats["decode_ranges_repeated"] == 0
