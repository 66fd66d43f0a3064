"""The samplers of examples/orders give the orders of other libraries, number by number."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import framespool as fsp
import pytest
from order_examples import ORDERS, dali
from small_loaders import SMALL

RANDOM = fsp.samplers.RandomClips(sequence_length=4)
RECORDED = [
    line.rsplit(" ", 1)
    for line in (Path(__file__).parent / "data" / "dali_order.txt").read_text().splitlines()
    if not line.startswith("#")
]


def epochs(order, numbers):
    for epoch in numbers:
        order.set_epoch(epoch)
        yield list(order)


def clips(run):
    return [batch.clip_ids.tolist() for batch in run]


def test_order_is_every_sequence_recorded_from_dali():
    compared = 0
    for numbers, samples in RECORDED:
        count, batch, shards, shard, sticks, pads, fill, seed = map(int, numbers.split())
        order = dali.DaliReader(
            count,
            shard_id=shard,
            num_shards=shards,
            seed=seed,
            random_shuffle=fill > 0,
            initial_fill=fill,
            stick_to_shard=bool(sticks),
            pad_to=batch if pads else None,
        )
        expected = [int(digit, 36) for digit in samples]
        found = itertools.chain.from_iterable(epochs(order, itertools.count()))
        assert list(itertools.islice(found, len(expected))) == expected, numbers
        compared += len(expected)
    assert (len(RECORDED), compared) == (288, 14_688)


def test_epochs_of_dali_do_not_depend_on_their_sequence():
    order = dali.DaliReader(23, shard_id=1, num_shards=3, seed=5, initial_fill=4)
    first = list(epochs(order, range(6)))
    assert list(epochs(order, [4, 0, 3])) == [first[4], first[0], first[3]]
    fresh = dali.DaliReader(23, shard_id=1, num_shards=3, seed=5, initial_fill=4)
    assert next(epochs(fresh, [5])) == first[5]


# Printed by a C++ program, built with GCC 12 and its libstdc++ on x86-64 Linux.


@pytest.mark.parametrize(
    ("seed", "draws"),
    [
        (0, [2016241165, 1820794142, 445174844]),
        (1, [1314759747, 1707823846, 128953920]),
        (11, [1654007979, 1883776285, 276614274]),
        (0xFFFF_FFFF, [2134614239, 599708091, 1153130066]),
        (2**32 + 5, [615945375, 1322739085, 525087851]),
        (123456789, [444582879, 1008839440, 1181075015]),
    ],
)
def test_minstd_is_seeded_as_by_a_seed_seq(seed, draws):
    random = dali.Minstd(dali.minstd_seed(seed))
    for draw in draws:
        random.below(2**31 - 3)
        assert random.state == draw


def checksum(numbers):
    total = 0
    for number in numbers:
        total = (total * 6364136223846793005 + number) % 2**64
    return total


def test_ranges_are_cut_as_by_uniform_int_distribution():
    ranges = [1, 2, 7, 1000, 1_000_003, 2_000_000_000, 2_147_483_645]
    for seed, expected in [
        (0, [0, 1, 1, 102, 316810, 931457404, 1996302851]),
        (1, [0, 1, 0, 240, 409282, 579632763, 902041755]),
        (123456789, [0, 0, 3, 529, 104280, 527376245, 947555352]),
    ]:
        random = dali.Minstd(dali.minstd_seed(seed))
        assert [random.below(count) for count in ranges] == expected
    # With this range, 3 of 10 numbers are rejected.
    random = dali.Minstd(dali.minstd_seed(5))
    assert checksum(random.below(1_500_000_000) for _ in range(1000)) == 11264493736043101199


def test_lists_are_shuffled_as_by_std_shuffle():
    def shuffled(count):
        numbers = list(range(count))
        dali.shuffle(numbers, 524_287)
        return numbers

    assert [shuffled(count) for count in range(4)] == [[], [0], [1, 0], [1, 0, 2]]
    assert shuffled(10) == [5, 9, 1, 6, 7, 2, 0, 4, 8, 3] and shuffled(4) == [2, 3, 1, 0]
    assert shuffled(11) == [10, 0, 2, 4, 7, 1, 6, 5, 3, 9, 8]
    assert checksum(shuffled(65_534)) == 17699132917702023835  # one number for two positions
    assert checksum(shuffled(65_535)) == 17958177595444613669
    assert checksum(shuffled(65_536)) == 16525023256375655348  # one number for each position
    assert checksum(shuffled(70_000)) == 14917814208391121788


def test_a_loader_delivers_the_order_of_dali(tiny_clips):
    # Recorded from DALI 2.4: fn.readers.file with random_shuffle and pad_last_batch, shard 0 of 2, rotating each epoch.
    recorded = [[2, 3, 0, 0, 0, 0], [6, 4, 5, 1, 1, 1], [0, 3, 2, 2, 2, 2], [6, 5, 4, 1, 1, 1]]

    def make():
        order = dali.DaliReader(7, num_shards=2, seed=11, initial_fill=4, pad_to=3)
        return fsp.ClipLoader(tiny_clips[:7], RANDOM, batch_size=3, transforms=SMALL, shuffle=order, num_threads=1)

    run = make()
    assert [sum(clips(run), []) for _ in recorded] == recorded
    run.set_epoch(2)
    batches = iter(run)
    assert next(batches).clip_ids.tolist() == recorded[2][:3]
    resumed = make()
    resumed.load_state_dict(run.state_dict())
    assert clips(resumed) == [recorded[2][3:]] and sum(clips(resumed), []) == recorded[3]


def test_a_loader_delivers_the_order_of_distributed_sampler(tiny_clips):
    data = pytest.importorskip("torch.utils.data")
    # DistributedSampler(range(39), num_replicas=2, rank=r, seed=3), set_epoch(2), PyTorch 2.15
    expected = [
        [14, 20, 10, 28, 19, 3, 38, 32, 27, 12, 26, 35, 18, 25, 33, 30, 31, 5, 2, 4],
        [11, 24, 23, 16, 13, 17, 15, 9, 7, 6, 36, 34, 0, 21, 22, 37, 8, 1, 29, 14],
    ]
    for rank in range(2):
        order = data.DistributedSampler(range(39), num_replicas=2, rank=rank, seed=3)
        run = fsp.ClipLoader(tiny_clips * 3, RANDOM, batch_size=4, transforms=SMALL, shuffle=order, num_threads=1)
        run.set_epoch(2)
        assert sum(clips(run), []) == expected[rank]
    order = data.DistributedSampler(range(11), num_replicas=2, rank=0, seed=9, drop_last=True)
    run = fsp.ClipLoader(tiny_clips, RANDOM, batch_size=4, transforms=SMALL, shuffle=order, last_batch="drop")
    run.set_epoch(3)
    assert clips(run) == [[10, 3, 0, 1]]


def program(name, *words, **environment):
    done = subprocess.run(
        [sys.executable, ORDERS / f"{name}.py", *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "FRAMESPOOL_INDEX": "off", **environment},
    )
    assert done.returncode == 0, done.stderr
    return [eval(line.removeprefix("clips ")) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("name", ["dali", "distributed_sampler"])
def test_programs_divide_the_videos_among_ranks(tiny_clips, tmp_path, name):
    if name == "distributed_sampler":
        pytest.importorskip("torch")
    (tmp_path / "some").mkdir()
    for number, (path, _) in enumerate(tiny_clips[:5]):
        (tmp_path / "some" / f"{number}.mp4").symlink_to(Path(path).resolve())
    ranks = [program(name, tmp_path, "--batch-size", 2, RANK=str(rank), WORLD_SIZE="2") for rank in range(2)]
    assert sorted({clip for rank in ranks for batch in rank for clip in batch}) == list(range(5))
    assert len(ranks[0]) == len(ranks[1])


@pytest.mark.parametrize("name", ["DaliOrder", "TorchOrder"])
def test_earlier_names_say_what_to_use(name):
    with pytest.raises(
        AttributeError, match=r"no attribute.*; use shuffle=.*(DistributedSampler|examples/orders/dali)"
    ):
        getattr(fsp.order, name)
    with pytest.raises(AttributeError, match="; use shuffle="):
        getattr(fsp, name)
