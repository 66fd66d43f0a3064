"""nvJPEG's hardware backend without framespool: images per second by API, batch, states per thread, and threads."""

from __future__ import annotations

import ctypes as c
import glob
import itertools
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from common import TRY, timed
from cuda import Driver
from items import FAILED, IMPOSSIBLE, OK, Context, Row, item

HARDWARE, YUV, CHROMA_420 = 3, 1, 2
POINTER, SIZE, NUMBER = c.c_void_p, c.c_size_t, c.c_int
#: A host that waits for an event sleeps; no timing.
EVENT_FLAGS = 3


class Planes(c.Structure):
    """`nvjpegImage_t`."""

    _fields_ = [("channel", c.c_uint64 * 4), ("pitch", SIZE * 4)]


@dataclass
class Photo:
    data: bytes
    width: int
    height: int


class Nvjpeg:
    """The library and a handle of its hardware backend."""

    def __init__(self) -> None:
        names = ["libnvjpeg.so.13", "libnvjpeg.so.12"]
        for base in sys.path:
            names += glob.glob(os.path.join(base, "nvidia", "**", "libnvjpeg.so.1[23]"), recursive=True)
        for name in names:
            with suppress(OSError):
                self.lib = c.CDLL(name)
                break
        else:
            raise NotImplementedError(f"none of {', '.join(names[:2])} is here")
        self.handle = self.create_handle()

    def call(self, name: str, *arguments: Any) -> None:
        try:
            function = getattr(self.lib, name)
        except AttributeError:
            raise NotImplementedError(f"this nvJPEG has no {name}") from None
        if code := function(*arguments):
            raise RuntimeError(f"{name} answered {code}")

    def make(self, name: str, *before: Any) -> Any:
        made = POINTER()
        self.call(name, *before, c.byref(made))
        return made

    def create_handle(self) -> Any:
        return self.make("nvjpegCreateEx", NUMBER(HARDWARE), None, None, c.c_uint(0))

    def properties(self) -> dict[str, Any]:
        """Version, engines, and cores of an engine, as far as the library knows them."""
        version, engines, cores = [NUMBER() for _ in range(3)], c.c_uint(), c.c_uint()
        with suppress(NotImplementedError):
            for which, value in enumerate(version):
                self.call("nvjpegGetProperty", NUMBER(which), c.byref(value))
        with suppress(NotImplementedError):
            self.call("nvjpegGetHardwareDecoderInfo", self.handle, c.byref(engines), c.byref(cores))
        return {
            "nvjpeg": ".".join(str(value.value) for value in version),
            "engines": engines.value,
            "cores_of_engine": cores.value,
        }

    def photos(self) -> list[Photo]:
        """The photographs that the engines take: baseline, 4:2:0."""
        stream, found = self.make("nvjpegJpegStreamCreate", self.handle), []
        for clip in timed("photo"):
            data = clip.path.read_bytes()
            channels, sampling, widths, heights = NUMBER(), NUMBER(), (NUMBER * 4)(), (NUMBER * 4)()
            info = (c.byref(channels), c.byref(sampling), widths, heights)
            self.call("nvjpegGetImageInfo", self.handle, data, SIZE(len(data)), *info)
            self.call("nvjpegJpegStreamParseHeader", self.handle, data, SIZE(len(data)), stream)
            refused = NUMBER()
            self.call("nvjpegDecodeBatchedSupported", self.handle, stream, c.byref(refused))
            if not refused.value and channels.value == 3 and sampling.value == CHROMA_420:
                found.append(Photo(data, widths[0], heights[0]))
        return found


class Slot:
    """A state with its stream, event, and planes of the largest photograph."""

    def __init__(self, driver: Driver, library: Nvjpeg, handle: Any, photos: list[Photo], batch: int) -> None:
        self.driver, self.library, self.handle = driver, library, handle
        self.stream, self.event = POINTER(), POINTER()
        driver.check("cuStreamCreateWithPriority", c.byref(self.stream), 1, 0)
        driver.check("cuEventCreate", c.byref(self.event), EVENT_FLAGS)
        width, height = max(photo.width for photo in photos), max(photo.height for photo in photos)
        self.pitch, self.rows = -(-width // 256) * 256, -(-height // 32) * 32
        self.planes = (Planes * batch)()
        for planes in self.planes:
            # Three full-size planes: the chroma needs less.
            address = driver.allocate(3 * self.pitch * self.rows)
            if address is None:
                raise MemoryError("no device memory for the planes")
            for plane in range(3):
                planes.channel[plane] = address + plane * self.pitch * self.rows
                planes.pitch[plane] = self.pitch
        #: Photographs in flight: their bytes stay alive until the event.
        self.last: list[Photo] = []

    def wait(self) -> None:
        if self.last:
            self.driver.check("cuEventSynchronize", self.event)

    def decode(self, some: list[Photo]) -> None:
        self.wait()
        self.last = some
        self.enqueue(some)
        self.driver.check("cuEventRecord", self.event, self.stream)

    def enqueue(self, some: list[Photo]) -> None:
        raise NotImplementedError

    def luma(self) -> bytes:
        """The luma of the last batch's first photograph."""
        self.wait()
        photo = self.last[0]
        rows = c.create_string_buffer(self.pitch * photo.height)
        address = c.c_uint64(self.planes[0].channel[0])
        self.driver.check("cuMemcpyDtoH_v2", rows, address, SIZE(self.pitch * photo.height))
        return b"".join(rows.raw[row * self.pitch :][: photo.width] for row in range(photo.height))


class Batched(Slot):
    """`nvjpegDecodeBatched`."""

    def __init__(self, driver: Driver, library: Nvjpeg, handle: Any, photos: list[Photo], batch: int) -> None:
        super().__init__(driver, library, handle, photos, batch)
        self.state = library.make("nvjpegJpegStateCreate", handle)
        shape = (NUMBER(batch), NUMBER(1), NUMBER(YUV))
        try:
            library.call("nvjpegDecodeBatchedInitialize", handle, self.state, *shape)
        except RuntimeError as error:
            raise NotImplementedError(f"refused a batch of {batch}: {error}") from None

    def enqueue(self, some: list[Photo]) -> None:
        files = (c.c_char_p * len(some))(*(photo.data for photo in some))
        sizes = (SIZE * len(some))(*(len(photo.data) for photo in some))
        self.library.call("nvjpegDecodeBatched", self.handle, self.state, files, sizes, self.planes, self.stream)


class Decoupled(Slot):
    """`nvjpegDecodeJpegHost`, `TransferToDevice` and `Device`, an image at a time."""

    def __init__(self, driver: Driver, library: Nvjpeg, handle: Any, photos: list[Photo], batch: int) -> None:
        super().__init__(driver, library, handle, photos, batch)
        self.decoder = library.make("nvjpegDecoderCreate", handle, NUMBER(HARDWARE))
        self.state = library.make("nvjpegDecoderStateCreate", handle, self.decoder)
        for kind in ("Pinned", "Device"):
            buffer = library.make(f"nvjpegBuffer{kind}Create", handle, None)
            library.call(f"nvjpegStateAttach{kind}Buffer", self.state, buffer)
        self.parameters = library.make("nvjpegDecodeParamsCreate", handle)
        library.call("nvjpegDecodeParamsSetOutputFormat", self.parameters, NUMBER(YUV))
        self.jpeg = library.make("nvjpegJpegStreamCreate", handle)

    def enqueue(self, some: list[Photo]) -> None:
        call, (photo,) = self.library.call, some
        call("nvjpegJpegStreamParse", self.handle, photo.data, SIZE(len(photo.data)), NUMBER(0), NUMBER(0), self.jpeg)
        decoding = (self.handle, self.decoder, self.state)
        call("nvjpegDecodeJpegHost", *decoding, self.parameters, self.jpeg)
        call("nvjpegDecodeJpegTransferToDevice", *decoding, self.jpeg, self.stream)
        call("nvjpegDecodeJpegDevice", *decoding, c.byref(self.planes[0]), self.stream)


APIS = {"batched": Batched, "decoupled": Decoupled}


@item("nvjpeg-calls", seconds=1)
def nvjpeg_calls(context: Context) -> Iterator[Row]:
    """Photographs in turn; afterwards each state's last picture must equal that of a call alone."""
    arguments = context.arguments
    api, batch = arguments.get("api", "batched"), arguments.get("batch", 1)
    depth, threads, own = arguments.get("depth", 2), arguments.get("threads", 1), arguments.get("own_handle", False)
    name = f"{api}, batch {batch}, {depth} states, {threads} threads" + (", own handles" if own else "")
    asked = "JPEG to planes on the device"
    try:
        driver, library = Driver(), Nvjpeg()
        photos = library.photos()
        if not photos:
            yield Row(name, asked, IMPOSSIBLE, "the engines take none of the photographs")
            return
        handles = [library.create_handle() if own else library.handle for _ in range(threads)]
        made = [[APIS[api](driver, library, handle, photos, batch) for _ in range(depth)] for handle in handles]
        figures = {**library.properties(), "files": len(photos), **run(driver, made, photos, batch, context)}
        slots = [slot for some in made for slot in some if slot.last]
        alone = Batched(driver, library, library.handle, photos, 1)
        wrong = sum(slot.luma() != decoded_alone(alone, slot.last[0]) for slot in slots)
    except NotImplementedError as missing:
        yield Row(name, asked, IMPOSSIBLE, str(missing))
        return
    why = f"{wrong} of {len(slots)} pictures differ from those decoded alone" if wrong else ""
    yield Row(name, asked, FAILED if wrong else OK, why, figures)


def decoded_alone(slot: Slot, photo: Photo) -> bytes:
    slot.decode([photo])
    return slot.luma()


def run(driver: Driver, made: list[list[Slot]], photos: list[Photo], batch: int, context: Context) -> dict[str, float]:
    counts, stop, errors = [0] * len(made), threading.Event(), []

    def work(thread: int) -> None:
        try:
            driver.check("cuCtxSetCurrent", driver.context)
            for turn, slot in enumerate(itertools.cycle(made[thread])):
                if stop.is_set():
                    return
                first = thread * 7 + turn * batch
                slot.decode([photos[(first + n) % len(photos)] for n in range(batch)])
                counts[thread] += batch
        except Exception as error:  # the main thread raises it
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(made))]
    for thread in threads:
        thread.start()
    time.sleep(0.1 if TRY else 0.5)
    before, begin, used = sum(counts), time.perf_counter(), time.process_time()
    time.sleep(context.budget_seconds)
    seen, wall, used = sum(counts) - before, time.perf_counter() - begin, time.process_time() - used
    stop.set()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return {"images_per_s": seen / wall, "cores": used / wall, "seconds": wall}
