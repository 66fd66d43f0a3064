"""Tensor export: no copy, correct lifetime, and errors for unsupported requests."""

from __future__ import annotations

import copy
import gc
import pickle

import framespool as fsp
import numpy as np
import pytest
from framespool import _framespool


@pytest.fixture
def tensor(videos):
    return fsp.Video(videos / "derived" / "tiny_34x26_h264.mp4").frames([0, 1, 2]).data


def address(array):
    return array.__array_interface__["data"][0]


def test_numpy_shares_memory_with_every_api(tensor):
    arrays = [np.from_dlpack(tensor), tensor.numpy(), np.asarray(tensor)]
    assert len({address(array) for array in arrays}) == 1
    assert address(np.from_dlpack(tensor[1])) == address(arrays[0]) + 26 * 34 * 3
    assert address(arrays[0]) % 64 == 0
    arrays[0][0, 0, 0, 0] ^= 255
    assert arrays[1][0, 0, 0, 0] == arrays[0][0, 0, 0, 0]


def test_a_copy_is_a_copy(tensor):
    for copied in (np.from_dlpack(tensor, copy=True), np.array(tensor, copy=True)):
        assert address(copied) != address(tensor.numpy())
        assert np.array_equal(copied, tensor.numpy())


def test_a_tensor_can_be_pickled_and_copied(tensor, short_clips):
    for copied in (pickle.loads(pickle.dumps(tensor)), copy.deepcopy(tensor)):
        assert (copied.shape, copied.dtype, copied.device) == (tensor.shape, "uint8", "cpu")
        assert np.array_equal(copied.numpy(), tensor.numpy()) and address(copied.numpy()) != address(tensor.numpy())
    assert pickle.loads(pickle.dumps(tensor[1])).tobytes() == tensor[1].tobytes(), (
        "a pickled view contains only its own part"
    )
    batch = next(
        iter(
            fsp.ClipLoader(
                short_clips[:2],
                fsp.samplers.random(sequence_length=2),
                batch_size=1,
                dtype="bfloat16",
                transforms=[fsp.transforms.Resize((16, 16))],
            )
        )
    )
    again = pickle.loads(pickle.dumps(batch))
    assert again.frames.dtype == "bfloat16" and again.frames.tobytes() == batch.frames.tobytes()
    assert again.mask.tolist() == batch.mask.tolist() and again.indices.tolist() == batch.indices.tolist()
    for data, shape, dtype in [(b"ab", [3], "uint8"), (b"ab", [2], "complex64"), (b"", [2**40, 2**40], "int64")]:
        with pytest.raises(ValueError, match="do not form a tensor"):
            _framespool.tensor_of(data, shape, dtype)


def test_memory_lives_as_long_as_its_last_taker(tensor):
    expected = tensor.tobytes()
    array = np.from_dlpack(tensor)
    view = array[1:]
    del tensor, array
    gc.collect()
    junk = [np.full(26 * 34 * 9, 7, np.uint8) for _ in range(50)]
    assert view.tobytes() == expected[26 * 34 * 3 :]
    del junk


def test_an_unused_capsule_is_freed(tensor):
    import resource

    big = [tensor.__dlpack__(max_version=(1, 0)) for _ in range(10)]
    legacy = [tensor.__dlpack__() for _ in range(10)]
    del big, legacy
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(2000):
        tensor.__dlpack__(copy=True)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 << 10  # KiB; all copies would be 16 MiB


def test_unsupported_export_raises_buffer_error(tensor):
    with pytest.raises(BufferError, match="stream"):
        tensor.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="device"):
        tensor.__dlpack__(dl_device=(2, 0))
    assert tensor.__dlpack_device__() == (1, 0)


def test_shape_dtype_and_lists(tensor):
    assert tensor.shape == (3, 26, 34, 3) and tensor.ndim == 4 and len(tensor) == 3
    assert tensor.nbytes == 3 * 26 * 34 * 3 and tensor.dtype == "uint8" and tensor.device == "cpu"
    assert tensor.tolist() == tensor.numpy().tolist()
    assert repr(tensor) == "Tensor(shape=(3, 26, 34, 3), dtype=uint8, device=cpu)"
    with pytest.raises(IndexError):
        tensor[3]


def test_torch_gets_the_same_memory(tensor):
    torch = pytest.importorskip("torch")
    taken = torch.from_dlpack(tensor)
    assert taken.data_ptr() == address(tensor.numpy())
    assert taken.shape == tensor.shape and taken.dtype == torch.uint8
