"""Batches that several CUDA streams use, on the simulated driver, which runs work as late as it may."""

from __future__ import annotations

import ctypes
import sys
import threading
from types import SimpleNamespace

import framespool as fsp
import pytest

pytestmark = pytest.mark.usefixtures("gpu")


@pytest.fixture
def driver(monkeypatch):
    library = ctypes.CDLL("libcuda.so.1")
    if not hasattr(library, "simulated_gpu_set_pytorch_stream"):
        pytest.skip("needs the simulated GPU")
    for name in ("simulated_gpu_violations", "simulated_gpu_calls"):
        getattr(library, name).restype = ctypes.c_uint64
    library.simulated_gpu_violation_text.restype = ctypes.c_char_p
    library.simulated_gpu_violation_text.argtypes = [ctypes.c_uint64]
    # PyTorch as the engine sees it: its module, its library for CUDA and the current stream of each thread.
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda: False)))
    ctypes.CDLL("libtorch_cuda.so")
    context = ctypes.c_void_p()
    assert library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 == library.cuCtxSetCurrent(context)
    library.simulated_gpu_reset()
    yield library
    library.simulated_gpu_set_pytorch_stream(None)
    library.cuCtxSetCurrent(None)
    count = library.simulated_gpu_violations()
    assert [library.simulated_gpu_violation_text(number) for number in range(count)] == []


@pytest.fixture
def streams(driver):
    """The stream of a prefetcher and that of the training step."""
    side, main = ctypes.c_void_p(), ctypes.c_void_p()
    assert driver.cuStreamCreate(ctypes.byref(side), 1) == 0 == driver.cuStreamCreate(ctypes.byref(main), 1)
    yield side, main
    for stream in (side, main):
        assert driver.cuStreamSynchronize(stream) == 0 == driver.cuStreamDestroy_v2(stream)


def pytorch_stream(stream: ctypes.c_void_p) -> SimpleNamespace:
    """A `torch.cuda.Stream` that PyTorch has created: its id is not its handle."""
    return SimpleNamespace(cuda_stream=stream.value, stream_id=3, device_index=0)


class CudaStream:
    """A stream of a library with the protocol `__cuda_stream__`."""

    def __init__(self, stream: ctypes.c_void_p) -> None:
        self._stream = stream

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self._stream.value or 0)


def loader(short_clips, **more) -> fsp.ClipLoader:
    rule = fsp.samplers.RandomClips(sequence_length=4, clips_per_video=12)
    options = {"batch_size": 2, "prefetch_batches": 0, "num_threads": 1, "shuffle": "full", "seed": 3, **more}
    return fsp.ClipLoader(short_clips[:4], rule, transforms=[fsp.transforms.Resize((24, 32))], **options)


def managed(capsule) -> int:
    """The address of the capsule's `DLManagedTensorVersioned`."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return pointer(capsule, b"dltensor_versioned")


def delete_without_gil(capsule) -> None:
    """Takes a capsule as a consumer does and calls its deleter on another thread, without the GIL."""
    address = managed(capsule)
    name = ctypes.pythonapi.PyCapsule_SetName
    name.argtypes = [ctypes.py_object, ctypes.c_char_p]
    assert name(capsule, b"used_dltensor_versioned") == 0
    deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(ctypes.c_void_p.from_address(address + 16).value)
    deleter(address)


@pytest.mark.parametrize(
    "how",
    ["recorded batch", "recorded tensor", "handle", "current stream", "current stream, no GIL", "array interface"],
)
def test_memory_is_not_reused_while_a_second_stream_reads_it(short_clips, driver, streams, how):
    """A prefetcher takes a batch on its own stream; the training step reads it on another one, and it is dropped."""
    side, main = streams
    expected = [batch.frames.tobytes() for batch in loader(short_clips)]
    size, event, result = len(expected[0]), ctypes.c_void_p(), ctypes.c_uint64()
    sys.modules["torch"].cuda.current_stream = lambda _: pytorch_stream(side)
    assert driver.cuMemAlloc_v2(ctypes.byref(result), ctypes.c_size_t(size * len(expected))) == 0
    assert driver.cuEventCreate(ctypes.byref(event), 2) == 0
    for number, batch in enumerate(loader(short_clips, device="cuda:0")):
        tensor = batch.frames
        if how == "array interface":
            interface, capsule = tensor.__cuda_array_interface__, None
            taken, address = ctypes.c_void_p(interface["stream"]), interface["data"][0]
        else:
            capsule, taken = tensor.__dlpack__(stream=side.value, max_version=(1, 0)), side
            address = ctypes.c_uint64.from_address(managed(capsule) + 32).value
        assert driver.cuEventRecord(event, taken) == 0 == driver.cuStreamWaitEvent(main, event, 0)
        to = ctypes.c_uint64(result.value + number * size)
        assert driver.cuMemcpyDtoDAsync_v2(to, ctypes.c_uint64(address), ctypes.c_size_t(size), main) == 0
        if how == "recorded batch":
            batch.record_stream(pytorch_stream(main))
        elif how == "recorded tensor":
            tensor.record_stream(CudaStream(main))
        elif how == "handle":
            tensor[0].record_stream(main.value)
        elif "no GIL" not in how:
            driver.simulated_gpu_set_pytorch_stream(main)
        if "no GIL" in how:
            held = [capsule]

            def end(held=held) -> None:
                driver.simulated_gpu_set_pytorch_stream(main)
                delete_without_gil(held.pop())

            other = threading.Thread(target=end)
            del tensor, batch
            other.start()
            other.join()
        del capsule
        tensor = batch = None
    assert driver.cuStreamSynchronize(main) == 0
    got = ctypes.create_string_buffer(size * len(expected))
    assert driver.cuMemcpyDtoH_v2(got, result, ctypes.c_size_t(len(got))) == 0
    assert got.raw == b"".join(expected)
    assert driver.cuMemFree_v2(result) == 0 == driver.cuEventDestroy_v2(event)


def test_a_stream_is_recorded_where_one_can_read(short_clips, driver, streams):
    for batch in loader(short_clips):
        batch.record_stream(streams[1].value)  # on the host nothing is left to do
        batch.frames.record_stream(CudaStream(streams[1]))
    frames = next(iter(loader(short_clips, device="cuda:0"))).frames
    for wrong in (None, -1, "main", 2.5, object()):
        with pytest.raises(fsp.errors.ArgumentError, match="stream must be a torch.cuda.Stream"):
            frames.record_stream(wrong)


def test_a_batch_that_is_dropped_during_a_capture_is_freed(short_clips, driver, streams):
    made = iter(loader(short_clips, device="cuda:0"))
    batch = next(made)
    capsule = batch.frames.__dlpack__(stream=streams[0].value, max_version=(1, 0))
    driver.simulated_gpu_set_pytorch_stream(streams[1])
    driver.simulated_gpu_set_capturing(streams[1])
    freed = driver.simulated_gpu_calls(b"cuMemFree_v2")
    del batch, capsule
    driver.simulated_gpu_set_capturing(None)
    assert driver.simulated_gpu_calls(b"cuMemFree_v2") > freed, "no event of the graph marks the end of the reads"


def test_a_stream_of_an_unknown_library_may_end_before_the_batch(short_clips, driver, monkeypatch):
    monkeypatch.delitem(sys.modules, "torch")
    made = iter(loader(short_clips, device="cuda:0"))
    batch, stream = next(made), ctypes.c_void_p()
    assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0
    batch.record_stream(stream.value)
    assert driver.cuStreamDestroy_v2(stream) == 0
    freed = driver.simulated_gpu_calls(b"cuMemFree_v2")
    del batch
    assert driver.simulated_gpu_calls(b"cuMemFree_v2") > freed, "freeing waits for the readers"


@pytest.mark.parametrize("how", ["taken", "recorded"])
def test_a_stream_of_another_library_may_end_although_pytorch_is_loaded(short_clips, driver, streams, how):
    """PyTorch is loaded, but the stream is not one of its own, and a new one may get its handle."""
    made, stream = iter(loader(short_clips, device="cuda:0")), ctypes.c_void_p()
    batch = next(made)
    assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0
    current = pytorch_stream(streams[0])
    if how == "recorded":
        capsule = None
        batch.record_stream(SimpleNamespace(cuda_stream=stream.value, stream_id=stream.value, device_index=0))
    else:
        sys.modules["torch"].cuda.current_stream = lambda _: current
        capsule = batch.frames.__dlpack__(stream=stream.value, max_version=(1, 0))
    assert driver.cuStreamDestroy_v2(stream) == 0
    freed = driver.simulated_gpu_calls(b"cuMemFree_v2")
    del batch, capsule
    assert driver.simulated_gpu_calls(b"cuMemFree_v2") > freed, "freeing waits for the readers"
