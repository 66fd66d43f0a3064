"""Tensors from Ray's object store, with the interface of `framespool.video.Tensor`."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from framespool._common.tensor_methods import add_methods
from framespool._framespool import Tensor as NativeTensor

# One batch at the consumer, one being copied, and further ones that training code keeps.
_MAX_FREE_BUFFERS = 4
# Smaller arrays are cheap to allocate.
_MIN_POOLED_BYTES = 1 << 16


class Tensor:
    """A tensor that came from a worker: the interface of `framespool.video.Tensor` over a NumPy array.

    bfloat16, which NumPy does not have, is stored as its bits. Read-only memory (the loader has `copy=False`) is
    returned unchanged by `numpy()`, and as a copy by DLPack and `torch()`: PyTorch does not support read-only memory.

    Args:
        array: Contiguous array; of int16 if the values are bfloat16.

    Example:
        >>> import framespool as fsp
        >>> loader = fsp.ray.ClipLoader(dataset, clip_sampler, batch_size=8, num_workers=4)  # doctest: +SKIP
        >>> batch = next(iter(loader))  # doctest: +SKIP
        >>> batch.frames.torch().shape  # doctest: +SKIP
    """

    __slots__ = ("__weakref__", "_array")

    def __init__(self, array: Any) -> None:
        self._array = array

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions."""
        return tuple(self._array.shape)

    @property
    def dtype(self) -> str:
        """ "uint8", "uint16", "float16", "bfloat16", "float32", "float64", "int64" or "bool"."""
        return "bfloat16" if self._is_bfloat16() else str(self._array.dtype)

    @property
    def device(self) -> str:
        """Device of the memory: always "cpu"."""
        return "cpu"

    @property
    def nbytes(self) -> int:
        """Size of the memory in bytes."""
        return int(self._array.nbytes)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return int(self._array.ndim)

    def _is_bfloat16(self) -> bool:
        return bool(self._array.dtype == "int16")

    def __len__(self) -> int:
        if not self._array.ndim:
            raise TypeError("len() of a tensor without dimensions")
        return len(self._array)

    def __getitem__(self, index: Any) -> Tensor:
        """Returns a view, for integers, slices, `None` and `...` as indices."""
        parts = index if isinstance(index, tuple) else (index,)
        for part in parts:
            if isinstance(part, slice):
                if part.step is not None and part.step < 1:
                    raise ValueError("the step of a slice must be positive; use .numpy() to reverse")
            elif isinstance(part, bool) or not (part is None or part is Ellipsis or hasattr(part, "__index__")):
                name = type(part).__name__
                raise TypeError(
                    f"indices must be integers, slices, None or `...`, got {name}; use .numpy() or .torch() for others"
                )
        # With an ellipsis a single value is a view, too.
        return Tensor(self._array[parts if Ellipsis in parts else (*parts, Ellipsis)])

    def __repr__(self) -> str:
        return f"Tensor(shape={self.shape}, dtype={self.dtype}, device=cpu)"

    def drop_time(self, layout: str) -> Tensor:
        """Returns the tensor without the time dimension, whose size must be 1.

        Args:
            layout: Names of the last dimensions, such as `"TCHW"`.

        Returns:
            A view.

        Raises:
            ValueError: If the size of the time dimension is not 1.
        """
        at = self.ndim - len(layout) + layout.index("T")
        if at < 0 or self.shape[at] != 1:
            raise ValueError(f"dimension T of {layout} must have size 1, got shape {self.shape}")
        return Tensor(self._array.reshape(self.shape[:at] + self.shape[at + 1 :]))

    def _writable(self) -> Any:
        return self._array if self._array.flags.writeable else self._array.copy()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **keywords: Any) -> Any:
        if self._is_bfloat16():
            # Of the available libraries only PyTorch exports bfloat16.
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
        """Returns the tensor itself, since it is in host memory.

        Returns:
            This tensor.
        """
        return self

    def numpy(self) -> Any:
        """Returns the same memory as a NumPy array.

        Returns:
            An array, read-only with `copy=False`.

        Raises:
            TypeError: If the values are bfloat16.
        """
        if self._is_bfloat16():
            raise TypeError('NumPy has no bfloat16; use dtype="float16", or .torch()')
        return self._array

    def torch(self) -> Any:
        """Returns the values as a PyTorch tensor, which shares the memory if it is writable.

        Returns:
            A `torch.Tensor`.

        Raises:
            ImportError: If PyTorch is not installed.
        """
        try:
            torch = importlib.import_module("torch")
        except ImportError:
            raise ImportError("PyTorch is not installed; pip install torch") from None
        if self._is_bfloat16():
            return torch.from_numpy(self._writable()).view(torch.bfloat16)
        return torch.from_numpy(self._writable())

    def tobytes(self) -> bytes:
        """Returns a copy of the memory, row-major.

        Returns:
            The bytes.
        """
        return bytes(self._array.tobytes())

    def tolist(self) -> Any:
        """Returns nested lists of Python numbers.

        Returns:
            A list, or a number if there are no dimensions.
        """
        if self._is_bfloat16():
            return (self._array.view("uint16").astype("uint32") << 16).view("float32").tolist()
        return self._array.tolist()

    def _repr_html_(self) -> str:
        """Shows shape and dtype in a notebook, and the pictures of frames."""
        return NativeTensor._repr_html_(self)  # type: ignore[attr-defined, no-any-return]


add_methods(Tensor)


class BufferPool:
    """Memory for batches, reused when it is idle: writing to new memory takes two thirds of the time of a copy."""

    def __init__(self) -> None:
        self._blocks: list[Any] = []
        # The reference count of an object that only a list refers to differs between releases of Python.
        self._idle = _holders([object()])[0]

    def copy(self, array: Any) -> Any:
        """Copies an array into memory of its own, which is writable.

        Args:
            array: A contiguous array.

        Returns:
            The copy.
        """
        if array.nbytes < _MIN_POOLED_BYTES:
            return array.copy()
        import numpy as np

        block = self._free(array.nbytes)
        if block is None:
            block = np.empty(array.nbytes, np.uint8)
            self._blocks = [*self._blocks, block][-_MAX_FREE_BUFFERS:]
        # A view keeps a reference to the block, as its base.
        own = block.view(array.dtype).reshape(array.shape)
        np.copyto(own, array)
        return own

    def _free(self, num_bytes: int) -> Any | None:
        for number, holders in enumerate(_holders(self._blocks)):
            if holders == self._idle and self._blocks[number].nbytes == num_bytes:
                return self._blocks[number]
        return None


def _holders(things: list[Any]) -> list[int]:
    """Returns the reference count of each object, including the list and this function."""
    return [sys.getrefcount(thing) for thing in things]
