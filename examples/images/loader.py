"""Labeled photographs at 640x640, shuffled, one shard per rank: DALI's multi-GPU image loader.

    python examples/images/loader.py photos/                       # photos/class/file.jpg
    torchrun --nproc-per-node 4 examples/images/loader.py photos/ --device cuda

The same with DALI (`mixed` decodes on the GPU):

    @pipeline_def
    def images(root):
        jpegs, labels = fn.readers.file(
            file_root=root, random_shuffle=True, initial_fill=1024, shard_id=rank, num_shards=ranks, name="reader"
        )
        pictures = fn.decoders.image(jpegs, device="mixed", output_type=types.RGB)
        return fn.resize(pictures, resize_x=640, resize_y=640, interp_type=types.INTERP_LINEAR), labels

    pipe = images(root, batch_size=32, num_threads=4, device_id=rank)
    for (batch,) in DALIGenericIterator([pipe], ["images", "labels"], reader_name="reader"):
        ...

Here no pipeline is built and no reader is named: the loader has a length, and the order of an epoch is known
before it starts. `examples/orders/dali.py` has the order of DALI's own shuffle.
"""

from __future__ import annotations

import argparse
import itertools
import os

import framespool as fsp
from framespool import transforms as t


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", help="folder with one sub-folder per class")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--device", default="cpu", help='"cpu", or "cuda" for the GPU of this rank')
    parser.add_argument("--steps", type=int, help="number of batches (default: one epoch)")
    arguments = parser.parse_args()
    # Set by torchrun.
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    gpu = f"cuda:{os.environ.get('LOCAL_RANK', 0)}"

    photos = fsp.datasets.image_folder(arguments.root)
    loader = fsp.ImageLoader(
        photos,
        batch_size=arguments.batch_size,
        transforms=[t.Resize((640, 640))],
        shuffle=fsp.BufferShuffle(1024),
        shard_id=rank,
        num_shards=ranks,
        device=gpu if arguments.device == "cuda" else arguments.device,
    )
    print(f"{len(photos)} images of {len(photos.classes)} classes, {len(loader)} batches for rank {rank} of {ranks}")
    for batch in itertools.islice(loader, arguments.steps):
        names = [photos.classes[label] for label in batch.labels.tolist()[:3]]
        print(f"images {batch.images.shape} {batch.images.dtype} on {batch.images.device}, labels {names} …")


if __name__ == "__main__":
    main()
