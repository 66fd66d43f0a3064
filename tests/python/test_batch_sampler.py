"""Batch samplers without videos, from Python."""

from __future__ import annotations

import itertools
import pickle

import framespool as fsp
import pytest
from framespool.errors import ArgumentError


def order(**keywords):
    return fsp.order.BatchSampler(**{"num_clips": 23, "batch_size": 4, **keywords})


EVERY_KIND = [
    ({"shuffle": False}, False),
    ({"shuffle": "full"}, False),
    ({"shuffle": fsp.BufferShuffle(6)}, False),
    ({"shuffle": "full"}, True),
]


@pytest.mark.parametrize(("keywords", "sticks"), EVERY_KIND, ids=repr)
def test_every_clip_comes_once_over_ranks_and_workers(keywords, sticks):
    real, lengths = [], set()
    for rank in range(3):
        workers = [
            order(
                **keywords,
                shard_id=rank,
                num_shards=fsp.options.Shards(3, stick_to_shard=sticks, worker_id=worker, num_workers=2),
            )
            for worker in range(2)
        ]
        lengths.add(tuple(len(batch) for own in workers for batch in own.epoch(2)))
        for own in workers:
            assert own.num_slots == sum(map(len, own.epoch(2)))
            for n in range(len(own)):
                marked = zip(own.batch(n, epoch=2), own.padding(n, epoch=2), strict=True)
                real += [clip for clip, padding in marked if not padding]
        alone = order(**keywords, shard_id=rank, num_shards=fsp.options.Shards(3, stick_to_shard=sticks))
        turns = itertools.zip_longest(*(own.epoch(2) for own in workers))
        assert [batch for turn in turns for batch in turn if batch is not None] == list(alone.epoch(2))
    assert sorted(real) == list(range(23))
    assert len(lengths) == 1


def test_an_epoch_is_a_sequence_of_batches():
    mine = order(shuffle=False)
    epoch = mine.epoch(1)
    assert len(epoch) == len(mine) == 6
    assert epoch[0] == mine.batch(0, epoch=1) == [0, 1, 2, 3]
    assert epoch[-1] == [20, 21, 22]
    assert epoch[4:] == [[16, 17, 18, 19], [20, 21, 22]]
    assert list(epoch) == [mine.batch(n) for n in range(len(mine))]
    with pytest.raises(IndexError, match="batch 6 of 6"):
        epoch[6]
    assert list(order().epoch(0)) != list(order().epoch(1)) != list(order(seed=1).epoch(1))


def test_padding_fills_and_drop_leaves_out():
    filled = order(shuffle=False, last_batch="fill")
    assert filled.batch(5) == [20, 21, 22, 0]
    assert filled.padding(5) == [False, False, False, True]
    assert len(order(last_batch="drop")) == 5


def test_a_buffer_moves_no_clip_far_and_full_does():
    near = order(num_clips=6000, batch_size=32, shuffle=fsp.BufferShuffle(64))
    quality = near.quality(clips_per_video=20)
    assert quality["max_clips"] < 96
    assert quality["full"]["mean_share"] == pytest.approx(1 / 3, abs=0.02)
    assert 2 < quality["videos_per_batch"] < 8 < quality["full"]["videos_per_batch"]
    assert quality == near.quality([20] * 300)
    one_video = near.quality([6000])
    assert one_video["videos_per_batch"] == 1
    assert near.quality(epoch=3) != near.quality(epoch=4)


def test_mix_follows_weights_and_counts_occurrences():
    mix = fsp.order.Mixture(sizes=[1000, 50], weights=[3, 1], epoch_clips=800)
    mine = order(num_clips=1050, batch_size=100, mix=mix)
    assert len(mine) == 8
    clips = [clip for batch in mine.epoch(0) for clip in batch]
    visits = [visit for n in range(8) for visit in mine.visits(n)]
    assert sum(clip < 1000 for clip in clips) in (599, 600, 601)
    assert len(set(zip(clips, visits, strict=True))) == 800
    assert max(visits) == 3  # 200 draws of 50 clips
    again = fsp.order.Mixture(sizes=[1000, 50], weights=[3, 1], replacement=True)
    assert len(order(num_clips=1050, batch_size=100, mix=again)) == 11


def test_orders_travel_and_compare():
    mine = order(mix=fsp.order.Mixture(sizes=(20, 3), weights=(1, 1)), seed=9)
    other = pickle.loads(pickle.dumps(mine))
    assert other == mine and hash(other) == hash(mine)
    assert list(other.epoch(4)) == list(mine.epoch(4))
    assert other != order(seed=9)
    assert "num_clips=23" in repr(mine) and "_sampler" not in repr(mine)


@pytest.mark.parametrize(
    ("keywords", "part"),
    [
        ({"num_clips": -1}, "num_clips must be at least 0, got -1"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"shuffle": "all"}, 'shuffle must be a bool, "grouped", "full" or "buffer", one of the classes'),
        ({"shuffle": [3, 1, 2]}, "[3, 1, 2] makes an order itself"),
        ({"shuffle": "grouped"}, "clips_per_video must be given"),
        ({"shuffle": "grouped", "clips_per_video": 7}, "must be a multiple of clips_per_video=7"),
        ({"shuffle": "grouped", "clips_per_video": [7, 7]}, "must add up to num_clips="),
        (
            {"shuffle": "grouped", "clips_per_video": 1, "num_shards": fsp.options.Shards(1, stick_to_shard=True)},
            "stick_to_shard must be False",
        ),
        ({"shard_id": 2, "num_shards": 2}, "shard_id must be below num_shards=2, got 2"),
        ({"num_shards": fsp.options.Shards(1, worker_id=1)}, "worker_id must be below num_workers=1, got 1"),
        ({"num_shards": fsp.options.Shards(24, stick_to_shard=True)}, "num_clips must be at least num_shards=24"),
        ({"last_batch": "pad"}, 'last_batch must be one of "partial", "drop", "fill", got "pad"'),
        ({"seed": 2**64}, "seed must be at most"),
        ({"mix": 3}, "mix must be a framespool.order.Mixture or None, got 3"),
        ({"mix": fsp.order.Mixture(sizes=[20], weights=[1])}, "sizes must add up to num_clips=23, got 20"),
        ({"mix": fsp.order.Mixture(sizes=[23], weights=[-1])}, "weights must be finite and greater than 0, got -1"),
        ({"mix": fsp.order.Mixture(sizes=[23], weights=[1]), "shuffle": False}, '"full" or "grouped" with a mix'),
    ],
)
def test_a_wrong_value_is_repeated_back(keywords, part):
    with pytest.raises(ArgumentError) as error:
        order(**keywords)
    assert part in str(error.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fsp.GroupedShuffle(max_chunk=0), "max_chunk must be at least 1, got 0"),
        (lambda: fsp.GroupedShuffle(num_streams=0), "num_streams must be at least 1, got 0"),
        (lambda: fsp.GroupedShuffle(block_size="2"), "block_size must be an int, got '2'"),
        (lambda: fsp.BufferShuffle(0), "initial_fill must be at least 1, got 0"),
        (lambda: fsp.options.Shards(1, stick_to_shard=1), "stick_to_shard must be True or False, got 1"),
        (lambda: fsp.options.Shards(2, num_workers=2), "num_workers=2 is given without worker_id: one worker makes"),
        (lambda: fsp.options.Shards("2"), "num_shards must be an int, got '2'"),
    ],
)
def test_objects_of_the_order_check_their_fields(make, message):
    with pytest.raises(ArgumentError) as error:
        make()
    assert str(error.value).startswith(message)


def test_wrong_places_are_repeated_back():
    with pytest.raises(ArgumentError, match="n must be below 6, the number of batches, got 6"):
        order().batch(6)
    with pytest.raises(ArgumentError, match="n must be at least 0, got -1"):
        order().padding(-1)
    with pytest.raises(ArgumentError, match="epoch must be an int, got 1.5"):
        order().batch(0, epoch=1.5)
    with pytest.raises(ArgumentError, match="add up to num_clips=23, got 20"):
        order().quality([10, 10])
    with pytest.raises(ArgumentError, match="clips_per_video must be at least 1, got 0"):
        order().quality(0)
    with pytest.raises(ArgumentError, match="sizes must be ints, one for each dataset, got 5"):
        fsp.order.Mixture(sizes=5, weights=[1])
    mixed = order(mix=fsp.order.Mixture(sizes=[23], weights=[1]))
    assert mixed.quality()["mean_clips"] is None and mixed.quality()["mixing"] == pytest.approx(1, abs=0.05)
    with pytest.raises(ArgumentError, match="ends at clip 3"):
        order(mix=fsp.order.Mixture(sizes=[3, 20], weights=[1, 1])).quality([5, 18])
