"""The sides of disk_cache.py: framespool's loader, DataLoader with a peer or JPEG frames, copies of stored bytes."""

from __future__ import annotations

import importlib
import os
import random
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import oneshot
from dataset_size_worker import JpegFrames, open_decord, open_torchcodec, version

FRAMES, STRIDE, SIZE, BATCH = 16, 4, 224, 8
#: First epochs of the loader whose frames are compared by checksum.
CHECKED_EPOCHS = 2
#: Clips of each peer whose pixels are compared with the loader's.
CHECKED_CLIPS = 16


def loader(request: dict[str, Any], *, validation: bool = False):
    """One random clip per video with a random resized crop, or one fixed clip with a center crop."""
    import framespool as fsp

    transforms = fsp.transforms
    sampling = {"sequence_length": FRAMES, "stride": STRIDE}
    epochs = request.get("epochs", 0)
    return fsp.ClipLoader(
        request["files"],
        fsp.samplers.UniformClips(**sampling) if validation else fsp.samplers.RandomClips(**sampling),
        batch_size=BATCH,
        shuffle=False if validation else "full",
        seed=1,
        layout="NTHWC",
        transforms=[transforms.Resize(256), transforms.CenterCrop(SIZE)]
        if validation
        else [transforms.RandomResizedCrop(SIZE), transforms.RandomHorizontalFlip()],
        num_threads=request["threads"],
        cache=fsp.Cache(disk=request["folder"], disk_size="200TB", epochs=epochs) if epochs else "2GiB",
    )


def stored_bytes(folder: str) -> int:
    return sum(path.stat().st_size for path in Path(folder).rglob("*.clips"))


def plan(request: dict[str, Any]) -> dict[str, Any]:
    """The clips of an epoch in random order, as the peers read them; saves the first ones as the loader makes them."""
    clips = loader(request)
    items = []
    for clip in range(clips.num_clips):
        drawn = clips.describe_clip(clip, epoch=0)
        crop, flip = drawn["transforms"]
        box = [round(crop[name]) for name in ("top", "left", "height", "width")]
        items.append([drawn["video_id"], drawn["indices"], box, bool(flip["applied"])])
    random.Random(0).shuffle(items)
    wanted = {item[0]: at for at, item in enumerate(items[:CHECKED_CLIPS])}
    saved = np.empty((CHECKED_CLIPS, FRAMES, SIZE, SIZE, 3), np.uint8)
    for batch in clips:
        for video, pixels in zip(batch.video_ids.tolist(), np.from_dlpack(batch.frames), strict=True):
            if video in wanted:
                saved[wanted[video]] = pixels
    np.save(request["saved"], saved)
    import framespool as fsp

    info = fsp.Video(request["files"][0]).info
    return {"version": fsp.__version__, "items": items, "size": [info.height, info.width]}


def by_loader(request: dict[str, Any]) -> dict[str, Any]:
    """Epochs until every video has been decoded once for its next epochs, then those that are measured."""
    clips = loader(request)
    warm_up, counted = max(CHECKED_EPOCHS, request["epochs"]), request["counted"]
    first_batch, first_epoch, checksum, most = 0.0, 0.0, 0, 0
    whole = oneshot.UsageMeter()
    whole.__enter__()
    began = time.perf_counter()
    for epoch in range(warm_up):
        for batch in clips:
            first_batch = first_batch or time.perf_counter() - began
            if epoch < CHECKED_EPOCHS:
                checksum = zlib.crc32(np.from_dlpack(batch.frames), checksum)
        first_epoch = first_epoch or clips.stats()["frames_decoded"]
        most = max(most, stored_bytes(request["folder"]))
    before = clips.stats()
    with oneshot.UsageMeter() as steady:
        for _ in range(counted):
            for _ in clips:
                pass
            most = max(most, stored_bytes(request["folder"]))
    whole.__exit__()
    after = clips.stats()
    num_videos, delivered = len(request["files"]), after["clips"] - before["clips"]
    return {
        "cpu_ms": steady.usage["cpu_s"] / delivered * 1000,
        "clips_per_second": delivered / steady.usage["wall_s"],
        "all_cpu_ms": whole.usage["cpu_s"] / after["clips"] * 1000,
        "frames_decoded": (after["frames_decoded"] - before["frames_decoded"]) / delivered,
        "first_epoch_frames": first_epoch / num_videos,
        "first_batch_ms": first_batch * 1000,
        "disk_bytes_per_video": most / num_videos,
        "checksum": checksum,
    }


def by_data_loader(request: dict[str, Any]) -> dict[str, Any]:
    """A DataLoader over batches of the planned clips, several times. Each clip opens its file."""
    import cv2
    import torch.utils.data

    side = request["side"]
    height, width = request["size"]
    if side == "spdl":
        from adapters.spdl import Adapter

        spdl = Adapter()
    elif side != "jpeg":
        # In this process, so that not every worker does it.
        importlib.import_module({"torchcodec": "torchcodec.decoders", "decord": "decord"}[side])

    def read(video: int, indices: list[int], box: list[int], flip: bool) -> np.ndarray:
        path = request["files"][video]
        if side == "spdl":
            # Cropping and scaling in its filter graph takes as long, and chroma is cropped to even positions.
            frames = spdl.read(spdl.open(path, None), indices)
        elif side == "jpeg":
            frames = JpegFrames(request["masters"][video % len(request["masters"])], None).read(indices)
        elif side == "decord":
            frames = open_decord(path, None).get_batch(indices).asnumpy()
        else:
            frames = open_torchcodec(path, None).get_frames_at(indices).data.numpy()
        # JPEG frames are smaller than those of the video if its shorter side is longer than 256 pixels.
        scales = [frames.shape[1] / height, frames.shape[2] / width] * 2
        top, left, rows, columns = (max(0, round(place * scale)) for place, scale in zip(box, scales, strict=True))
        cropped = frames[:, top : top + max(1, rows), left : left + max(1, columns)]
        made = np.stack([cv2.resize(frame, (SIZE, SIZE), None, 0, 0, cv2.INTER_AREA) for frame in cropped])
        return made[:, :, ::-1] if flip else made

    items = request["items"] * request["counted"]

    class Batches(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return len(items) // BATCH

        def __getitem__(self, number: int) -> torch.Tensor:
            torch.set_num_threads(1)
            cv2.setNumThreads(0)
            return torch.from_numpy(np.stack([read(*item) for item in items[number * BATCH : (number + 1) * BATCH]]))

    saved: list[np.ndarray] = []
    clips = 0
    with oneshot.UsageMeter() as meter:
        for batch in torch.utils.data.DataLoader(Batches(), batch_size=None, num_workers=request["threads"]):
            clips += len(batch)
            if len(saved) < CHECKED_CLIPS:
                saved.extend(batch.numpy())
    difference = np.abs(np.stack(saved[:CHECKED_CLIPS]).astype(np.int16) - np.load(request["saved"])).mean()
    return {
        "version": version(side),
        "cpu_ms": meter.usage["cpu_s"] / clips * 1000,
        "clips_per_second": clips / meter.usage["wall_s"],
        "difference": float(difference),
    }


def by_validation(request: dict[str, Any]) -> dict[str, Any]:
    """Epochs of a loader whose clips are the same in every epoch, in turn with copies of the stored bytes."""
    request = {**request, "epochs": 1}
    first = loader(request, validation=True)
    for _ in first:
        pass
    del first  # waits until the last clip is stored
    clips = loader(request, validation=True)
    num_clips = len(request["files"])
    segments = sorted(Path(request["folder"]).rglob("*.clips"))
    header, clip_bytes = 64, FRAMES * SIZE * SIZE * 3
    assert stored_bytes(request["folder"]) == num_clips * (header + clip_bytes)
    batch = np.empty((request["threads"], BATCH, clip_bytes), np.uint8)
    scratch = np.empty((request["threads"], clip_bytes), np.uint8)
    records = [(path, at) for path in segments for at in range(header, path.stat().st_size, header + clip_bytes)]
    files = {path: os.open(path, os.O_RDONLY) for path in segments}

    def copy(worker: int, twice: bool) -> None:
        for number, (path, at) in enumerate(records[worker :: request["threads"]]):
            slot = batch[worker, number % BATCH]
            os.preadv(files[path], [scratch[worker] if twice else slot], at)
            if twice:
                slot[:] = scratch[worker]

    runs: dict[str, list[dict[str, float]]] = {"loader": [], "read": [], "read and copy": []}
    with ThreadPoolExecutor(request["threads"]) as pool:
        for _ in range(request["counted"]):
            for side, usages in runs.items():
                with oneshot.UsageMeter() as meter:
                    if side == "loader":
                        for _ in clips:
                            pass
                    else:
                        list(pool.map(copy, range(request["threads"]), [side != "read"] * request["threads"]))
                usages.append({f"{name}_ms": meter.usage[f"{name}_s"] / num_clips * 1000 for name in ("cpu", "wall")})
    after = clips.stats()
    return {
        "runs": runs,
        "frames_decoded": after["frames_decoded"],
        "clips_read": after["disk_clips_read"],
        "clips": num_clips * request["counted"],
    }


def by_many_clips(request: dict[str, Any]) -> dict[str, Any]:
    """Opens a loader on a folder, after one on another folder, which loads all libraries."""
    for _ in loader({**request, "epochs": 1, "folder": request["other_folder"]}):
        pass
    memory = oneshot.memory_bytes()
    with oneshot.UsageMeter() as opening:
        clips = loader({**request, "epochs": 1})
    held = oneshot.memory_bytes() - memory
    began = time.perf_counter()
    batches = iter(clips)
    next(batches)
    return {
        "open_cpu_s": opening.usage["cpu_s"],
        "open_s": opening.usage["wall_s"],
        "first_batch_s": time.perf_counter() - began,
        "memory_bytes": held,
        "peak_bytes": oneshot.memory_bytes("VmHWM") - memory,
    }


def write_log(request: dict[str, Any]) -> dict[str, Any]:
    """The folder of a process that has ended, with a log of many clips and its segments, as clip_store writes them.

    The segments have the length of their clips and no content.
    """
    import xxhash

    clips = loader({**request, "epochs": 1})
    runs = list(Path(request["folder"]).glob("framespool-clips-*/*"))
    assert len(runs) == 1, runs
    del clips
    process = runs[0] / "1-1"
    process.mkdir(parents=True)
    (process / "lock").touch()
    per_segment = 100
    entries = np.zeros(request["clips"], [("key", "<u8", 2), ("due", "<u8"), ("segment", "<u4"), ("offset", "<u4")])
    numbers = np.arange(request["clips"])
    entries["key"] = np.random.default_rng(0).integers(0, 2**64, (request["clips"], 2), np.uint64)
    entries["due"] = 2**64 - 1
    entries["segment"] = numbers // per_segment
    entries["offset"] = numbers % per_segment * 37_633
    content = entries.tobytes()
    with open(process / "log", "wb", 1 << 20) as log:
        for at in range(0, len(content), 32):
            entry = content[at : at + 32]
            log.write(entry + xxhash.xxh3_64_intdigest(entry).to_bytes(8, "little"))
    for segment in range(-(-request["clips"] // per_segment)):
        path = process / f"{segment:06}-every.clips"
        path.touch()
        os.truncate(path, per_segment * 37_633 * 64)
    return {}


SIDES = {
    "plan": plan,
    "framespool": by_loader,
    "validation": by_validation,
    "write log": write_log,
    "many clips": by_many_clips,
}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    return SIDES.get(request["side"], by_data_loader)(request)


if __name__ == "__main__":
    oneshot.serve(answer)
