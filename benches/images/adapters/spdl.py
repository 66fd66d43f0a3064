"""SPDL: FFmpeg decodes, crops, flips and scales in one filter graph; a pipeline of threads creates batches.

SPDL has no normalization; PyTorch normalizes the batch, in the same threads. It has no color twist and no
grid mask, so there is no `augment`. Images have `"threads": "1"`: several are decoded in parallel.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from importlib.metadata import version

import numpy as np
import spdl.io
import spdl.io.utils
import torch
from spdl.pipeline import PipelineBuilder
from tasks import CROP, MEAN, SHORTER, SQUARE, STD, Job

from .base import BaseAdapter, Batch, UnsupportedTask, draw_crop, order

DECODING = spdl.io.decode_config(decoder_options={"threads": "1"})


def filters(job: Job, width: int, height: int) -> str:
    """FFmpeg's filter description for an image of this size."""
    if job.task == "decode":
        return "format=rgb24"
    if job.task == "square":
        return f"scale={SQUARE}:{SQUARE}:flags=bilinear,format=rgb24"
    if job.task == "eval":
        resized = (max(SHORTER, int(SHORTER * side / min(width, height))) for side in (width, height))
        return f"scale={':'.join(map(str, resized))}:flags=bilinear,format=rgb24,crop={CROP}:{CROP}"
    left, top, w, h = draw_crop(width, height, job.draws, random)
    mirror = ",hflip" if random.random() < job.draws.mirror else ""
    # Without exact=1 the corner would be moved to even pixels, for the chroma.
    return f"crop={w}:{h}:{left}:{top}:exact=1,scale={CROP}:{CROP}:flags=bilinear{mirror},format=rgb24"


def decoded(job: Job, path: str):
    packets = spdl.io.demux_image(path)
    return spdl.io.decode_packets(packets, filters(job, packets.width, packets.height), DECODING)


class Adapter(BaseAdapter):
    def version(self) -> str:
        major, minor, _ = spdl.io.utils.get_ffmpeg_versions()["libavcodec"]
        return f"SPDL {version('spdl')} (libavcodec {major}.{minor})"

    def batches(self, job: Job) -> Iterator[Batch]:
        if job.task == "augment" or job.variant:
            raise UnsupportedTask(job)
        torch.set_num_threads(1)
        scale = torch.tensor([1 / (255 * s) for s in STD]).view(1, 3, 1, 1)
        offset = torch.tensor([-m / s for m, s in zip(MEAN, STD, strict=True)]).view(1, 3, 1, 1)
        files = order(job)

        def load(item: tuple[str, int]):
            return decoded(job, item[0]), item[1]

        def collated(batch: list) -> Batch:
            labels = [label for _, label in batch]
            if job.task == "decode":
                return [spdl.io.to_numpy(spdl.io.convert_frames(frames)) for frames, _ in batch], labels
            images = spdl.io.to_numpy(spdl.io.convert_frames([frames for frames, _ in batch]))
            if job.task == "square":
                return images, labels
            planes = torch.from_numpy(images).permute(0, 3, 1, 2)
            return planes.to(torch.float32, memory_format=torch.contiguous_format).mul_(scale).add_(offset), labels

        pipeline = (
            PipelineBuilder()
            .add_source(files)
            .pipe(load, concurrency=job.threads, output_order="input")
            .aggregate(job.batch, drop_last=True)
            .pipe(collated)
            .add_sink(2)
            .build(num_threads=job.threads)
        )
        with pipeline.auto_stop():
            yield from pipeline

    def arrays(self, images) -> list[np.ndarray]:
        return [np.array(image) for image in images]
