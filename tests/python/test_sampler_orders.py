"""Orders that an object of the user makes: a list, a sampler of PyTorch, or a class with `set_epoch`."""

from __future__ import annotations

import random

import framespool as fsp
import pytest
from small_loaders import SMALL

RANDOM = fsp.samplers.RandomClips(sequence_length=4)


class ByEpoch:
    """Another order each epoch, of the clips of one rank."""

    def __init__(self, clips: range) -> None:
        self.clips, self.epoch = clips, None

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self):
        return iter(random.Random(self.epoch).sample(self.clips, len(self.clips)))


def loader(dataset, shuffle, **keywords):
    options = {"batch_size": 4, "transforms": SMALL, "seed": 3, "num_threads": 1, **keywords}
    return fsp.ClipLoader(dataset, options.pop("sampler", RANDOM), shuffle=shuffle, **options)


def clips(run):
    return [batch.clip_ids.tolist() for batch in run]


def test_clips_come_in_the_order_of_a_list(tiny_clips):
    order = [12, 0, 0, 7, 3, 3, 3]
    run = loader(tiny_clips, order)
    assert len(run) == 2 and clips(run) == [[12, 0, 0, 7], [3, 3, 3]]
    assert clips(loader(tiny_clips, order, last_batch="drop")) == [[12, 0, 0, 7]]
    filled = list(loader(tiny_clips, order, last_batch="fill"))
    assert filled[1].clip_ids.tolist() == [3, 3, 3, 12] and filled[1].padding.tolist() == [False] * 3 + [True]
    assert clips(loader(tiny_clips, [])) == []


def test_a_clip_is_the_one_of_other_orders_and_repeats_are_drawn_again(tiny_clips):
    plain = {clip: batch.frames[row].tobytes() for batch in loader(tiny_clips, False) for row, clip in rows(batch)}
    crop = [fsp.transforms.RandomResizedCrop(16)]
    (batch,) = loader(tiny_clips, [5, 2])
    assert [batch.frames[row].tobytes() for row, _ in rows(batch)] == [plain[5], plain[2]]
    (batch,) = loader(tiny_clips, [5, 5], transforms=crop, repeats=2)
    assert batch.clip_ids.tolist() == [5] * 4
    assert len({batch.frames[row].tobytes() for row in range(4)}) == 4


def rows(batch):
    return enumerate(batch.clip_ids.tolist())


@pytest.mark.parametrize("workers", [1, 2])
def test_an_epoch_is_that_of_the_sampler_and_resumes(tiny_clips, workers):
    for worker in range(workers):
        shards = fsp.options.Shards(1, worker_id=worker, num_workers=workers)
        make = lambda: loader(tiny_clips, ByEpoch(range(13)), num_shards=shards, batch_size=2)  # noqa: B023, E731
        run = make()
        epochs = [clips(run), clips(run)]
        for epoch, found in enumerate(epochs):
            order = random.Random(epoch).sample(range(13), 13)
            batches = [order[at : at + 2] for at in range(0, 13, 2)]
            assert found == batches[worker::workers]
        run.set_epoch(1)
        iterator = iter(run)
        taken = [next(iterator).clip_ids.tolist() for _ in range(2)]
        state = run.state_dict()
        fresh = make()
        fresh.load_state_dict(state)
        assert taken + clips(fresh) == epochs[1]
        assert run.batch(epoch=0, index=1).clip_ids.tolist() == epochs[0][1]


def test_a_state_of_another_order_is_refused(tiny_clips):
    run = loader(tiny_clips, list(range(13)))
    next(iter(run))
    state = run.state_dict()
    with pytest.raises(
        fsp.errors.ArgumentError, match="yields other clips for epoch 0 than when the state was written"
    ):
        loader(tiny_clips, [0, 1, 2, 3, *range(12, 3, -1)]).load_state_dict(state)
    for other in (loader(tiny_clips, "full"), loader(tiny_clips, ByEpoch(range(13)))):
        with pytest.raises(fsp.errors.ArgumentError, match="the state does not match this loader: the order"):
            other.load_state_dict(state)
    list(run)
    loader(tiny_clips, [3, 1]).load_state_dict(run.state_dict())  # at the begin of an epoch any order fits


def test_clips_of_later_epochs_are_read_from_disk(tiny_clips, tmp_path):
    cache = fsp.Cache(disk=tmp_path, disk_size="1GiB", epochs=3)
    crop = [fsp.transforms.RandomResizedCrop(16)]

    def epochs(run):
        return [[(batch.clip_ids.tolist(), batch.frames.tobytes()) for batch in run] for _ in range(3)]

    sampler = fsp.samplers.RandomClips(sequence_length=4, clips_per_video=2)
    order = ByEpoch(range(26))
    plain = epochs(loader(tiny_clips, order, transforms=crop, sampler=sampler))
    cached = loader(tiny_clips, order, transforms=crop, sampler=sampler, cache=cache)
    assert epochs(cached) == plain and cached.stats()["disk_clips_read"] > 0


def test_images_take_a_sampler(photos):
    run = fsp.ImageLoader(photos[:4], batch_size=2, shuffle=[2, 0, 1], transforms=[fsp.transforms.Resize((16, 16))])
    assert [batch.image_ids.tolist() for batch in run] == [[2, 0], [1]]


@pytest.mark.parametrize(
    ("shuffle", "keywords", "message"),
    [
        ([13], {}, "clip 0 of the sampler must be at most 12, got 13"),
        (["a"], {}, "clip 0 of the sampler must be an int, got 'a'"),
        ([[0, 1], [2]], {}, r"yields batches, such as \[0, 1\], but must yield ids"),
        (iter([1, 2]), {}, "can be iterated only once"),
        ([1, 2], {"shard_id": 0, "num_shards": 2}, "makes the order of this rank, so omit shard_id and num_shards"),
        ([1, 2], {"group_clips": True}, "need a number as batch_size, an order of framespool"),
    ],
)
def test_what_cannot_be_an_order_is_refused(tiny_clips, shuffle, keywords, message):
    with pytest.raises(fsp.errors.ArgumentError, match=message):
        len(loader(tiny_clips, shuffle, **keywords))


def test_samplers_of_pytorch(tiny_clips):
    data = pytest.importorskip("torch.utils.data")
    from framespool.torch import ClipDataset, ClipLoader

    ranks = [
        loader(tiny_clips, data.DistributedSampler(range(13), num_replicas=2, rank=rank, seed=5)) for rank in range(2)
    ]
    for epoch in range(2):
        for rank, run in enumerate(ranks):
            order = data.DistributedSampler(range(13), num_replicas=2, rank=rank, seed=5)
            order.set_epoch(epoch)
            assert clips(run) == list(data.BatchSampler(order, 4, drop_last=False))
    subset = data.SubsetRandomSampler([1, 5, 9])
    assert sorted(sum(clips(loader(tiny_clips, subset)), [])) == [1, 5, 9]
    run = ClipLoader(tiny_clips, RANDOM, batch_size=2, shuffle=[4, 2], transforms=SMALL)
    assert [batch.clip_ids.tolist() for batch in run] == [[4, 2]]
    # A sampler without set_epoch() has another order in each worker.
    wrong = ClipDataset(tiny_clips, RANDOM, batch_size=2, shuffle=data.RandomSampler(range(13)), transforms=SMALL)
    assert sorted(clip for batch in wrong for clip in batch["clip_ids"].tolist()) == list(range(13))
    with pytest.raises(Exception, match="each worker of the DataLoader iterates"):
        list(data.DataLoader(wrong, batch_size=None, num_workers=2))
    right = ClipDataset(tiny_clips, RANDOM, batch_size=2, shuffle=ByEpoch(range(13)), transforms=SMALL)
    found = data.DataLoader(right, batch_size=None, num_workers=2)
    for epoch in range(2):
        expected = random.Random(epoch).sample(range(13), 13)
        assert [clip for batch in found for clip in batch["clip_ids"].tolist()] == expected
