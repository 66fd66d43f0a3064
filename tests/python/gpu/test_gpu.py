"""Frames and batches on a GPU, real or simulated: the same bytes as on the CPU, and correct DLPack export."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import framespool as fsp
import numpy as np
import pytest
from framespool.cli import main

pytestmark = pytest.mark.usefixtures("gpu")


@pytest.fixture
def path(videos) -> str:
    return str(videos / "derived" / "tiny_34x26_h264.mp4")


def batches(loader: fsp.ClipLoader) -> list[tuple[bytes, list[int], str]]:
    return [(b.frames.cpu().tobytes(), b.clip_ids.tolist(), b.frames.device) for b in loader]


def loader(short_clips, **more) -> fsp.ClipLoader:
    T = fsp.transforms
    transforms = [T.RandomResizedCrop(48), T.RandomHorizontalFlip(), T.Normalize([0.5] * 3, [0.25] * 3)]
    rule = fsp.samplers.RandomClips(sequence_length=8, stride=3, clips_per_video=2)
    more = {"layout": "NCTHW", "dtype": "float16", "num_threads": 1, **more}
    return fsp.ClipLoader(short_clips, rule, batch_size=4, transforms=transforms, shuffle="full", seed=5, **more)


@pytest.mark.parametrize("decoder", ["auto", "cpu", "nvdec"])
def test_frames_of_a_video_are_the_same(path, decoder):
    video = fsp.Video(path, layout="THWC")
    other = fsp.Video(path, device="cuda:0", decoder=decoder, layout="THWC")
    frames, others = video.frames([0, 7, 7, -1]).frames, other.frames([0, 7, 7, -1]).frames
    assert others.device == "cuda:0" and others.shape == frames.shape
    assert others.cpu().tobytes() == others.tobytes() == frames.tobytes()
    assert others[1].tolist() == frames[1].tolist()
    for index in ((slice(1, None, 2), slice(3, 20, 4), ..., 1), (0, 5), (slice(2, 2),)):
        part, view = frames[index], others[index]
        assert view.tobytes() == view.cpu().tobytes() == part.tobytes() and view.tolist() == part.tolist()
        assert view.cpu().numpy().shape == view.shape == part.shape
        strides = view.__cuda_array_interface__["strides"]
        assert strides == (None if part.numpy().flags.c_contiguous else part.numpy().strides)
    assert [f.tobytes() for f in other] == [f.tobytes() for f in video]


def test_batches_do_not_depend_on_device_or_backend(short_clips, decoders_are_missing):
    expected = batches(loader(short_clips))
    for more in [
        {"device": "cuda"},
        {"device": fsp.Gpu("cuda:0", decoder="nvdec", threads=2)},
        {"device": fsp.Gpu(0, decoder="nvdec", output="cpu")},
        {"device": fsp.Gpu(0, output="cpu")},
    ]:
        made = loader(short_clips, **more)
        got = batches(made)
        assert [g[:2] for g in got] == [e[:2] for e in expected], more
        assert {g[2] for g in got} == {"cpu" if "output='cpu'" in repr(more) else "cuda:0"}
        stats = made.stats()
        assert stats["nvdec_threads"] > 0 and stats["frames_decoded_by_gpu"] > 0
        if decoders_are_missing:
            assert all("no memory left for a decoder" in reason for reason in stats["cpu_fallbacks"])
        else:
            assert not stats["cpu_fallbacks"]


@pytest.mark.parametrize("decoder", ["auto", "nvdec"])
def test_views_and_buckets_are_the_same_on_the_gpu(short_clips, videos, decoder):
    T, samplers = fsp.transforms, fsp.samplers
    views = {
        "wide": fsp.View(
            samplers.RandomClips(sequence_length=6, stride=3, clips_per_video=2), [T.RandomResizedCrop(48)]
        ),
        "small": fsp.View(samplers.RandomClips(sequence_length=4), [T.RandomResizedCrop(24)], within="wide"),
    }
    device = fsp.Gpu(0, decoder=decoder)
    keywords = {"batch_size": 2, "shuffle": True, "seed": 5, "dtype": "float32", "num_threads": 1}
    here, there = (fsp.ClipLoader(short_clips, views=views, **keywords, **how) for how in ({}, {"device": device}))
    for mine, on_gpu in zip(here, there, strict=True):
        assert on_gpu.labels.device == on_gpu["small"].frames.device == "cuda:0"
        for name in views:
            assert on_gpu[name].frames.cpu().tobytes() == mine[name].frames.tobytes()
            assert on_gpu[name].indices.cpu().tolist() == mine[name].indices.tolist()
    assert there.stats()["frames_decoded_by_gpu"] > 0
    buckets = fsp.Buckets(sizes=[(24, 40), (32, 32)], frames=(5, 13), fit="random_cover")
    files = [*short_clips[:4], (str(videos / "action" / "phone_176x144.mp4"), 9)]
    sampler = samplers.RandomClips(sequence_length=8, stride=2)
    here, there = (
        fsp.ClipLoader(files, sampler, buckets=buckets, **keywords, **how) for how in ({}, {"device": device})
    )
    for mine, on_gpu in zip(here, there, strict=True):
        assert on_gpu.frames.device == "cuda:0" and on_gpu.frames.shape == mine.frames.shape
        assert on_gpu.frames.cpu().tobytes() == mine.frames.tobytes()


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("layout", ["NTCHW", "NCTHW", "NTHWC"])
def test_padded_batches_are_the_same_on_the_gpu(videos, layout, dtype):
    names = ["derived/tiny_34x26_h264.mp4", "action/phone_176x144.mp4", "derived/rotate_cw90_640x360.mp4"]
    rule = fsp.samplers.RandomClips(sequence_length=3, stride=2)
    keywords = {
        "transforms": [fsp.transforms.Resize(24)],
        "layout": layout,
        "dtype": dtype,
        "num_threads": 2,
        "seed": 3,
    }

    def made(device: str) -> list[tuple[bytes, tuple[int, ...], list[list[int]]]]:
        paths = [str(videos / name) for name in names] * 2
        clips = fsp.ClipLoader(paths, rule, batch_size=3, device=device, collate="pad", index=False, **keywords)
        return [(b.frames.cpu().tobytes(), b.frames.shape, b.unpadded_sizes.tolist()) for b in clips]

    expected = made("cpu")
    assert len({tuple(size) for _, _, sizes in expected for size in sizes}) == 3
    assert made("cuda:0") == expected


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_lists_of_several_passes_are_the_same_on_the_gpu(short_clips, dtype):
    T = fsp.transforms
    rule, final = fsp.samplers.RandomClips(sequence_length=3), [T.Normalize(0.5, 0.25)] if dtype == "float32" else []
    for transforms in (
        [
            T.RandomResizedCrop((45, 51)),
            T.ColorJitter(0.4, 0.4, 0.4, 0.3),
            T.GaussianBlur((7, 5)),
            T.RandomSolarize(90),
        ],
        [T.Resize((40, 56)), T.RandAugment(5, 20), T.RandomAdjustSharpness(3), T.RandomCrop(30)],
        [T.RandomEqualize(1), T.Resize((33, 62)), T.Pad(3, fill=9), T.RandomRotation(30, fill=200), T.Pad(2)],
        [T.Resize((40, 56)), T.RandomAutocontrast(1), T.RandomHorizontalFlip(1), T.RandomPosterize(3), T.FiveCrop(20)],
        [
            T.RandomShortestSize(range(40, 60)),
            T.RandomCrop(40),
            T.RandomApply([T.GaussianBlur(5), T.RandomInvert(1)]),
            T.RandomPhotometricDistort(p=0.8),
        ],
        [
            T.RandomChoice([T.MultiScaleCrop((40, 56)), [T.Resize((40, 56), fit="cover"), T.RandomCrop((40, 56))]]),
            T.RandomChoice([[], T.ColorJitter(0.4, 0.4), T.RandomErasing(1)]),
        ],
    ):
        options = {"batch_size": 4, "transforms": [*transforms, *final], "dtype": dtype, "num_threads": 1, "seed": 3}
        expected = batches(fsp.ClipLoader(short_clips[:4], rule, **options))
        for decoder in ("nvdec", "cpu"):
            made = batches(fsp.ClipLoader(short_clips[:4], rule, device=fsp.Gpu("cuda:0", decoder=decoder), **options))
            assert [b[:2] for b in made] == [e[:2] for e in expected]


def test_geometry_from_the_display_size_is_the_same_on_the_gpu(videos):
    T, path = fsp.transforms, str(videos / "odd" / "sar_2x1.mp4")
    for transform in (
        T.Resize(45, display_aspect=True),
        T.Letterbox(50, display_aspect=True),
        T.RandomResizedCrop(40, display_aspect=True),
    ):
        expected = fsp.Video(path).frames([0, 5], transforms=[transform]).frames
        for decoder in ("nvdec", "cpu"):
            video = fsp.Video(path, device="cuda:0", decoder=decoder)
            made = video.frames([0, 5], transforms=[transform]).frames
            assert (made.device, made.shape, made.tobytes()) == ("cuda:0", expected.shape, expected.tobytes())


@pytest.mark.filterwarnings("ignore:clips of one video")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_clips_wait_on_the_gpu_as_8_bit_codes(short_clips, dtype):
    T = fsp.transforms
    transforms = [T.Resize((16, 24)), T.Normalize([0.5] * 3, [0.25] * 3)]
    rule, codes = fsp.samplers.Windows(sequence_length=4, step=8), 4 * 16 * 24 * 3
    options = {"batch_size": 4, "transforms": transforms, "shuffle": "grouped", "seed": 5, "dtype": dtype}
    options |= {"cache": 40 * codes, "num_threads": 1}
    videos = short_clips[:4] * 3
    host = fsp.ClipLoader(videos, rule, **options)
    expected = batches(host)
    one_task = fsp.Gpu(0, decoder="nvdec", threads=1)
    for more in (
        {"device": one_task},
        {"device": fsp.Gpu(0, decoder="nvdec")},
        {"device": fsp.Gpu(0, decoder="cpu")},
        {"device": one_task, "cache": fsp.Cache(0, device_memory=40 * codes)},
        {"device": "cuda:0", "cache": fsp.Cache(0, device_memory=40 * codes)},
    ):
        made = fsp.ClipLoader(videos, rule, **{**options, **more})
        assert made._native.grouped == host._native.grouped, "ranks with and without a GPU have the same order"
        assert [b[:2] for b in batches(made)] == [e[:2] for e in expected], more
        stats = made.stats()
        assert stats["clip_cache_hits"] > 50 and stats["clip_cache_peak_bytes"] <= 40 * codes
        # How much several tasks at a time decode again depends on their timing, and a little on when batches are taken.
        if more["device"] is one_task:
            assert stats["frames_decoded"] <= 1.1 * host.stats()["frames_decoded"], more


def test_inexact_nvdec_formats_fall_back_to_the_cpu(videos):
    files = [str(p) for p in sorted((videos / "codecs").glob("*mpeg4*"))][:3]
    assert files
    rule = fsp.samplers.UniformClips(sequence_length=4)
    size = [fsp.transforms.Resize((32, 32))]
    expected = batches(fsp.ClipLoader(files, rule, batch_size=2, transforms=size, num_threads=1))
    options = {"batch_size": 2, "transforms": size, "device": fsp.Gpu(0, decoder="nvdec")}
    made = fsp.ClipLoader(files, rule, **options)
    with pytest.warns(UserWarning, match=r"the CPU decoded (\d+) of \1 pictures .*bit-exact") as caught:
        assert [b[:2] for b in batches(made)] == [e[:2] for e in expected]
    assert len(caught) == 1
    stats = made.stats()
    assert stats["frames_decoded_by_fallback"] == stats["frames_decoded"] > 0
    with pytest.warns(UserWarning, match="bit-exact"):  # also where it is known by then
        assert len(batches(made)) == len(expected)
    assert any("bit-exact" in reason for reason in made.stats()["cpu_fallbacks"])


def test_bench_says_what_nvdec_does_with_a_file(videos, path, capsys):
    (file, *_) = sorted((videos / "codecs").glob("*mpeg4*"))

    def printed(video):
        options = ["--frames", "2", "--device", "cuda:0", "--decoder", "nvdec", "--seconds", "0.5"]
        assert main(["bench", str(video), *options]) == 0
        return capsys.readouterr().out

    assert "NVDEC decoded " in (decoded := printed(path)) and "fell back" not in decoded
    with pytest.warns(UserWarning, match="bit-exact"):
        other = printed(file)
    assert "NVDEC decoded 0 of " in other and "bit-exact" in other and "on_fallback=" in other


def test_strict_makes_a_fallback_an_error(videos, path, monkeypatch):
    (file, *_) = sorted((videos / "codecs").glob("*mpeg4*"))
    options = {"batch_size": 2, "device": fsp.Gpu(0, decoder="nvdec")}
    rule = fsp.samplers.Windows(sequence_length=4)
    strict = fsp.ClipLoader(
        [str(file), path], rule, **{**options, "device": fsp.Gpu(0, decoder="nvdec", on_fallback="raise")}
    )
    for _ in range(2):
        epoch, errors, clips = iter(strict), 0, 0
        while True:
            try:
                clips += len(next(epoch))
            except fsp.errors.GpuError as error:
                errors += 1
                assert re.search('on_fallback="raise".*bit-exact.*on_fallback="warn"', str(error))
            except StopIteration:
                break
        assert errors > 0 and clips > 0, "batches without such pictures are delivered, in every epoch"
    monkeypatch.setenv("FRAMESPOOL_STRICT_GPU", "1")
    with pytest.raises(fsp.errors.GpuError, match="bit-exact"):
        next(iter(fsp.ClipLoader([str(file)], rule, **options)))
    assert len(list(fsp.ClipLoader([path], rule, **options))) > 0, "what NVDEC decodes is no error"
    assert next(iter(fsp.ClipLoader([str(file)], rule, **{**options, "device": fsp.Gpu(0, decoder="cpu")}))) is not None


def test_a_tensor_on_a_gpu_is_handed_over_by_the_rules(path):
    tensor = fsp.Video(path, device="cuda:0").frames(range(3)).frames
    assert tensor.__dlpack_device__() == (2, 0) and "cuda:0" in repr(tensor)
    for stream in [None, -1, 1, 2]:
        capsule = tensor.__dlpack__(stream=stream, max_version=(1, 0))
        assert "dltensor_versioned" in repr(capsule)
    assert '"dltensor"' in repr(tensor.__dlpack__(stream=1))
    with pytest.raises(BufferError, match="stream"):
        tensor.__dlpack__(stream=0)
    with pytest.raises(BufferError, match="needs a copy"):
        tensor.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(TypeError, match="cpu"):
        tensor.numpy()
    host = np.from_dlpack(tensor.cpu())
    assert host.tobytes() == tensor.tobytes()
    interface = tensor.__cuda_array_interface__
    assert interface["version"] == 3 and interface["typestr"] == "|u1" and interface["shape"] == tensor.shape
    assert interface["stream"] == 1 and interface["strides"] is None and interface["data"][1] is False
    first, second = tensor[0].__cuda_array_interface__["data"][0], tensor[1].__cuda_array_interface__["data"][0]
    assert second - first == tensor.nbytes // 3
    assert not hasattr(tensor.cpu(), "__cuda_array_interface__")


def test_memory_lives_as_long_as_its_takers(path):
    video = fsp.Video(path, device="cuda:0")
    expected = fsp.Video(path).frames(range(4)).frames.tobytes()
    taken = [video.frames(range(4)).frames for _ in range(6)]
    capsules = [t.__dlpack__(stream=1, max_version=(1, 0)) for t in taken]
    part = taken[0][2]
    del taken[1:]
    for _ in range(8):
        video.frames(range(10, 14))
    assert taken[0].tobytes() == expected
    assert part.tobytes() == expected[len(part.tobytes()) * 2 :][: part.nbytes]
    del capsules


def test_blank_frames_and_skipped_clips_are_the_same(short_clips, bad_file):
    data = [*short_clips[:3], (bad_file, 9), *short_clips[3:5]]
    rule = fsp.samplers.Windows(sequence_length=40, stride=2, step=60, padding="blank")
    size = [fsp.transforms.Resize((24, 32))]

    def make(**more):
        made = fsp.ClipLoader(
            data, rule, batch_size=3, transforms=size, on_error="skip", shuffle="full", num_threads=1, **more
        )
        return [(b.frames.cpu().tobytes(), b.mask.tolist(), b.clip_ids.tolist()) for b in made]

    assert make(device="cuda:0") == make()


@pytest.mark.parametrize("decoder", ["auto", "cpu"])
def test_numbers_of_a_batch_are_on_the_gpu_of_its_frames(short_clips, decoder):
    T = fsp.transforms
    samples = [str(source) for source, _ in short_clips[:4]]
    data = fsp.datasets.Dataset(
        [(source, label) for label, source in enumerate(samples)],
        columns={"score": [0.5, 1.0, -2.0, 3.5], "vector": [(1, 2), (3, 4), (5, 6), (7, 8)], "name": list("abcd")},
    )
    options = {"batch_size": 3, "transforms": [T.Resize((16, 24))], "shuffle": "full", "seed": 2, "num_threads": 1}
    options |= {"frame_columns": {"phase": [range(500)] * 4}}

    def deliver(**more):
        rule = fsp.samplers.RandomClips(sequence_length=4, clips_per_video=2)
        return list(fsp.ClipLoader(data, rule, **options, **more))

    host, gpu = deliver(), deliver(device=fsp.Gpu(0, decoder=decoder))
    on_gpu = ["frames", "labels", "indices", "pts_seconds", "mask", "padding"]
    for expected, batch in zip(host, gpu, strict=True):
        assert {name: batch[name].device for name in on_gpu} == dict.fromkeys(on_gpu, "cuda:0")
        for name in ("video_ids", "clip_ids", "requested_ids", "view_ids", "geometry", "content_keys"):
            assert batch[name].device == "cpu" and batch[name].tolist() == expected[name].tolist()
        for name in on_gpu[1:]:
            assert (batch[name].dtype, batch[name].tolist()) == (expected[name].dtype, expected[name].tolist())
            assert batch[name].cpu().numpy().shape == expected[name].shape
        assert batch["name"] == expected["name"] and type(batch["name"]) is list
        for name in ("score", "vector", "phase"):
            assert batch[name].device == "cuda:0" and batch[name].tolist() == expected[name].tolist()
        points = [fsp.transforms.map_points(each["vector"], each.geometry[0]).tolist() for each in (expected, batch)]
        assert points[0] == points[1]
        assert batch.video_metadata() == expected.video_metadata() and len(batch) == 3 or len(batch) < 3
        with pytest.raises(TypeError, match=r"cuda:0; use \.cpu\(\)\.numpy\(\), or \.torch\(\)"):
            batch.labels.numpy()


def test_chunks_of_a_video_are_the_same_on_the_gpu(path):
    host, gpu = ([*fsp.Video(path, device=device).chunks(chunk_size=7)] for device in ("cpu", "cuda:0"))
    for expected, chunk in zip(host, gpu, strict=True):
        assert chunk.frames.device == "cuda:0" and chunk.frames.tobytes() == expected.frames.tobytes()
        assert (chunk.indices, chunk.pts_seconds) == (expected.indices, expected.pts_seconds)


def test_numbers_of_padded_batches_and_images_are_on_the_gpu(videos, photos):
    names = ["derived/tiny_34x26_h264.mp4", "action/phone_176x144.mp4", "derived/rotate_cw90_640x360.mp4"]
    rule, paths = fsp.samplers.RandomClips(sequence_length=3), [str(videos / name) for name in names]
    size = [fsp.transforms.Resize(24)]
    (batch,) = fsp.ClipLoader(paths, rule, batch_size=3, device="cuda:0", collate="pad", transforms=size, index=False)
    assert batch.unpadded_sizes.device == batch.mask.device == "cuda:0"
    square = [fsp.transforms.Resize((24, 24))]
    images = next(iter(fsp.ImageLoader(photos[:2], batch_size=2, transforms=square, device="cuda:0")))
    assert images.labels.device == images.padding.device == images.images.device == "cuda:0"
    assert images.image_ids.device == images.sizes.device == "cpu"


def test_numbers_are_copied_once_per_batch_and_not_waited_for(short_clips):
    driver, calls = simulated(), {}
    for many in (1, 2):
        data = fsp.datasets.Dataset(
            [(str(source), 1) for source, _ in short_clips[:2]], columns={f"c{n}": [1, 2] for n in range(9 * many)}
        )
        made = None  # closes its decoders before the calls are counted
        driver.simulated_gpu_reset()
        rule = fsp.samplers.UniformClips(sequence_length=2)
        made = fsp.ClipLoader(
            data, rule, batch_size=1, transforms=[fsp.transforms.Resize((16, 16))], device="cuda:0", num_threads=1
        )
        assert len(list(made)) == 2
        counted = ("cuMemcpyHtoDAsync_v2", "cuStreamSynchronize", "cuCtxSynchronize")
        calls[many] = [driver.simulated_gpu_calls(call.encode()) for call in counted]
    assert calls[1] == calls[2], "however many columns there are"
    driver.simulated_gpu_set_fault(b"cuMemHostAlloc:1+=2")  # no page-locked memory
    assert [batch.columns["c3"].tolist() for batch in made] == [[1], [2]]
    driver.simulated_gpu_set_fault(b"")


def with_two_gpus(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    simulated()
    kept = {name: value for name, value in os.environ.items() if name != "LOCAL_RANK"}
    more = {"FRAMESPOOL_SIMULATED_DEVICES": "2", **variables}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=kept | more)


@pytest.mark.parametrize(
    ("current", "variables", "expected"),
    [
        (None, {}, 'which of the 2 GPUs .*device="cuda:0"'),
        (None, {"LOCAL_RANK": "1"}, "cuda:1"),
        (None, {"LOCAL_RANK": "2"}, "LOCAL_RANK=2, but this process sees 2 GPUs"),
        (None, {"LOCAL_RANK": "7", "FRAMESPOOL_SIMULATED_DEVICES": "1"}, "cuda:0"),
        (1, {"LOCAL_RANK": "0"}, "cuda:1"),
    ],
)
def test_a_gpu_without_a_number_is_that_of_the_process(path, current, variables, expected):
    code = f"""
import sys, types
import framespool as fsp
if {current} is not None:
    cuda = types.SimpleNamespace(is_initialized=lambda: True, current_device=lambda: {current})
    sys.modules["torch"] = types.SimpleNamespace(cuda=cuda)
rule, size = fsp.samplers.UniformClips(sequence_length=2), [fsp.transforms.Resize((16, 16))]
def decoded():
    found = [fsp.gpu.decoder_cache_stats(device.ordinal) for device in fsp.gpu.devices()]
    return [f"cuda:{{at}}" for at, each in enumerate(found) if each["created"]]
def host(): fsp.Video({path!r}, decoder="nvdec").frames([0])
def gpu(): assert fsp.Video({path!r}, device="cuda").frames([0]).frames.device in decoded()
def loader(**how):
    made = fsp.ClipLoader([{path!r}], rule, batch_size=1, transforms=size, device=fsp.Gpu("cuda", **how))
    assert {{batch.frames.device for batch in made}} == ({{"cpu"}} if how else set(decoded()))
    assert made.stats()["nvdec_threads"] > 0
for run in (host, gpu, loader, lambda: loader(output="cpu", decoder="nvdec"), lambda: loader(output="cpu")):
    try:
        run()
        print(*decoded())
    except fsp.errors.ArgumentError as error:
        print(error)
"""
    done = with_two_gpus(code, **variables)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 5 and all(re.search(expected, line) for line in lines), done.stdout


def simulated() -> ctypes.CDLL:
    """The simulated driver, which counts its calls."""
    driver = ctypes.CDLL("libcuda.so.1")
    if not hasattr(driver, "simulated_gpu_calls"):
        pytest.skip("needs the simulated GPU")
    driver.simulated_gpu_calls.restype = ctypes.c_uint64
    return driver


@pytest.mark.parametrize(("stream", "freed"), [(None, False), (1, False), (2, True), (-1, True)])
def test_memory_with_unknown_readers_is_not_reused(path, stream, freed):
    driver = simulated()
    loader = fsp.ClipLoader(
        [path],
        fsp.samplers.Windows(sequence_length=3),
        batch_size=1,
        transforms=[fsp.transforms.Resize((16, 16))],
        device="cuda:0",
        num_threads=1,
        prefetch_batches=0,
    )
    batches = iter(loader)
    tensor = next(batches).frames
    held = [tensor.__dlpack__(stream=stream, max_version=(1, 0))]
    before = [driver.simulated_gpu_calls(call) for call in (b"cuMemFree_v2", b"cuCtxSynchronize")]
    del tensor
    # Another thread's per-thread default stream is a different stream.
    other = threading.Thread(target=held.clear)
    other.start()
    other.join()
    after = [driver.simulated_gpu_calls(call) for call in (b"cuMemFree_v2", b"cuCtxSynchronize")]
    # Freeing waits for the readers; waiting for the complete context would break captures by others.
    assert [now - then for now, then in zip(after, before, strict=True)] == [int(freed), 0]


def test_destroyed_stream_is_not_used(path):
    driver = simulated()
    assert "torch" not in sys.modules and "jax" not in sys.modules
    tensor = fsp.Video(path, device="cuda:0").frames(range(3)).frames
    context, stream = ctypes.c_void_p(), ctypes.c_void_p()
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 == driver.cuCtxSetCurrent(context)
    assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0
    capsule = tensor.__dlpack__(stream=stream.value, max_version=(1, 0))
    assert driver.cuStreamDestroy_v2(stream) == 0 == driver.cuCtxSetCurrent(None)
    driver.simulated_gpu_violations.restype = ctypes.c_uint64
    before = driver.simulated_gpu_violations()
    del capsule, tensor
    assert driver.simulated_gpu_violations() == before


@pytest.mark.parametrize("cause", ["no library", "no engine"])
@pytest.mark.parametrize("decoder", ["auto", "nvdec"])
def test_gpu_without_nvdec_decodes_on_the_cpu_and_says_so(path, decoder, cause, tmp_path):
    simulated()
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    driver = next(file for folder in folders if (file := Path(folder) / "libcuda.so.1").exists())
    (tmp_path / "libcuda.so.1").symlink_to(driver.resolve())
    code = f"""
import warnings
import framespool as fsp
assert fsp.gpu.unavailable_reason() is None
expected = fsp.Video({path!r})
try:
    video = fsp.Video({path!r}, device="cuda:0", decoder={decoder!r})
    frames = video.frames([0, 5, 2]).frames
except fsp.errors.GpuError as error:
    print("GpuError", error)
else:
    assert frames.device == "cuda:0"
    assert frames.tobytes() == expected.frames([0, 5, 2]).frames.tobytes()
    assert [f.tobytes() for f in video] == [f.tobytes() for f in expected]
    size = [fsp.transforms.Resize((16, 16))]
    rule = fsp.samplers.UniformClips(sequence_length=4)
    gpu = fsp.Gpu(0, decoder={decoder!r})
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        loader = fsp.ClipLoader([{path!r}], rule, batch_size=1, transforms=size, device=gpu)
        assert [b.frames.device for _ in range(2) for b in loader] == ["cuda:0"] * 2
    print("frames", *[warning.message for warning in given], *loader.stats()["cpu_fallbacks"], sep="\\n")
    assert [warning.filename for warning in given] == ["<string>"], "once, and it names the user's code"
    try:
        fsp.ClipLoader([{path!r}], rule, batch_size=1, device=fsp.Gpu(0, on_fallback="raise"))
    except fsp.errors.GpuError as error:
        assert "NVDEC decodes nothing here" in str(error) and 'on_fallback="warn"' in str(error)
    else:
        raise AssertionError("must raise")
    assert len(fsp.ClipLoader([{path!r}], rule, batch_size=1, device=fsp.Gpu(0, decoder="cpu"))) == 1
"""
    more = {"LD_LIBRARY_PATH": str(tmp_path)} if cause == "no library" else {"FRAMESPOOL_SIMULATED_ENGINES": "0"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | more)
    assert done.returncode == 0, done.stderr
    # NVDEC requested by name raises; the default continues without it and reports the reason.
    assert done.stdout.startswith("frames" if decoder == "auto" else "GpuError"), done.stdout
    reason = "engines cannot be used: libnvcuvid" if cause == "no library" else "has no NVDEC engine"
    # In the warning and in the counters.
    assert done.stdout.count(reason) == (2 if decoder == "auto" else 1), done.stdout


@pytest.mark.parametrize("device", ["cuda:77", "gpu", "cuda:-1", "cuda:x"])
def test_a_device_that_is_not_there_is_named(path, device):
    with pytest.raises(fsp.Error, match=device.replace("-", r"\-")):
        fsp.Video(path, device=device)


@pytest.mark.parametrize("end", ["pass", "del loader, batch", "import gc; del loader; gc.collect()"])
def test_interpreter_exits_with_live_batches(short_clips, end):
    code = f"""
import framespool as fsp
rule = fsp.samplers.UniformClips(sequence_length=4)
loader = fsp.ClipLoader({short_clips[:4]!r}, rule, batch_size=2, device="cuda:0",
                        transforms=[fsp.transforms.Resize((16, 16))], num_threads=1)
batch = next(iter(loader))
capsule = batch.frames.__dlpack__(stream=1)
{end}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_forked_child_gets_an_error(path):
    code = f"""
import os, sys, framespool as fsp
fsp.Video({path!r}, device="cuda:0").frames([0])
if os.fork() == 0:
    try:
        fsp.Video({path!r}, device="cuda:0")
    except fsp.errors.ForkedError as error:
        os._exit(7 if "spawn" in str(error) else 8)
    os._exit(9)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 7, done.stderr
