"""The order of PyTorch's `DistributedSampler` and `DataLoader`, to compare runs.

    torchrun --nproc-per-node 4 examples/orders/distributed_sampler.py videos/ --seed 5

The sampler itself is the order. It divides the clips among the ranks, so the loader has neither `shard_id` nor
`num_shards`; `drop_last=True` of a `DataLoader` is `last_batch="drop"`. The loader calls `set_epoch()`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

import framespool as fsp
from torch.utils.data import DistributedSampler


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="folder with one sub-folder per class")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=4)
    arguments = parser.parse_args(words)
    # Set by torchrun.
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))

    videos = fsp.datasets.folder(arguments.folder)
    clips = range(len(videos))  # one clip per video
    loader = fsp.ClipLoader(
        videos,
        fsp.samplers.RandomClips(sequence_length=8),
        batch_size=arguments.batch_size,
        transforms=[fsp.transforms.Resize((112, 112))],
        shuffle=DistributedSampler(clips, num_replicas=ranks, rank=rank, seed=arguments.seed),
    )
    for batch in loader:
        print(f"clips {batch.clip_ids.tolist()}")


if __name__ == "__main__":
    main()
