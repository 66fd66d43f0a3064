"""The interface of an adapter, and helpers for libraries without their own pipeline."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from tasks import CROP, Draws, Job

#: Images of a batch, in the library's own type, and their labels.
Batch = tuple[Any, Any]


class BaseAdapter:
    """One library. `variant` of a job is one of several ways to use it; each module lists its own."""

    def version(self) -> str:
        raise NotImplementedError

    def batches(self, job: Job) -> Iterator[Batch]:
        """Complete batches over the files, each file once. Closing the iterator ends all threads and processes."""
        raise NotImplementedError

    def arrays(self, images: Any) -> list[np.ndarray]:
        """The images of a batch as NumPy, unchanged, for checks."""
        return [np.array(image) for image in images]


class UnsupportedTask(ValueError):
    """The library does not support this task."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"no {job.task} {job.variant}".strip())


def order(job: Job) -> list[tuple[str, int]]:
    """The shard's files in the order of the epoch, for libraries without a sampler."""
    files = list(job.shard())
    if job.shuffle:
        random.Random(job.seed).shuffle(files)
    return files


def decoded_by_threads(decode: Callable[[str], np.ndarray], job: Job) -> Iterator[Batch]:
    """Batches of images that a thread pool decodes, two batches ahead.

    The libraries used with it release the GIL while they decode.
    """
    files = order(job)
    with ThreadPoolExecutor(job.threads) as pool:
        waiting: deque = deque()
        done = []
        try:
            for number, (path, label) in enumerate(files):
                waiting.append((pool.submit(decode, path), label))
                if len(waiting) > 2 * job.batch or number + 1 == len(files):
                    while waiting and (len(waiting) > 2 * job.batch or number + 1 == len(files)):
                        future, of = waiting.popleft()
                        done.append((future.result(), of))
                        if len(done) == job.batch:
                            yield [image for image, _ in done], [of for _, of in done]
                            done = []
        finally:
            pool.shutdown(cancel_futures=True)


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def draw_crop(width: int, height: int, draws: Draws, rng: random.Random) -> tuple[int, int, int, int]:
    """Left, top, width, height of a crop of random area and aspect ratio, for libraries that draw none themselves.

    Ten attempts, then the largest center crop with an allowed aspect ratio.
    """
    low, high = draws.ratio
    for _ in range(10):
        area = width * height * rng.uniform(*draws.area)
        ratio = math.exp(rng.uniform(math.log(low), math.log(high)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return rng.randint(0, width - w), rng.randint(0, height - h), w, h
    ratio = min(max(width / height, low), high)
    w, h = min(width, round(height * ratio)), min(height, round(width / ratio))
    return (width - w) // 2, (height - h) // 2, w, h


def grid_mask(draws: Draws, rng: random.Random) -> np.ndarray:
    """(CROP, CROP), true where the grid covers, as DALI's grid_mask has it. For libraries without one."""
    tile = rng.randint(*draws.grid_tile)
    angle = math.radians(rng.uniform(*draws.grid_angle))
    x = np.arange(CROP, dtype=np.float32) / tile
    cos, sin = np.float32(math.cos(angle)), np.float32(math.sin(angle))
    across = (cos * x)[None, :] - (sin * x)[:, None]
    down = (sin * x)[None, :] + (cos * x)[:, None]
    return (across - np.floor(across) < draws.grid_ratio) & (down - np.floor(down) < draws.grid_ratio)
