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
    return fsp.Video(videos / "derived" / "tiny_34x26_h264.mp4", layout="THWC").frames([0, 1, 2]).frames


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
                fsp.samplers.RandomClips(sequence_length=2),
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


@pytest.mark.parametrize(
    "index",
    [
        *(1, -1, slice(None), slice(1, 3), slice(None, None, 2), slice(2, 2), slice(-2, None), None, ..., ()),
        *(
            (1, 3),
            (slice(None), 5),
            (..., 0),
            (..., slice(1, None)),
            (0, ..., slice(None, None, 2)),
            (0, None, 4, ..., None),
        ),
        *(
            (2, 25, 33, 2),
            (slice(1, 2), slice(3, 20, 5), slice(None), 1),
            (..., slice(0, 0)),
            (np.int64(1), np.int32(2)),
        ),
    ],
    ids=str,
)
def test_indices_give_the_views_that_numpy_gives(tensor, index):
    array = tensor.numpy()
    part, wanted = tensor[index], array[index]
    assert type(part) is fsp.video.Tensor and part.shape == np.shape(wanted)
    assert part.tolist() == wanted.tolist() and part.tobytes() == wanted.tobytes() and part.nbytes == wanted.nbytes
    assert np.array_equal(pickle.loads(pickle.dumps(part)).numpy(), wanted)
    given = np.from_dlpack(part)
    assert np.array_equal(given, wanted) and np.array_equal(np.from_dlpack(part, copy=True), wanted)
    if given.size:
        assert np.shares_memory(given, array)
        assert address(given) == address(wanted if wanted.shape else array[(*index, np.newaxis)])
    if part.ndim and len(part):
        assert np.array_equal(part[0].numpy(), wanted[0])
        assert [np.asarray(entry).tolist() for entry in part] == wanted.tolist()


def test_other_indices_are_refused_with_the_way(tensor):
    for index in (3, -4, (0, 26), (0, 0, 0, 0, 0), (..., 0, ...)):
        with pytest.raises(IndexError):
            tensor[index]
    with pytest.raises(ValueError, match="step of a slice must be positive; use .numpy"):
        tensor[::-1]
    for index in ([0, 1], np.array([True, False, True]), True, "a", 1.0):
        with pytest.raises(TypeError, match="integers, slices, None or `...`, got .*use .numpy"):
            tensor[index]


def test_torch_takes_a_view_with_strides(tensor):
    torch = pytest.importorskip("torch")
    part = tensor[:, 2:9:3, ..., 1]
    taken = part.torch()
    assert taken.stride() == (26 * 34 * 3, 3 * 34 * 3, 3) and not taken.is_contiguous()
    assert torch.equal(taken, tensor.torch()[:, 2:9:3, ..., 1])
