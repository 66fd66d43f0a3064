"""framespool.compat.decord: decord's names.

Results of the real libraries are recorded (``compat_golden.json``, by ``record_compat.py``), and the same expressions
are evaluated with ours. If the two libraries are installed (benches/peers/setup.sh), frames are compared as well
(see ``compat_compare.py``).
"""

from __future__ import annotations

import io
import math
import threading
import types

import compat_cases
import framespool as fsp
import numpy as np
import pytest
import record_compat
from compat_helpers import DECORD_WRONG, DECORD_WRONG_AUDIO, GOLDEN, VFR, array, torch_or_skip
from framespool.compat import decord
from framespool.compat._readahead import ReadaheadReader
from framespool.video import AudioFile
from PIL import Image
from servers import FaultyServer


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


@pytest.mark.parametrize("ask", compat_cases.READER_OUTCOMES)
def test_a_call_to_the_reader_comes_out_as_decords(answers, ask):
    assert answers["outcomes"][ask] == GOLDEN["decord"]["outcomes"][ask]


def test_unshuffled_loader_matches_decord(answers):
    assert answers["loaders"] == GOLDEN["decord"]["loaders"]
    assert answers["loader_lengths"] == GOLDEN["decord"]["loader_lengths"]


@pytest.mark.parametrize("start", [0, 1, 7, 23, 24, 71])
def test_frames_in_order_are_those_at_random(videos, start):
    path = str(videos / "derived" / "base_640x360.mp4")
    video, reader = fsp.Video(path, layout="THWC"), decord.VideoReader(path)
    reader.seek_accurate(start)
    for place in range(start, len(video)):
        assert np.array_equal(reader.next().asnumpy(), array(video[place])), place
    with pytest.raises(StopIteration):
        reader.next()


def test_any_way_of_asking_gives_the_same_frames(videos):
    path = str(videos / VFR)
    video = fsp.Video(path, layout="THWC")
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
    video = fsp.Video(videos / VFR, layout="THWC")
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
    video, reader = fsp.Video(path, layout="THWC"), decord.VideoReader(path)
    damaged = 0
    for place in range(len(video)):
        try:
            expected = array(video[place])
        except fsp.errors.DecodeError:
            damaged += 1
            with pytest.raises(decord.DECORDError):
                reader[place]
        else:
            assert np.array_equal(reader[place].asnumpy(), expected)
    assert 0 < damaged < len(video)


def test_a_reader_resizes_as_framespool_does(videos):
    path = str(videos / "derived" / "rotate_cw90_640x360.mp4")
    frames = decord.VideoReader(path, width=90, height=160).get_batch([3, 1]).asnumpy()
    expected = fsp.Video(path, layout="THWC").frames([3, 1], transforms=[fsp.transforms.Resize((160, 90))]).frames
    assert np.array_equal(frames, array(expected))


def test_frame_times_are_contiguous_at_variable_rate(videos):
    reader, video = decord.VideoReader(str(videos / VFR)), fsp.Video(videos / VFR, layout="THWC")
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
    stream = types.SimpleNamespace(read=lambda: data)  # of a network, without seek()
    assert np.array_equal(decord.VideoReader(stream)[5].asnumpy(), expected)
    # decord reads a file object when it is opened.
    with path.open("rb") as file:
        reader = decord.VideoReader(file, ctx=decord.cpu(0), num_threads=2)
    assert len(reader) == 72 and np.array_equal(reader[5].asnumpy(), expected)
    with path.open("rb") as file:
        loader = decord.VideoLoader([file], [decord.cpu(0)], (2, 360, 640, 3), 4, 0, 0)
    assert np.array_equal(loader.next()[0].asnumpy()[1], expected)
    with pytest.raises(decord.DECORDError, match="opened for bytes"):
        decord.VideoReader(io.StringIO(str(path)))


@pytest.mark.parametrize("name", ["webp", "png"])
def test_animations_are_refused_instead_of_their_first_frame(tmp_path, name):
    path = tmp_path / f"a.{name}"
    first, second = (Image.new("RGB", (32, 16), color) for color in ("red", "blue"))
    first.save(path, save_all=True, append_images=[second], duration=100)
    data = path.read_bytes()
    with FaultyServer(data).running() as server:
        for source, remedy in (
            (path, "convert it to MP4"),
            (data, "convert it to MP4"),
            (io.BytesIO(data), "convert it to MP4"),
            (server.url(f"a.{name}"), "download it"),
        ):
            with pytest.raises(RuntimeError, match=f"framespool reads the first frame only of an animated.*{remedy}"):
                decord.VideoReader(source)
    first.save(path)
    assert len(decord.VideoReader(path)) == 1


def test_another_thread_does_not_change_which_frame_is_returned(videos):
    class Interrupted(decord.VideoReader):
        """When frame 3 is requested, another thread requests frame 9."""

        @property
        def _next(self):
            return self._place

        @_next.setter
        def _next(self, place):
            self._place = 9 if place == 3 else place

    path = str(videos / "derived" / "base_640x360.mp4")
    assert np.array_equal(Interrupted(path)[3].asnumpy(), decord.VideoReader(path)[3].asnumpy())


def test_a_reader_decodes_the_stream_that_was_asked_for(videos):
    path = str(videos / "derived" / "two_video_tracks.mp4")
    for stream in (0, 1):
        frames = fsp.Video(path, stream=stream, layout="THWC").frames([0, 5]).frames
        assert np.array_equal(decord.VideoReader(path, stream=stream).get_batch([0, 5]).asnumpy(), array(frames))
    best = fsp.Video(path).info.stream
    assert decord.VideoReader(path)[0].shape == decord.VideoReader(path, stream=best)[0].shape
    assert decord.VideoReader(path, stream=1)[0].shape != decord.VideoReader(path, stream=0)[0].shape
    batch, _ = decord.VideoLoader([path], decord.cpu(0), (2, 24, 32, 3), 0, 0, 0, stream=1).next()
    assert np.array_equal(batch.asnumpy(), decord.VideoReader(path, width=32, height=24, stream=1)[:2].asnumpy())
    with pytest.raises(RuntimeError, match="give the index of a video stream"):
        decord.VideoReader(path, stream=7)
    with pytest.raises(decord.DECORDError, match="stream must be at least 0"):
        decord.VideoReader(path, stream=-1)


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


@pytest.fixture(scope="module")
def audio_answers(videos):
    return record_compat.ask_audio_reader(decord, videos)


@pytest.mark.parametrize("ask", compat_cases.AUDIO_READER_OUTCOMES)
def test_calls_of_audio_match_decord(audio_answers, ask):
    assert audio_answers[ask] == DECORD_WRONG_AUDIO.get(ask, GOLDEN["decord"]["audio"][ask])


def test_only_requested_samples_are_decoded(videos, monkeypatch):
    reader = decord.AudioReader(str(videos / compat_cases.AUDIO_VIDEO), sample_rate=10_000)
    complete = reader[:].asnumpy()
    reader = decord.AudioReader(str(videos / compat_cases.AUDIO_VIDEO), sample_rate=10_000)
    spans, samples = [], AudioFile.samples

    def record(self, start, seconds, **format):
        spans.append((start, seconds))
        return samples(self, start, seconds, **format)

    monkeypatch.setattr(AudioFile, "samples", record)
    found = [reader[place].asnumpy() for place in range(4_000, 16_000, 10)]
    assert np.array_equal(np.stack(found, axis=1), complete[:, 4_000:16_000:10])
    assert spans == [(0.4, 1.0), (1.4, 1.0)]
    spans.clear()
    assert np.array_equal(reader[12_000:28_000].asnumpy(), complete[:, 12_000:28_000])
    assert spans == [(1.2, 1.6)]


def test_the_length_is_that_of_the_resampled_audio():
    data = compat_cases.wav_file()[:-12]  # 7997 samples
    reader, samples = decord.AudioReader(data, sample_rate=3000), AudioFile(data).samples(sample_rate=3000, channels=1)
    assert reader.shape == samples.shape == (1, 2999)
    assert reader[-1].asnumpy()[0] == pytest.approx(array(samples)[0, -1] * math.sqrt(2))


def test_changing_samples_does_not_change_later_ones(videos):
    reader = decord.AudioReader(str(videos / compat_cases.AUDIO_VIDEO))
    first = np.from_dlpack(reader[2_000:50_000])
    expected = first.copy()
    first[:] = 7
    assert np.array_equal(reader[2_000:50_000].asnumpy(), expected)


def test_frames_have_the_audio_of_their_time(videos):
    path = str(videos / compat_cases.AUDIO_VIDEO)
    video, reader = fsp.Video(path), decord.AVReader(path, sample_rate=10_000)
    audio, frames = reader[:]
    assert frames.shape[0] == len(audio) == len(video)
    joined = np.concatenate([samples.asnumpy() for samples in audio], axis=1)
    edges = [math.ceil(seconds * 10_000) for seconds in [*video.pts_seconds, video.info.end_seconds]]
    length = decord.AudioReader(path, sample_rate=10_000).shape[1]
    assert [samples.shape[1] for samples in audio] == np.diff(np.minimum(edges, length)).tolist()
    expected = array(video.audio(edges[0] / 10_000, joined.shape[1] / 10_000, sample_rate=10_000, channels=1))
    assert np.allclose(joined, expected, atol=1e-6)
    one, frame = reader[-7]
    assert np.array_equal(one.asnumpy(), audio[-7].asnumpy()) and frame.shape == frames.shape[1:]


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
        video = fsp.Video(uris[numbers[0]], layout="THWC")
        expected = video.frames(places, transforms=[fsp.transforms.Resize((48, 64))]).frames
        assert np.array_equal(frames.asnumpy(), array(expected))


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
