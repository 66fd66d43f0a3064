"""Random access: exact frames, times, and output formats."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
import textwrap

import framespool as fsp
import numpy as np
import pytest


@pytest.fixture(scope="module")
def video(videos):
    return fsp.Video(videos / "derived" / "h264_bframes16_pyramid_strict_640x360.mp4")


@pytest.fixture(scope="module")
def everything(video):
    return video.frames(range(len(video))).frames.numpy()


def test_info_states_the_metadata_of_the_container(video):
    info = video.info
    assert (info.num_frames, info.width, info.height, info.codec) == (180, 640, 360, "h264")
    assert info.rotation == 0 and info.keyframes[0] == 0 and info.container == "mov,mp4"
    assert info.average_fps * info.duration_seconds == pytest.approx(180)
    assert len(video) == 180 and "180 frames" in repr(video)


def test_random_access_equals_sequential_decoding(video, everything):
    wanted = [3, 3, -1, 170, 0, 91, -180]
    frames = video.frames(wanted)
    assert frames.indices == [3, 3, 179, 170, 0, 91, 0]
    assert np.array_equal(frames.frames.numpy(), everything[wanted])
    assert len(frames) == 7


def test_indexing_and_slicing(video, everything):
    assert np.array_equal(video[7].numpy(), everything[7])
    assert np.array_equal(video[-2].numpy(), everything[-2])
    assert np.array_equal(video[10:100:5].numpy(), everything[10:100:5])
    assert np.array_equal(video[20:10:-3].numpy(), everything[20:10:-3])
    with pytest.raises(fsp.errors.ArgumentError, match="none of the 180"):
        video[5:5]


def test_clip_strides_and_must_exist(video, everything):
    clip = video.clip(start=30, sequence_length=16, stride=4)
    assert clip.frames.shape == (16, 3, 360, 640)
    assert np.array_equal(clip.frames.numpy(), everything[30:94:4])
    with pytest.raises(IndexError, match="180"):
        video.clip(start=170, sequence_length=16)
    with pytest.raises(ValueError, match="stride must be at least 1, got 0"):
        video.clip(start=0, sequence_length=2, stride=0)


def test_a_frame_plays_from_its_time_to_the_next_ones(videos):
    video = fsp.Video(videos / "derived" / "vfr_60_15_30_640x360.mp4")
    times = video.pts_seconds
    assert sorted(times) == times and len(times) == len(video) == 170
    frames = video.frames(range(len(video)), transforms=[fsp.transforms.Resize((8, 8))])
    ends = [p + d for p, d in zip(frames.pts_seconds, frames.duration_seconds, strict=True)]
    assert ends[:-1] == pytest.approx(times[1:])
    middles = [(a + b) / 2 for a, b in zip(times, ends, strict=True)]
    at = video.frames_at(middles, transforms=[fsp.transforms.Resize((8, 8))])
    assert at.indices == list(range(170))
    assert video.frames_at([times[5]], transforms=[fsp.transforms.Resize((8, 8))]).indices == [5]


def test_times_outside_the_video_report_its_bounds(video):
    for seconds in (-0.001, video.info.end_seconds, float("nan"), 1e9):
        with pytest.raises(fsp.errors.FrameTimeError, match="no frame is displayed"):
            video.frames_at([seconds])


def test_a_video_may_start_late(videos):
    video = fsp.Video(videos / "derived" / "ts_start_10h_640x360.ts")
    assert video.info.begin_seconds > 36000 - 10
    assert video.frames_at([video.info.begin_seconds]).indices == [0]
    assert video.info.duration_seconds == pytest.approx(72 / video.info.average_fps)


@pytest.mark.parametrize("name", ["rotate_cw90", "rotate_ccw90", "rotate_180"])
def test_rotation_is_applied(videos, name):
    upright = fsp.Video(videos / "derived" / "base_640x360.mp4", layout="THWC")[0].numpy()
    turned = fsp.Video(videos / "derived" / f"{name}_640x360.mp4", layout="THWC")
    quarters = {"rotate_cw90": -1, "rotate_ccw90": 1, "rotate_180": 2}[name]
    expected = np.rot90(upright, quarters)
    assert np.array_equal(turned[0].numpy(), expected)
    assert (turned.info.height, turned.info.width) == expected.shape[:2]


@pytest.mark.parametrize("container", ["mp4", "mkv"])
def test_display_matrix_between_right_angles_turns_nothing(videos, container):
    """As in other readers that turn by quarters only: 45 degrees are not 90."""
    upright = fsp.Video(videos / "derived" / "base_640x360.mp4")
    skewed = fsp.Video(videos / "odd" / f"rotate_45_640x360.{container}")
    data = (videos / "odd" / f"rotate_45_640x360.{container}").read_bytes()
    # The cosine of 45 degrees in 16.16 fixed point, and in Matroska ProjectionPoseRoll with a float.
    assert bytes.fromhex("0000b504ffff4afc" if container == "mp4" else "7675884046800000000000") in data
    assert (skewed.info.rotation, skewed.info.mirrored) == (0, False)
    assert np.array_equal(skewed.frames([0, 71]).frames.numpy(), upright.frames([0, 71]).frames.numpy())


def test_bytes_give_the_same_frames_as_the_file(videos):
    path = videos / "action" / "vp9_512x288.webm"
    from_file, from_bytes = fsp.Video(path), fsp.Video(path.read_bytes())
    wanted = [0, 99, 7]
    assert np.array_equal(from_file.frames(wanted).frames.numpy(), from_bytes.frames(wanted).frames.numpy())


def test_layouts_hold_the_same_pixels(videos):
    path = videos / "derived" / "h264_bframes16_pyramid_strict_640x360.mp4"
    opened = {layout: fsp.Video(path, layout=layout) for layout in ("THWC", "TCHW", "CTHW")}
    frames = {layout: video.frames([0, 50]).frames.numpy() for layout, video in opened.items()}
    for layout, video in opened.items():
        first = frames[layout][:, 0] if layout == "CTHW" else frames[layout][0]
        for alone in (video[0], next(iter(video)), pickle.loads(pickle.dumps(video))[0]):
            assert np.array_equal(alone.numpy(), first)
    assert np.array_equal(frames["THWC"].transpose(0, 3, 1, 2), frames["TCHW"])
    assert np.array_equal(frames["THWC"].transpose(3, 0, 1, 2), frames["CTHW"])
    assert np.array_equal(frames["TCHW"], fsp.Video(path).frames([0, 50]).frames.numpy())
    with pytest.raises(fsp.errors.ArgumentError, match="HWCT"):
        fsp.Video(path, layout="HWCT")


def test_float_values_are_normalized_bytes(video):
    bytes_ = video.frames([9]).frames.numpy().astype(np.float64)
    plain = video.frames([9], dtype="float32").frames.numpy()
    assert plain.dtype == np.float32
    assert np.allclose(plain, bytes_ / 255, atol=1e-6)
    mean, std = (np.array(values).reshape(3, 1, 1) for values in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    normalize = fsp.transforms.Normalize(mean.ravel().tolist(), std.ravel().tolist())
    normalized = video.frames([9], dtype="float32", transforms=[normalize])
    assert np.allclose(normalized.frames.numpy(), (bytes_ / 255 - mean) / std, atol=1e-5)


def test_resize_and_crop_shapes_and_content(video):
    t = fsp.transforms
    resized = video.frames([5], transforms=[t.Resize(256)]).frames.numpy()
    assert resized.shape == (1, 3, 256, 455)
    cropped = video.frames([5], transforms=[t.Resize(256), t.CenterCrop(224)]).frames.numpy()
    assert np.array_equal(cropped, resized[:, :, 16 : 16 + 224, 116 : 116 + 224])
    assert video.frames([5], transforms=[t.Resize((100, 50))]).frames.shape == (1, 3, 100, 50)
    full = video[5].numpy().astype(float).mean()
    assert abs(resized.astype(float).mean() - full) < 0.5


def test_iteration_yields_every_frame_once(videos):
    video = fsp.Video(videos / "derived" / "tiny_34x26_h264.mp4")
    frames = [frame.numpy() for frame in video]
    assert len(frames) == 60
    assert np.array_equal(np.stack(frames), video.frames(range(60)).frames.numpy())


def test_wrong_arguments_are_repeated_back(videos, video):
    with pytest.raises(fsp.errors.ArgumentError, match="RandomCrop.*500"):
        video.frames([0], transforms=[fsp.transforms.RandomCrop(500)])
    with pytest.raises(fsp.errors.ArgumentError, match="uint9"):
        video.frames([0], dtype="uint9")
    with pytest.raises(fsp.errors.ArgumentError, match="lambda"):
        video.frames([0], transforms=[lambda x: x, fsp.transforms.Resize(8)])
    with pytest.raises(fsp.errors.ArgumentError, match="Resize.*-3"):
        fsp.transforms.Resize(-3)
    with pytest.raises(fsp.errors.ArgumentError, match="cuda:x"):
        fsp.Video(videos / "derived" / "base_640x360.mp4", device="cuda:x")
    with pytest.raises(fsp.errors.GpuError, match="cuda:9999|libcuda"):
        fsp.Video(videos / "derived" / "base_640x360.mp4", device="cuda:9999")
    with pytest.raises(fsp.errors.ArgumentError, match="at least one frame"):
        video.frames([])


def test_a_video_made_from_a_path_can_be_pickled(video):
    again = pickle.loads(pickle.dumps(video))
    assert again.info == video.info
    assert np.array_equal(again[3].numpy(), video[3].numpy())


def test_several_threads_may_share_a_video(video, everything):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        frames = list(pool.map(lambda i: video[i].numpy(), range(0, 180, 9)))
    assert np.array_equal(np.stack(frames), everything[::9])


def test_parameter_sets_that_change_inside_a_stream(videos):
    """Raw streams in sequence: the decoder's state of one must not leak into the other."""
    # CABAC with B pictures, fields in CAVLC, CABAC of another size: all their parameter sets have the same numbers.
    parts = ["derived/small_640x360.h264", "odd/h264_paff.h264", "codecs/h264_320x240.h264"]
    joined = b"".join((videos / part).read_bytes() for part in parts)
    small = {"transforms": [fsp.transforms.Resize((24, 32))]}
    in_order = fsp.Video(joined).frames(range(len(fsp.Video(joined))), **small).frames.numpy()
    lengths = [len(fsp.Video(videos / part)) for part in parts]
    assert len(in_order) == sum(lengths)
    video = fsp.Video(joined)
    for wanted in (-1, 0, lengths[0] + 5, 7, lengths[0] - 1, lengths[0], -lengths[2], 250):
        assert np.array_equal(video.frames([wanted], **small).frames.numpy()[0], in_order[wanted]), wanted


@pytest.mark.parametrize("container", ["avi", "mkv", "mov", "mjpeg"])
@pytest.mark.parametrize("damaged", [False, True])
def test_a_jpeg_picture_without_own_tables_uses_those_before_it(videos, encoder, tmp_path, container, damaged):
    """Its tables have another marker, or none, and the decoder finds the next one."""
    data = bytearray((videos / "codecs" / "mjpeg_320x240.avi").read_bytes())
    images = [at for at in range(len(data)) if data[at : at + 4] == b"\xff\xd8\xff\xe0"]
    borrowing = (5, 6, 9)
    for n in borrowing:
        at = data.index(b"\xff\xdb", images[n], images[n + 1])  # the quantizer tables, equal in all pictures
        data[at : at + 2] = b"\0\0" if damaged else b"\xff\xe5"
    source, path = tmp_path / "source.avi", tmp_path / f"copy.{container}"
    source.write_bytes(data)
    subprocess.run([encoder, "-v", "error", "-i", source, "-c", "copy", path], check=True)
    video = fsp.Video(path, index=False)
    assert not {*borrowing} & {*video.info.keyframes} and {0, 4, 7, 8, 10} <= {*video.info.keyframes}
    expected = fsp.Video(videos / "codecs" / "mjpeg_320x240.avi").frames(range(12)).frames.numpy()
    assert np.array_equal(video.frames(range(12)).frames.numpy(), expected)
    for n in (9, 6, 5, 4, 10, 6):
        assert np.array_equal(video[n].numpy(), expected[n]), n


def test_iteration_stops_at_damage_and_not_before(videos):
    video = fsp.Video(videos / "corrupt" / "derived" / "zero_hole_h264.mp4")
    delivered = 0
    with pytest.raises(fsp.errors.DecodeError):  # noqa: PT012
        for _ in video:
            delivered += 1
    assert delivered >= 20
    iterator = iter(video)
    next(iterator)
    del iterator  # an iterator that is dropped early ends its thread


def test_clip_before_the_start_is_rejected(video):
    with pytest.raises(IndexError, match="-181"):
        video.clip(start=-181, sequence_length=2)
    assert video.clip(start=-180, sequence_length=2).indices == [0, 1]


@pytest.mark.parametrize(
    ("endless", "first"),
    [(range(10**12), 180), (range(-(10**12), 0), -(10**12)), (itertools.count(), 180), (itertools.count(-181), -181)],
)
def test_frame_numbers_are_read_while_they_exist(video, endless, first):
    with pytest.raises(IndexError, match=f"frame {first} "):
        video.frames(endless)


def counted(values, taken):
    """The values; the number of those taken so far is in `taken`."""
    for taken[0], value in enumerate(values, 1):  # noqa: B020
        yield value


def test_numbers_are_not_read_far_beyond_the_first_invalid_one(video):
    """A request for a hundred million frames costs no more than one for the frames that exist."""
    for request, values, error in (
        (video.frames, range(10**8), fsp.errors.FrameIndexError),
        (video.frames, itertools.chain([0] * 70_000, range(-(10**8), 0)), fsp.errors.FrameIndexError),
        (video.frames_at, (n / 25 for n in range(10**8)), fsp.errors.FrameTimeError),
        (
            video.frames_at,
            itertools.chain([0.0] * 70_000, itertools.repeat(float("nan"))),
            fsp.errors.FrameTimeError,
        ),
    ):
        taken = [0]
        with pytest.raises(error):
            request(counted(values, taken))
        assert taken[0] <= 1 << 17, taken


def test_exhausted_file_descriptors_are_not_blamed_on_a_file(videos):
    """Opening a video, decoding a range of one, and one that libavformat reads, while no file can be opened."""
    program = """
        import os, resource, sys
        import framespool as fsp

        def attempt(action):
            try:
                action()
            except fsp.Error as error:
                return type(error).__name__, "not an error of the file" in str(error)
            return "fine"

        opened = [fsp.Video(path, index=False) for path in sys.argv[1:]]
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        held = []
        try:
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        for path, video in zip(sys.argv[1:], opened):
            print(attempt(lambda: fsp.Video(path, index=False)))
            print(attempt(lambda: video.frames([0, 20])))
        for file in held:
            os.close(file)
        for path in sys.argv[1:]:
            print(attempt(lambda: fsp.Video(path, index=False).frames([0, 20])))
    """
    paths = [videos / "derived" / name for name in ("base_640x360.mp4", "live_no_cues_640x360.mkv")]
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program), *paths], capture_output=True, text=True)
    refused = "('ReadError', True)"
    assert done.stdout.split("\n")[:-1] == [refused, "fine", refused, "fine", "fine", "fine"], done


@pytest.mark.parametrize("wrong", [7.9, "3", True, None, 2**70, [1]])
def test_frame_numbers_are_integers(video, wrong):
    with pytest.raises(fsp.errors.ArgumentError, match="indices must be"):
        video.frames([0, wrong])
    if not isinstance(wrong, list):
        with pytest.raises(fsp.errors.ArgumentError, match="indices must be"):
            video[wrong]


def test_times_are_numbers(video):
    for wrong in ("1.5", True, None, b"1"):
        with pytest.raises(fsp.errors.ArgumentError, match="seconds must be numbers"):
            video.frames_at([0.0, wrong])
    with pytest.raises(fsp.errors.FrameTimeError):
        video.frames_at([float("nan")])


def test_a_request_beyond_memory_is_an_error(videos):
    large = fsp.Video(videos / "1080p" / "bunny_25p.mp4")
    with pytest.raises(fsp.errors.ArgumentError, match="memory"):
        # 161 TB, more than the address space: less may succeed if the system overcommits memory.
        large.frames([0] * 200_000, transforms=[fsp.transforms.Resize((16384, 16384))])


def test_invalid_times_are_corrected_like_libavformat(videos):
    """Negative durations in `stts`, which are unsigned."""
    whole = (videos / "derived" / "timescale_90000_vfr_drop_640x360.mp4").read_bytes()
    data = bytearray(whole)
    at = data.index(b"stts") + 16 + 3 * 8
    assert data[at : at + 4] == (3003).to_bytes(4, "big")
    data[at : at + 4] = (2**32 - 512).to_bytes(4, "big")
    repaired, valid = fsp.Video(bytes(data)), fsp.Video(whole)
    assert (
        len(repaired) == len(valid) and valid.info.end_seconds - 1 < repaired.info.end_seconds < valid.info.end_seconds
    )
    assert repaired.frames([5, 100]).frames.tobytes() == valid.frames([5, 100]).frames.tobytes()


def test_wrong_sample_header_is_rejected(videos):
    """`stsz` and `stts` of a real file, changed to declare forty million samples."""
    data = bytearray((videos / "derived" / "base_640x360.mp4").read_bytes())
    at = data.index(b"stsz")
    data[at + 8 : at + 16] = (7).to_bytes(4, "big") + (40_000_000).to_bytes(4, "big")
    with pytest.raises(fsp.errors.LimitError, match="40000000"):
        fsp.Video(bytes(data))


@pytest.mark.parametrize("codec", ["libx264", "libx265", "mpeg4"])
@pytest.mark.parametrize("ratio", ["32/27", "4/3"])
def test_sample_aspect_that_only_the_stream_states(encoder, tmp_path, codec, ratio):
    num, den = map(int, ratio.split("/"))
    # libx265 writes times of two frames that only libavformat reads.
    for frames in (2, 12):
        source = f"testsrc2=size=64x48:rate=25,trim=end_frame={frames},setsar={ratio}"
        path = tmp_path / "a.mp4"
        command = [encoder, "-v", "error", "-y", "-f", "lavfi", "-i", source, "-c:v", codec]
        options = ["-x265-params", "log-level=none"] if codec == "libx265" else []
        subprocess.run([*command, *options, path], check=True)
        data = path.read_bytes()
        assert b"pasp" in data
        for content in (data, data.replace(b"pasp", b"free")):
            assert fsp.Video(content).info.sample_aspect == (num, den)


def test_times_of_a_less_exact_type_are_those_of_frames(video):
    every = list(range(len(video)))
    exact = np.array(video.pts_seconds)
    rounded = exact.astype(np.float32)
    early, late = ([n for n in every if sign * rounded[n] > sign * exact[n]] for sign in (-1, 1))
    assert len(early) > 60 and len(late) > 60
    assert video.frames_at(rounded).indices == every
    assert video.frames_at(list(rounded)).indices == every
    # A Python float is exact, also if it is the value of a rounded one.
    assert video.frames_at(rounded[early].tolist()).indices == [n - 1 for n in early]
    begin, end = video.info.begin_seconds, video.info.end_seconds
    before_end = np.nextafter(np.float32(end), np.float32(0))
    assert video.frames_at([before_end]).indices == every[-1:]
    for outside in (np.float32(begin - 0.01), np.float32(end + 0.01), np.float32("nan")):
        with pytest.raises(fsp.errors.FrameTimeError):
            video.frames_at([outside])


def test_first_frame_is_shown_at_its_rounded_time(encoder, tmp_path):
    path = tmp_path / "a.mkv"
    source = "testsrc2=size=64x48:rate=25,trim=end_frame=3"
    command = [encoder, "-v", "error", "-f", "lavfi", "-i", source, "-c:v", "libx264", "-bf", "0", "-output_ts_offset"]
    subprocess.run([*command, "0.066", path], check=True)
    late = fsp.Video(path)
    begin = late.info.begin_seconds
    assert begin == 0.066 and float(np.float32(begin)) < begin
    assert late.frames_at([np.float32(begin)]).indices == [0]
    with pytest.raises(fsp.errors.FrameTimeError):
        late.frames_at([float(np.float32(begin))])


def test_samplers_and_segments_take_rounded_times():
    # At 10 kHz, frames are less far apart than one float32 from the next one after an hour and a half.
    exact = [5000 + n / 30000 for n in range(1, 200)]
    rounded = [np.float32(at) for at in exact]
    for at, value in zip(exact, rounded, strict=True):
        (clip,) = fsp.samplers.Seconds([value]).times
        assert clip[0] >= at
        segment = fsp.datasets.VideoSegment("a.mp4", start_seconds=value, end_seconds=value + np.float32(1))
        assert segment.start_seconds <= at
    assert fsp.samplers.Seconds([0.5, 1]).times == ((0.5, 1.0),)
    assert fsp.datasets.VideoSegment("a.mp4", start_seconds=0.1).start_seconds == 0.1


def test_interlaced_video_is_logged_once_for_each_kind(videos, encoder, tmp_path):
    program = """
        import logging, sys
        import framespool as fsp

        logging.basicConfig(format="%(name)s %(message)s", stream=sys.stdout)
        for path in sys.argv[1:] * 2:
            fsp.Video(path, index=False)[0]
            list(fsp.ClipLoader([path], fsp.samplers.Indices([0]), batch_size=1, index=False))
    """
    derived = videos / "derived"
    files = [derived / "h264_mbaff_720x576.mp4", derived / "h264_bt709_tagged_640x360.mp4", tmp_path / "a.mkv"]
    subprocess.run([encoder, "-v", "error", "-i", files[0], "-c", "copy", files[2]], check=True)
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, files)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert len(lines) == 2 and all(line.startswith("framespool.decode ") for line in lines)
    assert f"{files[0]}: interlaced video" in lines[0] and "h264 in mov,mp4" in lines[0]
    assert f"{files[2]}: interlaced video" in lines[1] and "h264 in matroska" in lines[1]


def test_an_image_is_a_video_of_one_frame(pictures):
    """Also with a thumbnail in its header, which starts like another image; orientation applies."""
    files = [*sorted((pictures / "classes").glob("*/*.jpg")), *sorted((pictures / "odd").glob("exif_*.jpg"))]
    files += sorted(pictures.glob("**/*.png"))[:3]
    assert len(files) > 30
    read = 0
    for file in files:
        try:
            right = fsp.decode_image(file, exact=False)
        except fsp.Error:
            continue
        video = fsp.Video(file)
        assert len(video) == 1
        assert video[0].tobytes() == right.tobytes(), file
        read += 1
    assert read > 30
