"""Driver calls through ctypes, in the primary context that framespool and torch use too, and a load like training."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

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


class Load:
    """Steps that occupy the GPU as training does, on a stream of their own, and never let it idle.

    With torch a step is matrix products in bfloat16, which fill all multiprocessors. Without it copies of device memory
    take their place, which only test the script.
    """

    SIZE, PRODUCTS = 8192, 16
    #: A host that waits for the event sleeps; no timing.
    EVENT_FLAGS = 3

    def __init__(self) -> None:
        #: What `run` returned in the thread of `busy`.
        self.steps: list[tuple[float, float]] = []
        self.torch: Any = None
        if importlib.util.find_spec("torch"):
            import torch

            self.torch = torch if torch.cuda.is_available() else None
        if self.torch:
            self.name = f"{self.PRODUCTS} products of {self.SIZE}x{self.SIZE} bfloat16"
            self.matrix = self.torch.rand(self.SIZE, self.SIZE, device="cuda", dtype=self.torch.bfloat16)
            self.stream = self.torch.cuda.Stream()
            self.torch.cuda.synchronize()
            return
        self.name = "copies of device memory, since torch is not installed"
        self.driver = Driver()
        self.bytes = 1 << 20 if os.environ.get("FRAMESPOOL_TRY") else 1 << 28
        self.blocks = [self.driver.allocate(self.bytes) for _ in range(2)]
        self.raw = ctypes.c_void_p()
        self.driver.check("cuStreamCreateWithPriority", ctypes.byref(self.raw), 1, 0)

    def enqueue(self) -> Callable[[], None]:
        """Enqueues a step; returns the wait for it."""
        if self.torch:
            with self.torch.cuda.stream(self.stream):
                for _ in range(self.PRODUCTS):
                    self.torch.mm(self.matrix, self.matrix)
                event = self.torch.cuda.Event(blocking=True)
                event.record()
            return event.synchronize
        for _ in range(4):
            size, (to, origin) = ctypes.c_size_t(self.bytes), map(ctypes.c_uint64, self.blocks)
            self.driver.check("cuMemcpyDtoDAsync_v2", to, origin, size, self.raw)
        raw = ctypes.c_void_p()
        self.driver.check("cuEventCreate", ctypes.byref(raw), self.EVENT_FLAGS)
        self.driver.check("cuEventRecord", raw, self.raw)

        def wait() -> None:
            self.driver.check("cuEventSynchronize", raw)
            self.driver.check("cuEventDestroy_v2", raw)
            time.sleep(0.02)  # the simulated driver has one lock, which other threads would not get

        return wait

    def run(self, until: Callable[[], bool]) -> list[tuple[float, float]]:
        """Steps, two in flight: when each ended (`time.perf_counter`), and the milliseconds since the one before."""
        ends = []
        wait = self.enqueue()
        while not until():
            following = self.enqueue()
            wait()
            ends.append(time.perf_counter())
            wait = following
        wait()
        return [(after, 1e3 * (after - before)) for before, after in itertools.pairwise(ends)]


@contextmanager
def busy() -> Iterator[Load]:
    """Runs the load in a thread; its `steps` are there at the end."""
    stop, begun = threading.Event(), threading.Event()
    found: list[Any] = []

    def work() -> None:
        try:
            load = Load()  # its context must be current on this thread
            found.append(load)
            load.enqueue()()
            begun.set()
            load.steps = load.run(stop.is_set)
        except BaseException as error:  # the main thread raises it
            found[:] = [error]
        finally:
            begun.set()

    thread = threading.Thread(target=work, name="load")
    thread.start()
    begun.wait()
    try:
        if isinstance(found[0], BaseException):
            raise found[0]
        yield found[0]
    finally:
        stop.set()
        thread.join()
    if isinstance(found[0], BaseException):
        raise found[0]
