"""One epoch, or its first clips, with framespool's loader or with PyTorch's DataLoader and an adapter.

The library (`side` of the request) is "framespool", "framespool_buffer", "framespool_stick" or the name of an adapter.
framespool draws the clips and returns them in `order`; the others get them in `items`. Used by shuffled_epochs.py,
scaling.py, and shards.py, whose processes start simultaneously (`meet`), each with its shard (`shard_id`).
"""

from __future__ import annotations

import zlib

import numpy as np
import oneshot

# Every PRINT-th row and column of every frame is part of the checksum: enough to detect a wrong frame, and cheap.
PRINT = 16


def checksum(frames: np.ndarray, so_far: int) -> int:
    return zlib.crc32(frames[:, :, ::PRINT, ::PRINT].tobytes(), so_far)


def by_loader(request: dict) -> dict:
    import framespool as fsp
    import loading

    buffer = request["side"] == "framespool_buffer"
    cache = {name: request[name] for name in ("memory", "lookahead") if request.get(name) is not None}
    wanted = {
        "batch_size": request["batch_size"],
        "shuffle": fsp.BufferShuffle(request["initial_fill"]) if buffer else "full",
        "num_threads": request.get("threads"),
        "cache": fsp.Cache(**cache) if cache else None,
        "index": request.get("index"),
        "seed": request["seed"],
        "shard_id": request.get("shard_id"),
        "num_shards": fsp.options.Shards(
            request.get("num_shards") or 1, stick_to_shard=request["side"] == "framespool_stick"
        ),
    }
    with oneshot.UsageMeter() as building:
        loader = loading.make(request["files"], request["sampling"], request["size"], wanted)
    memory_before = oneshot.memory_bytes()
    order, kept, digest = [], [], 0
    oneshot.together(request.get("meet"), request.get("num_shards", 1))
    with oneshot.UsageMeter() as epoch:
        for batch in loader:
            # A list of clips if no transform gives all videos' frames the same size.
            whole = not isinstance(batch.frames, list)
            frames = np.from_dlpack(batch.frames) if whole else np.stack([*map(np.from_dlpack, batch.frames)])
            digest = checksum(frames, digest)
            order += zip(batch.video_ids.tolist(), batch.indices.tolist(), strict=True)
            if request.get("save"):
                kept.extend(frames)
            if request.get("clips") and len(order) >= request["clips"]:
                break
    if request.get("save"):
        np.save(request["save"], np.stack(kept)[..., :: request["step"], :: request["step"], :])
    return {
        "version": fsp.__version__,
        "building": building.usage,
        "usage": epoch.usage,
        "clips": len(order),
        "order": order,
        "digest": digest,
        "stats": loader.stats(),
        "memory_before_bytes": memory_before,
        "peak_memory_bytes": oneshot.memory_bytes("VmHWM"),
        "unknown": loading.unknown(wanted),
    }


def by_data_loader(request: dict) -> dict:
    import adapters
    import torch.utils.data

    adapter = adapters.load(request["side"])

    class Clips(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return len(request["items"])

        def __getitem__(self, place: int):
            video, indices = request["items"][place]
            # The file is opened for each item: a reader kept open per file and worker would exhaust the memory of a
            # job over several hundred files.
            return torch.from_numpy(adapter.clip(request["files"][video], indices, request["size"])), video

    clips, kept = 0, []
    oneshot.together(request.get("meet"), request.get("num_shards", 1))
    with oneshot.UsageMeter() as epoch:
        for frames, _ in torch.utils.data.DataLoader(
            Clips(), batch_size=request["batch_size"], num_workers=request["workers"]
        ):
            clips += len(frames)
            if request.get("save"):
                kept.extend(frames.numpy())
    if request.get("save"):
        np.save(request["save"], np.stack(kept)[..., :: request["step"], :: request["step"], :])
    return {
        "version": adapter.version(),
        "usage": epoch.usage,
        "clips": clips,
        "peak_memory_bytes": oneshot.memory_bytes("VmHWM"),
    }


def answer(request: dict) -> dict:
    return by_loader(request) if request["side"].startswith("framespool") else by_data_loader(request)


if __name__ == "__main__":
    oneshot.serve(answer)
