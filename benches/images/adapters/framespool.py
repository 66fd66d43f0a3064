"""framespool: ImageLoader for batches, `num_threads` threads; decode_images for complete images.

Variants: "" is the default, which decodes only the part of an image that its result needs; "exact" decodes complete
images to the same bytes as Pillow. For `decode` also "loader" and "loader exact": ImageLoader without transforms.
"""

from __future__ import annotations

from collections.abc import Iterator

import framespool as fsp
import numpy as np
from framespool import transforms as tf
from tasks import CROP, ENLARGED, MEAN, SHORTER, SQUARE, STD, Draws, Job

from .base import BaseAdapter, Batch, UnsupportedTask, order


def transforms(job: Job) -> list:
    if job.task == "decode":
        return []
    if job.task == "square":
        return [tf.Resize((SQUARE, SQUARE))]
    if job.task == "eval":
        return [tf.Resize(SHORTER), tf.CenterCrop(CROP), tf.Normalize(MEAN, STD)]
    steps = augmented(job.draws) if job.task == "augment" else moved(job.draws)
    return [*steps, tf.Normalize(MEAN, STD)]


def moved(draws: Draws) -> list:
    return [
        tf.RandomResizedCrop(CROP, scale=draws.area, ratio=draws.ratio),
        tf.RandomHorizontalFlip(draws.mirror),
    ]


def augmented(draws: Draws) -> list:
    # Erasing transforms come after geometric ones: the flip comes before the grid mask.
    steps = [
        tf.Resize((ENLARGED, ENLARGED)),
        tf.RandomRotation(draws.angle, interpolation="bilinear"),
        *moved(draws),
        tf.ColorTwist(draws.brightness, draws.contrast, draws.saturation, draws.hue),
    ]
    if draws.grid_tile:
        steps.append(tf.GridMask(draws.grid_tile, draws.grid_ratio, draws.grid_angle))
    return steps


def decoded(job: Job, exact: bool) -> Iterator[Batch]:
    files = order(job)
    for start in range(0, len(files) - job.batch + 1, job.batch):
        paths, labels = zip(*files[start : start + job.batch], strict=True)
        yield fsp.decode_images(list(paths), num_threads=job.threads, exact=exact, layout="HWC"), labels


class Adapter(BaseAdapter):
    def version(self) -> str:
        return f"framespool {fsp.__version__}"

    def batches(self, job: Job) -> Iterator[Batch]:
        words = set(job.variant.split())
        if words - {"exact", "loader"} or ("loader" in words and job.task != "decode"):
            raise UnsupportedTask(job)
        if job.task == "decode" and "loader" not in words:
            return decoded(job, "exact" in words)
        floats = job.task in ("train", "augment", "eval")
        loader = fsp.ImageLoader(
            fsp.datasets.Dataset(job.files),
            batch_size=job.batch,
            transforms=transforms(job),
            shuffle="full" if job.shuffle else False,
            seed=job.seed,
            shard_id=job.shard_id,
            num_shards=job.num_shards,
            last_batch="drop",
            num_threads=job.threads,
            layout="NCHW" if floats else "NHWC",
            dtype="float32" if floats else "uint8",
            exact="exact" in words,
        )
        return ((batch.images, batch.labels) for batch in loader)

    def arrays(self, images) -> list[np.ndarray]:
        return [np.array(np.from_dlpack(image)) for image in images]
