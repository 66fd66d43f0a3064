"""Compares framespool's order="torch" with PyTorch (DistributedSampler, DataLoader, randperm), and times both.

    python benches/peers/check_order.py                  thousands of configurations, then timing
    python benches/peers/check_order.py --long           also lists of 214,748,363 and 214,748,364 (4 GB, minutes):
                                                         from the second length on, randperm uses another algorithm
    python benches/peers/check_order.py --clips 0        no timing

Run it with the interpreter of benches/peers/.venv.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import warnings
from collections.abc import Iterator

try:
    import framespool as fsp
    import torch
    from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, IterableDataset, get_worker_info
except ImportError as error:
    print(f"check_order.py: skipped ({error})")
    sys.exit()

LENGTHS = [*range(0, 14), 63, 64, 65, 100, 999, 1000, 1023, 1024, 1025, 9973]
LONG_LENGTHS = [99_999, 100_000, 100_001, 2**20 + 1]
EPOCH_CHOICES = [0, 1, 2, 17, 2**31, 2**33]
SEEDS = [0, 1, 2, 42, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 7, 2**63 - 2**34]
# randperm draws 64 bits for each element from this length on: (2^32 - 1) / 20, rounded down.
INSIDE_OUT = 214_748_364


def theirs(n: int, batch: int, shards: int, rank: int, seed: int, epoch: int, shuffle: bool, drop: bool):
    """Batches of PyTorch."""
    sampler = DistributedSampler(range(n), num_replicas=shards, rank=rank, shuffle=shuffle, seed=seed, drop_last=drop)
    sampler.set_epoch(epoch)
    if n > 200:
        return list(BatchSampler(sampler, batch, drop))  # the batches of DataLoader, without fetching
    loader = DataLoader(range(n), batch_size=batch, sampler=sampler, drop_last=drop, collate_fn=list)
    return list(loader)


def check_batches(rng: random.Random, count: int) -> int:
    compared = 0
    for at in range(count):
        n = rng.choice(LENGTHS) if at % 100 else rng.choice(LONG_LENGTHS)
        shards, batch = rng.choice([1, 1, 2, 3, 4, 7, 8, 16, 100]), rng.choice([1, 2, 3, 4, 8, 32, 1000])
        rank, seed, epoch = rng.randrange(shards), rng.choice(SEEDS), rng.choice(EPOCH_CHOICES)
        shuffle, drop = rng.random() < 0.8, rng.random() < 0.5
        order = fsp.BatchSampler(
            order="torch",
            num_clips=n,
            batch_size=batch,
            shuffle="full" if shuffle else False,
            shard_id=rank,
            num_shards=shards,
            seed=seed,
            last_batch="drop" if drop else "partial",
        )
        expected = theirs(n, batch, shards, rank, seed, epoch, shuffle, drop)
        assert list(order.epoch(epoch)) == expected, order
        compared += len(expected)
    return compared


class Batches(IterableDataset):
    """An order in PyTorch's workers, each with its own part."""

    def __init__(self, **keywords) -> None:
        self.keywords = keywords

    def __iter__(self) -> Iterator[list[int]]:
        worker = get_worker_info()
        mine = fsp.BatchSampler(**self.keywords, worker_id=worker.id, num_workers=worker.num_workers)
        return iter(mine.epoch(3))


def check_workers() -> int:
    """PyTorch takes turns over workers: the batches must be in the order of one process."""
    warnings.filterwarnings("ignore", message="This DataLoader will create")  # more workers than cores
    compared = 0
    for order in ("framespool", "torch"):
        for clips, workers in [(100, 1), (100, 2), (101, 3), (7, 4)]:
            keywords = {"num_clips": clips, "batch_size": 8, "order": order, "seed": 5}
            found = list(DataLoader(Batches(**keywords), batch_size=None, num_workers=workers))
            expected = list(fsp.BatchSampler(**keywords).epoch(3))
            assert found == expected, (order, clips, workers)
            compared += len(expected)
    return compared


def randperm(n: int, seed: int) -> torch.Tensor:
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed))


def check_long() -> None:
    for n in (INSIDE_OUT - 1, INSIDE_OUT):
        order = fsp.BatchSampler(order="torch", num_clips=n, batch_size=1 << 20, seed=11)
        expected = randperm(n, 11 + 2)
        for at in range(0, len(order), 20):
            part = expected[at << 20 : (at + 1) << 20]
            assert torch.equal(torch.tensor(order.batch(at, epoch=2)), part), (n, at)
        del expected, order
        print(f"  {n:,} clips: the same")


def costs(n: int) -> None:
    began = time.perf_counter()
    indices = randperm(n, 1)
    made = time.perf_counter() - began
    as_list = indices.tolist()
    listed = time.perf_counter() - began - made
    of_list = sys.getsizeof(as_list) + sum(map(sys.getsizeof, as_list[:1000])) * n // 1000
    print(f"torch.randperm({n:,}): {made:.2f} s, {indices.nbytes / 1e6:.0f} MB")
    print(f"its .tolist(), which DistributedSampler calls: {listed:.2f} s more, {of_list / 1e6:.0f} MB more")
    del indices, as_list
    kinds = [("framespool", "full"), ("framespool", "buffer"), ("torch", "full"), ("dali", "buffer")]
    for kind, shuffle in kinds:
        began = time.perf_counter()
        order = fsp.BatchSampler(num_clips=n, batch_size=32, order=kind, shuffle=shuffle, seed=1)
        first = order.batch(0)
        seconds = time.perf_counter() - began
        assert len(first) == 32
        print(f'order="{kind}", shuffle="{shuffle}": first batch after {seconds:.4f} s')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=5000, help="configurations (default: 5000)")
    parser.add_argument("--seed", type=int, default=0, help="which configurations (default: 0)")
    parser.add_argument("--clips", type=int, default=10**7, help="clips for timing, 0 for none (default: 10,000,000)")
    parser.add_argument("--long", action="store_true", help="also lists around the length where randperm changes")
    arguments = parser.parse_args()
    compared = check_batches(random.Random(arguments.seed), arguments.count)
    print(f"{arguments.count:,} configurations, {compared:,} batches: equal to PyTorch {torch.__version__}")
    print(f"{check_workers()} batches of 1 to 4 worker processes: in the same order as with one process")
    if arguments.long:
        check_long()
    if arguments.clips:
        costs(arguments.clips)


if __name__ == "__main__":
    main()
