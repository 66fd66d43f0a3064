"""`Cache(disk=)` with batches on a GPU, real or simulated: the bytes of a CPU loader without it, with less decoding."""

from __future__ import annotations

import ctypes
from typing import Any

import framespool as fsp
import pytest

pytestmark = pytest.mark.usefixtures("gpu")

T = fsp.transforms
RANDOM = [T.RandomResizedCrop(32), T.RandomHorizontalFlip()]
NORMALIZE = T.Normalize((0.4, 0.5, 0.6), (0.2, 0.3, 0.4))
FIXED = {"transforms": [T.Resize((24, 32)), NORMALIZE], "dtype": "float32", "shuffle": False, "layout": "NCTHW"}
EPOCHS = 5


def loader(dataset, folder=None, sampler=None, *, of_cache: Any = None, **keywords: Any) -> fsp.ClipLoader:
    cache = "2GiB" if folder is None else fsp.Cache(disk=folder, disk_size="1GiB", epochs=4, **(of_cache or {}))
    options = {"batch_size": 4, "shuffle": "full", "seed": 3, "num_threads": 2, "transforms": RANDOM, **keywords}
    return fsp.ClipLoader(
        dataset, sampler or fsp.samplers.RandomClips(sequence_length=4, stride=3), cache=cache, **options
    )


def contents(batch: fsp.Batch) -> tuple[list[int], list[bytes]]:
    return batch.clip_ids.tolist(), [clip.cpu().tobytes() for clip in batch.frames]


def epochs(clips: fsp.ClipLoader, count: int = EPOCHS) -> list[Any]:
    return [[contents(batch) for batch in clips] for _ in range(count)]


@pytest.fixture
def driver():
    library = ctypes.CDLL("libcuda.so.1")
    if not hasattr(library, "simulated_gpu_calls"):
        pytest.skip("needs the simulated GPU")
    library.simulated_gpu_violations.restype = ctypes.c_uint64
    library.simulated_gpu_live_objects.restype = ctypes.c_uint64
    library.simulated_gpu_set_seed.argtypes = [ctypes.c_uint64]
    library.simulated_gpu_reset()
    yield library
    library.simulated_gpu_set_fault(b"")
    library.simulated_gpu_set_seed(0)
    assert library.simulated_gpu_violations() == 0


CASES: dict[str, dict[str, Any]] = {
    "uint8": {},
    "float32 from codes": {"dtype": "float32", "transforms": [*RANDOM, NORMALIZE], "layout": "NCTHW"},
    "bfloat16 of several sizes": {"dtype": "bfloat16", "transforms": [T.Resize(24), NORMALIZE], "collate": "list"},
    "padded": {"transforms": [T.RandomShortestSize(20, 28)], "collate": "pad"},
    "frames of zeros": {"sampler": fsp.samplers.RandomClips(sequence_length=16, stride=7, padding="blank")},
    "repeats": {"repeats": 2, "dtype": "float16", "transforms": [*RANDOM, NORMALIZE]},
}


@pytest.mark.parametrize(
    ("case", "decoder"),
    [*((case, "auto") for case in CASES), ("uint8", "nvdec"), ("uint8", "cpu"), ("float32 from codes", "cpu")],
)
def test_batches_are_the_same_and_less_is_decoded(case, decoder, tiny_clips, tmp_path):
    plain = loader(tiny_clips, **CASES[case])
    cached = loader(tiny_clips, tmp_path, device=fsp.Gpu("cuda:0", decoder=decoder, threads=2), **CASES[case])
    assert epochs(cached) == epochs(plain)
    stats = cached.stats()
    assert stats["disk_clips_read"] > 0 and stats["frames_decoded"] < plain.stats()["frames_decoded"]
    if decoder != "auto":
        assert (stats["frames_decoded_by_gpu"] > 0) == (decoder == "nvdec")
    assert stats["disk_clips_damaged"] == stats["disk_clips_not_stored"] == 0 and not stats["upload_fallbacks"]


def test_deep_video_is_stored_with_its_depth(videos, tmp_path):
    files = [str(videos / "codecs" / name) for name in ("hevc_main10.mkv", "vp9_10bit.webm")]
    sampler = fsp.samplers.UniformClips(sequence_length=2)
    keywords = {"dtype": "float32", "transforms": [T.Resize((24, 32))], "batch_size": 2}
    expected = epochs(loader(files, None, sampler, **keywords), 2)
    by_nvdec = {**keywords, "device": fsp.Gpu("cuda:0", decoder="nvdec", threads=1)}
    first = loader(files, tmp_path, sampler, **by_nvdec)
    # The memory for the clips of the first video is reserved for 8 bits: its depth is not known yet, and each thread
    # finds it out by itself.
    assert epochs(first, 2) == expected
    del first  # ends its workers, so that the last clip is stored
    again = loader(files, tmp_path, sampler, **by_nvdec)
    assert epochs(again, 2) == expected
    assert again.stats()["disk_clips_read"] == 4 and again.stats()["frames_decoded"] == 0


def test_clips_of_later_epochs_are_within_the_memory_budget(tiny_clips, tmp_path):
    budget = 10 * 4 * 32 * 32 * 3
    cached = loader(tiny_clips, tmp_path, device="cuda:0", of_cache={"device_memory": budget, "lookahead": 0})
    assert epochs(cached) == epochs(loader(tiny_clips))
    stats = cached.stats()
    assert stats["disk_clips_read"] > 0 and 0 < stats["clip_cache_peak_bytes"] <= budget


def test_clips_that_are_equal_in_every_epoch_are_shared_by_loaders_with_the_same_decoder(tiny_clips, tmp_path):
    sampler = fsp.samplers.UniformClips(sequence_length=4)
    host = loader(tiny_clips, tmp_path, sampler, **FIXED)
    expected = epochs(host, 1)
    del host  # ends its workers, so that the last clip is stored
    by_cpu = loader(tiny_clips, tmp_path, sampler, device=fsp.Gpu(0, decoder="cpu"), **FIXED)
    assert epochs(by_cpu, 1) == expected and by_cpu.stats()["frames_decoded"] == 0
    by_nvdec = loader(tiny_clips, tmp_path, sampler, device=fsp.Gpu(0, decoder="nvdec"), **FIXED)
    assert epochs(by_nvdec, 1) == expected and by_nvdec.stats()["disk_clips_read"] == 0
    del by_nvdec
    again = loader(tiny_clips, tmp_path, sampler, device="cuda:0", **FIXED)
    assert epochs(again, 2) == expected * 2
    assert again.stats()["frames_decoded"] == 0 and again.stats()["disk_clips_read"] == 2 * len(tiny_clips)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_order_of_the_driver_gives_the_same_batches(seed, tiny_clips, tmp_path, driver):
    keywords = {"dtype": "float32", "transforms": [*RANDOM, NORMALIZE]}
    driver.simulated_gpu_set_seed(seed)
    cached = loader(tiny_clips, tmp_path, device="cuda:0", **keywords)
    assert epochs(cached) == epochs(loader(tiny_clips, **keywords))
    assert cached.stats()["disk_clips_read"] > 0


@pytest.mark.parametrize(
    "fault", ["cuMemcpyDtoHAsync_v2:1+=999", "cuMemcpyDtoHAsync_v2:3=999", "cuStreamSynchronize:2=999"]
)
def test_clips_that_are_not_copied_back_are_decoded(fault, tiny_clips, tmp_path, driver):
    dataset = tiny_clips[:8]
    cached = loader(dataset, tmp_path, device="cuda:0")
    driver.simulated_gpu_set_fault(fault.encode())
    batches = [list(cached) for _ in range(EPOCHS)]  # read below, since that copies from the GPU too
    stats = cached.stats()
    driver.simulated_gpu_set_fault(b"")
    assert [[contents(batch) for batch in epoch] for epoch in batches] == epochs(loader(dataset))
    assert stats["disk_clips_not_stored"] > 0 and stats["clips_skipped"] == 0 and not stats["errors"]
    ((reason, count),) = stats["upload_fallbacks"].items()
    assert "disk cache are not copied" in reason and count > 0
    assert (stats["disk_clips_stored"] == 0) == ("+" in fault)


@pytest.mark.parametrize(
    "fault",
    [
        "cuMemHostAlloc:1+=2",
        "cuStreamCreateWithPriority:1=999",
        "cuMemcpyHtoDAsync_v2:1=999",
        "cuMemcpyHtoDAsync_v2:5+=999",
        "cuLaunchKernel:1=999",
        "cuEventRecord:1=999",
        "cuEventCreate:1=2",
    ],
)
def test_stored_clips_that_are_not_copied_are_decoded(fault, tiny_clips, tmp_path, driver):
    sampler = fsp.samplers.UniformClips(sequence_length=4)
    first = loader(tiny_clips[:6], tmp_path, sampler, device="cuda:0", **FIXED)
    expected = epochs(first, 1)
    del first  # ends its workers, so that the last clip is stored
    cached = loader(tiny_clips[:6], tmp_path, sampler, device=fsp.Gpu("cuda:0", decoder="nvdec", threads=1), **FIXED)
    driver.simulated_gpu_reset()
    driver.simulated_gpu_set_fault(fault.encode())
    try:
        batches = list(cached)
        driver.simulated_gpu_set_fault(b"")
        assert [contents(batch) for batch in batches] == expected[0]
        stats = cached.stats()
        (reason,) = stats["upload_fallbacks"]
        if "HostAlloc" in fault:
            assert "pageable" in reason and stats["frames_decoded"] == 0
        else:
            assert "disk cache are not copied" in reason and stats["frames_decoded"] > 0
    except fsp.errors.GpuError:
        assert "+" in fault
    driver.simulated_gpu_set_fault(b"")
    assert epochs(cached, 1) == expected
