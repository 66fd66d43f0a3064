"""framespool.compat: decord's and torchcodec's names.

Results of the real libraries are recorded (``compat_golden.json``, by ``record_compat.py``), and the same expressions
are evaluated with ours. If the two libraries are installed (benches/peers/setup.sh), frames are compared as well
(see ``compat_compare.py``).
"""

from __future__ import annotations

import copy
import importlib.util
import io
import json
import pickle
import threading
from pathlib import Path

import framespool as fsp
import numpy as np
import pytest
import record_compat
from framespool.compat import decord
from framespool.compat._readahead import ReadaheadReader

GOLDEN = json.loads(record_compat.GOLDEN.read_text())
VFR = "derived/vfr_60_15_30_640x360.mp4"
OPEN_GOP = "derived/h264_cut_open_gop_720p.mp4"

#: Steps of READER_WALK at which decord returns a wrong frame, and the correct one: after seek(4) it
#: is 60 frames off, and [-1] is frame 77 of 88.
DECORD_WRONG = {3: 0, 4: 5, 5: 6, 18: 87}


def installed(*names: str) -> bool:
    return all(importlib.util.find_spec(name) is not None for name in names)


def torch_or_skip():
    return pytest.importorskip("torch", exc_type=ImportError)


def array(frame) -> np.ndarray:
    return np.from_dlpack(frame)


@pytest.fixture(scope="module")
def answers(videos):
    return record_compat.ask_reader(decord, videos)


def test_reader_properties_match_decord(answers):
    for name, theirs in GOLDEN["decord"]["videos"].items():
        ours = answers["videos"][name]
        assert (ours["frames"], ours["shape"], ours["keys"]) == (theirs["frames"], theirs["shape"], theirs["keys"])
        assert ours["fps"] == pytest.approx(theirs["fps"], rel=1e-9)
        # A frame's end is the next one's beginning here; there it is an average frame later, in whole milliseconds.
        assert np.abs(np.array(ours["times"]) - theirs["times"]).max() < 0.0012, name


def test_frames_equal_decord_for_any_call_order(answers):
    walk = [DECORD_WRONG.get(place, frame) for place, frame in enumerate(GOLDEN["decord"]["walk"])]
    assert answers["walk"] == walk


@pytest.mark.parametrize("ask", record_compat.READER_OUTCOMES)
def test_a_call_to_the_reader_comes_out_as_decords(answers, ask):
    assert answers["outcomes"][ask] == GOLDEN["decord"]["outcomes"][ask]


def test_unshuffled_loader_matches_decord(answers):
    assert answers["loaders"] == GOLDEN["decord"]["loaders"]


@pytest.mark.parametrize("start", [0, 1, 7, 23, 24, 71])
def test_frames_in_order_are_those_at_random(videos, start):
    path = str(videos / "derived" / "base_640x360.mp4")
    video, reader = fsp.Video(path), decord.VideoReader(path)
    reader.seek_accurate(start)
    for place in range(start, len(video)):
        assert np.array_equal(reader.next().asnumpy(), array(video[place])), place
    with pytest.raises(StopIteration):
        reader.next()


def test_any_way_of_asking_gives_the_same_frames(videos):
    path = str(videos / VFR)
    video = fsp.Video(path)
    expected = [array(frame) for frame in video]
    reader = decord.VideoReader(path, num_threads=1)
    places = np.random.default_rng(1).integers(0, len(video), 30)
    # Runs of one to four frames: every path of the lookahead, left and entered again.
    for place in places:
        for step in range(int(place) % 4 + 1):
            frame = min(int(place) + step, len(video) - 1)
            assert np.array_equal(reader[frame].asnumpy(), expected[frame])
    assert np.array_equal(reader.get_batch(places).asnumpy(), np.stack([expected[place] for place in places]))
    assert np.array_equal(reader[-5:].asnumpy(), np.stack(expected[-5:]))


def test_frames_in_order_cost_one_pass(videos, monkeypatch):
    reader = decord.VideoReader(str(videos / "action" / "cars_768x432.mp4"), width=96, height=54)
    asked = []
    frames = ReadaheadReader.frames
    monkeypatch.setattr(
        ReadaheadReader, "frames", lambda self, indices: asked.append(len(indices)) or frames(self, indices)
    )
    for place in range(len(reader)):
        reader[place]
    # Frame 0 alone, then to the next key frame (60), then to the end (88).
    assert asked == [1, 59, 28]


def test_interrupted_pass_returns_no_wrong_frame(videos):
    video = fsp.Video(videos / VFR)
    ahead = ReadaheadReader(video, [])
    for index in range(3):
        ahead.one(index)

    class Interrupted:
        """Ctrl-C while it waits; it goes on afterwards, with the pending frame."""

        def __init__(self, running):
            self.running, self.calls = running, 0

        def __next__(self):
            self.calls += 1
            if self.calls == 1:
                raise KeyboardInterrupt
            return next(self.running)

    ahead._pass = Interrupted(ahead._pass)
    with pytest.raises(KeyboardInterrupt):
        ahead.one(3)
    for index in (4, 5, 3):
        assert ahead.one(index)[0].tobytes() == video[index].tobytes()


def test_only_the_damaged_frame_is_an_error(videos):
    path = str(videos / "corrupt" / "derived" / "zero_hole_h264.mp4")
    video, reader = fsp.Video(path), decord.VideoReader(path)
    damaged = 0
    for place in range(len(video)):
        try:
            expected = array(video[place])
        except fsp.DecodeError:
            damaged += 1
            with pytest.raises(decord.DECORDError):
                reader[place]
        else:
            assert np.array_equal(reader[place].asnumpy(), expected)
    assert 0 < damaged < len(video)


def test_a_reader_resizes_as_framespool_does(videos):
    path = str(videos / "derived" / "rotate_cw90_640x360.mp4")
    frames = decord.VideoReader(path, width=90, height=160).get_batch([3, 1]).asnumpy()
    expected = fsp.Video(path).frames([3, 1], transforms=[fsp.transforms.Resize((160, 90))]).data
    assert np.array_equal(frames, array(expected))


def test_frame_times_are_contiguous_at_variable_rate(videos):
    reader, video = decord.VideoReader(str(videos / VFR)), fsp.Video(videos / VFR)
    times = reader.get_frame_timestamp(range(len(reader)))
    assert times.dtype == np.float32 and times.shape == (170, 2)
    assert np.array_equal(times[1:, 0], times[:-1, 1])
    assert np.allclose(times[:, 0], np.array(video.pts_seconds) - video.info.begin_seconds)
    assert len(np.unique(np.diff(times[:, 0]).round(3))) > 2


def test_a_reader_opens_every_kind_of_source(videos):
    path = videos / "derived" / "base_640x360.mp4"
    data = path.read_bytes()
    expected = decord.VideoReader(str(path))[5].asnumpy()
    member = fsp.datasets.ArchiveMember(str(path), 0, len(data))
    for source in (path, data, bytearray(data), io.BytesIO(data), member):
        assert np.array_equal(decord.VideoReader(source)[5].asnumpy(), expected)
    with path.open("rb") as file:
        assert len(decord.VideoReader(file, ctx=decord.cpu(0), num_threads=2)) == 72


def test_arrays_leave_in_every_way(videos):
    frame = decord.VideoReader(str(videos / "derived" / "base_640x360.mp4"))[0]
    assert (frame.shape, frame.dtype, frame.ctx, len(frame)) == ((360, 640, 3), "uint8", decord.cpu(0), 360 * 640 * 3)
    copy = frame.asnumpy()
    copy[:] = 0
    assert frame.asnumpy().any() and np.array_equal(np.from_dlpack(frame), np.asarray(frame))
    assert "NDArray shape=(360, 640, 3), cpu(0)" in repr(frame)
    assert frame.same_as(frame) and not frame.copyto(decord.cpu()).same_as(frame)
    made = decord.nd.array([[1.0, 2.0]])
    assert (made.shape, made.dtype) == ((1, 2), "float64")
    assert frame.to_dlpack() is not None
    assert (decord.cpu() == decord.cpu(0), decord.gpu(1) == decord.gpu(0), str(decord.gpu(1))) == (
        True,
        False,
        "gpu(1)",
    )


def test_bridge_is_set_by_name_per_thread():
    for unknown in ("numpy", None, 3):
        with pytest.raises(AssertionError):
            decord.bridge.set_bridge(unknown)
    with pytest.raises(ImportError):
        decord.bridge.set_bridge("mxnet")
    decord.bridge.set_bridge("native")
    one = decord.nd.array([1])
    assert decord.bridge.bridge_out(one) is one and decord.bridge.bridge_in(one) is one
    decord.bridge.reset_bridge()


def test_the_torch_bridge_gives_tensors(videos):
    torch = torch_or_skip()
    path = str(videos / "derived" / "base_640x360.mp4")
    reader = decord.VideoReader(path)
    native = reader.get_batch([0, 7]).asnumpy()
    others = []
    with decord.bridge.use_torch():
        assert torch.equal(reader.get_batch([0, 7]), torch.from_numpy(native))
        assert torch.equal(reader[7], torch.from_numpy(native[1]))
        frames, indices = decord.VideoLoader([path], decord.cpu(0), (4, 48, 64, 3), 0, 0, 0).next()
        assert frames.shape == (4, 48, 64, 3) and indices.dtype == torch.int64
        thread = threading.Thread(target=lambda: others.append(type(reader[0])))
        thread.start()
        thread.join()
    assert others == [type(reader[0])] and not isinstance(reader[0], torch.Tensor)
    assert torch.equal(torch.from_dlpack(reader[7].to_dlpack()), decord.bridge.to_torch(reader[7]))
    assert decord.bridge.from_torch(torch.ones(2)).asnumpy().tolist() == [1, 1]


@pytest.mark.parametrize("shuffle", [1, 2])
def test_shuffled_order_is_equal_across_processes(short_clips, shuffle):
    uris = [path for path, _ in short_clips[:3]]

    def order(loader):
        return [tuple(map(tuple, indices.asnumpy()[[0, -1]].tolist())) for _, indices in loader]

    def loader(shuffle):
        return decord.VideoLoader(uris, decord.cpu(0), (16, 24, 32, 3), 0, 0, shuffle)

    plain, mixed = loader(0), loader(shuffle)
    every, first = order(plain), order(mixed)
    assert sorted(first) == every and first != every and len(mixed) == len(every)
    assert order(mixed) == []  # until it is reset, as in decord
    mixed.reset()
    second = order(mixed)
    assert sorted(second) == every and second != first
    assert order(loader(shuffle)) == first
    if shuffle == 1:
        for number in range(3):
            own = [batch for batch in first if batch[0][0] == number]
            assert own == sorted(own)


def test_a_loaders_frames_are_those_of_its_numbers(short_clips):
    uris = [path for path, _ in short_clips[:2]]
    for frames, indices in decord.VideoLoader(uris, [decord.cpu(0)], (20, 48, 64, 3), 1, 3, 2):
        numbers, places = indices.asnumpy().T
        assert len(set(numbers)) == 1
        video = fsp.Video(uris[numbers[0]])
        expected = video.frames(places, transforms=[fsp.transforms.Resize((48, 64))]).data
        assert np.array_equal(frames.asnumpy(), array(expected))


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


@pytest.mark.parametrize("ask", record_compat.DECODER_OUTCOMES)
def test_decoder_calls_match_torchcodec(decoder_answers, ask):
    assert decoder_answers["outcomes"][ask] == GOLDEN["torchcodec"]["outcomes"][ask]


#: Fields in which the metadata differs, with the reason: {video: {field: ours}}.
METADATA_DIFFERS: dict[str, dict[str, object]] = {}


@pytest.mark.parametrize("name", record_compat.METADATA_VIDEOS)
def test_metadata_is_torchcodecs(decoder_answers, name):
    ours, theirs = decoder_answers["metadata"][name], GOLDEN["torchcodec"]["metadata"][name]
    differs = METADATA_DIFFERS.get(name, {})
    assert list(ours) == list(theirs)
    assert {field: value for field, value in ours.items() if value != theirs[field]} == differs


def test_metadata_is_printed_as_torchcodecs(decoder_answers):
    assert decoder_answers["repr"] == GOLDEN["torchcodec"]["repr"]


@pytest.mark.parametrize(("ask", "words"), record_compat.WORDS)
def test_errors_say_the_words_that_torchcodecs_say(decoder_answers, ask, words):
    kind, has_them = GOLDEN["torchcodec"]["words"][ask]
    assert has_them or words == ""
    assert decoder_answers["words"][ask] == [kind, True]


@pytest.mark.parametrize(("ask", "words"), record_compat.TORCHVISION_WORDS)
def test_torchvision_options_torchcodec_refuses_raise(decoder_answers, ask, words):
    pytest.importorskip("torchvision")
    assert GOLDEN["torchcodec"]["torchvision"][ask] == ["ValueError", True]
    assert decoder_answers["torchvision"][ask] == ["ValueError", True]


def test_header_metadata_is_read_on_request(videos):
    torch_or_skip()
    from framespool.compat.torchcodec import decoders

    decoder = decoders.VideoDecoder(videos / VFR)
    facts = decoder.metadata
    assert facts.num_frames == 170 and facts.average_fps and "bit_rate" not in vars(facts)
    again = pickle.loads(pickle.dumps(copy.copy(facts)))
    assert facts.bit_rate > 0 and facts.pixel_format == "yuv420p" and "bit_rate" in vars(facts)
    assert again == facts == decoders.VideoDecoder(videos / VFR).metadata and repr(again) == repr(facts)
    facts.average_fps = None  # as code does that tests samplers
    assert facts != again
    with pytest.raises(AttributeError, match="no attribute 'bitrate'"):
        _ = facts.bitrate


def test_float_frames_equal_uint8_frames(videos):
    torch = torch_or_skip()
    from framespool.compat.torchcodec.decoders import VideoDecoder

    path = videos / "action" / "cars_768x432.mp4"
    data = VideoDecoder(path, output_dtype=torch.float32).get_frames_at([0, 40]).data
    assert torch.equal((data * 255).round().to(torch.uint8), VideoDecoder(path).get_frames_at([0, 40]).data)


def test_float_frames_of_deep_video_keep_its_depth(videos):
    torch = torch_or_skip()
    from framespool.compat.torchcodec.decoders import VideoDecoder

    path = videos / "codecs" / "hevc_main10.mkv"
    data = VideoDecoder(path, output_dtype=torch.float32)[0]
    coarse = (data * 255 - (data * 255).round()).abs()
    assert coarse.max() > 0.2, "values of 8 bits"
    eight = VideoDecoder(path)[0].to(torch.float32) / 255
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
    expected = fsp.Video(path).frames([0, 5], transforms=mean).data.torch()
    assert torch.equal(mixed.get_frames_at([0, 5]).data, expected.permute(0, 3, 1, 2))


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

    path = videos / record_compat.DECODER_VIDEO
    whole = VideoDecoder(path)
    rows = json.loads(record_compat.MAPPING)["frames"][3:12:2]
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
    video = fsp.Video(path)
    places = [len(video) - 1, 0, 61, 7, 7]
    times = [video.pts_seconds[place] for place in places]
    shifted = [time + 4e-5 for time in times]
    expected = video.frames(places).data.torch().permute(0, 3, 1, 2)
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


@pytest.mark.parametrize("mode", ["RGB", "gray", "RGB_ALPHA", "GRAY_ALPHA", "UNCHANGED"])
def test_an_image_has_the_channels_that_were_asked_for(media, mode):
    torch = torch_or_skip()
    from framespool.compat.torchcodec import decoders

    path = min((media / "images" / "classes").rglob("*.jpg"))
    rgb = fsp.decode_image(path, layout="CHW").torch()
    for source in (
        path,
        str(path),
        path.read_bytes(),
        torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8),
    ):
        image = decoders.decode_image(source, mode=mode)
        upper = mode.upper()
        assert image.shape == ({"GRAY": 1, "GRAY_ALPHA": 2, "RGB_ALPHA": 4}.get(upper, 3), *rgb.shape[1:])
        if upper in ("RGB", "RGB_ALPHA", "UNCHANGED"):
            assert torch.equal(image[:3], rgb)
        if upper.endswith("ALPHA"):
            assert (image[-1] == 255).all()
    wide = decoders.decode_jpeg([path], mode=decoders.ImageReadMode.RGB, output_dtype=torch.uint16)
    assert torch.equal(wide[0].int(), rgb.int() * 257)


def test_unsupported_images_are_rejected_by_name():
    torch_or_skip()
    from framespool.compat.torchcodec import decoders

    heads = {
        decoders.decode_gif: b"GIF89a",
        decoders.decode_webp: b"RIFF\0\0\0\0WEBP",
        decoders.decode_avif: b"\0\0\0\x1cftypavif",
        decoders.decode_heic: b"\0\0\0\x1cftypheic",
    }
    for decode, head in heads.items():
        name = decode.__name__.removeprefix("decode_").upper()
        for ask in (decode, decoders.decode_image):
            with pytest.raises(RuntimeError, match=f"does not decode {name}"):
                ask(head + bytes(80))
    for wrong, kind in ((b"abc", ValueError), (3, TypeError)):
        with pytest.raises(kind):
            decoders.decode_image(wrong)
    with pytest.raises(RuntimeError, match="not a PNG"):
        decoders.decode_png(b"\xff\xd8\xff" + bytes(80))
    with pytest.raises(ValueError, match="Invalid mode"):
        decoders.decode_jpeg(b"\xff\xd8\xff", mode="CMYK")
    with pytest.raises(ValueError, match="Invalid output_dtype"):
        decoders.decode_jpeg(b"\xff\xd8\xff", output_dtype="float32")


def test_backends_of_cuda_are_accepted_by_name():
    torch_or_skip()
    from framespool.compat.torchcodec.decoders import set_cuda_backend

    for name in ("nvdec", "FFmpeg", "beta"):
        with set_cuda_backend(name):
            pass
    with pytest.raises(ValueError, match="Invalid CUDA backend"), set_cuda_backend("bad"):
        pass


def test_the_bridge_to_torch_is_a_module_as_in_decord(videos):
    torch = torch_or_skip()
    from framespool.compat.decord.bridge import torchdl
    from framespool.compat.decord.bridge.torchdl import from_torch, to_torch

    frame = decord.VideoReader(str(videos / VFR))[3]
    assert torch.equal(to_torch(frame), torch.from_numpy(frame.asnumpy()))
    assert isinstance(from_torch(to_torch(frame)), decord.nd.NDArray)
    assert decord.bridge.to_torch is to_torch and hasattr(torchdl.try_import_torch(), "from_dlpack")
    for use in (decord.bridge.use_mxnet, decord.bridge.use_tensorflow, decord.bridge.use_tvm):
        with pytest.raises(ImportError, match="no bridge"), use():
            pass
    assert decord.bridge.bridge_out(frame) is frame


def test_ranges_of_seconds_hold_torchcodecs_frames(decoder_answers):
    assert decoder_answers["ranges"] == GOLDEN["torchcodec"]["ranges"]


@pytest.mark.parametrize("place", range(len(record_compat.SAMPLERS)))
def test_samplers_match_torchcodec_for_the_same_seed(decoder_answers, place):
    assert decoder_answers["samplers"][place] == GOLDEN["torchcodec"]["samplers"][place], record_compat.SAMPLERS[place]


def test_a_random_crop_is_where_torchcodec_puts_it(decoder_answers):
    assert decoder_answers["crop"] == GOLDEN["torchcodec"]["crop"]


def test_the_decoders_frames_and_times_are_framespools(videos):
    torch = torch_or_skip()
    from framespool.compat.torchcodec.decoders import VideoDecoder

    video = fsp.Video(videos / VFR)
    every = video.frames(range(len(video)))
    data = every.data.torch()
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
        except fsp.DecodeError:
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
        facts = getattr(compat_compare, f"{which}_pair")(str(videos / name))
    except RuntimeError as reason:
        # Its wheel brings no FFmpeg, and looks for one when the first video is opened.
        if "Could not load libtorchcodec" not in str(reason):
            raise
        pytest.skip("torchcodec finds no FFmpeg: see benches/peers/environment.py for LD_LIBRARY_PATH")
    assert facts["frames"][0] == facts["frames"][1] and facts["shape"][0] == facts["shape"][1]
    assert facts["misplaced"] == [] and facts["pts"] == [] and facts["seeks_ours"] == []
    assert facts["worst"] < compat_compare.SAME_PICTURE
