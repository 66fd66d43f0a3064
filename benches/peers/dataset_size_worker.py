"""A part of an epoch for dataset_size.py: framespool's loader, or DataLoader with a peer or with JPEG frames."""

from __future__ import annotations

import json
import os
import time
import warnings
import zlib
from collections import OrderedDict

import numpy as np
import oneshot

# Open readers that a DataLoader worker keeps: those of neighboring clips, within the file limit of a process.
OPEN_READERS = 64
# Seconds that the simulated training step takes.
STEP_SECONDS = 0.02


def percentiles(waits: list[float]) -> dict[str, float]:
    return {f"next_ms_p{at}": float(np.percentile(waits, at)) * 1000 for at in (50, 95, 99)}


def needed_per_clip(request: dict) -> float:
    """Frames decoded per clip if each video is decoded once for all its clips: an unshuffled pass over some videos."""
    import framespool as fsp
    import loading

    keywords = {"batch_size": request["batch_size"], "num_threads": request["threads"], "index": False}
    # Random positions: enough clips for a mean within some percent.
    count = max(48, 512 // request["sampling"].get("clips_per_video", 8))
    loader = loading.make(request["files"][:count], request["sampling"], request["size"], keywords)
    assert isinstance(loader, fsp.ClipLoader)
    clips = sum(len(batch) for batch in loader)
    return loader.stats()["frames_decoded"] / clips


def by_loader(request: dict) -> dict:
    import framespool as fsp
    import loading

    warnings.simplefilter("ignore")  # of poor mixing, which is a column of the table
    keywords = {
        "batch_size": request["batch_size"],
        "shuffle": request["side"],
        "num_threads": request["threads"],
        "cache": request["cache"],
        "num_shards": request["num_shards"],
        "shard_id": 0,
        "index": False,
        "seed": 1,
    }
    loader = loading.make(request["files"], request["sampling"], request["size"], keywords)
    whole = len(loader) <= request["warm_up"] + request["batches"]
    if not whole:
        first = (len(loader) - request["warm_up"] - request["batches"]) // 2
        loader.load_state_dict({**loader.state_dict(), "batch": first})
    batches = iter(loader)
    for _ in range(0 if whole else request["warm_up"]):
        next(batches)
    before, order, digests, saved, waits = loader.stats(), [], {}, [], []
    with oneshot.UsageMeter() as meter:
        for number in range(len(loader) if whole else request["batches"]):
            began = time.perf_counter()
            batch = next(batches)
            waits.append(time.perf_counter() - began)
            frames = np.from_dlpack(batch.frames)
            order += zip(batch.video_ids.tolist(), batch.indices.tolist(), strict=True)
            for clip, pixels in zip(batch.clip_ids.tolist(), frames, strict=True):
                digests[str(clip)] = zlib.crc32(pixels)
            if number * request["batch_size"] < request["checked"]:
                saved.extend(frames.copy())
    after = loader.stats()
    clips = len(order)
    expected = loader._estimate_cost()
    # With a training step that takes constant time.
    waits = []
    steps = iter(loader) if whole else batches
    for _ in range(min(len(loader) if whole else 64, 64)):
        time.sleep(STEP_SECONDS)
        began = time.perf_counter()
        if next(steps, None) is None:
            break
        waits.append(time.perf_counter() - began)
    np.save(request["saved"], np.stack(saved[: request["checked"]]))
    frames_decoded = after["frames_decoded"] - before["frames_decoded"]
    packets = frames_decoded + after["packets_skipped"] - before["packets_skipped"]
    return {
        "version": fsp.__version__,
        "clips": clips,
        "frames_decoded_per_clip": frames_decoded / clips,
        "needed": needed_per_clip(request),
        "packets_per_clip": packets / clips,
        "expected_packets_per_clip": expected["packets_per_clip"][request["side"]],
        "mixing": expected["mixing"] if request["side"] == "grouped" else 1.0,
        "clips_evicted": after["clips_evicted"] - before["clips_evicted"],
        "clip_cache_peak_bytes": after["clip_cache_peak_bytes"],
        "cpu_ms_per_clip": meter.usage["cpu_s"] / clips * 1000,
        "clips_per_second": clips / meter.usage["wall_s"],
        "peak_memory_bytes": oneshot.memory_bytes("VmHWM"),
        **percentiles(waits),
        "order": order,
        "digests": digests,
    }


def open_torchcodec(path: str, size: int | None):
    from torchcodec.decoders import VideoDecoder
    from torchcodec.transforms import Resize

    # "approximate" needs no scan of the file; these videos have a constant frame rate, so it is exact.
    options = {"dimension_order": "NHWC", "num_ffmpeg_threads": 1, "seek_mode": "approximate"}
    return VideoDecoder(path, transforms=None if size is None else [Resize((size, size))], **options)


def open_decord(path: str, size: int | None):
    import decord

    return decord.VideoReader(path, width=size or -1, height=size or -1, num_threads=1)


class JpegFrames:
    """The JPEG frames of one video in a tar file, read by their offsets (dataset_size.py writes both).

    They are resized to a square of this size, or not if it is None.
    """

    def __init__(self, path: str, size: int | None) -> None:
        tar, offsets = jpeg_paths(path)
        self._tar, self._size = os.open(tar, os.O_RDONLY), size
        with open(offsets) as file:
            self._offsets = json.load(file)

    def read(self, indices: list[int]) -> np.ndarray:
        import cv2

        cv2.setNumThreads(0)
        frames = []
        for index in indices:
            offset, size = self._offsets[index]
            data = np.frombuffer(os.pread(self._tar, size, offset), np.uint8)
            frame = cv2.imdecode(data, cv2.IMREAD_COLOR_RGB)
            if self._size is not None:
                frame = cv2.resize(frame, (self._size,) * 2, None, 0, 0, cv2.INTER_AREA)
            frames.append(frame)
        return np.stack(frames)

    def __del__(self) -> None:
        os.close(self._tar)


def jpeg_paths(video: str) -> tuple[str, str]:
    """The tar file with the frames of a video, and the list of their offsets and sizes."""
    return f"{video}.jpeg.tar", f"{video}.jpeg.json"


def by_data_loader(request: dict) -> dict:
    import torch.utils.data

    side = request["side"]
    if side == "spdl":
        from adapters.spdl import Adapter

        spdl = Adapter()
    opens = {"torchcodec": open_torchcodec, "decord": open_decord, "jpeg": JpegFrames}
    readers: OrderedDict = OrderedDict()

    def read(video: int, indices: list[int]) -> np.ndarray:
        path = request["files"][video]
        if path not in readers:
            # Videos are links to a few encodes; the frames of each encode were extracted once.
            source = request["files"][video % request["encodes"]] if side == "jpeg" else path
            readers[path] = spdl.open(path, request["size"]) if side == "spdl" else opens[side](source, request["size"])
            if len(readers) > OPEN_READERS:
                readers.popitem(last=False)
        readers.move_to_end(path)
        reader = readers[path]
        if side == "spdl":
            return spdl.read(reader, indices)
        if side == "jpeg":
            return reader.read(indices)
        if side == "decord":
            return reader.get_batch(indices).asnumpy()
        return reader.get_frames_at(indices).data.numpy()

    class Batches(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return len(request["items"]) // request["batch_size"]

        def __getitem__(self, number: int) -> torch.Tensor:
            torch.set_num_threads(1)
            first = number * request["batch_size"]
            items = request["items"][first : first + request["batch_size"]]
            # Clips of one video one after another, in the order of the file.
            made = {at: read(*items[at]) for at in sorted(range(len(items)), key=lambda at: items[at])}
            return torch.from_numpy(np.stack([made[at] for at in range(len(items))]))

    saved, clips, waits = [], 0, []
    with oneshot.UsageMeter() as meter:
        loader = iter(torch.utils.data.DataLoader(Batches(), batch_size=None, num_workers=request["threads"]))
        began = time.perf_counter()
        for frames in loader:
            waits.append(time.perf_counter() - began)
            clips += len(frames)
            if len(saved) < request["checked"]:
                saved.extend(frames.numpy())
            began = time.perf_counter()
    np.save(request["saved"], np.stack(saved[: request["checked"]]))
    return {
        "version": version(request["side"]),
        "clips": clips,
        "needed": 0,
        "cpu_ms_per_clip": meter.usage["cpu_s"] / clips * 1000,
        "clips_per_second": clips / meter.usage["wall_s"],
        "peak_memory_bytes": oneshot.memory_bytes("VmHWM"),
        **percentiles(waits),
        "order": request["items"],
    }


def version(library: str) -> str:
    from importlib.metadata import version

    return version({"decord": "eva-decord", "jpeg": "opencv-python-headless"}.get(library, library))


def answer(request: dict) -> dict:
    return by_loader(request) if request["side"] in ("grouped", "full") else by_data_loader(request)


if __name__ == "__main__":
    oneshot.serve(answer)
