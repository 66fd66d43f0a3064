"""One short clip of each video, with one library, in a new process (short_clips.py).

The first pass over the clips measures a new process, the later ones a warm process. "framespool" is
its loader with one thread, "framespool_video" a `Video` per clip; others are adapters that reopen each file.
With `save` the frames are written to that folder, with `plan` framespool returns the clips; neither is timed.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import oneshot
import reference

BATCH = 8


class Loaders:
    """framespool's loaders, one per group of videos, kept for all passes."""

    def __init__(self, request: dict) -> None:
        import framespool
        import loading

        self.make = loading.make
        self.version = framespool.__version__
        self.request = request
        self.loaders: dict[tuple, framespool.ClipLoader] = {}
        self.wanted = {"num_threads": 1, "seed": request["seed"], "index": request.get("index")}
        self.unknown = loading.unknown(self.wanted)

    def of(self, group: str, size: int | None, batch_size: int):
        key = (group, size, batch_size)
        if key not in self.loaders:
            files = [path for path, _ in self.request["groups"][group]]
            wanted = {**self.wanted, "batch_size": batch_size}
            self.loaders[key] = self.make(files, self.request["sampling"], size, wanted)
        return self.loaders[key]

    def plan(self, group: str) -> list[list[int]]:
        """Frame indices in presentation order of each video's clip."""
        loader = self.of(group, None, BATCH)
        return [loader.describe_clip(clip, epoch=0)["indices"] for clip in range(loader.num_clips)]

    def frames(self, group: str, size: int | None, batch_size: int = BATCH):
        """Clip by clip, in the order of the group."""
        loader = self.of(group, size, batch_size)
        loader.set_epoch(0)
        for batch in loader:
            yield from map(np.from_dlpack, batch.frames)

    def stats(self) -> dict[str, float]:
        """Sums of the additive counters over the loaders."""
        sums: dict[str, float] = {}
        for loader in self.loaders.values():
            for name, value in loader.stats().items():
                if isinstance(value, (int, float)):
                    sums[name] = sums.get(name, 0) + value
        return sums


class Clips:
    """An adapter."""

    unknown = ()

    def __init__(self, request: dict) -> None:
        import adapters

        self.adapter = adapters.load(request["side"].removesuffix("_video"))
        self.version = self.adapter.version()
        self.groups = request["groups"]
        self.failures: dict[str, str] = {}

    def frames(self, group: str, size: int | None, batch_size: int = 1):
        for path, indices in self.groups[group]:
            try:
                yield self.adapter.clip(path, indices, size)
            except Exception as error:  # noqa: BLE001 - any error of a library is a failure of this file
                self.failures[path] = f"{type(error).__name__}: {error}"
                yield None

    def stats(self) -> dict[str, float]:
        return {}


def answer(request: dict) -> dict:
    importing = time.perf_counter()
    side = (Loaders if request["side"] == "framespool" else Clips)(request)
    importing = time.perf_counter() - importing
    result = {"version": side.version, "unknown": list(side.unknown), "import_s": importing, "passes": []}
    if request.get("plan"):
        result["plan"] = {group: side.plan(group) for group in request["groups"]}
    if request.get("save"):
        for group in request["groups"]:
            for size, step in ((None, reference.STEP), (request["size"], 1)):
                for number, frames in enumerate(side.frames(group, size, batch_size=1)):
                    if frames is not None:
                        place = Path(request["save"]) / f"{group}_{number}_{size}.npy"
                        np.save(place, frames[:, ::step, ::step])
    for number in range(request.get("passes", 0)):
        before = side.stats()
        usage = {}
        # Each pass starts with another group: the first one includes one-time costs of the process.
        names = list(request["groups"])
        for group in names[request["first"] :] + names[: request["first"]]:
            with oneshot.UsageMeter() as meter:
                for _ in side.frames(group, request["size"]):
                    pass
            usage[group] = meter.usage
        stats = {name: value - before.get(name, 0) for name, value in side.stats().items()}
        result["passes"].append({"number": number, "usage": usage, "stats": stats})
    return {**result, "failures": getattr(side, "failures", {})}


if __name__ == "__main__":
    oneshot.serve(answer)
