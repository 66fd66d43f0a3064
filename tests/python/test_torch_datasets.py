"""ClipDataset and ImageDataset in PyTorch's DataLoader and StatefulDataLoader; skipped if these are not installed."""

from __future__ import annotations

import copy
import pickle
import random
import warnings

import framespool as fsp
import pytest
from framespool._common.ranks import cores_per_rank
from PIL import Image
from torch_helpers import KEYWORDS, SAMPLING, expected, flat, ids

torch = pytest.importorskip("torch")
# Warnings about more workers than cores, and torch's deprecations.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")

import framespool.torch  # noqa: E402
from framespool.torch import (  # noqa: E402
    ClipDataset,
    ImageDataset,
    TorchLoader,
    _datasets,  # noqa: E402
)
from framespool.torch._datasets import _EpochCounter, _warn_oversubscribed  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_batches_do_not_depend_on_num_workers(short_clips, workers):
    dataset = ClipDataset(short_clips, SAMPLING, **KEYWORDS)
    batches = DataLoader(dataset, batch_size=None, num_workers=workers, persistent_workers=workers > 1)
    for epoch in (0, 1, 4):
        dataset.set_epoch(epoch)
        assert ids(batches) == expected(short_clips, epoch)


@pytest.mark.parametrize("workers", [0, 3])
def test_grouped_shuffle_comes_through_workers(short_clips, workers):
    """With the streams given, workers do not change the order; by default each worker has streams of its own."""
    keywords = {**KEYWORDS, "shuffle": "grouped", "cache": 20 * 16 * 24 * 3 * 2}
    given = {**keywords, "shuffle": fsp.GroupedShuffle(block_size=20, num_streams=12)}
    dataset = ClipDataset(short_clips, SAMPLING, **given)
    batches = DataLoader(dataset, batch_size=None, num_workers=workers, persistent_workers=workers > 0)
    loader = fsp.ClipLoader(short_clips, SAMPLING, **given)
    for epoch in (0, 1, 4):
        dataset.set_epoch(epoch)
        loader.set_epoch(epoch)
        for got, wanted in zip(batches, loader, strict=True):
            assert got["clip_ids"].tolist() == wanted.clip_ids.tolist()
            assert torch.equal(got["frames"], wanted.frames.torch())
    # By default there are as many streams as the workers have slots.
    derived = ClipDataset(short_clips * 8, fsp.samplers.Windows(sequence_length=2, step=8), **keywords)
    found = ids(DataLoader(derived, batch_size=None, num_workers=workers))
    assert sorted(flat(found)) == list(range(len(flat(found))))


def test_audio_comes_through_workers(videos):
    dataset = [str(videos / "odd" / "data_streams.mp4")] * 3
    sampler = fsp.samplers.RandomClips(sequence_length=4, fps=8, clips_per_video=3)
    keywords = {**KEYWORDS, "audio": fsp.Audio(sample_rate=8000, channels=2, shift=0.2, gain=(-6, 6))}
    loader = fsp.ClipLoader(dataset, sampler, **keywords)
    clips = ClipDataset(dataset, sampler, **keywords)
    for workers in (0, 2):
        clips.set_epoch(1)
        loader.set_epoch(1)
        for got, wanted in zip(DataLoader(clips, batch_size=None, num_workers=workers), loader, strict=True):
            assert got["clip_ids"].tolist() == wanted.clip_ids.tolist()
            assert got["audio"].shape[1:] == (2, 4000) and got["audio"].any()
            for name in ("frames", "audio", "audio_mask"):
                assert torch.equal(got[name], getattr(wanted, name).torch()), name


class Reopening(torch.utils.data.Dataset):
    """A video that the parent has decoded with several threads, opened again by each worker, as ForkedError advises."""

    def __init__(self, path):
        self.path = path
        self.video = fsp.Video(path, num_threads=4)
        self.video.frames(range(40))

    def __len__(self):
        return 8

    def __getitem__(self, index):
        try:
            frames = self.video.frames([index])
        except fsp.errors.ForkedError:
            self.video = fsp.Video(self.path, num_threads=4)
            frames = self.video.frames([index])
        return frames.frames.numpy().sum(dtype="int64")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_workers_reopen_a_parent_video(short_clips):
    dataset = Reopening(short_clips[0][0])
    here = [int(dataset[index]) for index in range(len(dataset))]
    workers = DataLoader(dataset, num_workers=2, multiprocessing_context="fork")
    assert [int(one) for one in workers] == here


def test_forked_worker_makes_its_own_loader(short_clips):
    dataset = ClipDataset(short_clips, SAMPLING, **KEYWORDS)
    assert next(iter(dataset))["frames"].shape == (4, 2, 3, 16, 24)
    assert ids(DataLoader(dataset, batch_size=None, num_workers=1)) == expected(short_clips, 1)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize(
    ("workers", "more"),
    [
        (0, {}),
        (1, {}),
        (3, {}),
        (3, {"persistent_workers": True}),
        (2, {"multiprocessing_context": "fork"}),
        (2, {"multiprocessing_context": "spawn", "persistent_workers": True}),
    ],
)
def test_each_iteration_is_the_next_epoch(short_clips, workers, more):
    dataset = ClipDataset(short_clips, SAMPLING, **KEYWORDS)
    batches = DataLoader(dataset, batch_size=None, num_workers=workers, **more)
    assert [ids(batches) for _ in range(2)] == [expected(short_clips, epoch) for epoch in (0, 1)]
    dataset.set_epoch(7)
    assert [ids(batches) for _ in range(2)] == [expected(short_clips, epoch) for epoch in (7, 8)]
    # An iteration that is left early is an epoch, too; one that was not used is not, except by workers.
    for batch in batches:
        assert batch["clip_ids"].tolist() == expected(short_clips, 9)[0]
        break
    if workers == 0:
        iter(batches)
    assert ids(batches) == expected(short_clips, 10)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda dataset: pickle.loads(pickle.dumps(dataset))])
def test_workers_of_a_copy_advance_its_epochs(short_clips, copied):
    dataset = ClipDataset(short_clips, SAMPLING, **{**KEYWORDS, "seed": None})
    copy_of_it = copied(dataset)
    batches = DataLoader(copy_of_it, batch_size=None, num_workers=2)
    first, second = ids(batches), ids(batches)
    assert flat(first) != flat(second) and sorted(flat(first)) == sorted(flat(second))
    again = DataLoader(dataset, batch_size=None, num_workers=2)
    assert ids(again) == first, "the copy has its own epochs"


def test_a_rank_that_was_sent_the_dataset_uses_its_own_shard(short_clips, monkeypatch):
    """A spawned worker, which is in no process group, uses that of its training process."""
    here = {"shard_id": 0, "num_shards": 2}
    monkeypatch.setattr(_datasets, "is_initialized", lambda: bool(here))
    monkeypatch.setattr(_datasets, "rank_and_world", lambda: here or {"shard_id": 0, "num_shards": 1})
    sent = pickle.dumps(ClipDataset(short_clips, SAMPLING, **KEYWORDS))
    here = {"shard_id": 1, "num_shards": 2}
    assert pickle.loads(sent)._part() == here
    here = {}
    assert pickle.loads(sent)._part() == {"shard_id": 0, "num_shards": 2}


def test_workers_agree_on_the_epoch_in_any_order():
    """Each worker starts with what it knows; the epoch advances once for each iteration."""
    draw = random.Random(4)
    for _ in range(200):
        counters, selected, epoch = _EpochCounter(), draw.choice([0, 5, 2**40]), None
        counters.select(selected)
        for iteration in range(6):
            if draw.random() < 0.2:
                selected, epoch = draw.randrange(100), None
                counters.select(selected)
            epoch = selected if epoch is None else epoch + 1
            resumed = draw.randrange(1000) if draw.random() < 0.2 else None
            epoch = epoch if resumed is None else resumed
            assert {counters.start(hash((11, iteration)), resumed) for _ in range(draw.randint(1, 5))} == {epoch}
            assert counters.next() == epoch + 1


def test_workers_agree_on_the_epoch_if_an_iterator_is_not_used():
    """Workers of several iterators start in any order, and after a selection, also with the same seed."""
    counter = _EpochCounter()
    started = [counter.start(iteration) for iteration in (11, 22, 11, 22, 33, 11)]
    assert started == [0, 1, 0, 1, 2, 0] and counter.next() == 3
    worker = copy.copy(counter)  # as it is forked
    counter.select(7)
    assert [counter.start(11), worker.start(11), counter.start(22), worker.start(22)] == [7, 0, 8, 1]
    assert counter.start(44, resumed=5) == 5 and counter.start(55) == 6
    assert [counter.start(44, resumed=5), counter.start(66)] == [5, 6]


def test_a_dataset_has_a_length(short_clips):
    for more in ({}, {"last_batch": "drop"}, {"num_shards": 2, "shard_id": 1}, {"shuffle": "grouped"}):
        keywords = {**KEYWORDS, **more}
        dataset = ClipDataset(short_clips, SAMPLING, **keywords)
        assert len(dataset) == len(fsp.ClipLoader(short_clips, SAMPLING, **keywords))
        for workers in (0, 3):
            batches = DataLoader(dataset, batch_size=None, num_workers=workers)
            assert len(batches) == len(dataset) == len(list(batches)), (more, workers)


def test_number_of_workers_is_that_of_the_data_loader(short_clips, photos):
    one = fsp.samplers.RandomClips(sequence_length=2)
    with pytest.raises(fsp.errors.ArgumentError, match="num_workers is that of the DataLoader"):
        ClipDataset(short_clips, one, batch_size=2, num_shards=fsp.options.Shards(1, worker_id=1, num_workers=4))
    for make in (
        lambda **more: framespool.torch.ClipLoader(short_clips, one, **more),
        lambda **more: framespool.torch.ImageLoader(photos, **more),
        lambda **more: fsp.ImageLoader(photos, **more),
    ):
        with pytest.raises(TypeError, match="no argument 'num_workers': use num_threads=.*ClipDataset"):
            make(batch_size=2, num_workers=4)
        assert (
            len(make(batch_size=2, num_shards=fsp.options.Shards(1, worker_id=1, num_workers=2)))
            == len(make(batch_size=2)) // 2
        )


def test_too_many_worker_threads_are_reported():
    cores = cores_per_rank()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _warn_oversubscribed(1, cores)
    with pytest.warns(UserWarning, match=rf"2 workers with {cores} decoding threads? each share the {cores} core"):
        _warn_oversubscribed(2, cores)


@pytest.mark.parametrize("workers", [0, 2, 3])
def test_stateful_data_loader_resumes_anywhere(short_clips, workers):
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    whole = expected(short_clips, 3)
    for taken in range(len(whole) + 1):
        dataset = ClipDataset(short_clips, SAMPLING, **KEYWORDS)
        dataset.set_epoch(3)
        old = stateful(dataset, batch_size=None, num_workers=workers)
        batches = iter(old)
        got = ids(next(batches) for _ in range(taken))
        dataset = ClipDataset(short_clips, SAMPLING, **KEYWORDS)
        new = stateful(dataset, batch_size=None, num_workers=workers)
        new.load_state_dict(old.state_dict())
        assert got + ids(new) == whole, taken


@pytest.mark.parametrize("workers", [0, 2])
def test_seed_of_torch_is_that_of_all_workers_and_of_the_state(short_clips, workers):
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    keywords = {**KEYWORDS, "seed": None}
    torch.manual_seed(4)
    loader = framespool.torch.ClipLoader(short_clips, SAMPLING, **keywords)
    whole = [batch.clip_ids.tolist() for batch in [*loader, *loader]]
    torch.manual_seed(4)
    dataset = ClipDataset(short_clips, SAMPLING, **keywords)
    assert len(dataset) == len(loader)
    old = stateful(dataset, batch_size=None, num_workers=workers)
    batches = iter(old)
    taken = ids(next(batches) for _ in range(2))
    other = ClipDataset(short_clips, SAMPLING, **keywords)  # draws another seed
    new = stateful(other, batch_size=None, num_workers=workers)
    new.load_state_dict(old.state_dict())
    assert taken + ids(new) + ids(new) == whole
    assert framespool.torch.VideoDataset(short_clips, SAMPLING, seed=None).seed not in (0, loader.seed)


def test_a_wrong_epoch_is_refused_at_once(short_clips):
    for epoch in (-1, 2**63, "1"):
        with pytest.raises(fsp.errors.ArgumentError, match="epoch"):
            ClipDataset(short_clips, SAMPLING, **KEYWORDS).set_epoch(epoch)


@pytest.mark.parametrize("workers", [0, 2])
def test_images_and_their_masks_come_through_workers(photos, workers, tmp_path):
    files = []
    for number, (path, _) in enumerate(photos[:6]):
        with Image.open(path) as image:
            mask = Image.new("L", image.size, number)
        files.append(tmp_path / f"{number}.png")
        mask.save(files[-1])
    keywords = {"batch_size": 4, "transforms": [fsp.transforms.Resize((32, 32))], "shuffle": "full", "masks": files}
    dataset = ImageDataset(photos[:6], **keywords)
    batches = DataLoader(dataset, batch_size=None, num_workers=workers)
    for epoch in (0, 1):
        dataset.set_epoch(epoch)
        loader = fsp.ImageLoader(photos[:6], **keywords)
        loader.set_epoch(epoch)
        for got, wanted in zip(batches, loader, strict=True):
            assert got["image_ids"].tolist() == wanted.image_ids.tolist()
            assert torch.equal(got["images"], wanted.images.torch())
            assert [mask.unique().tolist() for mask in got["masks"]] == [[i] for i in got["image_ids"].tolist()]
    plain = next(iter(ImageDataset(photos[:6], batch_size=2)))
    assert "masks" not in plain and isinstance(plain["images"], list), "images keep their own sizes"


@pytest.mark.parametrize("workers", [0, 2])
def test_error_costs_one_batch_in_any_process(short_clips, bad_file, workers):
    entries = [*short_clips[:5], (bad_file, 9), *short_clips[5:9]]
    once = fsp.samplers.RandomClips(sequence_length=2)
    keywords = {"batch_size": 2, "transforms": [fsp.transforms.Resize((16, 24))]}
    batches = iter(DataLoader(ClipDataset(entries, once, **keywords), batch_size=None, num_workers=workers))
    got, failed = [], 0
    while True:
        try:
            got.append(next(batches)["labels"].tolist())
        except StopIteration:
            break
        except Exception as error:
            assert bad_file in str(error)
            failed += 1
    assert (got, failed) == ([[0, 1], [2, 3], [5, 6], [7, 8]], 1)
    of_loader = iter(TorchLoader(fsp.ClipLoader(entries, once, **keywords)))
    assert [next(of_loader)["labels"].tolist() for _ in range(2)] == got[:2]
    with pytest.raises(fsp.Error):
        next(of_loader)
    assert [batch["labels"].tolist() for batch in of_loader] == got[2:]


def test_threads_are_divided_among_local_ranks(short_clips, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(10**6))
    dataset = ClipDataset(short_clips, SAMPLING, **KEYWORDS)
    next(iter(dataset))
    assert dataset._loader._settings["options"]["num_threads"] == 1


def test_workers_do_not_report_how_many_videos_are_indexed(short_clips, tmp_path):
    def report(done, total):
        with open(tmp_path / "calls", "a") as file:
            file.write(f"{done}/{total} ")

    dataset = ClipDataset(short_clips, SAMPLING, **KEYWORDS, index=fsp.options.Index(False, progress=report))
    list(DataLoader(dataset, batch_size=None, num_workers=1))
    assert not (tmp_path / "calls").exists()
    list(DataLoader(dataset, batch_size=None, num_workers=0))
    assert (tmp_path / "calls").read_text().endswith(f"{len(short_clips)}/{len(short_clips)} ")


def test_batches_limited_by_tokens_come_through_workers(videos):
    """Batches of different numbers of clips, whose sizes differ."""
    names = ["derived/base_640x360.mp4", "action/phone_176x144.mp4", "action/street_426x240.mp4"]
    keywords = {
        "batch_size": fsp.TokenBudget(120),
        "transforms": [fsp.transforms.SmartResize(28, max_pixels=30 * 28 * 28, min_pixels=4 * 28 * 28)],
        "shuffle": "full",
        "index": False,
    }
    # Four, three and two of a size.
    files = [str(videos / name) for place, name in enumerate(names) for _ in range(4 - place)]
    sampling = fsp.samplers.RandomClips(sequence_length=2)
    dataset = ClipDataset(files, sampling, **keywords)
    loader = fsp.ClipLoader(files, sampling, **keywords)
    for epoch in (0, 1):
        got = list(DataLoader(dataset, batch_size=None, num_workers=2))
        loader.set_epoch(epoch)
        assert len(got) == len(loader) and len({len(batch["clip_ids"]) for batch in got}) > 1
        for ours, theirs in zip(got, loader, strict=True):
            assert ours["clip_ids"].tolist() == theirs.clip_ids.tolist()
            pairs = zip(ours["frames"], theirs.frames, strict=True)
            assert all(torch.equal(frames, other.torch()) for frames, other in pairs)


def of_different_lengths(videos):
    """Arguments of a loader whose epochs 0 to 5 have 6, 5, 6, 5, 5 and 7 batches: each has other copies of videos."""
    names = ["derived/base_640x360.mp4", "action/phone_176x144.mp4", "action/street_426x240.mp4"]
    files = [str(videos / name) for place, name in enumerate(names) for _ in range(4 - place)]
    weighted = fsp.datasets.weighted(files, [1 + place % 4 for place in range(len(files))], replacement=True)
    sampling = fsp.samplers.RandomClips(sequence_length=2)
    return weighted, sampling, {"batch_size": fsp.PixelBudget(2 * 640 * 360), "shuffle": "full", "index": False}


@pytest.mark.parametrize("workers", [0, 2])
def test_length_is_that_of_the_next_epoch(videos, workers):
    dataset, sampling, keywords = of_different_lengths(videos)
    loader = fsp.ClipLoader(dataset, sampling, **keywords)
    batches = DataLoader(ClipDataset(dataset, sampling, **keywords), batch_size=None, num_workers=workers)
    lengths = []
    for epoch in range(3):
        loader.set_epoch(epoch)
        lengths.append(len(batches))
        assert lengths[-1] == len(loader) == len(list(batches)), epoch
    assert lengths == [6, 5, 6]


def test_length_is_that_of_the_seed_of_a_state(videos):
    dataset, sampling, keywords = of_different_lengths(videos)
    torch.manual_seed(1)
    first, then = (ClipDataset(dataset, sampling, **keywords, seed=None) for _ in range(2))
    state = first.state_dict()
    known = [len(then)]
    then.load_state_dict(state)
    for epoch in range(8):
        whole = len(list(then))
        if epoch:
            assert known[-1] == whole, epoch
        known.append(len(then))


def test_stateful_data_loader_resumes_at_the_end_of_epochs_of_different_lengths(videos):
    """A worker that has delivered its last batch waits, at a number of batches that the next epoch may not have."""
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    dataset, sampling, keywords = of_different_lengths(videos)
    loader = fsp.ClipLoader(dataset, sampling, **keywords)
    for epoch in (0, 1, 4):
        loader.set_epoch(epoch)
        whole = [[batch.clip_ids.tolist() for batch in loader] for _ in range(2)]
        for taken in (len(whole[0]) - 1, len(whole[0])):
            first = ClipDataset(dataset, sampling, **keywords)
            first.set_epoch(epoch)
            old = stateful(first, batch_size=None, num_workers=2)
            batches = iter(old)
            got = [next(batches)["clip_ids"].tolist() for _ in range(taken)]
            new = stateful(ClipDataset(dataset, sampling, **keywords), batch_size=None, num_workers=2)
            new.load_state_dict(old.state_dict())
            assert got + [batch["clip_ids"].tolist() for batch in new] == whole[0], (epoch, taken)
            assert [batch["clip_ids"].tolist() for batch in new] == whole[1], (epoch, taken)


@pytest.mark.parametrize("estimates", [False, True])
@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (2, False), (2, True)])
def test_lightning_resumes_a_data_loader_at_its_epoch(short_clips, tmp_path, workers, persistent, estimates):
    """Lightning sets no epoch of datasets: they read it when their length is requested, also before the restore.

    Workers that stay alive were forked while Lightning prepared the resumed run, and its frames are on their stacks.
    """
    pl = pytest.importorskip("lightning.pytorch")

    class Model(pl.LightningModule):
        def __init__(self, items=None):
            super().__init__()
            self.layer, self.items, self.seen = torch.nn.Linear(1, 1), items, []

        def on_train_epoch_start(self):
            if self.items is not None:
                self.items.set_epoch(self.current_epoch)

        def training_step(self, batch, _):
            self.seen.append((batch["clip_ids"].tolist(), batch["indices"].tolist()))
            return self.layer(torch.ones(1, 1)).sum()

        def configure_optimizers(self):
            if estimates:
                _ = self.trainer.estimated_stepping_batches
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def fit(epochs, items, resume=None, **more):
        if items:
            dataset = framespool.torch.VideoDataset(short_clips[:4], SAMPLING, transforms=KEYWORDS["transforms"])
        else:
            dataset = ClipDataset(short_clips[:4], SAMPLING, **KEYWORDS)
        size = 4 if items else None
        batches = DataLoader(dataset, size, num_workers=workers, persistent_workers=persistent)
        model = Model(dataset if items else None)
        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, **more}
        trainer = pl.Trainer(max_epochs=epochs, accelerator="cpu", enable_model_summary=False, **quiet)
        trainer.fit(model, batches, ckpt_path=resume)
        return model.seen, trainer

    for items in (False, True):
        whole, _ = fit(3, items)
        assert whole[:2] != whole[2:4] != whole[4:], "two batches per epoch"
        begun, trainer = fit(1, items)
        trainer.save_checkpoint(tmp_path / "ended.ckpt")
        resumed, _ = fit(3, items, resume=tmp_path / "ended.ckpt")
        assert begun + resumed == whole
        # This checkpoint is of the last batch, before the end of the epoch.
        saving = pl.callbacks.ModelCheckpoint(tmp_path / str(items), "batch", every_n_train_steps=2)
        fit(1, items, enable_checkpointing=True, callbacks=[saving])
        resumed, _ = fit(3, items, resume=tmp_path / str(items) / "batch.ckpt")
        assert begun + resumed == whole
    overfit, _ = fit(3, False, overfit_batches=1)
    assert overfit[0] == overfit[1] == overfit[2]
