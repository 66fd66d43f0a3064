"""NVIDIA DALI's CPU operators in one pipeline, with no GPU: `num_threads` threads, two batches ahead.

Variants: "" decodes complete images (its CPU decoder always upsamples chroma smoothly); "part" is DALI's documented
recommendation for training, the decoder that decodes only a random crop, followed by resize. Outputs stay in DALI's
memory: nothing is copied into another library's tensors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import nvidia.dali as dali
from nvidia.dali import fn, pipeline_def, types
from tasks import CROP, ENLARGED, INITIAL_FILL, MEAN, SHORTER, SQUARE, STD, Draws, Job

from .base import BaseAdapter, Batch, UnsupportedTask


def uniform(ends: tuple[float, float]):
    return ends[0] if ends[0] == ends[1] else fn.random.uniform(range=list(ends))


def normalized(images, mirror: float = 0.0, **crop):
    return fn.crop_mirror_normalize(
        images,
        mean=[255 * value for value in MEAN],
        std=[255 * value for value in STD],
        mirror=fn.random.coin_flip(probability=mirror) if mirror else 0,
        output_layout="CHW",
        dtype=types.FLOAT,
        **crop,
    )


def part(draws: Draws) -> dict:
    return {"random_area": list(draws.area), "random_aspect_ratio": list(draws.ratio)}


def augmented(images, draws: Draws):
    images = fn.resize(images, size=(ENLARGED, ENLARGED), interp_type=types.INTERP_LINEAR)
    images = fn.rotate(
        images, angle=uniform(draws.angle), keep_size=True, interp_type=types.INTERP_LINEAR, fill_value=0
    )
    images = fn.random_resized_crop(images, size=(CROP, CROP), interp_type=types.INTERP_LINEAR, **part(draws))
    images = fn.color_twist(
        images,
        brightness=uniform(draws.brightness),
        contrast=uniform(draws.contrast),
        saturation=uniform(draws.saturation),
        hue=uniform(draws.hue),
    )
    if draws.grid_tile:
        low, high = draws.grid_tile
        tile = low if low == high else fn.random.uniform(values=list(range(low, high + 1)), dtype=types.INT32)
        angle = uniform(tuple(map(math.radians, draws.grid_angle)))
        images = fn.grid_mask(images, tile=tile, ratio=draws.grid_ratio, angle=angle)
    return normalized(images, draws.mirror)


@pipeline_def
def pipeline(job: Job):
    jpegs, labels = fn.readers.file(
        files=[path for path, _ in job.files],
        labels=[label for _, label in job.files],
        random_shuffle=job.shuffle,
        initial_fill=INITIAL_FILL,
        shard_id=job.shard_id,
        num_shards=job.num_shards,
        name="reader",
    )
    decoding = {"device": "cpu", "output_type": types.RGB}
    if job.task == "train" and job.variant == "part":
        images = fn.decoders.image_random_crop(jpegs, **decoding, **part(job.draws))
        images = fn.resize(images, size=(CROP, CROP), interp_type=types.INTERP_LINEAR)
        return normalized(images, job.draws.mirror), labels
    if job.variant:
        raise UnsupportedTask(job)
    images = fn.decoders.image(jpegs, **decoding)
    if job.task == "train":
        images = fn.random_resized_crop(images, size=(CROP, CROP), interp_type=types.INTERP_LINEAR, **part(job.draws))
        images = normalized(images, job.draws.mirror)
    elif job.task == "augment":
        images = augmented(images, job.draws)
    elif job.task == "eval":
        images = fn.resize(images, resize_shorter=SHORTER, interp_type=types.INTERP_LINEAR)
        images = normalized(images, crop=(CROP, CROP))
    elif job.task == "square":
        images = fn.resize(images, size=(SQUARE, SQUARE), interp_type=types.INTERP_LINEAR)
    return images, labels


class Adapter(BaseAdapter):
    def version(self) -> str:
        return f"DALI {dali.__version__}"

    def batches(self, job: Job) -> Iterator[Batch]:
        built = pipeline(job, batch_size=job.batch, num_threads=job.threads, device_id=None, seed=job.seed or 1)
        built.build()
        for _ in range(len(job.shard()) // job.batch):
            yield built.run()

    def arrays(self, images) -> list[np.ndarray]:
        return [np.array(images.at(n)) for n in range(len(images))]
