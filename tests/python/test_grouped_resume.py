"""A training with a grouped shuffle continues in its order, with any memory of the loader that resumes."""

from __future__ import annotations

import itertools
import json
import pickle

import framespool as fsp
import pytest
from small_loaders import SMALL

SAMPLING = fsp.samplers.RandomClips(sequence_length=3, clips_per_video=4)
#: Bytes of a clip of uint8.
CLIP_BYTES = 3 * 3 * 16 * 24
EPOCHS = 3
CACHES = {"small": {"cache": 20 * CLIP_BYTES}, "large": {"cache": "1GiB"}}
pytestmark = pytest.mark.filterwarnings("ignore:clips of one video")


def loader(dataset, **keywords):
    options = {"batch_size": 4, "transforms": SMALL, "shuffle": True, "seed": 3, "num_threads": 1, **keywords}
    return fsp.ClipLoader(dataset, SAMPLING, **options)


def clips(run, epochs):
    return [batch.clip_ids.tolist() for _ in range(epochs) for batch in run]


def resumed(state, dataset, **keywords):
    run = loader(dataset, **keywords)
    if keywords != LARGER_CLIPS:
        assert run._native.grouped != tuple(state["grouped"]), "it derives other parameters itself"
    run.load_state_dict(json.loads(json.dumps(state)))
    assert list(run._native.grouped) == state["grouped"]
    return run


#: Clips wait as 8-bit codes, so this alone changes no memory.
LARGER_CLIPS = {**CACHES["small"], "dtype": "float32"}
CHANGES = {
    "more memory": ("small", {"cache": 40 * CLIP_BYTES}),
    "memory for everything": ("small", {"cache": "1GiB"}),
    "less memory": ("large", {"cache": 15 * CLIP_BYTES}),
    "no memory": ("large", {"cache": 0}),
    "larger clips": ("small", LARGER_CLIPS),
    "larger clips and more memory": ("small", {"cache": 200 * CLIP_BYTES, "dtype": "float32", "layout": "NTHWC"}),
}
DATASETS = {
    "videos": lambda videos: videos * 4,
    "weights": lambda videos: fsp.datasets.weighted(videos * 4, [1 + n % 3 for n in range(len(videos) * 4)]),
    "mix": lambda videos: fsp.datasets.mix((videos * 3, 1), (videos, 2)),
}


@pytest.mark.parametrize("kind", DATASETS)
@pytest.mark.parametrize("change", CHANGES)
def test_other_memory_changes_neither_this_epoch_nor_later_ones(tiny_clips, kind, change):
    before, after = CHANGES[change]
    dataset = DATASETS[kind](tiny_clips)
    whole = clips(loader(dataset, **CACHES[before]), EPOCHS)
    run = loader(dataset, **CACHES[before])
    length = len(run)
    delivered = []
    for batch in itertools.islice(run, 5):
        delivered.append(batch.clip_ids.tolist())
    run = resumed(run.state_dict(), dataset, **after)
    delivered += clips(run, 1)
    assert delivered == whole[:length], "the interrupted epoch"
    # At the end of the epoch, back to the memory of the first run, and in the middle of the next epoch.
    state = run.state_dict()
    again = loader(dataset, **CACHES[before])
    again.load_state_dict(state)
    for batch in itertools.islice(again, 3):
        delivered.append(batch.clip_ids.tolist())
    run = resumed(again.state_dict(), dataset, **after)
    delivered += clips(run, EPOCHS - 1)
    assert delivered == whole, "the later epochs"
    assert run.batch(epoch=1, index=2).clip_ids.tolist() == whole[length + 2]


def test_other_memory_and_another_number_of_ranks(tiny_clips):
    make = lambda rank, ranks, **more: loader(  # noqa: E731
        tiny_clips * 4, shard_id=rank, num_shards=ranks, batch_size=8 // ranks, **more
    )

    def global_batches(ranks, epochs):
        of_rank = [clips(run, epochs) for run in ranks]
        return [sorted(sum(batches, [])) for batches in zip(*of_rank, strict=True)]

    whole = global_batches([make(rank, 2, **CACHES["small"]) for rank in range(2)], 2)
    ranks = [make(rank, 2, **CACHES["small"]) for rank in range(2)]
    for run in ranks:
        next(iter(run))
    state = ranks[0].state_dict()
    ranks = [make(rank, 4, cache="1GiB", dtype="float32") for rank in range(4)]
    for run in ranks:
        run.load_state_dict(state)
    assert global_batches(ranks, 2) == whole[1:]


@pytest.mark.parametrize("cache", CACHES)
def test_a_state_of_any_rank_fits_the_ranks_of_all_machines(tiny_clips, cache):
    dataset = tiny_clips * 3  # 19 videos on one machine, 20 on the other
    shards = fsp.options.Shards(4, num_nodes=2)
    ranks = [loader(dataset, shard_id=rank, num_shards=shards, **CACHES[cache]) for rank in range(4)]

    def real(batches):
        return [clip for batch in batches for clip in batch.clip_ids.numpy()[~batch.padding.numpy()].tolist()]

    delivered = [clip for run in ranks for clip in real(itertools.islice(run, 5))]
    states = [run.state_dict() for run in ranks]
    for state in states:
        for run in ranks:
            run.load_state_dict(state)
        rest = [clip for run in ranks for clip in real(run)]
        assert sorted(delivered + rest) == list(range(4 * len(dataset)))
    assert all(state == states[0] for state in states)


def test_a_drawn_seed_and_other_memory(tiny_clips):
    dataset = tiny_clips * 4
    run = loader(dataset, seed=None, **CACHES["small"])
    next(iter(run))
    state = run.state_dict()
    expected = loader(dataset, seed=state["seed"], **CACHES["small"])
    whole = clips(expected, 2)
    other = resumed(state, dataset, seed=None, cache="1GiB")
    assert other.seed == state["seed"] and clips(other, 2) == whole[1:]


def test_states_of_earlier_releases_mean_the_same(tiny_clips):
    dataset = tiny_clips * 4
    whole = clips(loader(dataset, **CACHES["small"]), 2)
    run = loader(dataset, **CACHES["small"])
    next(iter(run))
    state = run.state_dict()
    assert state["max_chunk"] == 64
    del state["max_chunk"]
    assert clips(resumed(state, dataset, cache="1GiB"), 2) == whole[1:]


def grouped(**keywords):
    return {"shuffle": fsp.GroupedShuffle(**keywords)}


def test_only_the_user_changes_the_block(tiny_clips):
    dataset = tiny_clips * 4
    run = loader(dataset, **CACHES["small"])
    length, (streams, block, chunk) = len(run), run._native.grouped
    batches = iter(run)
    next(batches)
    within = run.state_dict()
    list(batches)
    between = run.state_dict()
    assert (within["epoch"], within["batch"], between["epoch"], between["batch"]) == (0, 1, 1, 0)
    for keywords, was, now in [
        ({"block_size": 100}, f"block_size={block}", "block_size=100"),
        ({"num_streams": 2 * streams}, f"num_streams={streams}", f"num_streams={2 * streams}"),
        ({"max_chunk": 2}, "max_chunk=64", "max_chunk=2"),
    ]:
        changed = loader(dataset, **grouped(**keywords), cache="1GiB")
        own = changed._native.grouped
        with pytest.raises(fsp.errors.ArgumentError, match="is within an epoch with") as error:
            changed.load_state_dict(within)
        assert f"GroupedShuffle({was}), but this loader has {now}" in str(error.value)
        assert changed._native.grouped == own and (changed.epoch, changed.first_batch) == (0, 0)
        changed.load_state_dict(between)
        found = dict(zip(("num_streams", "block_size", "max_chunk"), changed._native.grouped, strict=True))
        assert found == {"num_streams": streams, "block_size": block, "max_chunk": chunk} | keywords
        # It is that of the training from then on.
        state = changed.state_dict()
        whole = clips(changed, 2)
        assert len(whole) == 2 * length
        later = loader(dataset, **grouped(**keywords), **CACHES["small"])
        later.load_state_dict(state)
        assert clips(later, 2) == whole
    same = loader(dataset, **grouped(block_size=block, num_streams=streams), cache="1GiB")
    same.load_state_dict(within)
    plain = loader(dataset, **CACHES["small"])
    plain.load_state_dict(within)
    assert clips(same, 2) == clips(plain, 2)


def test_short_chunks_of_little_memory_are_no_change_of_the_user(tiny_clips):
    dataset = tiny_clips * 4
    run = loader(dataset, **grouped(max_chunk=4), cache=0)
    assert run._native.grouped[2] == 2
    batches = iter(run)
    next(batches)
    state = run.state_dict()
    ample = loader(dataset, **grouped(max_chunk=4), cache="1GiB")
    ample.load_state_dict(state)
    assert [batch.clip_ids.tolist() for batch in batches] == clips(ample, 1)


def test_a_block_that_is_given_is_the_same_with_any_memory(tiny_clips):
    dataset = tiny_clips * 4
    fixed = grouped(block_size=96, num_streams=4)
    orders = [
        clips(loader(dataset, **fixed, **more), 2) for more in (*CACHES.values(), {"cache": 0, "dtype": "float32"})
    ]
    assert orders[0] == orders[1] == orders[2]


def test_workers_of_later_epochs_have_the_block_of_the_state(tiny_clips):
    pytest.importorskip("torch")
    from framespool.torch import ClipDataset

    def make(cache):
        return ClipDataset(
            tiny_clips * 4, SAMPLING, batch_size=4, transforms=SMALL, shuffle=True, seed=3, num_threads=1, cache=cache
        )

    def ids(dataset):
        return [batch["clip_ids"].tolist() for batch in dataset]

    before = make(20 * CLIP_BYTES)
    whole = [ids(before) for _ in range(3)]
    before.set_epoch(0)
    batches = iter(before)
    next(batches)
    state = before.state_dict()
    after = make("1GiB")
    after.load_state_dict(state)
    assert ids(after) == whole[0][1:]
    # A DataLoader sends the dataset to new workers for each epoch, without its loader.
    for epoch in (1, 2):
        worker = pickle.loads(pickle.dumps(after))
        worker.set_epoch(epoch)
        assert ids(worker) == whole[epoch]
