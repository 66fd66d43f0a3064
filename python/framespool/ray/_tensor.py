"""What comes out of Ray's object store, with the face of :class:`framespool.Tensor`."""

from __future__ import annotations

import importlib
import sys
from typing import Any

# Of each length: one batch at the consumer's, one being copied, one more that training code held on to.
_MAX_FREE_BUFFERS = 4
# Smaller arrays are cheap to make.
_MIN_POOLED_BYTES = 1 << 16


class Tensor:
    """Numbers that came from a worker: the same names as :class:`framespool.Tensor`, over a NumPy array.

    bfloat16, which NumPy does not have, is kept as its bits. Memory that cannot be written to (the loader was told
    ``copy=False``) leaves as it is by :meth:`numpy`, and as a copy by DLPack and :meth:`torch`: PyTorch knows no
    read-only memory.
    """

    __slots__ = ("__weakref__", "_array")

    def __init__(self, array: Any) -> None:
        """``array``: contiguous; of uint16 where the numbers are bfloat16."""
        self._array = array

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        return tuple(self._array.shape)

    @property
    def dtype(self) -> str:
        """ "uint8", "float16", "bfloat16", "float32", "float64", "int64" or "bool"."""
        return "bfloat16" if self._is_bfloat16() else str(self._array.dtype)

    @property
    def device(self) -> str:
        """Where the memory is: always "cpu"."""
        return "cpu"

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return int(self._array.nbytes)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return int(self._array.ndim)

    def _is_bfloat16(self) -> bool:
        return bool(self._array.dtype == "uint16")

    def __len__(self) -> int:
        if not self._array.ndim:
            raise TypeError("len() of a tensor without dimensions")
        return len(self._array)

    def __getitem__(self, index: int) -> Tensor:
        """A view of entry ``index`` of the first dimension."""
        # A slice of one entry, since a scalar would not be a view.
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"index {index} asked for, but the first dimension has {len(self)} entries")
        return Tensor(self._array[at : at + 1].reshape(self.shape[1:]))

    def __repr__(self) -> str:
        return f"Tensor(shape={self.shape}, dtype={self.dtype}, device=cpu)"

    def drop_time(self, layout: str) -> Tensor:
        """The same without the dimension of time, which holds one entry; ``layout`` names the last dimensions."""
        at = self.ndim - len(layout) + layout.index("T")
        if at < 0 or self.shape[at] != 1:
            raise ValueError(f"no single entry in dimension T of {layout}")
        return Tensor(self._array.reshape(self.shape[:at] + self.shape[at + 1 :]))

    def _writable(self) -> Any:
        return self._array if self._array.flags.writeable else self._array.copy()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **keywords: Any) -> Any:
        if self._is_bfloat16():
            # Only PyTorch's memory can say that it is bfloat16.
            return self.torch().__dlpack__()
        return self._writable().__dlpack__(**keywords)

    def __array__(self, dtype: Any | None = None, *, copy: bool | None = None) -> Any:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError("another dtype needs a copy, which copy=False forbids")
            return array.astype(dtype)
        return array.copy() if copy else array

    def cpu(self) -> Tensor:
        """Itself: it lies on the host."""
        return self

    def numpy(self) -> Any:
        """The same memory as a NumPy array."""
        if self._is_bfloat16():
            raise TypeError('NumPy has no bfloat16; use dtype="float16", or .torch()')
        return self._array

    def torch(self) -> Any:
        """The same memory as a PyTorch tensor."""
        try:
            torch = importlib.import_module("torch")
        except ImportError:
            raise ImportError("PyTorch is not installed; pip install torch") from None
        if self._is_bfloat16():
            return torch.from_numpy(self._writable().view("int16")).view(torch.bfloat16)
        return torch.from_numpy(self._writable())

    def tobytes(self) -> bytes:
        """A copy of the memory, row-major."""
        return bytes(self._array.tobytes())

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        if self._is_bfloat16():
            return (self._array.astype("uint32") << 16).view("float32").tolist()
        return self._array.tolist()


class BufferPool:
    """Memory for batches, used again once nobody holds it: writing to memory that is new costs two thirds of the
    time of a copy."""

    def __init__(self) -> None:
        self._blocks: list[Any] = []
        # What is counted for something that only a list holds differs between releases of Python.
        self._idle = _holders([object()])[0]

    def copy(self, array: Any) -> Any:
        """``array`` in memory of its own, which can be written to."""
        if array.nbytes < _MIN_POOLED_BYTES:
            return array.copy()
        import numpy as np

        block = self._free(array.nbytes)
        if block is None:
            block = np.empty(array.nbytes, np.uint8)
            self._blocks = [*self._blocks, block][-_MAX_FREE_BUFFERS:]
        # Whoever holds a view holds the block, as its base.
        own = block.view(array.dtype).reshape(array.shape)
        np.copyto(own, array)
        return own

    def _free(self, num_bytes: int) -> Any | None:
        for number, holders in enumerate(_holders(self._blocks)):
            if holders == self._idle and self._blocks[number].nbytes == num_bytes:
                return self._blocks[number]
        return None


def _holders(things: list[Any]) -> list[int]:
    """How often each is referred to, with the list and this function."""
    return [sys.getrefcount(thing) for thing in things]
