"""Images per second with nvJPEG and with the CPU, for typical image loaders of training scripts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import framespool as fsp
from common import TRY, missing, timed
from items import FAILED, IMPOSSIBLE, OK, Context, Row, item

#: Repetitions of each file per thread: every entry is read and decoded.
TIMES = 4 if TRY else 15


def rate(made: fsp.ImageLoader) -> tuple[float, float]:
    """Images per second over one epoch without its first two batches, and the cores in use."""
    seen, begun, used = 0, 0.0, 0.0
    for number, batch in enumerate(made):
        if number >= 2:
            seen += len(batch)
        elif number == 1:
            begun, used = time.perf_counter(), time.process_time()
    batch.images.cpu()  # waits for all earlier batches
    wall = time.perf_counter() - begun
    return seen / wall, (time.process_time() - used) / wall


@item("images", seconds=120)
def images(context: Context) -> Iterator[Row]:
    """JPEG photographs to 224x224: nvJPEG against the CPU's decoder, with batches on the device for both."""
    if why := missing("numpy"):
        yield Row("images", "nvJPEG's images are close to the CPU's", IMPOSSIBLE, why)
        return
    import numpy as np

    photos = [str(clip.path) for clip in timed("photo")]
    t = fsp.transforms
    keywords: dict[str, Any] = {
        "batch_size": 32,
        "transforms": [t.RandomResizedCrop(224), t.RandomHorizontalFlip(), t.Normalize((0.45,) * 3, (0.225,) * 3)],
        "dtype": "float16",
        "layout": "NCHW",
        "shuffle": "full",
    }
    try:
        fsp.ImageLoader(photos, device=fsp.Gpu(0, decoder="nvjpeg"), **keywords)
    except fsp.errors.GpuError as error:
        yield Row("images", "nvJPEG decodes", IMPOSSIBLE, str(error))
        return
    plain = {**keywords, "transforms": [t.Resize((224, 224))], "dtype": "uint8", "shuffle": False}
    loaders = [fsp.ImageLoader(photos, **plain, device=fsp.Gpu(0, decoder=decoder)) for decoder in ("cpu", "nvjpeg")]
    first, second = (next(iter(loader)).images.cpu().numpy().astype(int) for loader in loaders)
    apart = float(np.abs(first - second).mean())
    if apart > 0.6:
        yield Row("images", "nvJPEG's images are close to the CPU's", FAILED, f"mean difference of {apart:.2f} levels")
        return
    for threads in (1, 2, 4, 8, 16):
        found: dict[str, list[tuple[float, float]]] = {"cpu": [], "nvjpeg": []}
        while len(found["cpu"]) < 3 and context.left() > 0:
            for decoder, rates in found.items():
                entries = photos * (TIMES * threads)
                rates.append(
                    rate(fsp.ImageLoader(entries, device=fsp.Gpu(0, decoder=decoder), num_threads=threads, **keywords))
                )
        if not found["cpu"]:
            yield Row(f"{threads} threads", "images/s", IMPOSSIBLE, "out of time; raise --budget")
            continue
        figures: dict[str, Any] = {}
        for decoder, rates in found.items():
            figures[f"{decoder} images/s"] = round(median(r for r, _ in rates), 1)
            figures[f"{decoder} cores"] = round(median(c for _, c in rates), 2)
        ratios = [gpu / cpu for (gpu, _), (cpu, _) in zip(found["nvjpeg"], found["cpu"], strict=True)]
        figures["ratio"] = round(median(ratios), 2)
        yield Row(f"{threads} threads", "random resized crops of 224, float16", OK, figures=figures)
