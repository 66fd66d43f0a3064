"""Arrays and their devices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from framespool._framespool import Tensor
from framespool.errors import UnsupportedError

__all__ = ["DECORDContext", "NDArray", "array", "cpu", "gpu"]

_CPU, _GPU = 1, 2


@dataclass(frozen=True)
class DECORDContext:
    """A device.

    Attributes:
        device_type: 1 for the CPU, 2 for a GPU, as in DLPack.
        device_id: Number of the device, from 0.
    """

    device_type: int
    device_id: int

    def __repr__(self) -> str:
        return f"{'cpu' if self.device_type == _CPU else 'gpu'}({self.device_id})"

    def sync(self) -> None:
        """Has no effect: frames are complete when they are returned."""


def cpu(dev_id: int = 0) -> DECORDContext:
    """Returns the CPU.

    Args:
        dev_id: Number of the device.

    Returns:
        A context.
    """
    return DECORDContext(_CPU, dev_id)


def gpu(dev_id: int = 0) -> DECORDContext:
    """Returns a GPU.

    Args:
        dev_id: Number of the GPU, from 0.

    Returns:
        A context.
    """
    return DECORDContext(_GPU, dev_id)


class NDArray:
    """An array in memory, which readers return with the bridge "native".

    It converts by DLPack without a copy: ``torch.from_dlpack(a)``, ``torch.from_dlpack(a.to_dlpack())``,
    ``numpy.from_dlpack(a)``. ``len(a)`` is the number of elements, as in decord.

    Args:
        held: The memory.
    """

    def __init__(self, held: Tensor | np.ndarray[Any, Any]) -> None:
        self._held = held

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions."""
        return tuple(self._held.shape)

    @property
    def dtype(self) -> str:
        """ "uint8", "int64", …"""
        return str(self._held.dtype)

    @property
    def ctx(self) -> DECORDContext:
        """Device of the memory."""
        kind, number = self._held.__dlpack_device__()
        return DECORDContext(int(kind), int(number))

    context = ctx

    def asnumpy(self) -> np.ndarray[Any, Any]:
        """Copies the array to the host.

        Returns:
            A NumPy array of its own.
        """
        held = self._held
        array: np.ndarray[Any, Any] = held if isinstance(held, np.ndarray) else held.cpu().numpy()
        return np.array(array)

    def to_dlpack(self) -> Any:
        """Returns a DLPack capsule of this memory.

        Returns:
            The capsule.
        """
        return self._held.__dlpack__()

    def copyto(self, target: DECORDContext | NDArray) -> NDArray:
        """Copies the array to a device, or into another array of this shape; only on the CPU.

        Args:
            target: A context or an array.

        Returns:
            The copy, or ``target``.

        Raises:
            UnsupportedError: If the target is a GPU.
        """
        if isinstance(target, NDArray):
            return target.copyfrom(self)
        if target.device_type != _CPU:
            raise UnsupportedError(f"arrays are copied to the CPU only, not to {target}; torch.from_dlpack can do it")
        return NDArray(self.asnumpy())

    def copyfrom(self, source_array: Any) -> NDArray:
        """Copies the values of another array into this one.

        Args:
            source_array: An array of the same shape.

        Returns:
            This array.

        Raises:
            ValueError: If the shapes differ.
        """
        held = self._held
        mine: np.ndarray[Any, Any] = held if isinstance(held, np.ndarray) else held.numpy()
        mine[...] = np.asarray(source_array)
        return self

    def same_as(self, other: NDArray) -> bool:
        """Reports whether two arrays share their memory.

        Args:
            other: The other array.

        Returns:
            ``True`` if they do.
        """
        return self._held is other._held

    def __len__(self) -> int:
        return math.prod(self.shape)

    def __dlpack__(self, **wishes: Any) -> Any:
        return self._held.__dlpack__(**wishes)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, number = self._held.__dlpack_device__()
        return int(kind), int(number)

    def __array__(self, dtype: Any = None, *, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self.asnumpy() if dtype is None else self.asnumpy().astype(dtype)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} shape={self.shape}, {self.ctx}>\n{self.asnumpy()!r}"


def array(arr: Any, ctx: DECORDContext | None = None) -> NDArray:
    """Creates an array on the CPU.

    Args:
        arr: Values, as for ``numpy.array``.
        ctx: ``None`` or a CPU.

    Returns:
        The array.

    Raises:
        UnsupportedError: If ``ctx`` is a GPU.
    """
    if ctx is not None and ctx.device_type != _CPU:
        raise UnsupportedError(f"arrays are made on the CPU only, not on {ctx}")
    return NDArray(np.array(arr))
