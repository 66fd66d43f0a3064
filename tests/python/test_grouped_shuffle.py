"""The grouped shuffle in batch samplers and loaders: order, ranks, decode-once, checkpoints."""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter

import framespool as fsp
import grouped_oracle
import pytest

SMALL = [fsp.transforms.Resize((16, 16))]
# Clips so small that no budget for some of them has room for a suspended decoder: only clips are cached.
TINY = {"transforms": [fsp.transforms.Resize((4, 4))]}
CLIP_BYTES = 2 * 4 * 4 * 3
WINDOWS = fsp.samplers.Windows(sequence_length=2, step=4)


def sampler(**keywords):
    return fsp.order.BatchSampler(**{"batch_size": 4, "shuffle": "grouped", "seed": 5, **keywords})


def loader(dataset, **keywords):
    return fsp.ClipLoader(
        dataset,
        WINDOWS,
        **{"batch_size": 4, "transforms": SMALL, "shuffle": "grouped", "seed": 3, "num_threads": 2, **keywords},
    )


def real_clips(batch):
    return [clip for clip, pad in zip(batch.clip_ids.tolist(), batch.padding.tolist(), strict=True) if not pad]


def delivered(run):
    return [real_clips(batch) for batch in run]


@pytest.mark.parametrize(
    ("lengths", "num_streams", "block", "max_chunk"),
    [
        ([6] * 50, 4, 120, 64),
        ([1, 40, 0, 3, 7, 200, 1, 1, 9] * 4, 6, 300, 16),
        ([10_000], 2, 700, 64),
        ([3] * 30, 1, 0, 64),
        ([5] * 20, 3, 10**9, 2),
        ([2] * 3, 8, 4, 64),
    ],
)
def test_order_is_that_of_the_oracle(lengths, num_streams, block, max_chunk):
    options = {"shuffle": fsp.GroupedShuffle(block_size=block, max_chunk=max_chunk, num_streams=num_streams)}
    for epoch in (0, 3):
        expected = grouped_oracle.order(lengths, num_streams, block, max_chunk, 5, epoch).tolist()
        one = sampler(num_clips=sum(lengths), clips_per_video=lengths, **options)
        assert [clip for batch in one.epoch(epoch) for clip in batch] == expected
        assert one.grouped == (num_streams, block, max_chunk)


@pytest.mark.parametrize("last_batch", ["partial", "drop", "fill"])
@pytest.mark.parametrize("num_shards", [1, 2, 3, 6])
def test_ranks_share_the_positions_by_remainder(num_shards, last_batch):
    lengths, batch_size = [7] * 31, 12 // num_shards
    expected = grouped_oracle.order(lengths, 6, 60, 64, 5, 2).tolist()
    ranks = [
        sampler(
            num_clips=217,
            clips_per_video=7,
            batch_size=batch_size,
            num_shards=num_shards,
            shard_id=rank,
            shuffle=fsp.GroupedShuffle(block_size=60, num_streams=6),
            last_batch=last_batch,
        )
        for rank in range(num_shards)
    ]
    assert len({len(rank) for rank in ranks}) == 1 and len({rank.num_slots for rank in ranks}) == 1
    found = []
    for n in range(len(ranks[0])):
        batches = [
            [clip for clip, pad in zip(rank.batch(n, epoch=2), rank.padding(n, epoch=2), strict=True) if not pad]
            for rank in ranks
        ]
        found += [batch[n] for n in range(batch_size) for batch in batches if n < len(batch)]
    assert found == expected[: len(found)] and len(found) == (216 if last_batch == "drop" else 217)


def test_single_clip_videos_are_shuffled_fully():
    one = sampler(num_clips=100, clips_per_video=1)
    assert one.grouped is None
    assert list(one.epoch(4)) == list(sampler(num_clips=100, shuffle="full").epoch(4))
    assert list(sampler(num_clips=100, clips_per_video=1, shuffle=True).epoch(4)) == list(one.epoch(4))


def test_defaults_follow_from_arguments():
    # 0.8 * 891 cached clips * 8 ranks * 2 * 16 / 15, rounded down; 8 streams of each rank divide the batch of 8 and
    # fit: 8 * 16 <= 891 / 8 does not hold, 4 * 16 does.
    one = sampler(num_clips=1_600_000, clips_per_video=16, batch_size=8, num_shards=8)
    cached = 2**31 // (16 * 3 * 224 * 224)
    assert one.grouped == (32, cached * 8 * 8 * 32 // 150, 64)


def test_dataset_that_fits_is_shuffled_fully_within_streams():
    one = sampler(num_clips=800, clips_per_video=40, batch_size=8)
    assert one.grouped[1] == 1600
    quality = one.quality()
    assert quality["mixing"] > 0.97 and 0.95 < quality["mean_share"] * 3 < 1.05
    # A block of all clips has few videos at the start of the epoch.
    spread = sampler(num_clips=800, clips_per_video=40, batch_size=8, shuffle=fsp.GroupedShuffle(block_size=800))
    assert len({clip // 40 for batch in spread.epoch(0)[:10] for clip in batch}) < 15
    assert len({clip // 40 for batch in one.epoch(0)[:10] for clip in batch}) > 18


@pytest.mark.filterwarnings("ignore:clips of one video")
def test_a_loader_decodes_each_video_once(tiny_clips):
    videos = tiny_clips * 12
    # Of the cached clips, every thread holds some that it is making.
    full = loader(videos, shuffle="full", cache=78 * CLIP_BYTES, num_threads=1, **TINY)
    grouped = loader(videos, cache=78 * CLIP_BYTES, num_threads=1, **TINY)
    assert grouped._native.grouped is not None
    for run in (full, grouped):
        clips = [clip for batch in delivered(run) for clip in batch]
        assert sorted(clips) == list(range(run.num_clips))
    ample = loader(videos, cache="1GiB", num_threads=1, **TINY)
    delivered(ample)
    decoded = [run.stats()["frames_decoded"] for run in (full, grouped, ample)]
    # With two threads, which clips are evicted depends on how far they are apart.
    assert decoded[1] <= 1.2 * decoded[2] and decoded[0] > 3 * decoded[2], decoded
    assert grouped.stats()["clip_cache_peak_bytes"] <= 78 * CLIP_BYTES


@pytest.mark.filterwarnings("ignore:clips of one video")
@pytest.mark.parametrize("shuffle", ["grouped", "full"])
@pytest.mark.parametrize("cached_clips", [130, 650])
def test_estimated_cost_is_that_of_an_epoch(tiny_clips, shuffle, cached_clips):
    run = loader(tiny_clips * 12, shuffle=shuffle, cache=cached_clips * CLIP_BYTES, num_threads=1, **TINY)
    estimate = run._estimate_cost()["packets_per_clip"]
    delivered(run)
    stats = run.stats()
    packets = (stats["frames_decoded"] + stats["packets_skipped"]) / stats["clips"]
    assert estimate[shuffle] == pytest.approx(packets, rel=0.15)
    assert estimate["grouped"] < estimate["full"] < estimate["single"]


def test_cost_of_other_orders_is_not_estimated(tiny_clips):
    with pytest.raises(fsp.errors.ArgumentError, match="an order that a sampler makes"):
        loader(tiny_clips, shuffle=range(13))._estimate_cost()


def test_true_is_grouped_and_falls_back_to_full(tiny_clips):
    many = loader(tiny_clips, shuffle=True)
    assert delivered(many) == delivered(loader(tiny_clips))
    one = {"clip_sampler": fsp.samplers.RandomClips(sequence_length=2), "batch_size": 4, "transforms": SMALL, "seed": 3}
    run = fsp.ClipLoader(tiny_clips, shuffle=True, **one)
    full = fsp.ClipLoader(tiny_clips, shuffle="full", **one)
    assert delivered(run) == delivered(full)
    full.load_state_dict(run.state_dict())


@pytest.mark.filterwarnings("ignore:clips of one video")
def test_checkpoint_resumes_on_other_ranks_with_other_memory(tiny_clips):
    videos = tiny_clips * 4
    make = lambda rank, ranks, **more: loader(  # noqa: E731
        videos, shard_id=rank, num_shards=ranks, batch_size=8 // ranks, **more
    )
    before = [make(rank, 4, cache=40_000) for rank in range(4)]
    taken = []
    for run in before:
        batches = iter(run)
        taken.append([next(batches) for _ in range(3)])
    states = [run.state_dict() for run in before]
    assert all(state == states[0] for state in states)
    after = [make(rank, 2, cache="1GiB") for rank in range(2)]
    assert after[0]._native.grouped != before[0]._native.grouped
    rest = []
    for run in after:
        run.load_state_dict(states[0])
        assert list(run._native.grouped) == states[0]["grouped"]
        rest.append(list(run))
    clips = Counter(clip for part in (*taken, *rest) for batch in part for clip in real_clips(batch))
    assert sorted(clips) == list(range(after[0].num_clips)) and set(clips.values()) == {1}


@pytest.mark.parametrize("num_shards", [1, 2])
def test_each_worker_has_its_own_videos(num_shards):
    options = {"num_clips": 6400, "clips_per_video": 16, "batch_size": 8}
    ranks = range(num_shards)

    def shards(worker):
        return fsp.options.Shards(num_shards, worker_id=worker, num_workers=3)

    workers = [[sampler(**options, shard_id=rank, num_shards=shards(w)) for w in range(3)] for rank in ranks]
    streams = 3 * 8 * num_shards
    assert workers[0][0].grouped[0] == streams
    owners = {}
    for rank in ranks:
        block = workers[rank][0].grouped[1]
        one = sampler(
            **options,
            num_shards=num_shards,
            shard_id=rank,
            shuffle=fsp.GroupedShuffle(block_size=block, num_streams=streams),
        )
        assert one.grouped == workers[rank][0].grouped
        for n in range(len(one)):
            assert workers[rank][n % 3].batch(n // 3) == one.batch(n)
            for clip in one.batch(n):
                owners.setdefault(clip // 16, set()).add((rank, n % 3))
    shared = sum(len(found) > 1 for found in owners.values())
    assert len(owners) == 400 and shared <= streams - 1, "only chunks at the ends of streams have two owners"


def test_mixing_is_the_share_of_different_videos():
    counts = [5, 30, 12] * 40
    options = {
        "num_clips": sum(counts),
        "clips_per_video": counts,
        "num_shards": 2,
        "shuffle": fsp.GroupedShuffle(block_size=200),
    }
    ranks = [sampler(**options, shard_id=rank, last_batch="drop") for rank in range(2)]
    quality = ranks[0].quality()
    video_of = [video for video, count in enumerate(counts) for _ in range(count)]
    n, found, drawn = sum(counts), [], 10 * 8
    for first in range(len(ranks[0]) - 9):
        clips = [clip for batch in range(first, first + 10) for rank in ranks for clip in rank.batch(batch)]
        found.append(len({video_of[clip] for clip in clips}))
    # math.comb(n - count, drawn) / math.comb(n, drawn): no clip of a video with `count` clips is drawn.
    expected = sum(1 - math.comb(n - count, drawn) / math.comb(n, drawn) for count in counts)
    assert quality["mixing"] == pytest.approx(sum(found) / len(found) / expected, abs=0.03)
    assert quality["mixing"] < 0.8 < quality["full"]["mixing"]
    assert quality == ranks[0].quality(counts) and ranks[0].quality(1)["mixing"] == pytest.approx(1, abs=1e-6)
    assert quality["median_gap_batches"] < quality["full"]["median_gap_batches"]
    assert quality["repeats_per_batch"] > quality["full"]["repeats_per_batch"]


def test_poor_mixing_is_a_warning_that_names_the_memory(tiny_clips):
    videos = tiny_clips * 30
    with pytest.warns(UserWarning, match=r'cache=Cache\(memory="\d+MiB"\) gives 90 %') as caught:
        loader(videos, cache=60_000, batch_size=8)
    assert len(caught) == 1 and caught[0].filename == __file__
    enough = re.search(r'memory="(\d+MiB)"\) gives', str(caught[0].message))[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert loader(videos, cache=enough, batch_size=8)._native.shuffle_mixing()[0] > 0.85
        loader(videos, cache=60_000, batch_size=8, shuffle="full")
        loader(videos, cache=60_000, batch_size=8, num_shards=2, shard_id=1)


@pytest.mark.filterwarnings("ignore:clips of one video")
def test_mix_keeps_the_clips_of_a_video_together(tiny_clips):
    mixed = fsp.datasets.mix((tiny_clips * 8, 3), (tiny_clips[:6] * 8, 1), epoch_clips=1600)
    full = loader(mixed, shuffle="full", cache=100_000)
    run = loader(mixed, shuffle=True, cache=100_000)
    clips = [clip for batch in delivered(run) for clip in batch]
    boundary = loader(tiny_clips * 8, shuffle=False).num_clips
    assert len(clips) == 1600 and abs(sum(clip < boundary for clip in clips) - 1200) <= 8
    delivered(full)
    assert run.stats()["frames_decoded"] < 0.5 * full.stats()["frames_decoded"]
    # The same order from any batch, and on two ranks.
    state = {**run.state_dict(), "epoch": 0, "batch": 100}
    ranks = [loader(mixed, cache=100_000, batch_size=2, num_shards=2, shard_id=rank) for rank in range(2)]
    rest = []
    for rank in ranks:
        rank.load_state_dict(state)
        rest += [clip for batch in delivered(rank) for clip in batch]
    assert Counter(rest) == Counter(clips[400:])
    with pytest.raises(fsp.errors.ArgumentError, match="replacement=True"):
        loader(fsp.datasets.mix((tiny_clips, 1), replacement=True))
    assert loader(fsp.datasets.mix((tiny_clips, 1), replacement=True), shuffle=True)._native.grouped is None


def test_repeats_have_the_same_frames_and_other_transforms(tiny_clips):
    crops = [fsp.transforms.RandomResizedCrop((16, 16), scale=(0.2, 0.5))]
    options = {"transforms": crops, "batch_size": 2, "shuffle": "full"}
    sampling = fsp.samplers.RandomClips(sequence_length=3)
    once = list(fsp.ClipLoader(tiny_clips, sampling, **options))
    run = fsp.ClipLoader(tiny_clips, sampling, repeats=3, **options)
    thrice = list(run)
    assert len(thrice) == len(once) == len(run) and run.num_clips == 13
    for one, three in zip(once, thrice, strict=True):
        assert three.clip_ids.tolist() == [clip for clip in one.clip_ids.tolist() for _ in range(3)]
        assert three.indices.tolist() == [frames for frames in one.indices.tolist() for _ in range(3)]
        pixels, single = three.frames.numpy(), one.frames.numpy()
        assert (pixels[::3] == single).all(), "the first repeat is the clip without repeats"
        assert all((pixels[n] != pixels[n + 1]).any() for n in range(0, len(pixels), 3))
    # The frames are decoded once for all repeats.
    plain = fsp.ClipLoader(tiny_clips, sampling, **options)
    list(plain)
    assert run.stats()["frames_decoded"] == plain.stats()["frames_decoded"]
    with pytest.raises(fsp.errors.ArgumentError, match="does not match"):
        plain.load_state_dict(run.state_dict())
    assert fsp.order.BatchSampler(num_clips=4, batch_size=2, shuffle=False, repeats=2).batch(0) == [0, 0, 1, 1]
    with pytest.raises(fsp.errors.ArgumentError, match="repeats"):
        fsp.ClipLoader(tiny_clips, sampling, repeats=0, **options)


def test_states_without_the_groups_are_rejected(tiny_clips):
    run = loader(tiny_clips)
    state = run.state_dict()
    with pytest.raises(fsp.errors.ArgumentError, match="grouped=None, expected three ints"):
        run.load_state_dict({key: value for key, value in state.items() if key != "grouped"})
    with pytest.raises(fsp.errors.ArgumentError, match="does not match"):
        loader(tiny_clips, shuffle="full").load_state_dict(state)
    with pytest.raises(fsp.errors.ArgumentError, match="num_streams"):
        run.load_state_dict({**state, "grouped": [0, 5, 5]})
