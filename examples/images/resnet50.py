"""Training input of ResNet-50: a random crop at 224x224, flipped with probability 0.5, normalized, channels first.

    python examples/images/resnet50.py imagenet/train --dtype float16

The same with DALI, with the decoder that decodes only the crop:

    jpegs, labels = fn.readers.file(file_root=root, random_shuffle=True, shard_id=rank, num_shards=ranks, name="reader")
    x = fn.decoders.image_random_crop(
        jpegs, device="mixed", random_area=[0.08, 1.0], random_aspect_ratio=[0.75, 4 / 3], num_attempts=100
    )
    x = fn.resize(x, size=[224, 224])
    x = fn.crop_mirror_normalize(
        x.gpu(), mirror=fn.random.coin_flip(), mean=mean, std=std, dtype=types.FLOAT, output_layout="CHW"
    )

and with torchvision:

    transforms = v2.Compose([
        v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), v2.ToImage(), v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(mean, std),
    ])
    DataLoader(ImageFolder(root, transforms), batch_size=32, shuffle=True, num_workers=8, drop_last=True)

Here only the region that the crop needs is decoded, by default: see `exact` in the documentation of ImageLoader.
"""

from __future__ import annotations

import argparse
import itertools
import time

import framespool as fsp
from framespool import transforms as t


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", help="folder with one sub-folder per class")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--dtype", choices=["float32", "float16", "bfloat16"], default="float32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, help="number of batches (default: one epoch)")
    arguments = parser.parse_args()

    loader = fsp.ImageLoader(
        fsp.datasets.image_folder(arguments.root),
        batch_size=arguments.batch_size,
        transforms=[
            t.RandomResizedCrop(224, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3)),
            t.RandomHorizontalFlip(),
            t.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ],
        device=arguments.device,
        shuffle=True,
        last_batch="drop",
        dtype=arguments.dtype,
    )
    images, start = 0, time.perf_counter()
    for batch in itertools.islice(loader, arguments.steps):
        # Zero-copy into a model: model(torch.from_dlpack(batch.images)).
        images += len(batch)
    seconds = time.perf_counter() - start
    print(f"{images} images as {batch.images.shape} {batch.images.dtype}, {images / seconds:.0f} images/s")


if __name__ == "__main__":
    main()
