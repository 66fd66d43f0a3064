"""The order of DALI's readers as a sampler, to compare runs. Exact for DALI 2.4 on 64-bit Linux.

    python examples/orders/dali.py videos/ --seed 11 --initial-fill 1024

The same with DALI:

    fn.readers.video(
        file_root="videos/", random_shuffle=True, initial_fill=1024, seed=11, shard_id=rank, num_shards=ranks,
        pad_last_batch=True, name="reader", ...
    )

A reader shuffles the list of all samples once, the same for every seed. In each epoch the samples of a shard pass
through a buffer of `initial_fill` entries: each step delivers a random entry and puts the next sample in its place.
Random numbers are those of libstdc++, which this module computes as well.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from random import Random

import framespool as fsp

MASK = 2**32 - 1
#: DALI's seed of the shuffle of all samples.
LIST_SEED = 524_287


class DaliReader:
    """The samples that a DALI reader delivers, epoch by epoch; pass it as `shuffle=`.

    Iterating gives the epoch that `set_epoch()` chose. Epochs are drawn one after another, as DALI does, so a later
    first epoch takes the time of all before it. Without shuffling nothing is drawn.

    Args:
        num_samples: Samples of the dataset; clips, for a `ClipLoader`.
        shard_id: Rank of this reader, from 0.
        num_shards: Number of ranks. Unless `stick_to_shard`, a rank reads the next shard in each epoch.
        seed: DALI's seed, of which the low 32 bits count.
        random_shuffle: Whether samples are shuffled.
        initial_fill: Entries of the buffer.
        stick_to_shard: Whether a rank reads the same shard in all epochs.
        pad_to: Batch size with `pad_last_batch=True`: the last sample is repeated until all ranks have the same number
            of full batches. `None`: `pad_last_batch=False`.
    """

    def __init__(
        self,
        num_samples: int,
        *,
        shard_id: int = 0,
        num_shards: int = 1,
        seed: int = 0,
        random_shuffle: bool = True,
        initial_fill: int = 1024,
        stick_to_shard: bool = False,
        pad_to: int | None = None,
    ) -> None:
        self.samples = list(range(num_samples))
        self.shard_id, self.num_shards, self.stick_to_shard = shard_id, num_shards, stick_to_shard
        self.initial_fill = initial_fill if random_shuffle else 1
        self.epoch, self.length = 0, 0
        if pad_to is not None:
            longest = -(-num_samples // num_shards)
            self.length = -(-longest // pad_to) * pad_to
        if random_shuffle:
            shuffle(self.samples, LIST_SEED)
        #: The state of the random numbers at the beginning of each epoch that was reached.
        self._states = [minstd_seed(seed)]

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next iteration."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        if self.initial_fill > 1:
            while len(self._states) <= self.epoch:
                self._deliver(len(self._states) - 1)
        delivered = self._deliver(self.epoch)
        return iter(delivered + delivered[-1:] * (self.length - len(delivered)))

    def _deliver(self, epoch: int) -> list[int]:
        shard = (self.shard_id + (0 if self.stick_to_shard else epoch)) % self.num_shards
        first, end = (len(self.samples) * number // self.num_shards for number in (shard, shard + 1))
        samples = self.samples[first:end]
        if self.initial_fill == 1:
            return samples
        random = Minstd(self._states[epoch])
        delivered, buffer = [], samples[: self.initial_fill]
        for place in range(len(samples)):
            # DALI draws among the entries of this epoch, from the oldest on.
            waiting, oldest = min(len(samples) - place, len(buffer)), place % len(buffer)
            drawn = (oldest + random.below(waiting)) % len(buffer)
            delivered.append(buffer[drawn])
            buffer[drawn] = buffer[oldest]
            if place + len(buffer) < len(samples):
                buffer[oldest] = samples[place + len(buffer)]
        if epoch + 1 == len(self._states):
            self._states.append(random.state)
        return delivered


class Minstd:
    """`std::minstd_rand0`."""

    def __init__(self, state: int) -> None:
        self.state = state

    def below(self, count: int) -> int:
        """`std::uniform_int_distribution(0, count - 1)`: draws past the last whole interval are rejected."""
        interval = (2**31 - 3) // count
        while True:
            self.state = self.state * 16807 % (2**31 - 1)
            if (number := (self.state - 1) // interval) < count:
                return number


def minstd_seed(seed: int) -> int:
    """The state of `std::minstd_rand0` that a `std::seed_seq{seed}` gives: the last of four words."""
    words = [0x8B8B8B8B] * 4
    for step in range(8):
        at, after, beyond, before = ((step + by) % 4 for by in range(4))
        if step < 4:
            mixed = words[at] ^ words[after] ^ words[before]
            mixed = (mixed ^ mixed >> 27) * 1_664_525 & MASK
            seeded = mixed + (1 if step == 0 else step + (seed if step == 1 else 0))
            words[after] = words[after] + mixed & MASK
            words[beyond] = words[beyond] + seeded & MASK
        else:
            mixed = words[at] + words[after] + words[before] & MASK
            mixed = (mixed ^ mixed >> 27) * 1_566_083_941 & MASK
            seeded = mixed - step % 4
            words[after] ^= mixed
            words[beyond] ^= seeded & MASK
        words[at] = seeded & MASK
    return words[3] % (2**31 - 1) or 1


def shuffle(samples: list[int], seed: int) -> None:
    """`std::shuffle(samples, std::mt19937(seed))`, which takes two positions from one number in short lists."""
    random, first = mt19937(seed), 1
    if len(samples) < 2**16:
        if len(samples) % 2 == 0 and samples:
            swap(samples, 1, below(random, 2))
            first = 2
        for at in range(first, len(samples), 2):
            both = below(random, (at + 1) * (at + 2))
            swap(samples, at, both // (at + 2))
            swap(samples, at + 1, both % (at + 2))
    else:
        for at in range(1, len(samples)):
            swap(samples, at, below(random, at + 1))


def swap(samples: list[int], one: int, other: int) -> None:
    samples[one], samples[other] = samples[other], samples[one]


def mt19937(seed: int) -> Random:
    """`std::mt19937(seed)`: Python's generator, with the state that C++ gives it."""
    words = [seed]
    for number in range(1, 624):
        words.append(1_812_433_253 * (words[-1] ^ words[-1] >> 30) + number & MASK)
    random = Random()
    random.setstate((3, (*words, 624), None))
    return random


def below(random: Random, count: int) -> int:
    """`std::uniform_int_distribution(0, count - 1)` of libstdc++ since GCC 11: the high half of a product."""
    while True:
        product = random.getrandbits(32) * count
        if product & MASK >= -count % 2**32 % count:
            return product >> 32


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="folder with one sub-folder per class")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--initial-fill", type=int, default=1024)
    parser.add_argument("--batch-size", type=int, default=4)
    arguments = parser.parse_args(words)
    # Set by torchrun.
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))

    videos = fsp.datasets.folder(arguments.folder)
    order = DaliReader(
        len(videos),  # one clip per video
        shard_id=rank,
        num_shards=ranks,
        seed=arguments.seed,
        initial_fill=arguments.initial_fill,
        pad_to=arguments.batch_size,
    )
    loader = fsp.ClipLoader(
        videos,
        fsp.samplers.RandomClips(sequence_length=8),
        batch_size=arguments.batch_size,
        transforms=[fsp.transforms.Resize((112, 112))],
        shuffle=order,
    )
    for batch in loader:
        print(f"clips {batch.clip_ids.tolist()}")


if __name__ == "__main__":
    main()
