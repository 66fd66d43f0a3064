"""The driver calls of the checks, through ctypes, in the primary context that framespool and torch use too."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

OUT_OF_MEMORY = 2


class Driver:
    """libcuda with the first device's primary context, which becomes current on this thread."""

    def __init__(self) -> None:
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.check("cuInit", 0)
        self.context = ctypes.c_void_p()
        self.check("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.check("cuCtxSetCurrent", self.context)

    def check(self, name: str, *arguments: object) -> None:
        if code := getattr(self.lib, name)(*arguments):
            raise RuntimeError(f"{name} answered {code}")

    def memory(self) -> tuple[int, int]:
        """Free and total bytes."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.check("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def allocate(self, size: int) -> int | None:
        """Plain device memory; None if there is not enough."""
        address = ctypes.c_uint64()
        code = self.lib.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size))
        if code == OUT_OF_MEMORY:
            return None
        if code:
            raise RuntimeError(f"cuMemAlloc_v2 answered {code}")
        return address.value

    def free(self, address: int) -> None:
        self.check("cuMemFree_v2", ctypes.c_uint64(address))

    @contextmanager
    def occupied(self, leave_bytes: int) -> Iterator[int]:
        """Allocates all device memory except this many bytes; yields the free bytes."""
        held, step = [], 1 << 40
        try:
            while step >= 1 << 20:
                free, _ = self.memory()
                size = min(step, free - leave_bytes)
                address = self.allocate(size) if size >= 1 << 20 else None
                if address is None:
                    step //= 2
                else:
                    held.append(address)
            yield self.memory()[0]
        finally:
            for address in held:
                self.free(address)
            gc.collect()
