"""framespool.compat.torchcodec: torchcodec's names.

Results of the real libraries are recorded (``compat_golden.json``, by ``record_compat.py``), and the same expressions
are evaluated with ours. If the two libraries are installed (benches/peers/setup.sh), frames are compared as well
(see ``compat_compare.py``).
"""

from __future__ import annotations

import copy
import itertools
import json
import pickle
import sys
import types
from pathlib import Path

import compat_cases
import framespool as fsp
import numpy as np
import pytest
import record_compat
import test_fork
from compat_helpers import GOLDEN, VFR, installed, skip_if_ffmpeg_links_dangle, torch_or_skip
from framespool.compat import decord
from framespool.compat._readahead import ReadaheadReader


@pytest.mark.skipif(installed("torch"), reason="PyTorch is installed")
def test_without_torch_the_decoder_says_what_it_needs(videos):
    from framespool.compat.torchcodec.decoders import VideoDecoder

    with pytest.raises(ImportError, match="needs PyTorch"):
        VideoDecoder(videos / VFR)
    with pytest.raises(ImportError):
        decord.bridge.set_bridge("torch")


@pytest.fixture(scope="module")
def decoder_answers(videos):
    torch_or_skip()
    from framespool.compat import torchcodec

    return record_compat.ask_decoder(torchcodec, videos)


def test_decoder_metadata_matches_torchcodec(decoder_answers):
    assert decoder_answers["videos"] == GOLDEN["torchcodec"]["videos"]


@pytest.mark.parametrize("ask", compat_cases.DECODER_OUTCOMES)
def test_decoder_calls_match_torchcodec(decoder_answers, ask):
    assert decoder_answers["outcomes"][ask] == GOLDEN["torchcodec"]["outcomes"][ask]


#: Fields in which the metadata differs, with the reason: {video: {field: ours}}.
METADATA_DIFFERS: dict[str, dict[str, object]] = {}


@pytest.mark.parametrize("name", compat_cases.METADATA_VIDEOS)
def test_metadata_is_torchcodecs(decoder_answers, name):
    ours, theirs = decoder_answers["metadata"][name], GOLDEN["torchcodec"]["metadata"][name]
    differs = METADATA_DIFFERS.get(name, {})
    assert list(ours) == list(theirs)
    # x264 makes files of slightly different sizes on CPUs with other instructions.
    if ours["bit_rate"] == pytest.approx(theirs["bit_rate"], rel=1e-3):
        theirs = {**theirs, "bit_rate": ours["bit_rate"]}
    assert {field: value for field, value in ours.items() if value != theirs[field]} == differs


def test_metadata_is_printed_as_torchcodecs(decoder_answers):
    assert decoder_answers["repr"] == GOLDEN["torchcodec"]["repr"]


@pytest.mark.parametrize(("ask", "words"), compat_cases.WORDS)
def test_errors_say_the_words_that_torchcodecs_say(decoder_answers, ask, words):
    kind, has_them = GOLDEN["torchcodec"]["words"][ask]
    assert has_them or words == ""
    assert decoder_answers["words"][ask] == [kind, True]


@pytest.mark.parametrize(("ask", "words"), compat_cases.TORCHVISION_WORDS)
def test_torchvision_options_torchcodec_refuses_raise(decoder_answers, ask, words):
    pytest.importorskip("torchvision")
    assert GOLDEN["torchcodec"]["torchvision"][ask] == ["ValueError", True]
    assert decoder_answers["torchvision"][ask] == ["ValueError", True]


def test_header_metadata_is_read_on_request(videos):
    torch_or_skip()
    from framespool.compat.torchcodec import decoders

    decoder = decoders.VideoDecoder(videos / VFR)
    metadata = decoder.metadata
    assert metadata.num_frames == 170 and metadata.average_fps and "bit_rate" not in vars(metadata)
    again = pickle.loads(pickle.dumps(copy.copy(metadata)))
    assert metadata.bit_rate > 0 and metadata.pixel_format == "yuv420p" and "bit_rate" in vars(metadata)
    assert again == metadata == decoders.VideoDecoder(videos / VFR).metadata and repr(again) == repr(metadata)
    metadata.average_fps = None  # as code does that tests samplers
    assert metadata != again
    with pytest.raises(AttributeError, match="no attribute 'bitrate'"):
        _ = metadata.bitrate


def test_float_frames_equal_uint8_frames(videos):
    torch = torch_or_skip()
    from framespool.compat.torchcodec.decoders import VideoDecoder

    path = videos / "action" / "cars_768x432.mp4"
    data = VideoDecoder(path, output_dtype=torch.float32).get_frames_at([0, 40]).data
    assert torch.equal((data * 255).round().to(torch.uint8), VideoDecoder(path).get_frames_at([0, 40]).data)


@pytest.mark.parametrize(("name", "bits"), [("codecs/hevc_main10.mkv", 10), ("derived/hevc_main12_320x180.mp4", 12)])
def test_float_frames_of_deep_video_keep_its_depth(videos, name, bits):
    torch = torch_or_skip()
    from framespool.compat.torchcodec.decoders import VideoDecoder

    data = VideoDecoder(videos / name, output_dtype=torch.float32)[0]
    # The luma of the pixels that are not clamped (ITU-R 601, limited range) has the file's code values again.
    red, green, blue = data.double()[:, ((data > 0) & (data < 1)).all(dim=0)]
    codes = (16 + 219 * (0.299 * red + 0.587 * green + 0.114 * blue)) * 2 ** (bits - 8)
    assert (codes - codes.round()).abs().max() < 0.25
    assert (codes.round() % 2 == 1).double().mean() > 0.4, "codes without the lowest bit"
    assert torch.equal(VideoDecoder(videos / name, output_dtype="auto")[0], data)
    eight = VideoDecoder(videos / name)[0].to(torch.float32) / 255
    assert (data - eight).abs().max() <= 1 / 255


def test_resized_frames_match_torch_resize(videos):
    torch = torch_or_skip()
    from framespool.compat.torchcodec import decoders, transforms

    path = videos / "action" / "cars_768x432.mp4"
    whole = decoders.VideoDecoder(path).get_frames_at([0, 44, 87]).data
    for height, width in ((216, 545), (302, 1006), (648, 1006), (648, 545), (432, 768), (864, 1536)):
        part = decoders.VideoDecoder(path, transforms=[transforms.Resize((height, width))])
        made = part.get_frames_at([0, 44, 87]).data
        asked = torch.nn.functional.interpolate(whole, (height, width), mode="bilinear", antialias=True)
        assert made.shape == (3, 3, height, width) and torch.equal(made, asked)
        assert torch.equal(torch.stack([part[0], part[44], part[87]]), asked)
    floats = decoders.VideoDecoder(path, transforms=[transforms.Resize((99, 101))], output_dtype=torch.float32)[3]
    whole = decoders.VideoDecoder(path, output_dtype=torch.float32)[3]
    asked = torch.nn.functional.interpolate(whole[None], (99, 101), mode="bilinear", antialias=True)[0]
    assert torch.equal(floats, asked)


def test_framespool_transforms_run_in_the_engine(videos):
    torch = torch_or_skip()
    from framespool.compat.torchcodec import decoders, transforms

    path = videos / "action" / "cars_768x432.mp4"
    mean = [fsp.transforms.Resize((216, 384)), fsp.transforms.CenterCrop((200, 300))]
    mixed = decoders.VideoDecoder(path, transforms=[mean[0], transforms.CenterCrop((200, 300))])
    expected = fsp.Video(path, layout="THWC").frames([0, 5], transforms=mean).frames.torch()
    assert torch.equal(mixed.get_frames_at([0, 5]).data, expected.permute(0, 3, 1, 2))


def test_crops_know_the_size_after_transforms_of_framespool(videos):
    """A resize of the shorter side, and padding, change the size in ways that their arguments do not show."""
    torch = torch_or_skip()
    from framespool.compat.torchcodec import decoders, transforms

    path, t = videos / "action" / "cars_768x432.mp4", fsp.transforms
    own = [t.Resize(216), t.Pad((0, 10, 0, 0))]  # 226x384
    frames = fsp.Video(path, layout="THWC").frames([5], transforms=own).frames.torch().permute(0, 3, 1, 2)
    for seed in range(4):
        torch.manual_seed(seed)
        cropped = decoders.VideoDecoder(path, transforms=[*own, transforms.RandomCrop((200, 300))])
        torch.manual_seed(seed)
        top, left = (int(torch.randint(0, spare + 1, ())) for spare in (26, 84))
        right = frames[:, :, top : top + 200, left : left + 300]
        assert torch.equal(cropped.get_frames_at([5]).data, right)
    centered = decoders.VideoDecoder(path, transforms=[*own, transforms.CenterCrop((200, 300))])
    assert torch.equal(centered.get_frames_at([5]).data, frames[:, :, 13:213, 42:342])
    assert decoders.VideoDecoder(path, transforms=own).get_frames_at([]).data.shape == (0, 3, 226, 384)
    with pytest.raises(RuntimeError, match=r"\(226, 384\) are smaller"):
        decoders.VideoDecoder(path, transforms=[*own, transforms.CenterCrop((300, 300))])
    with pytest.raises(ValueError, match=r"a random size; give framespool.transforms.RandomCrop"):
        turned = t.RandomRotation(20, expand=True)
        decoders.VideoDecoder(path, transforms=[turned, transforms.RandomCrop((200, 300))])


def test_many_resized_frames_are_made_a_few_at_a_time(videos, monkeypatch):
    torch = torch_or_skip()
    from framespool.compat import _readahead
    from framespool.compat.torchcodec import decoders, transforms

    path = videos / "action" / "cars_768x432.mp4"
    steps = [transforms.CenterCrop((400, 400)), transforms.Resize((50, 60)), transforms.CenterCrop((50, 40))]
    expected = decoders.VideoDecoder(path, transforms=steps)[:20]
    asked, frames = [], ReadaheadReader.frames
    monkeypatch.setattr(_readahead, "MAX_READAHEAD_BYTES", 400 * 400 * 3 * 8)
    monkeypatch.setattr(
        ReadaheadReader, "frames", lambda self, indices: asked.append(len(indices)) or frames(self, indices)
    )
    assert torch.equal(decoders.VideoDecoder(path, transforms=steps)[:20], expected)
    assert asked == [8, 8, 4] and expected.shape == (20, 3, 50, 40)


def test_mapping_selects_frames_and_durations(videos):
    torch = torch_or_skip()
    from framespool.compat.torchcodec.decoders import VideoDecoder

    path = videos / compat_cases.DECODER_VIDEO
    whole = VideoDecoder(path)
    rows = json.loads(compat_cases.MAPPING)["frames"][3:12:2]
    rows[-1]["duration"] = 50
    other = [{"pkt_pts": str(row["pts"]), "pkt_duration": row["duration"], "key_frame": 0} for row in reversed(rows)]
    for given in (rows, other):
        decoder = VideoDecoder(path, custom_frame_mappings=json.dumps({"frames": given}))
        batch = decoder.get_all_frames()
        assert torch.equal(batch.data, whole.get_frames_at([3, 5, 7, 9, 11]).data)
        assert batch.pts_seconds.tolist() == [row["pts"] / 1000 for row in rows]
        assert batch.duration_seconds.tolist() == [row["duration"] / 1000 for row in rows]
        assert decoder.metadata.end_stream_seconds == (rows[-1]["pts"] + 50) / 1000
        assert torch.equal(decoder[-1], whole[11])
        with pytest.raises(IndexError):
            decoder[5]
    with pytest.raises(ValueError, match="no frame at 34 ticks of 1/1000"):
        VideoDecoder(path, custom_frame_mappings='{"frames": [{"pts": 34, "duration": 1, "key_frame": 1}]}')


@pytest.mark.parametrize("name", [VFR, "derived/vfr_jitter_640x360.mkv", "derived/base_640x360.mp4"])
def test_lerobot_function_finds_frames_by_time(videos, name):
    torch = torch_or_skip()
    from framespool.compat.lerobot import FrameTimestampError, decode_video_frames_torchcodec

    path = videos / name
    video = fsp.Video(path, layout="THWC")
    places = [len(video) - 1, 0, 61, 7, 7]
    times = [video.pts_seconds[place] for place in places]
    shifted = [time + 4e-5 for time in times]
    expected = video.frames(places).frames.torch().permute(0, 3, 1, 2)
    assert torch.equal(decode_video_frames_torchcodec(path, shifted, 1e-4, return_uint8=True), expected)
    floats = decode_video_frames_torchcodec(str(path), times, tolerance_s=1e-4)
    assert floats.dtype == torch.float32 and torch.equal(floats, expected / 255)
    with pytest.raises(FrameTimestampError, match="no frame within"):
        decode_video_frames_torchcodec(path, [times[2] + 2e-3], 1e-3)


def test_lerobots_cache_keeps_the_decoders_used_last(videos):
    torch_or_skip()
    from framespool.compat.lerobot import VideoDecoderCache, decode_video_frames_torchcodec

    cache, paths = VideoDecoderCache(2), [videos / name for name in LIVE[:3]]
    first = cache.get_decoder(paths[0])
    cache.get_decoder(paths[1])
    assert cache.get_decoder(str(paths[0])) is first
    decode_video_frames_torchcodec(paths[2], [0.1], 0.2, decoder_cache=cache)
    assert cache.size() == 2 and cache.get_decoder(paths[0]) is first


def test_lerobots_own_cache_and_error_can_stay_in_the_code(videos, monkeypatch):
    """StreamingLeRobotDataset passes LeRobot's cache, whose decoders are torchcodec's; code catches LeRobot's error."""
    torch = torch_or_skip()
    from framespool.compat.lerobot import FrameTimestampError, decode_video_frames_torchcodec

    try:
        from lerobot.datasets import video_utils
    except ImportError:
        error, cache = type("FrameTimestampError", (ValueError,), {}), type("VideoDecoderCache", (), {})
        video_utils = types.SimpleNamespace(FrameTimestampError=error, VideoDecoderCache=cache)
        monkeypatch.setitem(sys.modules, "lerobot.datasets.video_utils", video_utils)
    path, cache = str(videos / VFR), video_utils.VideoDecoderCache()
    right = decode_video_frames_torchcodec(path, [0.5], 0.2)
    assert torch.equal(decode_video_frames_torchcodec(path, [0.5], 0.2, decoder_cache=cache), right)
    for error in (FrameTimestampError, video_utils.FrameTimestampError):
        with pytest.raises(error, match="no frame within") as raised:
            decode_video_frames_torchcodec(path, [1e3], 0.2)
        # A worker of a DataLoader sends it to the training process, which may have imported no LeRobot.
        sent = pickle.dumps(raised.value)
        assert isinstance(pickle.loads(sent), error) and str(pickle.loads(sent)) == str(raised.value)
        with monkeypatch.context() as patch:
            patch.delitem(sys.modules, "lerobot.datasets.video_utils")
            assert type(pickle.loads(sent)) is FrameTimestampError


@pytest.mark.parametrize("is_theirs", [False, True], ids=["without LeRobot", "theirs is ours"])
def test_the_error_without_lerobots_own_can_be_sent(videos, monkeypatch, is_theirs):
    torch_or_skip()
    from framespool.compat.lerobot import FrameTimestampError, decode_video_frames_torchcodec

    video_utils = types.SimpleNamespace(FrameTimestampError=FrameTimestampError) if is_theirs else None
    monkeypatch.setitem(sys.modules, "lerobot.datasets.video_utils", video_utils)
    with pytest.raises(FrameTimestampError) as raised:
        decode_video_frames_torchcodec(str(videos / VFR), [1e3], 0.2)
    assert type(pickle.loads(pickle.dumps(raised.value))) is FrameTimestampError


def test_lerobots_tolerance_is_that_of_float32(videos, monkeypatch):
    """LeRobot stores and compares times as float32, whose rounding exceeds 1e-4 s after half an hour of video."""
    torch = torch_or_skip()
    from framespool.compat import lerobot

    decoder = lerobot.VideoDecoder(str(videos / VFR))
    monkeypatch.setattr(decoder, "_pts", [time + 5000 for time in decoder._pts])
    monkeypatch.setattr(lerobot._cache, "get_decoder", lambda path: decoder)
    rounded = torch.tensor(decoder._pts, dtype=torch.float32).tolist()
    place = max(range(len(rounded)), key=lambda place: abs(rounded[place] - decoder._pts[place]))
    stored = rounded[place]
    assert abs(stored - decoder._pts[place]) > 2e-4
    found = lerobot.decode_video_frames_torchcodec("long.mp4", [stored], 1e-4, return_uint8=True)
    assert torch.equal(found, decoder.get_frames_at([place]).data)
    with pytest.raises(lerobot.FrameTimestampError):
        lerobot.decode_video_frames_torchcodec("long.mp4", [stored + 2e-3], 1e-4)


@pytest.mark.parametrize("what", test_fork.MADE_WITH_TORCH)
def test_a_forked_child_drops_ends_and_reopens(short_clips, tmp_path, what):
    torch_or_skip()
    test_fork.check_child(test_fork.MADE_WITH_TORCH[what], [short_clips[0][0], "", "", str(tmp_path)])


def test_a_fallback_to_the_cpu_is_reported_when_it_happens_later(videos, monkeypatch):
    torch_or_skip()
    from framespool.compat.torchcodec import decoders

    decoder, reasons = decoders.VideoDecoder(str(videos / VFR)), [None, "film grain"]
    native = types.SimpleNamespace(cpu_fallback=lambda: reasons.pop(0))
    on_gpu = types.SimpleNamespace(frames=lambda places: None, _video=native)
    monkeypatch.setattr(decoder._frames, "video", on_gpu)
    decoder._cpu_fallback = decoders.CpuFallbackStatus()
    decoder._cpu_fallback._backend = "CUDA"
    assert str(decoder.cpu_fallback) == "[CUDA] Fallback status: No fallback required"
    assert decoder.cpu_fallback and not reasons
    assert "film grain" in str(decoder._cpu_fallback)


def test_the_capacity_of_the_nvdec_cache_is_stored():
    torch_or_skip()
    from framespool.compat.torchcodec import decoders

    before = decoders.get_nvdec_cache_capacity()
    try:
        for capacity in (0, 7):
            decoders.set_nvdec_cache_capacity(capacity)
            assert decoders.get_nvdec_cache_capacity() == capacity
        for wrong in (-1, 1.5):
            with pytest.raises(RuntimeError, match="NVDEC cache capacity must be"):
                decoders.set_nvdec_cache_capacity(wrong)
        assert decoders.get_nvdec_cache_capacity() == 7
    finally:
        decoders.set_nvdec_cache_capacity(before)
    assert before == 20


def test_backends_of_cuda_are_accepted_by_name():
    torch_or_skip()
    from framespool.compat.torchcodec.decoders import set_cuda_backend

    for name in ("nvdec", "FFmpeg", "beta"):
        with set_cuda_backend(name):
            pass
    with pytest.raises(ValueError, match="Invalid CUDA backend"), set_cuda_backend("bad"):
        pass


def test_ranges_of_seconds_hold_torchcodecs_frames(decoder_answers):
    assert decoder_answers["ranges"] == GOLDEN["torchcodec"]["ranges"]


@pytest.mark.parametrize("place", range(len(compat_cases.SAMPLERS)))
def test_samplers_match_torchcodec_for_the_same_seed(decoder_answers, place):
    assert decoder_answers["samplers"][place] == GOLDEN["torchcodec"]["samplers"][place], compat_cases.SAMPLERS[place]


def test_a_random_crop_is_where_torchcodec_puts_it(decoder_answers):
    assert decoder_answers["crop"] == GOLDEN["torchcodec"]["crop"]


def test_the_decoders_frames_and_times_are_framespools(videos):
    torch = torch_or_skip()
    from framespool.compat.torchcodec.decoders import VideoDecoder

    video = fsp.Video(videos / VFR, layout="THWC")
    every = video.frames(range(len(video)))
    data = every.frames.torch()
    decoder = VideoDecoder(videos / VFR, dimension_order="NHWC")
    assert torch.equal(torch.stack(list(decoder)), data)
    assert torch.equal(decoder[3:160:40], data[3:160:40]) and torch.equal(decoder[-1], data[-1])
    batch = decoder.get_all_frames()
    assert batch.pts_seconds.tolist() == every.pts_seconds
    assert np.allclose(batch.duration_seconds, every.duration_seconds, atol=1e-9)
    assert torch.equal(VideoDecoder(videos / VFR)[7], data[7].permute(2, 0, 1))
    for place in (0, 100, 169):
        begin, stay = every.pts_seconds[place], every.duration_seconds[place]
        for moment in (begin, begin + stay / 2, np.nextafter(begin + stay, 0) - 1e-9):
            assert decoder.get_frame_played_at(moment).pts_seconds == begin
    assert torch.equal(decoder.get_frames_played_at([0.0, 3.3]).data[0], data[0])


def test_iteration_is_one_pass_despite_random_access(videos, monkeypatch):
    torch = torch_or_skip()
    from framespool.compat.torchcodec.decoders import VideoDecoder

    decoder = VideoDecoder(videos / VFR)
    expected = decoder.get_all_frames().data
    asked, frames = [], ReadaheadReader.frames
    monkeypatch.setattr(ReadaheadReader, "frames", lambda self, indices: asked.append(indices) or frames(self, indices))
    for place, frame in enumerate(decoder):
        assert torch.equal(frame, expected[place])
        if place % 20 == 0:
            assert torch.equal(decoder[-1], expected[-1])
    assert asked == [[len(decoder) - 1]] * 9


def test_decoder_crops_equal_cropped_frames(videos):
    torch = torch_or_skip()
    from framespool.compat.torchcodec import decoders, transforms

    path = videos / "derived" / "base_640x360.mp4"
    whole = decoders.VideoDecoder(path)[4]
    part = decoders.VideoDecoder(path, transforms=[transforms.CenterCrop((99, 121))])[4]
    assert torch.equal(part, whole[:, 130:229, 260:381])
    for seed in range(8):
        torch.manual_seed(seed)
        decoder = decoders.VideoDecoder(path, transforms=[transforms.RandomCrop((200, 333))])
        torch.manual_seed(seed)
        top, left = int(torch.randint(0, 161, (1,))), int(torch.randint(0, 308, (1,)))
        assert torch.equal(decoder[4], whole[:, top : top + 200, left : left + 333])


def test_a_damaged_frame_is_a_runtime_error(videos):
    torch_or_skip()
    from framespool.compat.torchcodec.decoders import VideoDecoder

    path = videos / "corrupt" / "derived" / "zero_hole_h264.mp4"
    decoder, video, damaged = VideoDecoder(path), fsp.Video(path), 0
    for place in range(len(video)):
        try:
            video[place]
        except fsp.errors.DecodeError:
            damaged += 1
            with pytest.raises(RuntimeError):
                decoder[place]
        else:
            assert decoder[place].shape[0] == 3
    assert damaged


#: Compared with the real libraries, frame by frame: codecs, containers, frame rates, edit lists, rotation, ranges.
LIVE = [
    "action/words/again.mkv",
    "action/street_ucf_320x240.avi",
    "action/street_340x256.mp4",
    "action/street_426x240.mp4",
    "action/bikes_640x272.mp4",
    "action/cars_768x432.mp4",
    "action/street_426x240.mkv",
    "action/vp8_426x240.webm",
    "action/vp9_512x288.webm",
    "codecs/h264_b_pyramid.mp4",
    "codecs/h264_480x360.flv",
    "codecs/hevc_main10.mkv",
    "derived/base_640x360.mp4",
    "derived/delayed_start_640x360.mp4",
    "derived/h264_full_range_640x360.mp4",
    "derived/h264_gop12_360p_kinetics_like.mp4",
    "derived/hevc_444_8bit_640x360.mp4",
    "derived/negative_cts_640x360.mp4",
    "derived/odd_333x251_vp9.webm",
    "derived/rotate_180_640x360.mp4",
    "derived/rotate_cw90_640x360.mp4",
    "derived/timescale_90000_vfr_drop_640x360.mp4",
    "derived/vfr_60_15_30_640x360.mp4",
    "derived/vfr_jitter_640x360.mkv",
    "odd/first_pts_10s.mp4",
]
#: decord cannot count the frames of a video whose stream states no rate, and rejects it.
COUNTERPARTS = [("torchcodec", name) for name in LIVE]
COUNTERPARTS += [("decord", name) for name in LIVE if name != "derived/vfr_jitter_640x360.mkv"]


@pytest.mark.skipif(not installed("decord", "torch", "torchcodec"), reason="needs the real libraries")
@pytest.mark.parametrize(("which", "name"), COUNTERPARTS)
def test_frames_match_the_real_library(videos: Path, which, name):
    import compat_compare

    try:
        found = getattr(compat_compare, f"{which}_pair")(str(videos / name))
    except RuntimeError as reason:
        # Its wheel brings no FFmpeg, and looks for one when the first video is opened.
        if "Could not load libtorchcodec" not in str(reason):
            raise
        pytest.skip("torchcodec finds no FFmpeg: see benches/harness/processes.py for LD_LIBRARY_PATH")
    assert found["frames"][0] == found["frames"][1] and found["shape"][0] == found["shape"][1]
    assert found["misplaced"] == [] and found["pts"] == [] and found["seeks_ours"] == []
    assert found["worst"] < compat_compare.SAME_PICTURE


@pytest.fixture(scope="module")
def audio_answers(videos):
    torch_or_skip()
    from framespool.compat import torchcodec

    return record_compat.ask_audio_decoder(torchcodec, videos)


@pytest.mark.parametrize("ask", compat_cases.AUDIO_OUTCOMES)
def test_audio_decoder_calls_match_torchcodec(audio_answers, ask):
    assert audio_answers[ask] == GOLDEN["torchcodec"]["audio"][ask]


@pytest.mark.parametrize(("rate", "channels"), [(None, None), (16_000, None), (7_919, 2)])
def test_consecutive_ranges_are_the_complete_audio(videos, rate, channels):
    torch = torch_or_skip()
    from framespool.compat.torchcodec.decoders import AudioDecoder

    path = videos / compat_cases.AUDIO_VIDEO
    decoder = AudioDecoder(path, sample_rate=rate, num_channels=channels)
    complete = decoder.get_all_samples()
    edges = [complete.pts_seconds + 0.37 * n for n in range(9)]
    assert edges[-1] < complete.pts_seconds + complete.duration_seconds
    parts = [decoder.get_samples_played_in_range(*span) for span in itertools.pairwise(edges)]
    parts.append(decoder.get_samples_played_in_range(edges[-1]))
    assert torch.equal(torch.cat([part.data for part in parts], dim=1), complete.data)
    assert [part.pts_seconds for part in parts] == edges


def test_an_audio_decoder_states_what_the_library_says(videos):
    torch_or_skip()
    from framespool.compat.torchcodec.decoders import AudioDecoder

    path = videos / compat_cases.AUDIO_VIDEO
    for ask, error, words in [
        (lambda: AudioDecoder(123), TypeError, "Unknown source type"),
        (lambda: AudioDecoder(path, stream_index=40), ValueError, "40 is not a valid stream"),
        (lambda: AudioDecoder(path, stream_index=0), ValueError, "not an audio stream"),
        (lambda: AudioDecoder(path, num_channels=0), RuntimeError, "num_channels must be > 0"),
        (lambda: AudioDecoder(path).get_samples_played_in_range(3, 2), ValueError, "Invalid start seconds"),
        (lambda: AudioDecoder(path).get_samples_played_in_range(99), RuntimeError, "No audio frames were decoded"),
        (lambda: AudioDecoder(path, num_channels=9).get_all_samples(), RuntimeError, "channels"),
    ]:
        with pytest.raises(error, match=words):
            ask()


def test_only_dangling_links_excuse_a_missing_ffmpeg(tmp_path):
    missing = RuntimeError("Could not load libtorchcodec. Likely causes: ...")
    skip_if_ffmpeg_links_dangle(missing, tmp_path)
    (tmp_path / "library").touch()
    (tmp_path / "libavutil.so.60").symlink_to(tmp_path / "library")
    skip_if_ffmpeg_links_dangle(missing, tmp_path)
    (tmp_path / "libavcodec.so.62").symlink_to(tmp_path / "removed")
    skip_if_ffmpeg_links_dangle(RuntimeError("No audio frames were decoded"), tmp_path)
    with pytest.raises(pytest.skip.Exception, match=r"libavcodec\.so\.62 in .* are links to missing files"):
        skip_if_ffmpeg_links_dangle(missing, tmp_path)


@pytest.mark.skipif(not installed("torch", "torchcodec"), reason="needs torchcodec")
def test_samples_match_the_real_library(videos: Path):
    import torch
    from framespool.compat.torchcodec import decoders as ours
    from torchcodec import decoders

    try:
        decoders.AudioDecoder(videos / compat_cases.AUDIO_VIDEO)
    except RuntimeError as reason:  # torchcodec loads FFmpeg for its first decoder, not when it is imported
        skip_if_ffmpeg_links_dangle(reason)
        raise
    for name in (compat_cases.AUDIO_VIDEO, "odd/audio_only.mp4"):
        for options in ({}, {"num_channels": 2}, {"sample_rate": 16_000}):
            theirs, mine = (each.AudioDecoder(videos / name, **options) for each in (decoders, ours))
            for span in [(), (0.25, 0.75), (0.7,)]:
                one, other = (each.get_samples_played_in_range(*span) for each in (theirs, mine))
                assert (one.pts_seconds, one.sample_rate) == (other.pts_seconds, other.sample_rate)
                # framespool removes the padding of the last packet of 1024 samples.
                padding = one.data.shape[1] - other.data.shape[1]
                assert -1 <= padding <= (1024 if len(span) < 2 else 0)
                # Both ends are resampled differently.
                inner = slice(64, -64) if options.get("sample_rate") else slice(None)
                count = min(one.data.shape[1], other.data.shape[1])
                assert torch.allclose(one.data[:, :count][:, inner], other.data[:, :count][:, inner], atol=1e-3)
