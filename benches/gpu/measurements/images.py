"""Images per second with nvJPEG and with the CPU, for typical image loaders of training scripts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import framespool as fsp
from common import TRY, missing, timed
from items import FAILED, IMPOSSIBLE, OK, Context, Row, item

#: Entries of an epoch, and the shortest window: decoders are created before it.
ENTRIES, WINDOW_SECONDS = (128, 0.1) if TRY else (50_000, 3.0)


def rate(made: fsp.ImageLoader, seconds: float) -> tuple[float, float]:
    """Images delivered per second from the eighth batch on, epoch after epoch, and the cores in use."""
    seen = number = 0
    begun = used = 0.0
    while True:
        for batch in made:
            number += 1
            if number == 8:
                begun, used = time.perf_counter(), time.process_time()
            elif number > 8:
                seen += len(batch)
                if time.perf_counter() - begun >= seconds:
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
        "batch_size": 4 if TRY else 32,
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
    wanted = context.arguments.get("threads")
    for threads in [wanted] if wanted else (1, 2, 4, 8, 16):
        if not wanted and context.left() < 2 * WINDOW_SECONDS:
            yield Row(f"{threads} threads", "images/s", IMPOSSIBLE, "out of time; raise --seconds")
            continue
        entries = [photos[number % len(photos)] for number in range(ENTRIES)]
        figures: dict[str, Any] = {"files": len(photos), "seconds": WINDOW_SECONDS}
        for decoder in ("cpu", "nvjpeg"):
            loader = fsp.ImageLoader(entries, device=fsp.Gpu(0, decoder=decoder), num_threads=threads, **keywords)
            figures[f"{decoder} images/s"], figures[f"{decoder} cores"] = rate(loader, WINDOW_SECONDS)
            if decoder == "nvjpeg" and (reasons := loader.stats()["cpu_fallbacks"]):
                figures["cpu_fallbacks"] = reasons
        figures["ratio"] = figures["nvjpeg images/s"] / figures["cpu images/s"]
        yield Row(f"{threads} threads", "random resized crops of 224, float16", OK, figures=figures)
