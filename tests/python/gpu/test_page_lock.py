"""Page-locked batches on the host, on the simulated driver: asynchronous copies have the bytes of their own batch."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from types import SimpleNamespace

import framespool as fsp
import pytest

pytestmark = pytest.mark.usefixtures("gpu")


@pytest.fixture
def driver():
    library = ctypes.CDLL("libcuda.so.1")
    if not hasattr(library, "simulated_gpu_calls"):
        pytest.skip("needs the simulated GPU")
    library.simulated_gpu_calls.restype = ctypes.c_uint64
    library.simulated_gpu_live_objects.restype = ctypes.c_uint64
    context = ctypes.c_void_p()
    assert library.cuInit(0) == 0 == library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    library.simulated_gpu_reset()
    yield library
    library.simulated_gpu_set_fault(b"")
    library.cuCtxSetCurrent(None)


@pytest.fixture
def torch_on_gpu(monkeypatch):
    """PyTorch as the loader sees it, with CUDA initialized."""
    cuda = SimpleNamespace(is_initialized=lambda: True, current_device=lambda: 0)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))


def loader(short_clips, **more) -> fsp.ClipLoader:
    T = fsp.transforms
    options = {"batch_size": 2, "prefetch_batches": 1, "num_threads": 1, "shuffle": "full", "seed": 3, **more}
    rule = fsp.samplers.RandomClips(sequence_length=4, clips_per_video=3)
    return fsp.ClipLoader(short_clips[:4], rule, transforms=[T.Resize((24, 32))], **options)


def expected(short_clips) -> list[bytes]:
    return [batch.frames.tobytes() for batch in loader(short_clips, pin_memory=False)]


def pinned(driver) -> int:
    return driver.simulated_gpu_live_objects(b"pinned")


def test_batches_are_page_locked_once_pytorch_uses_the_gpu(short_clips, driver, torch_on_gpu, monkeypatch):
    left = pinned(driver)  # by executors that decode_image keeps
    right, locked = expected(short_clips), loader(short_clips)
    assert not loader(short_clips, pin_memory=False)._pin_memory
    begun = driver.simulated_gpu_calls(b"cuMemHostAlloc")
    monkeypatch.setattr(sys.modules["torch"].cuda, "is_initialized", lambda: False)
    assert not any(batch.frames._is_page_locked for batch in locked)
    assert driver.simulated_gpu_calls(b"cuMemHostAlloc") == begun
    monkeypatch.setattr(sys.modules["torch"].cuda, "is_initialized", lambda: True)
    for _ in range(2):
        locked.set_epoch(0)
        batches = [(batch.frames._is_page_locked, batch.frames.tobytes()) for batch in locked]
        assert batches == [(True, frames) for frames in right], "in the next iteration, with the same bytes"
    assert locked.stats()["upload_fallbacks"] == {}
    # Blocks are used again: at most the open ones, the free ones and the consumer's.
    assert driver.simulated_gpu_calls(b"cuMemHostAlloc") - begun <= 7 < 2 * len(right)
    del locked
    assert pinned(driver) <= left


@pytest.mark.parametrize("how", ["default", "recorded", "unknown stream", "second GPU"])
def test_late_copies_have_the_bytes_of_their_batch(short_clips, driver, how):
    """Copies by the caller on any stream, and those that `Batch.to()` records; the first GPU locks the memory."""
    count, ordinal = ctypes.c_int(), int(how == "second GPU")
    assert driver.cuDeviceGetCount(ctypes.byref(count)) == 0
    if ordinal >= count.value:
        here = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k", "second"]
        done = subprocess.run(
            here, capture_output=True, text=True, env=os.environ | {"FRAMESPOOL_SIMULATED_DEVICES": "2"}
        )
        assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout
        return
    right = expected(short_clips)
    context, stream, memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), ordinal) == 0 == driver.cuCtxSetCurrent(context)
    if how != "default":
        assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0
    size = len(right[0])
    assert driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(size * len(right))) == 0
    for number, batch in enumerate(loader(short_clips, pin_memory=True)):
        source = batch.frames.numpy().ctypes.data
        to = ctypes.c_uint64(memory.value + number * size)
        assert driver.cuMemcpyHtoDAsync_v2(to, ctypes.c_void_p(source), ctypes.c_size_t(size), stream) == 0
        if how == "recorded":
            batch.frames._record_copy(0, stream.value)
        del batch
    assert driver.cuStreamSynchronize(stream) == 0
    got = ctypes.create_string_buffer(size * len(right))
    assert driver.cuMemcpyDtoH_v2(got, memory, ctypes.c_size_t(len(got))) == 0
    assert got.raw == b"".join(right)
    assert driver.cuMemFree_v2(memory) == 0
    if how != "default":
        assert driver.cuStreamDestroy_v2(stream) == 0


def test_memory_that_cannot_be_page_locked(short_clips, driver, torch_on_gpu):
    right = expected(short_clips)
    driver.simulated_gpu_set_fault(b"cuMemHostAlloc:1+=2")
    made = loader(short_clips)
    assert [batch.frames.tobytes() for batch in made] == right
    ((reason, count),) = made.stats()["upload_fallbacks"].items()
    assert "page-lock" in reason and count == 1
    with pytest.raises(fsp.errors.GpuError, match="page-lock .*pin_memory=False"):
        next(iter(loader(short_clips, pin_memory=True)))


def test_wrong_arguments_are_named(short_clips):
    with pytest.raises(fsp.errors.ArgumentError, match="pin_memory must be True, False or \"auto\", got 'yes'"):
        loader(short_clips, pin_memory="yes")
    with pytest.raises(fsp.errors.ArgumentError, match='pin_memory=True.*device="cuda:0"'):
        loader(short_clips, pin_memory=True, device="cuda:0")
    assert loader(short_clips, device="cuda:0")._pin_memory is False


@pytest.mark.parametrize("images", [False, True])
def test_no_driver_is_loaded_without_a_gpu_in_use(short_clips, photos, images):
    made = (
        f"fsp.ImageLoader({photos[:3]!r}, batch_size=2, transforms=[fsp.transforms.Resize((8, 8))])"
        if images
        else f"fsp.ClipLoader({short_clips[:2]!r}, fsp.samplers.UniformClips(sequence_length=2), batch_size=1)"
    )
    code = f"import framespool as fsp\nfor batch in {made}: pass\nprint('libcuda' in open('/proc/self/maps').read())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ)
    assert (done.stdout, done.returncode) == ("False\n", 0), done.stderr
