"""Batches in JAX and CuPy, by DLPack; skipped if these are not installed."""

from __future__ import annotations

import gc
import resource

import framespool as fsp
import numpy as np
import pytest

DTYPES = ("uint8", "float16", "bfloat16", "float32")


def loader(short_clips, dtype="uint8", side=24, **more):
    rule = fsp.samplers.Windows(sequence_length=4, step=8)
    size = [fsp.transforms.Resize((side, side))]
    return fsp.ClipLoader(
        short_clips, rule, transforms=size, dtype=dtype, **{"batch_size": 3, "num_threads": 1, **more}
    )


@pytest.fixture(scope="module")
def jax():
    return pytest.importorskip("jax")


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_batch_becomes_a_jax_array_without_a_copy(short_clips, jax, dtype):
    batch = next(iter(loader(short_clips, dtype)))
    array = jax.numpy.from_dlpack(batch.frames)
    assert array.shape == batch.frames.shape == (3, 4, 3, 24, 24) and array.dtype == dtype
    assert np.asarray(array).tobytes() == batch.frames.tobytes()
    # No copy is JAX's choice where memory is aligned for it, and batches are.
    again = jax.numpy.from_dlpack(batch.frames, copy=False)
    assert again.unsafe_buffer_pointer() == array.unsafe_buffer_pointer()
    if dtype != "bfloat16":
        assert array.unsafe_buffer_pointer() == batch.frames.numpy().ctypes.data


def test_all_metadata_of_a_batch_arrive(short_clips, jax):
    batch = next(iter(loader(short_clips)))
    for name, tensor in {**batch.as_dict(), **batch.video._asdict()}.items():
        if name == "video":
            continue
        array = jax.numpy.from_dlpack(tensor)
        assert array.shape == tensor.shape, name
        # By default JAX has no 64-bit numbers.
        assert np.allclose(np.asarray(array), tensor.numpy(), rtol=1e-6), name


def test_batch_item_and_single_frame_export(short_clips, jax):
    batch = next(iter(loader(short_clips)))
    assert np.array_equal(np.asarray(jax.numpy.from_dlpack(batch.frames[1])), batch.frames.numpy()[1])
    frame = fsp.Video(short_clips[0][0])[5]
    assert np.array_equal(np.asarray(jax.numpy.from_dlpack(frame)), frame.numpy())


def test_arrays_stay_right_while_batches_go(short_clips, jax):
    """Memory of batches is reused, but not while an array references it."""
    wanted = [batch.frames.numpy().copy() for batch in loader(short_clips)]
    arrays = []
    for batch in loader(short_clips, prefetch_batches=1):
        arrays.append(jax.numpy.from_dlpack(batch.frames))
        del batch
    gc.collect()
    for batch in loader(short_clips, prefetch_batches=1):  # others are prepared meanwhile
        assert batch.frames.shape
    assert len(arrays) == len(wanted) > 10
    assert all(np.array_equal(np.asarray(array), right) for array, right in zip(arrays, wanted, strict=True))
    total = jax.jit(lambda x: x.astype("int32").sum())
    assert [int(total(array)) for array in arrays] == [int(right.sum(dtype=np.int64)) for right in wanted]


def test_many_batches_do_not_add_up(short_clips, jax):
    """100 batches of 1.9 MB: none is leaked."""
    taken, before = 0, None
    batches = loader(short_clips[:4], side=400, batch_size=1, prefetch_batches=1)
    while taken < 100:
        for batch in batches:
            array = jax.numpy.from_dlpack(batch.frames)
            assert array.nbytes == 4 * 400 * 400 * 3
            taken += 1
            if taken == 20:
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 60_000, f"{grown} KB for 80 batches that take 154 MB"


def test_cupy_reads_a_gpu_batch_without_a_copy(short_clips):
    """Not yet run on hardware."""
    cupy = pytest.importorskip("cupy")
    if fsp.gpu.unavailable_reason() is not None:
        pytest.skip(fsp.gpu.unavailable_reason())
    right = next(iter(loader(short_clips))).frames.numpy()
    batch = next(iter(loader(short_clips, device="cuda:0")))
    array = cupy.from_dlpack(batch.frames)
    assert array.data.ptr == cupy.asarray(batch.frames).data.ptr
    del batch
    assert np.array_equal(cupy.asnumpy(array), right)
