"""The loader's orders: buffer shuffle, fixed shards, workers and mixes."""

from __future__ import annotations

from collections import Counter

import framespool as fsp
import pytest
from order_examples import dali

ONE = fsp.samplers.RandomClips(sequence_length=1)
SMALL = [fsp.transforms.Resize((16, 16))]


def loader(dataset, sampling=ONE, **keywords):
    return fsp.ClipLoader(dataset, sampling, **{"batch_size": 4, "transforms": SMALL, "seed": 3, **keywords})


def clips(loader, name="clip_ids"):
    return [getattr(batch, name).tolist() for batch in loader]


def flat(lists):
    return [item for one in lists for item in one]


@pytest.fixture(scope="module")
def videos_39(tiny_clips):
    return tiny_clips * 3


def test_shuffle_buffer_bounds_clip_displacement(videos_39):
    run = loader(videos_39, shuffle=fsp.BufferShuffle(5))
    first, second = flat(clips(run)), flat(clips(run))
    for epoch in (first, second):
        assert sorted(epoch) == list(range(39)) and epoch != list(range(39))
        assert all(abs(clip - place) < 7.5 for place, clip in enumerate(epoch))
    assert first != second
    assert flat(clips(loader(videos_39, shuffle=fsp.BufferShuffle(1)))) == list(range(39))


def test_stick_to_shard_keeps_shards_in_all_epochs(videos_39):
    for rank in range(3):
        run = loader(videos_39, shuffle="full", num_shards=fsp.options.Shards(3, stick_to_shard=True), shard_id=rank)
        first, second = flat(clips(run)), flat(clips(run))
        assert sorted(first) == sorted(second) == list(range(13 * rank, 13 * rank + 13)) and first != second


@pytest.mark.parametrize("workers", [2, 3])
def test_workers_in_turn_are_one_loader(videos_39, workers):
    for settings in (
        {"shuffle": "full"},
        {"shuffle": dali.DaliReader(39, initial_fill=7), "last_batch": "fill"},
    ):
        whole = clips(loader(videos_39, **settings))
        parts = [
            loader(videos_39, num_shards=fsp.options.Shards(1, worker_id=w, num_workers=workers), **settings)
            for w in range(workers)
        ]
        of_each = [clips(part) for part in parts]
        assert [len(part) for part in parts] == [len(of) for of in of_each]
        assert [of_each[n % workers][n // workers] for n in range(len(whole))] == whole


def test_a_worker_resumes_its_own_batches(videos_39):
    second = fsp.options.Shards(1, worker_id=1, num_workers=2)
    make = lambda: loader(videos_39, shuffle="full", num_shards=second)  # noqa: E731
    expected = clips(make())
    run = make()
    batches = iter(run)
    got = [next(batches).clip_ids.tolist() for _ in range(2)]
    fresh = make()
    fresh.load_state_dict(run.state_dict())
    assert got + clips(fresh) == expected
    with pytest.raises(fsp.errors.ArgumentError, match="num_workers"):
        loader(videos_39, shuffle="full").load_state_dict(run.state_dict())


def test_what_no_order_can_keep_is_refused(tiny_clips):
    for keywords, message in [
        ({"shuffle": "all"}, "shuffle must be"),
        ({"num_shards": fsp.options.Shards(1, worker_id=2, num_workers=2)}, "below num_workers=2, got 2"),
        ({"num_shards": 4}, "num_shards=4 is given without shard_id: .* 1 of 4 clips; give shard_id.*rank_and_world"),
        ({"num_shards": fsp.options.Shards(20, stick_to_shard=True), "shard_id": 0}, "at least num_shards=20"),
    ]:
        with pytest.raises(fsp.errors.ArgumentError, match=message):
            loader(tiny_clips, **keywords)


def test_mix_follows_weights_with_equal_clip_counts(tiny_clips):
    mixed = fsp.datasets.mix((tiny_clips[:4], 3), (tiny_clips[4:], 1), epoch_clips=40)
    run = loader(mixed, shuffle="full", batch_size=8)
    assert len(run) == 5 and run.num_clips == 13
    batches = list(run)
    order = flat(batch.clip_ids.tolist() for batch in batches)
    few = [clip for clip in order if clip < 4]
    assert len(order) == 40 and len(few) == 30
    assert sorted(Counter(few).values()) == [7, 7, 8, 8]
    many = [clip for clip in order if clip >= 4]
    assert sorted(Counter(many).values()) == [1] * 8 + [2]
    labels = flat(batch.labels.tolist() for batch in batches)
    assert labels == order, "in this dataset the label is the clip's number"
    frames = {}
    for batch in batches:
        for clip, (frame,) in zip(batch.clip_ids.tolist(), batch.indices.tolist(), strict=True):
            frames.setdefault(clip, []).append(frame)
    assert all(len(set(frames[clip])) > 1 for clip in range(4)), "a repeated clip is drawn again"
    again = loader(mixed, shuffle="full", batch_size=8, num_threads=1, cache=0)
    assert flat(clips(again)) == order


def test_mix_over_windows_counts_existing_clips(tiny_clips):
    windows = fsp.samplers.Windows(sequence_length=8)
    sizes = [loader(part, windows).num_clips for part in (tiny_clips[:4], tiny_clips[4:])]
    run = loader(fsp.datasets.mix((tiny_clips[:4], 1), (tiny_clips[4:], 1)), windows, shuffle="full")
    order = flat(clips(run))
    assert len(order) == sum(sizes) == run.num_clips
    assert abs(sum(clip < sizes[0] for clip in order) - len(order) / 2) <= 1


def test_mixes_are_checked_and_resume(tiny_clips):
    mixed = fsp.datasets.mix((tiny_clips[:4], 3), (tiny_clips[4:], 1), replacement=True)
    run = loader(mixed, shuffle="full")
    batches = iter(run)
    next(batches)
    rest = [batch.clip_ids.tolist() for batch in batches]
    state = {**run.state_dict(), "epoch": 0, "batch": 1}
    run.load_state_dict(state)
    assert clips(run) == rest
    with pytest.raises(fsp.errors.ArgumentError, match="the order was .*mix"):
        loader(tiny_clips, shuffle="full").load_state_dict(state)
    with pytest.raises(fsp.errors.ArgumentError, match='shuffle must be "full" or "grouped" with a mix'):
        loader(mixed)
    for wrong, message in [
        ((), "at least one"),
        ((tiny_clips,), "pairs"),
        (((tiny_clips, 0),), "greater than 0"),
        (((tiny_clips[:0], 1),), "empty"),
    ]:
        with pytest.raises(fsp.errors.ArgumentError, match=message):
            fsp.datasets.mix(*wrong)
    with pytest.raises(fsp.errors.ArgumentError, match="cannot be added to"):
        mixed + fsp.datasets.Dataset(tiny_clips)
    few = fsp.samplers.Windows(sequence_length=80)
    with pytest.raises(fsp.errors.ArgumentError, match="dataset 0 of the mix yields no clip"):
        loader(fsp.datasets.mix((tiny_clips[:1], 1), (tiny_clips[1:], 1)), few, shuffle="full")
    union = fsp.datasets.Dataset(tiny_clips[:4]) + fsp.datasets.Dataset(tiny_clips[4:])
    assert union == fsp.datasets.Dataset(tiny_clips)
    assert mixed.exclude([tiny_clips[0][0]]).lengths == [3, 9]
