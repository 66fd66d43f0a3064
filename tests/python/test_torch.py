"""Clips in PyTorch's DataLoader, StatefulDataLoader, torch.distributed, Lightning and Accelerate; skipped
if these are not installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import framespool as fsp
import pytest
from framespool._common import ranks as rank_module
from framespool._common.pytorch import page_locked
from torch_helpers import KEYWORDS, SAMPLING, expected, flat, ids

torch = pytest.importorskip("torch")
# Warnings about more workers than cores, and torch's deprecations.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")

import framespool.torch  # noqa: E402
from framespool.torch import (  # noqa: E402
    ClipDataset,
    ImageDataset,
    TorchLoader,
    for_accelerate,
    rank_and_world,
)
from torch.utils._pytree import tree_map  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402


def test_pin_memory_covers_all_tensors(short_clips, photos, monkeypatch):
    """DataLoader's processing of a batch with pin_memory=True, without page locking, which needs a GPU."""
    from torch.utils.data._utils.pin_memory import pin_memory

    pinned = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self, *_: pinned.append(self) or self.clone())
    for batch in (
        next(iter(ClipDataset(short_clips, SAMPLING, **KEYWORDS))),
        next(iter(ImageDataset(photos, batch_size=3))),  # a list of tensors
    ):
        pinned.clear()
        got = pin_memory(batch)
        flat = [t for value in batch.values() for t in (value if isinstance(value, (list, tuple)) else [value])]
        assert len(pinned) == len(flat) > 5
        assert list(got) == list(batch) and {n: type(v) for n, v in got.items()} == {
            n: type(v) for n, v in batch.items()
        }
        assert torch.equal(got["labels"], batch["labels"])


def test_a_batch_moves_as_a_tensor_does(short_clips, monkeypatch):
    (batch, *_) = fsp.ClipLoader(short_clips[:2], SAMPLING, batch_size=2, transforms=[fsp.transforms.Resize((16, 24))])
    frames, labels = batch.torch()
    assert isinstance(frames, torch.Tensor) and frames.data_ptr() == batch.frames.torch().data_ptr()
    moved = batch.to("meta", non_blocking=True)
    values = {**moved.as_dict(), **moved.video._asdict()}
    del values["video"]
    assert type(moved) is fsp.Batch and {value.device.type for value in values.values()} == {"meta"}
    assert batch.to("cpu").frames.shape == frames.shape and labels.dtype == torch.int64
    pinned = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: pinned.append(tensor) or tensor)
    assert type(batch.pin_memory()) is fsp.Batch and len(pinned) == len(values)
    steps = [*KEYWORDS["transforms"], lambda frames: "mine"]
    (changed,) = fsp.ClipLoader(short_clips[:1], SAMPLING, batch_size=2, transforms=steps)
    assert changed.to("cpu").frames == "mine", "the result of a callable is what it is"


class Views(NamedTuple):
    """What a callable may return for a clip."""

    fast: torch.Tensor
    rest: dict


def test_tensors_in_any_nesting_move(short_clips):
    def views(clip):
        return Views(clip, {"slow": (clip[::2], [clip.float(), "name"])}), clip

    def leaves(value, found):
        for each in value.values() if isinstance(value, dict) else value:
            leaves(each, found) if isinstance(each, (list, tuple, dict)) else found.append(each)
        return found

    steps = [*KEYWORDS["transforms"], fsp.transforms.PerClip(views)]
    loader = fsp.ClipLoader(short_clips[:1], SAMPLING, batch_size=2, transforms=steps)
    (batch,) = loader
    moved = [batch.to("meta").frames] + [each["frames"] for each in TorchLoader(loader, device="meta")]
    assert len(moved) == 2
    for frames in moved:
        assert [type(each) for each in frames] == [tuple, tuple] and type(frames[0][0]) is Views
        kinds = [each if isinstance(each, str) else each.device.type for each in leaves(frames, [])]
        assert kinds == ["meta", "meta", "meta", "name", "meta"] * 2
    assert batch.to("cpu").frames[0][0].fast is batch.frames[0][0].fast
    assert "frames=[(" in repr(batch)


def test_copies_from_page_locked_memory_are_recorded_on_the_current_stream(short_clips, monkeypatch):
    (batch, *_) = fsp.ClipLoader(short_clips[:1], SAMPLING, batch_size=1, transforms=[fsp.transforms.Resize((16, 24))])
    assert page_locked(batch.torch()) == [], "without a GPU"
    calls = []
    locked = SimpleNamespace(_is_page_locked=True, _record_copy=lambda *where: calls.append(where))
    monkeypatch.setattr(batch, "_made_from", [locked])
    monkeypatch.setattr(torch.cuda, "current_stream", lambda gpu: SimpleNamespace(cuda_stream=40 + gpu))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, *_, **__: tensor)
    for each in (batch, batch.torch(), batch.torch().torch()):
        calls.clear()
        for device, non_blocking in (("cuda:2", True), ("cuda", True), ("cuda", False), ("cpu", True)):
            each.to(device, non_blocking=non_blocking)
        assert calls == [(2, 42), (1, 41)]
    calls.clear()
    assert TorchLoader(fsp.ClipLoader(short_clips[:1], SAMPLING, batch_size=1), device="cuda:0")._placed(batch)
    assert calls == [(0, 40)]


def test_a_data_loader_that_is_to_pin_delivers(short_clips):
    batches = DataLoader(
        ClipDataset(short_clips, SAMPLING, **KEYWORDS), batch_size=None, num_workers=1, pin_memory=True
    )
    assert ids(batches) == expected(short_clips, 0)


def test_ranks_are_those_that_torchrun_says(monkeypatch):
    for rank, ranks, wanted in [(None, None, (0, 1)), ("2", "4", (2, 4)), ("1", None, (0, 1))]:
        for name, value in {"RANK": rank, "WORLD_SIZE": ranks}.items():
            monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
        assert tuple(rank_and_world().values()) == wanted
    for rank, ranks in [("4", "4"), ("-1", "2"), ("a", "2"), (None, "2")]:
        for name, value in {"RANK": rank, "WORLD_SIZE": ranks}.items():
            monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
        with pytest.raises(fsp.errors.ArgumentError, match="RANK"):
            rank_and_world()
    with pytest.raises(fsp.errors.ArgumentError, match="init_process_group"):
        rank_and_world(group=object())


def test_loaders_of_torch_take_the_rank_and_give_tensors(short_clips, photos, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    resize = [fsp.transforms.Resize((16, 24))]
    loader = framespool.torch.ClipLoader(short_clips, SAMPLING, **KEYWORDS)
    part = fsp.ClipLoader(short_clips, SAMPLING, **KEYWORDS, shard_id=1, num_shards=2)
    assert len(loader) == len(part)
    for batch, wanted in zip(loader, part, strict=True):
        frames, labels = batch
        assert torch.equal(frames, wanted.frames.torch()) and labels.tolist() == wanted.labels.tolist()
    whole = framespool.torch.ClipLoader(short_clips, SAMPLING, **KEYWORDS, shard_id=0, num_shards=1)
    assert whole.num_clips == loader.num_clips and len(whole) > len(loader)
    images = framespool.torch.ImageLoader(photos, batch_size=2, transforms=resize)
    assert len(images) == -(-len(photos) // 4) and isinstance(next(iter(images)).images, torch.Tensor)
    with pytest.raises(fsp.errors.ArgumentError, match="group= and num_shards= both"):
        framespool.torch.ClipLoader(short_clips, SAMPLING, **KEYWORDS, num_shards=1, group=object())


def test_a_batch_is_a_pytree(short_clips):
    [batch] = fsp.ClipLoader(
        fsp.datasets.Dataset(short_clips[:2], columns={"caption": ["a", "b"], "score": [0.5, 1.5]}),
        SAMPLING,
        batch_size=4,
        transforms=KEYWORDS["transforms"],
    )
    batch = batch.torch()
    doubled = tree_map(lambda leaf: leaf * 2 if isinstance(leaf, torch.Tensor) else leaf.upper(), batch)
    assert type(doubled) is fsp.Batch and torch.equal(doubled.frames, batch.frames * 2)
    assert doubled.columns["caption"] == ["A", "A", "B", "B"] and doubled.columns["score"].tolist() == [1, 1, 3, 3]


def test_a_torch_loader_is_the_loader_with_tensors(short_clips):
    loader = fsp.ClipLoader(short_clips, SAMPLING, **KEYWORDS)
    batches = TorchLoader(loader, device="cpu")
    assert len(batches) == len(loader)
    got = [batch["clip_ids"].tolist() for batch in batches]
    assert got == expected(short_clips, 0)
    it = iter(batches)
    first = next(it)
    assert first["frames"].shape == (4, 2, 3, 16, 24) and first["frames"].dtype == torch.uint8
    state = batches.state_dict()
    again = TorchLoader(fsp.ClipLoader(short_clips, SAMPLING, **KEYWORDS))
    again.load_state_dict(state)
    assert ids(again) == expected(short_clips, 1)[1:]
    with pytest.raises(fsp.errors.ArgumentError, match="ClipLoader"):
        TorchLoader([1, 2])


# ---- several ranks ----


def run_torchrun(what, short_clips, folder, ranks=2, *, fails=False):
    side = Path(__file__).with_name("distributed_worker.py")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), side]
    videos = [path for path, _ in short_clips[:5]]
    done = subprocess.run([*command, what, folder, *videos], capture_output=True, text=True, env=few_threads())
    assert (done.returncode != 0) == fails, done.stderr[-4000:]
    return [] if fails else [json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks)]


def few_threads():
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def test_ranks_get_their_shard_in_any_process(short_clips, tmp_path):
    said = run_torchrun("ranks", short_clips, tmp_path)
    for rank, own in enumerate(said):
        assert own["variables"] == own["group"] == {"shard_id": rank, "num_shards": 2}
        assert own["forked"] == own["spawned"] == own["loader"]
        assert own["mesh"] == [{"shard_id": rank, "num_shards": 2}, {"shard_id": 0, "num_shards": 1}]
        assert "DeviceMesh with the dimensions tp, dp; pass the one" in own["refused"]
        assert sorted(flat(own["all"])) == list(range(10))
    assert said[0]["alone"] == {"shard_id": 0, "num_shards": 1}
    assert sorted(flat(said[0]["forked"]) + flat(said[1]["forked"])) == list(range(10))


def test_killed_run_of_four_ranks_ends_on_two(short_clips, tmp_path):
    run_torchrun("training", short_clips, tmp_path, 4, fails=True)
    state = torch.load(tmp_path / "checkpoint.pt")["loader"]
    assert (state["epoch"], state["batch"]) == (0, 9), "the last checkpoint before the kill at batch 11"
    ended = run_torchrun("training", short_clips, tmp_path, 2)
    logs = {ranks: [(tmp_path / f"{ranks}-{rank}.txt").read_text() for rank in range(ranks)] for ranks in (4, 2)}
    steps = {ranks: [json.loads(line) for log in lines for line in log.splitlines()] for ranks, lines in logs.items()}
    # What was trained after the checkpoint is lost with the model, and trained again.
    trained = [clip for number, clips in steps[4] if number <= 9 for clip in clips]
    trained += flat(clips for _, clips in steps[2])
    assert sorted(trained) == list(range(ended[0]["clips"]))
    assert ended[0] == ended[1] and ended[0]["grouped"] == state["grouped"]


@pytest.mark.parametrize("shuffle", ["full", "grouped"])
def test_accelerate_delivers_every_clip_once(short_clips, tmp_path, shuffle):
    pytest.importorskip("accelerate")
    said = run_torchrun(f"accelerate:{shuffle}", short_clips, tmp_path)
    assert sorted(flat(said[0]["recipe"]) + flat(said[1]["recipe"])) == list(range(10))
    for own in said:
        assert sorted(own["gathered"]) == list(range(10))
        assert own["synced"] == [False, True], "gradients are accumulated over four batches, or to the epoch's end"
    assert "for_accelerate" in said[0]["refused"]
    assert set(flat(said[0]["dispatched"])) | set(flat(said[1]["dispatched"])) == set(range(10))


@pytest.mark.parametrize("shuffle", ["full", "grouped"])
def test_lightning_trains_each_rank_on_its_own_part(short_clips, tmp_path, shuffle):
    pytest.importorskip("lightning")
    said = run_torchrun(f"lightning:{shuffle}", short_clips, tmp_path)
    for part in ("train", "val"):
        assert sorted(flat(said[0][part]) + flat(said[1][part])) == list(range(10))
    assert said[0]["train_loader"] == "TorchLoader"


@pytest.mark.parametrize("ranks", [1, 2])
def test_lightning_resumes_exactly_in_another_process(tiny_clips, tmp_path, ranks):
    """From checkpoints in the middle of an epoch, at its validation and at its end."""
    pytest.importorskip("lightning")
    whole = run_torchrun("lightning_resume", tiny_clips, tmp_path, ranks)
    resumed = run_torchrun("lightning_resume", tiny_clips, tmp_path, ranks)
    for before, after in zip(whole, resumed, strict=True):
        # Each loader, with and without the estimate of the number of steps in configure_optimizers, and four times.
        assert len(before) == 6 and len(after) == 24
        for checkpoint, batches in after.items():
            name, estimated, steps, _ = checkpoint.split("-")
            run = before[f"{name}-{estimated}"]
            assert [epoch for epoch, *_ in run] == sorted([0, 1, 2] * (len(run) // 3))
            assert batches == run[int(steps) :], checkpoint
        shorter = [str(batch) for _, _, batch in before["several-0"]]
        assert len(set(shorter)) == len(shorter), "a loader that is iterated again within an epoch has other frames"


# ---- one process ----


@pytest.mark.parametrize("shuffle", ["full", "grouped"])
def test_accelerate_saves_the_position_in_the_epoch(short_clips, tmp_path, shuffle):
    accelerator = pytest.importorskip("accelerate").Accelerator(cpu=True)
    keywords = {**KEYWORDS, "shuffle": shuffle}

    def batches():
        return for_accelerate(fsp.ClipLoader(short_clips, SAMPLING, **keywords), accelerator)

    loader = fsp.ClipLoader(short_clips, SAMPLING, **keywords)
    whole = [batch.clip_ids.tolist() for _ in range(2) for batch in loader]
    it = iter(batches())
    got = ids(next(it) for _ in range(3))
    accelerator.save_state(str(tmp_path))
    accelerator._custom_objects.clear()  # as in a new process
    later = batches()
    accelerator.load_state(str(tmp_path))
    assert got + ids(later) + ids(later) == whole
    with pytest.raises(fsp.errors.ArgumentError, match="shard 1 of 2"):
        for_accelerate(fsp.ClipLoader(short_clips, SAMPLING, shard_id=1, num_shards=2, **KEYWORDS), accelerator)
    with pytest.raises(fsp.errors.ArgumentError, match="Accelerator"):
        for_accelerate(fsp.ClipLoader(short_clips, SAMPLING, **KEYWORDS), None)
    accelerator._custom_objects.clear()


@pytest.mark.parametrize("shuffle", ["full", "grouped"])
@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
def test_lightning_resumes_in_the_middle_of_an_epoch(short_clips, tmp_path, package, shuffle):
    """In a separate process per package: data modules depend on the imported one."""
    pytest.importorskip(package.split(".")[0])
    code = LIGHTNING.replace("PACKAGE", package).replace("SHUFFLE", shuffle)
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path, *[path for path, _ in short_clips[:5]]],
        capture_output=True,
        text=True,
        env=few_threads(),
    )
    assert done.returncode == 0, done.stderr[-4000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["whole"][:4] != said["whole"][4:8], "epochs differ"
    for taken, (first, rest) in said["resumed"].items():
        assert len(first) == int(taken) and first + rest == said["whole"], taken
    assert all(val == said["val"][0] for val in said["val"]), "validation is the same each time"
    assert said["reloaded"] == said["whole"]
    assert said["again"] == said["whole"][:4], "another trainer starts at its own epoch"
    assert said["plain"] == [said["whole"][:6]] * 2, "also with a loader"
    assert said["tuned"] == said["whole"][:6], "lr_find does not change what a run trains on"
    assert said["overfit"] == [said["whole"][:2] * 3] * 2
    assert all(rest == resumed for rest, resumed in said["ended"]), "resumed after the last batch of a limited epoch"
    assert said["limited"] == said["parts"] == said["whole"][:2] + said["whole"][4:6] + said["whole"][8:]


LIGHTNING = """
import json, sys, warnings
warnings.filterwarnings("ignore")
import torch
import framespool as fsp
import PACKAGE as pl
from PACKAGE.tuner import Tuner
from framespool.torch import ClipDataModule, TorchLoader

assert issubclass(ClipDataModule, pl.LightningDataModule) and ClipDataModule.__doc__
folder, *paths = sys.argv[1:]
part = {"dataset": paths, "clip_sampler": fsp.samplers.RandomClips(sequence_length=2, clips_per_video=2)}
common = {"batch_size": 3, "transforms": [fsp.transforms.Resize((16, 16))], "num_threads": 1}
seen, validated = [], []

class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer, self.lr = torch.nn.Linear(1, 1), 0.1
    def training_step(self, batch, _):
        seen.append(batch["clip_ids"].tolist())
        return self.layer(torch.ones(1, 1)).sum()
    def on_validation_epoch_start(self):
        validated.append([])
    def validation_step(self, batch, _):
        validated[-1].append(batch["indices"].tolist())
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

def fit(steps, resume=None, save=None, data=None, **more):
    seen.clear()
    data = data or ClipDataModule(train={**part, "shuffle": "SHUFFLE"}, val=part, **common)
    quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer = pl.Trainer(max_steps=steps, accelerator="cpu", num_sanity_val_steps=1, **quiet, **more)
    trainer.fit(Model(), data, ckpt_path=resume)
    if save:
        trainer.save_checkpoint(save)
    return list(seen)

whole = fit(10)
resumed = {}
for taken in (1, 4, 6):
    path = f"{folder}/{taken}.ckpt"
    first = fit(taken, save=path)
    resumed[taken] = first, fit(10, resume=path)
data = ClipDataModule(train={**part, "shuffle": "SHUFFLE"}, val=part, **common)
again = [fit(4, data=data) for _ in range(2)][1]
reloaded = fit(10, reload_dataloaders_every_n_epochs=1)
loader = TorchLoader(fsp.ClipLoader(**part, shuffle="SHUFFLE", **common))
plain = [fit(6, data=loader) for _ in range(2)]
overfit = [fit(6, data=data, overfit_batches=2) for data in (None, loader)]
limited = fit(6, limit_train_batches=2)
path = f"{folder}/limited.ckpt"
parts = fit(4, limit_train_batches=2, save=path) + fit(6, limit_train_batches=2, resume=path)

class Save(pl.Callback):
    def on_train_batch_end(self, trainer, *_):
        if trainer.global_step == 2:
            trainer.save_checkpoint(path)

def after_limited_epoch(data, **more):
    whole = fit(6, data=data(), callbacks=[Save()], **more)
    return whole[2:], fit(6, resume=path, data=data(), **more)

make_loader = lambda: TorchLoader(fsp.ClipLoader(**part, shuffle="SHUFFLE", **common))
ended = [
    after_limited_epoch(data, **more)
    for data in (lambda: None, make_loader)
    for more in ({"limit_train_batches": 2}, {"overfit_batches": 2})
]
trainer = pl.Trainer(max_steps=6, accelerator="cpu", default_root_dir=folder, enable_progress_bar=False, logger=False)
data = ClipDataModule(train={**part, "shuffle": "SHUFFLE"}, **common)
model = Model()
Tuner(trainer).lr_find(model, datamodule=data, num_training=3)
seen.clear()
trainer.fit(model, data)
tuned = list(seen)
val = [v for v in validated if len(v) == 4]
names = ("whole", "resumed", "val", "reloaded", "again", "plain", "overfit", "limited", "parts", "tuned", "ended")
print(json.dumps({name: globals()[name] for name in names}))
"""


def test_a_data_module_says_what_it_lacks(short_clips):
    pytest.importorskip("lightning.pytorch")
    from framespool.torch import ClipDataModule, ImageDataModule

    with pytest.raises(fsp.errors.ArgumentError, match="train="):
        ClipDataModule(batch_size=2)
    with pytest.raises(fsp.errors.ArgumentError, match="train must be a dict"):
        ClipDataModule(train=short_clips)
    data = ImageDataModule(test={"dataset": ["a.jpg"], "batch_size": 1})
    with pytest.raises(fsp.errors.ArgumentError, match="no 'train', only test"):
        data.train_dataloader()
    assert data.val_dataloader() == [] and len(data.test_dataloader()) == 1


@pytest.mark.parametrize(
    ("cores", "here", "outside", "ranks", "expected"),
    [
        (64, 64, 64, 8, 8),  # no CPU affinity: all ranks see all cores
        (8, 8, 64, 8, 8),  # each rank is bound to its own cores
        (32, 32, 64, 8, 8),  # bound to one of two NUMA nodes, shared with three others
        (8, 64, 64, 4, 2),  # a container's quota applies to all ranks
        (8, 16, 64, 4, 2),
        (2, 2, 2, 8, 1),
        (16, 16, 0, 4, 4),  # the launcher is unknown
    ],
)
def test_ranks_share_the_cores_that_they_were_given(cores, here, outside, ranks, expected, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(ranks))
    monkeypatch.setattr(rank_module, "cores", lambda: cores)
    monkeypatch.setattr(rank_module.os, "sched_getaffinity", lambda pid: range(outside if pid else here))
    assert rank_module.cores_per_rank() == expected
    loader = fsp.ClipLoader(["a.mp4"], SAMPLING, batch_size=1)
    assert loader._settings["options"]["num_threads"] == expected


def test_an_unsharded_loader_on_several_ranks_warns_once(short_clips, monkeypatch):
    monkeypatch.setattr(rank_module, "_warned", False)
    monkeypatch.setenv("WORLD_SIZE", "4")
    fsp.ClipLoader(short_clips, SAMPLING, **KEYWORDS)  # without RANK it is not known to be a rank
    monkeypatch.setenv("RANK", "1")
    fsp.ClipLoader(short_clips, SAMPLING, **KEYWORDS, **rank_and_world())
    with pytest.warns(UserWarning, match=r"one of 4 ranks.*num_shards=1.*rank_and_world"):
        fsp.ClipLoader(short_clips, SAMPLING, **KEYWORDS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fsp.ClipLoader(short_clips, SAMPLING, **KEYWORDS)
