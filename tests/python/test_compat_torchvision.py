"""framespool.compat.torchvision: the video API that torchvision removed.

Frames and times are those of framespool.Video and, where it is installed, PyAV's, which torchvision used. Clips are
those of samplers.presets.torchvision(), which is compared with torchvision's clips elsewhere, and of the classes that
the installed torchvision still has.
"""

from __future__ import annotations

import io as io_module
import itertools
import pickle
import warnings
from fractions import Fraction

import framespool as fsp
import numpy as np
import pytest
from compat_helpers import VFR, array

torch = pytest.importorskip("torch", exc_type=ImportError)

from framespool.compat.torchvision import _open, io  # noqa: E402
from framespool.compat.torchvision.datasets import samplers, video_utils  # noqa: E402

BASE = "derived/base_640x360.mp4"
#: Constant and variable rates, times in milliseconds, a start above 0, edit lists, and frames without an order of their
#: own in the file.
TIMED = [
    BASE,
    VFR,
    "derived/start_33ms_640x480.mkv",
    "derived/negative_cts_640x360.mp4",
    "derived/timescale_90000_vfr_drop_640x360.mp4",
    "derived/ts_start_10h_640x360.ts",
    "derived/h264_open_gop_720p.mp4",
    "codecs/wmv2_640x360.wmv",
]
#: Files of which FFmpeg's average rate and that of the frames are the same.
RATED = [
    BASE,
    "action/cars_768x432.mp4",
    "action/words/again.mkv",
    "action/phone_176x144.mp4",
    "codecs/flv1_320x180.flv",
]


@pytest.fixture(autouse=True)
def audio_is_reported(monkeypatch):
    """One test is about the warning, which comes once per process."""
    monkeypatch.setattr(_open, "_warned_of_audio", True)


def ticks(video):
    num, den = video.info.time_base
    return [round(seconds * den / num) for seconds in video.pts_seconds]


def same(tensor, video, indices):
    """Whether (T, H, W, C) are these frames."""
    return np.array_equal(tensor.numpy(), array(video.frames(indices).frames))


@pytest.mark.parametrize("name", TIMED)
def test_timestamps_are_those_of_pyav(videos, name):
    av = pytest.importorskip("av")
    with av.open(str(videos / name)) as container:
        stream = container.streams.video[0]
        time_base = stream.time_base
        expected = sorted(frame.pts for frame in container.decode(stream))
    assert io.read_video_timestamps(str(videos / name))[0] == expected
    assert io.read_video_timestamps(str(videos / name), "sec")[0] == [tick * time_base for tick in expected]


@pytest.mark.parametrize("name", RATED)
def test_frame_rates_are_exactly_ffmpegs(videos, name):
    av = pytest.importorskip("av")
    with av.open(str(videos / name)) as container:
        expected = float(container.streams.video[0].average_rate)
    assert io.read_video_timestamps(str(videos / name))[1] == expected
    assert io.read_video(str(videos / name), 0, 0)[2] == {"video_fps": expected}


@pytest.mark.parametrize("name", [BASE, VFR])
def test_a_range_includes_both_ends(videos, name):
    path, video = str(videos / name), fsp.Video(videos / name, layout="THWC")
    times = ticks(video)
    frames, audio, _ = io.read_video(path, times[5], times[9])
    assert frames.dtype == torch.uint8 and same(frames, video, range(5, 10))
    assert audio.shape == (1, 0) and audio.dtype == torch.float32
    # A start between two frames selects the one on screen; an end between two, the one before it.
    assert same(io.read_video(path, times[5] + 1, times[9] - 1)[0], video, range(5, 9))
    assert same(io.read_video(path, times[-1] + 1)[0], video, [len(video) - 1])
    assert len(io.read_video(path)[0]) == len(video)


def test_seconds_are_rounded_to_include_the_range(videos):
    path, video = str(videos / BASE), fsp.Video(videos / BASE, layout="THWC")
    # 24 fps: frame 12 appears at 0.5 s, and 0.51 s is after it.
    assert same(io.read_video(path, 0.5, 1.0, "sec")[0], video, range(12, 25))
    assert same(io.read_video(path, 0.51, 0.99, "sec")[0], video, range(12, 24))
    assert same(io.read_video(path, Fraction(13, 24), Fraction(13, 24), "sec")[0], video, [13])
    channels_first = io.read_video(path, 0.5, 0.5, "sec", output_format="tchw")[0]
    assert channels_first.shape == (1, 3, 360, 640)
    assert torch.equal(channels_first.permute(0, 2, 3, 1), io.read_video(path, 0.5, 0.5, "sec")[0])


def test_a_range_before_the_first_frame_is_empty(videos):
    path = str(videos / "derived" / "ts_start_10h_640x360.ts")
    assert io.read_video(path, 0, 1)[0].shape == (0, 1, 1, 3)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"start_pts": 2, "end_pts": 1}, "end_pts should be larger than start_pts, got start_pts=2 and end_pts=1"),
        ({"output_format": "CTHW"}, "either 'THWC' or 'TCHW', got CTHW"),
        ({"pts_unit": "ms"}, "either 'pts' or 'sec', got 'ms'"),
    ],
)
def test_wrong_arguments_are_named(videos, keywords, message):
    with pytest.raises(ValueError, match=message):
        io.read_video(str(videos / BASE), **keywords)


def test_unreadable_files_are_errors_and_have_no_timestamps(bad_file, tmp_path):
    for path in (bad_file, str(tmp_path / "none.mp4")):
        with pytest.raises(RuntimeError, match=r"\.mp4"):
            io.read_video(path)
        with pytest.raises(RuntimeError, match=r"\.mp4"):
            io.VideoReader(path)
        with pytest.warns(RuntimeWarning, match=r"Failed to open container for .*\.mp4"):
            assert io.read_video_timestamps(path) == ([], None)


def test_audio_is_reported_once_and_empty(videos, monkeypatch):
    monkeypatch.setattr(_open, "_warned_of_audio", False)
    path = str(videos / "odd" / "shorter_audio.mp4")
    with pytest.warns(UserWarning, match="has audio, which framespool"):
        _, audio, info = io.read_video(path, 0, 0)
    assert audio.numel() == 0 and "audio_fps" not in info
    io.read_video(path, 0, 0)


@pytest.mark.parametrize("name", [BASE, VFR, "derived/start_33ms_640x480.mkv"])
def test_reader_iterates_over_every_frame(videos, name):
    video = fsp.Video(videos / name, layout="THWC")
    for place, frame in enumerate(io.VideoReader(str(videos / name))):
        assert frame["pts"] == video.pts_seconds[place]
        if place % 7 == 0:
            assert np.array_equal(frame["data"].numpy(), array(video[place]).transpose(2, 0, 1))
    assert place == len(video) - 1


@pytest.mark.parametrize("name", [BASE, VFR])
def test_seek_finds_the_first_frame_from_a_time_on(videos, name):
    video, reader = fsp.Video(videos / name, layout="THWC"), io.VideoReader(str(videos / name))
    times = video.pts_seconds
    for place in (40, 3, len(video) - 1, 0):
        frames = list(itertools.islice(reader.seek(times[place]), 3))
        expected = range(place, min(place + 3, len(video)))
        assert [frame["pts"] for frame in frames] == [times[index] for index in expected]
        assert same(torch.stack([frame["data"] for frame in frames]).permute(0, 2, 3, 1), video, expected)
    assert next(reader.seek((times[20] + times[21]) / 2))["pts"] == times[21]
    assert next(reader.seek(-1.0))["pts"] == times[0]
    assert list(reader.seek(video.info.end_seconds)) == []


def test_seek_to_keyframes(videos):
    video, reader = fsp.Video(videos / VFR, layout="THWC"), io.VideoReader(str(videos / VFR))
    first, second = video.info.keyframes[1:3]
    for place, keyframe in ((first, first), (second - 1, first), (second, second), (first - 1, 0)):
        frame = next(reader.seek(video.pts_seconds[place], keyframes_only=True))
        assert frame["pts"] == video.pts_seconds[keyframe]


def test_stored_frames_keep_only_their_own_memory(videos):
    reader = io.VideoReader(str(videos / BASE))
    frames = list(itertools.islice(reader.seek(0.5), 6))
    assert all(frame["data"].untyped_storage().nbytes() == 360 * 640 * 3 for frame in frames)


def test_streams_are_counted_among_video_streams(videos):
    path = str(videos / "derived" / "two_video_tracks.mp4")
    reader = io.VideoReader(path, "video:1")
    assert next(reader)["data"].shape == (3, 250, 334)
    assert reader.set_current_stream("video") and next(reader)["data"].shape == (3, 360, 640)
    assert not reader.set_current_stream("audio") and not reader.set_current_stream("video:2")
    assert next(reader)["pts"] == 1 / 24
    metadata = reader.get_metadata()
    assert metadata == {"video": {"fps": [24.0, 25.0], "duration": [3.0, 3.6]}}
    with pytest.raises(RuntimeError, match="no stream video:2; there are 2"):
        io.VideoReader(path, "video:2")
    with pytest.raises(RuntimeError, match="video streams only"):
        io.VideoReader(path, "audio")


def test_sources_of_a_reader(videos):
    path = videos / BASE
    content = path.read_bytes()
    expected = next(io.VideoReader(str(path)))["data"]
    tensor = torch.from_numpy(np.frombuffer(bytearray(content), np.uint8))
    for source in (path, content, tensor, io_module.BytesIO(content)):
        assert torch.equal(next(io.VideoReader(source, num_threads=2))["data"], expected)
    for source in ("", 5, tensor.float()):
        with pytest.raises(ValueError, match=r"src (cannot be empty|must be)"):
            io.VideoReader(source)


@pytest.fixture(scope="module")
def metadata(videos):
    return video_utils.VideoClips([str(videos / name) for name in RATED], num_workers=2).metadata


def clips_of(metadata, *arguments, **keywords):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "There aren't enough frames")
        return video_utils.VideoClips(metadata["video_paths"], *arguments, _precomputed_metadata=metadata, **keywords)


@pytest.mark.parametrize("frame_rate", [None, 7.5, 12, 12.5, 15, 24, 30, 60])
@pytest.mark.parametrize(("length", "step"), [(1, 1), (16, 5), (33, 16)])
def test_clips_are_those_of_the_preset(metadata, length, step, frame_rate):
    clips = clips_of(metadata, length, step, frame_rate)
    for number, path in enumerate(metadata["video_paths"]):
        video = fsp.Video(path, layout="THWC")
        preset = fsp.samplers.presets.torchvision(
            clip_length_in_frames=length, frames_between_clips=step, frame_rate=frame_rate
        )
        times = ticks(video)
        fps = metadata["video_fps"][number]
        expected = []
        for clip in range(len(clips.clips[number])):
            indices = preset.indices(len(video), fps=fps, clip=clip).indices
            expected.append([times[index] for index in indices])
        assert clips.clips[number].tolist() == expected
        assert len(clips.clips[number]) == len(clips.resampling_idxs[number])


def test_clips_and_samplers_equal_those_of_the_installed_torchvision(metadata):
    theirs = pytest.importorskip("torchvision.datasets.video_utils")
    their_samplers = pytest.importorskip("torchvision.datasets.samplers")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for length, step, rate in itertools.product((1, 8, 33), (1, 5), (None, 7, 12, 24, 50)):
            other = theirs.VideoClips(metadata["video_paths"], length, step, rate, _precomputed_metadata=metadata)
            ours = clips_of(metadata, length, step, rate)
            assert ours.cumulative_sizes == other.cumulative_sizes
            for left, right in zip(ours.clips, other.clips, strict=True):
                assert torch.equal(left, right)
            for left, right in zip(ours.resampling_idxs, other.resampling_idxs, strict=True):
                assert left == right if isinstance(left, list) else torch.equal(left, right)
            for count in (1, 3, 10):
                uniform = [
                    list(module.UniformClipSampler(clips, count))
                    for module, clips in ((samplers, ours), (their_samplers, other))
                ]
                assert uniform[0] == uniform[1]
                drawn = []
                for module, clips in ((samplers, ours), (their_samplers, other)):
                    with torch.random.fork_rng(devices=[]):
                        torch.manual_seed(3)
                        drawn.append([list(module.RandomClipSampler(clips, count)), torch.rand(1).item()])
                assert drawn[0] == drawn[1]


@pytest.mark.parametrize(("group_size", "shuffle"), [(1, False), (1, True), (2, False), (2, True)])
def test_distributed_sampler_equals_that_of_the_installed_torchvision(group_size, shuffle):
    theirs = pytest.importorskip("torchvision.datasets.samplers")
    for dataset in (range(14), torch.utils.data.SequentialSampler(range(100, 114))):
        for epoch, rank in itertools.product((0, 5), range(4)):
            ours, other = (
                module.DistributedSampler(dataset, 4, rank, shuffle=shuffle, group_size=group_size)
                for module in (samplers, theirs)
            )
            ours.set_epoch(epoch)
            other.set_epoch(epoch)
            assert list(ours) == list(other) and len(ours) == len(other)


@pytest.mark.parametrize("frame_rate", [None, 12, 10, 40])
def test_get_clip_decodes_the_frames_of_the_clip(metadata, frame_rate):
    clips = clips_of(metadata, 8, 20, frame_rate)
    for number in range(0, clips.num_clips(), 5):
        frames, audio, info, video_idx = clips.get_clip(number)
        assert clips.get_clip_location(number)[0] == video_idx
        video = fsp.Video(metadata["video_paths"][video_idx], layout="THWC")
        place = clips.get_clip_location(number)[1]
        times = ticks(video)
        assert same(frames, video, [times.index(tick) for tick in clips.clips[video_idx][place].tolist()])
        assert audio.shape == (1, 0)
        assert info == {"video_fps": frame_rate or metadata["video_fps"][video_idx]}
    channels_first = clips_of(metadata, 8, 20, frame_rate, output_format="TCHW").get_clip(number)[0]
    assert torch.equal(channels_first.permute(0, 2, 3, 1), frames)
    for wrong in (-1, clips.num_clips()):
        with pytest.raises(IndexError, match=f"Index {wrong} out of range"):
            clips.get_clip(wrong)


def test_clips_can_be_pickled_and_selected(metadata):
    clips = clips_of(metadata, 16, 8, 12)
    for copy in (pickle.loads(pickle.dumps(clips)), clips.subset(range(len(RATED)))):
        assert copy.cumulative_sizes == clips.cumulative_sizes
        assert all(map(torch.equal, copy.clips, clips.clips))
        assert all(map(torch.equal, copy.video_pts, clips.video_pts))
        assert copy.metadata["video_fps"] == clips.metadata["video_fps"]
    reversed_order = clips.subset([3, 0])
    assert torch.equal(reversed_order.clips[1], clips.clips[0]) and reversed_order.num_videos() == 2
    assert torch.equal(reversed_order.get_clip(0)[0], clips.get_clip(clips.cumulative_sizes[2])[0])
    reversed_order.compute_clips(4, 4)
    assert len(reversed_order) == sum(len(times) // 4 for times in reversed_order.video_pts)


def test_clips_are_loaded_by_workers(metadata):
    clips = clips_of(metadata, 4, 40)

    class Dataset(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return clips.get_clip(index)[0]

    loader = torch.utils.data.DataLoader(Dataset(), batch_size=1, num_workers=1, multiprocessing_context="fork")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python's, of fork with threads
        loaded = [batch[0] for batch in loader]
    assert all(torch.equal(frames, clips.get_clip(index)[0]) for index, frames in enumerate(loaded))


def test_unreadable_and_short_videos_have_no_clips(videos, bad_file):
    paths = [bad_file, str(videos / BASE)]
    with pytest.warns(RuntimeWarning, match="Failed to open"), pytest.warns(UserWarning, match="0 frames at 1 fps"):
        clips = video_utils.VideoClips(paths, 16, 16)
    assert clips.cumulative_sizes == [0, 4] and clips.video_fps == [None, 24.0]
    assert clips.get_clip(0)[3] == 1
    assert list(samplers.UniformClipSampler(clips, 2)) == [0, 3] and len(samplers.UniformClipSampler(clips, 2)) == 2
    assert sorted(samplers.RandomClipSampler(clips, 3)) != [] and len(samplers.RandomClipSampler(clips, 3)) == 3


def test_metadata_of_another_file_is_an_error(videos):
    metadata = {"video_paths": [str(videos / BASE)], "video_pts": [torch.arange(40) * 7], "video_fps": [24.0]}
    clips = clips_of(metadata, 4, 4)
    with pytest.raises(RuntimeError, match="no frame appears at 7 ticks"):
        clips.get_clip(0)


@pytest.mark.parametrize("name", ["_video_width", "_video_min_dimension", "_audio_samples"])
def test_unsupported_arguments_are_errors(name):
    with pytest.raises(ValueError, match=f"{name} != 0, got 64"):
        video_utils.VideoClips([], **{name: 64})


def test_samplers_need_clips():
    for sampler in (samplers.UniformClipSampler, samplers.RandomClipSampler):
        with pytest.raises(TypeError, match="instance of VideoClips"):
            sampler([1, 2], 3)
    with pytest.raises(AssertionError, match="dataset length: 5, group size: 2"):
        samplers.DistributedSampler(range(5), 2, 0, group_size=2)
    assert len(video_utils.VideoClips([])) == 0


def test_windows_with_dilation():
    values = torch.arange(10)
    assert video_utils.unfold(values, 3, 4, dilation=2).tolist() == [[0, 2, 4], [4, 6, 8]]
    assert video_utils.unfold(values, 6, 1, dilation=2).shape == (0, 6)
