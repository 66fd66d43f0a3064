"""Small trainings with DataLoader, Lightning, Accelerate and Hugging Face's Trainer, and what must hold for each.

    python tests/python/framework_runs.py --runs 1000             searches for a run with wrong data, and shrinks it
    python tests/python/framework_runs.py --run '{"framework": "lightning", …}'   checks one run again

A run is a framework, the kind of data that it is given, and arguments of both. The model records what it is trained on,
and each batch shows by its colors which frames it has (see drawn_runs.py). `check()` compares with the batches of a
`ClipLoader`, which training_runs.py checks:

- A `ClipLoader`, a `ClipDataModule` and a `ClipDataset` deliver the batches of their epoch, in their order, up to the
  limits of the framework; epochs follow each other.
- Of a `VideoDataset` each clip is delivered as often as the sampler of the framework draws it, with its frames of the
  chosen epoch; a second pass without `set_epoch()` is reported by a warning.
- With another number of workers batches are the same.
- A run that continues from a checkpoint, with new objects, gets the rest of the whole run.
- Validation data is the same each time.
- Gradients are accumulated over as many batches as requested, and until the end of an epoch.
"""

from __future__ import annotations

import argparse
import logging
import pickle
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

# transformers looks for the package `datasets`, and the repository has a folder of that name.
ROOT = Path(__file__).resolve().parents[2]
sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != ROOT]

import accelerate  # noqa: E402
import drawn_runs  # noqa: E402
import framespool as fsp  # noqa: E402
import framespool.torch  # noqa: E402
import lightning.pytorch as pl  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from accelerate.utils import DataLoaderConfiguration  # noqa: E402
from drawn_runs import CLASSES, GREEN, LENGTHS, RED, class_of, from_json, make_videos, require  # noqa: E402
from framespool.torch import ClipDataModule, ClipDataset, OccurrenceSampler, VideoDataset  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from lightning.pytorch.utilities.exceptions import MisconfigurationException  # noqa: E402
from torch.utils.data import DataLoader, DistributedSampler, WeightedRandomSampler, default_collate, default_convert  # noqa: E402
from torchdata.stateful_dataloader import StatefulDataLoader  # noqa: E402

#: A clip as it was recorded: its number, the frames, and whether it only fills a batch.
Clip = tuple[int, tuple[int, ...], bool]


@dataclass(frozen=True)
class Run:
    """The settings of a run; its JSON form repeats it.

    Args:
        framework: `"dataloader"`, `"stateful"`, `"lightning"`, `"accelerate"` or `"trainer"`.
        source: What it is given: `"module"` (`ClipDataModule`), `"loader"` (`ClipLoader`), `"clips"` (`ClipDataset` in
            a `DataLoader`) or `"items"` (`VideoDataset` in one).
        videos: Numbers of the videos that are its samples.
        sampler: Clip sampler: `"random"`, `"uniform"` or `"windows"`.
        clips_per_video: As for the clip samplers that have it.
        batch_size: Clips of a batch, like the next ones.
        shuffle: As for `ClipLoader`, or whether the `DataLoader` shuffles.
        last_batch: Likewise; `"drop"` is `drop_last` of a `DataLoader`.
        seed: Of the data and of PyTorch.
        workers: Arguments of the `DataLoader` that are about its processes.
        arguments: Those of the framework, and what is done.
    """

    framework: str
    source: str
    videos: tuple[int, ...] = (0, 1, 2, 3)
    sampler: str = "random"
    clips_per_video: int = 1
    batch_size: int = 2
    shuffle: str | bool = False
    last_batch: str = "partial"
    seed: int = 0
    workers: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)


SOURCES = {
    "dataloader": ("clips", "items"),
    "stateful": ("clips", "items"),
    "lightning": ("module", "loader", "clips", "items"),
    "accelerate": ("loader", "clips", "items"),
    "trainer": ("clips", "items"),
}


@st.composite
def runs(draw: Any, framework: str) -> Run:
    """Runs of a framework, whose settings it accepts together."""
    pick = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    source = pick(*SOURCES[framework])
    items = source == "items"
    return Run(
        framework=framework,
        source=source,
        videos=tuple(draw(st.lists(st.integers(0, len(LENGTHS) - 1), min_size=2, max_size=7))),
        sampler=pick("random", "random", "uniform", "windows"),
        clips_per_video=draw(st.integers(1, 3)),
        batch_size=draw(st.integers(1, 4)),
        shuffle=pick(True, False) if items else pick("full", False, "buffer", "grouped"),
        last_batch=pick("partial", "drop") if items else pick("partial", "drop", "fill"),
        seed=draw(st.integers(0, 3)),
        workers=draw(workers(framework)) if source in ("clips", "items") else {},
        arguments=draw(ARGUMENTS[framework](source)),
    )


@st.composite
def workers(draw: Any, framework: str) -> dict[str, Any]:
    """Arguments of a `DataLoader` about its processes. Most runs have none, since starting them takes long."""
    count = draw(st.sampled_from([0, 0, 0, 1, 2, 3] if framework in ("dataloader", "stateful") else [0] * 6 + [1, 2]))
    made: dict[str, Any] = {"num_workers": count}
    if count == 0:
        return made
    made["persistent_workers"] = draw(st.booleans())
    made["prefetch_factor"] = draw(st.sampled_from([None, 1, 3]))
    if framework == "dataloader":
        made["multiprocessing_context"] = draw(st.sampled_from([None] * 38 + ["forkserver", "spawn"]))
        made["in_order"] = draw(st.sampled_from([True, True, False]))
    return made


@st.composite
def _of_data_loader(draw: Any, source: str) -> dict[str, Any]:
    pick = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    made = {
        "set_epoch": pick(True, False),
        "first_epoch": draw(st.integers(0, 3)),
        "leave_early": pick(False, False, True),
        "pin_memory": pick(False, False, True),
        "collate_fn": pick(False, True),
        "worker_init_fn": pick(False, True),
    }
    if source == "items":
        made["chosen_by"] = pick("shuffle", "shuffle", "batch_sampler", "weighted", "occurrences", "distributed")
    return made


@st.composite
def _of_stateful(draw: Any, source: str) -> dict[str, Any]:
    return {
        "first_epoch": draw(st.integers(0, 2)),
        "stop_after": draw(st.integers(0, 8)),
        "snapshot_every_n_steps": draw(st.sampled_from([1, 1, 2, 3])),
    }


@st.composite
def _of_lightning(draw: Any, source: str) -> dict[str, Any]:
    pick = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    trainer: dict[str, Any] = pick(
        *[{"max_epochs": count} for count in (1, 2, 3)],
        *[{"max_steps": count, "max_epochs": -1} for count in (1, 3, 5, 8)],
    )
    trainer |= pick({}, {}, {"accumulate_grad_batches": 2}, {"accumulate_grad_batches": 3})
    trainer |= pick({}, {}, {"limit_train_batches": 2}, {"limit_train_batches": 0.5}, {"overfit_batches": 2})
    trainer |= pick({}, {}, {"limit_val_batches": 1}, {"limit_val_batches": 0.5}, {"limit_val_batches": 0})
    trainer |= pick({}, {}, {"check_val_every_n_epoch": 2}, {"val_check_interval": 0.5}, {"val_check_interval": 1})
    trainer |= pick({}, {}, {"reload_dataloaders_every_n_epochs": 1}, {"reload_dataloaders_every_n_epochs": 2})
    if "overfit_batches" not in trainer:
        trainer |= pick({}, {}, {}, {"fast_dev_run": True}, {"fast_dev_run": 2})
    trainer |= {"num_sanity_val_steps": pick(0, 1, 2, -1), "use_distributed_sampler": pick(True, False)}
    return {
        "trainer": trainer,
        "estimates": pick(False, True),
        "stateful": pick(False, True),
        "sets_epoch": pick(False, True),
        "save": pick(
            None, {"every_n_train_steps": 1}, {"every_n_train_steps": 2}, {"every_n_epochs": 1},
            {"every_n_epochs": 1, "save_on_train_epoch_end": True},
        ),
        "resumed": draw(st.integers(0, 5)),
        "then": pick(None, "another_trainer", "more_epochs"),
    }  # fmt: skip


@st.composite
def _of_accelerate(draw: Any, source: str) -> dict[str, Any]:
    pick = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    return {
        "epochs": draw(st.integers(1, 3)),
        "gradient_accumulation_steps": draw(st.integers(1, 3)),
        "split_batches": source == "items" and pick(False, True),
        "dispatch_batches": pick(None, False),
        "even_batches": pick(True, False),
        "use_seedable_sampler": pick(False, True),
        "use_stateful_dataloader": pick(False, True),
        "ranks": pick(1, 1, 2),
        "stop_after": draw(st.integers(0, 8)),
        "continue_by": pick("state", "skip"),
    }


@st.composite
def _of_trainer(draw: Any, source: str) -> dict[str, Any]:
    pick = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    made: dict[str, Any] = pick({"num_train_epochs": 2}, {"num_train_epochs": 3}, {"max_steps": 3}, {"max_steps": 7})
    return {
        "options": {
            **made,
            "gradient_accumulation_steps": pick(1, 1, 2, 3),
            "ignore_data_skip": pick(False, False, True),
            "eval_strategy": pick("no", "epoch", "steps") if source == "items" else "no",
            "save_steps": draw(st.integers(1, 4)),
        },
        "resumed": draw(st.integers(0, 3)),
    }


ARGUMENTS = {
    "dataloader": _of_data_loader,
    "stateful": _of_stateful,
    "lightning": _of_lightning,
    "accelerate": _of_accelerate,
    "trainer": _of_trainer,
}

# ---- the data --------------------------------------------------------------------------------------------------------


def clip_sampler(run: Run) -> Any:
    """The clip sampler of a run."""
    if run.sampler == "windows":
        return fsp.samplers.Windows(sequence_length=4, stride=2, step=9)
    kind = fsp.samplers.RandomClips if run.sampler == "random" else fsp.samplers.UniformClips
    return kind(sequence_length=4, stride=2, clips_per_video=run.clips_per_video)


def samples_of(run: Run, folder: Path) -> list[tuple[str, int]]:
    """The samples of a run."""
    return [(str(folder / f"{video}.mkv"), class_of(video)) for video in run.videos]


def keywords_of(run: Run) -> dict[str, Any]:
    """Arguments of loaders and of `VideoDataset`."""
    resize = [fsp.transforms.Resize((12, 12))]
    return {"transforms": resize, "dtype": "float32", "seed": run.seed, "index": False, "num_threads": 1}


def batch_keywords(run: Run) -> dict[str, Any]:
    """Arguments of loaders that are about batches."""
    # With streams given, the grouped order does not depend on workers.
    streams = {"shuffle": fsp.GroupedShuffle(block_size=4, num_streams=3)} if run.shuffle == "grouped" else {}
    return {"batch_size": run.batch_size, "shuffle": run.shuffle, "last_batch": run.last_batch, **streams}


class Data:
    """The data of a run, created again for each process of a user, with the batches that it must deliver."""

    def __init__(self, run: Run, folder: Path) -> None:
        self.run, self.folder = run, folder
        self.samples = samples_of(run, folder)
        reference = {**keywords_of(run), "dataset": self.samples, "clip_sampler": clip_sampler(run)}
        if run.source == "items":
            self._reference = fsp.ClipLoader(**reference, batch_size=1)
        else:
            self._reference = fsp.ClipLoader(**reference, **batch_keywords(run))
        self.num_clips = self._reference.num_clips

    @lru_cache  # noqa: B019
    def epoch(self, epoch: int) -> list[list[Clip]]:
        """The batches of an epoch; of a `VideoDataset` each clip alone, in the order of the clips."""
        self._reference.set_epoch(epoch)
        return [recorded(self.run, batch) for batch in self._reference]

    def frames(self, epoch: int) -> dict[int, Clip]:
        """The clips of an epoch by their numbers."""
        return {clip[0]: clip for batch in self.epoch(epoch) for clip in batch if not clip[2]}

    def dataset(self) -> Any:
        """A new `ClipDataset` or `VideoDataset`."""
        if self.run.source == "clips":
            return ClipDataset(
                self.samples, clip_sampler(self.run), **keywords_of(self.run), **batch_keywords(self.run)
            )
        return VideoDataset(self.samples, clip_sampler(self.run), **keywords_of(self.run))

    def loader(self) -> Any:
        """A new `ClipLoader`."""
        made = {**keywords_of(self.run), **batch_keywords(self.run)}
        return framespool.torch.ClipLoader(self.samples, clip_sampler(self.run), **made)

    def data_loader(self, kind: Any = DataLoader, dataset: Any = None, **more: Any) -> Any:
        """A new `DataLoader`."""
        run, dataset = self.run, dataset or self.dataset()
        keywords = dict(more) if "num_workers" in more else {**run.workers, **more}
        if run.source == "clips":
            keywords["batch_size"] = None
        elif "batch_sampler" not in keywords:
            keywords |= {"batch_size": run.batch_size, "drop_last": run.last_batch == "drop"}
            if "sampler" not in keywords:
                keywords["shuffle"] = bool(run.shuffle)
        return kind(dataset, **keywords)

    def validation(self) -> dict[str, Any]:
        """Arguments of a loader for the validation."""
        sampler = fsp.samplers.UniformClips(sequence_length=2)
        return {**keywords_of(self.run), "dataset": self.samples, "clip_sampler": sampler, "batch_size": 2}


def recorded(run: Run, batch: Any) -> list[Clip]:
    """The clips of a batch, whose frames and labels have been compared with what they must show."""
    values = batch if isinstance(batch, dict) else batch.as_dict()
    values = {name: value.torch() if isinstance(value, fsp.video.Tensor) else value for name, value in values.items()}
    videos = [run.videos[sample] for sample in values["video_ids"].tolist()]
    require(values["labels"].tolist() == [class_of(video) for video in videos], "labels", values["labels"], videos)
    shown = values["frames"][:, :, :2, 1::5, 1::5].flatten(3) * 255
    expected = torch.stack(
        [
            torch.tensor(videos).unsqueeze(1).expand_as(values["indices"]) * RED + 8,
            values["indices"] * GREEN,
        ],
        2,
    )
    require(((shown - expected.unsqueeze(3)).abs() < 2.9).all(), "frames of", videos, values["indices"].tolist())
    padding = values["padding"].tolist() if "padding" in values else [False] * len(videos)
    ids, indices = values["clip_ids"].tolist(), map(tuple, values["indices"].tolist())
    return list(zip(ids, indices, padding, strict=True))


def ids_of(batches: Iterable[Iterable[Clip]]) -> list[int]:
    """The numbers of the clips of batches."""
    return [clip[0] for batch in batches for clip in batch if not clip[2]]


def check_pass(data: Data, epoch: int, batches: list[list[Clip]], complete: bool = True) -> None:
    """Requires that a pass over items has each clip once, with the frames of an epoch."""
    run, frames = data.run, data.frames(epoch)
    for clip in (clip for batch in batches for clip in batch):
        require(clip == frames[clip[0]], "epoch", epoch, "has", clip, "in place of", frames[clip[0]])
    counts = Counter(ids_of(batches))
    require(set(counts.values()) <= {1}, "clips occur several times in epoch", epoch, counts)
    whole = data.num_clips
    wanted = whole // run.batch_size * run.batch_size if run.last_batch == "drop" else whole
    require(not complete or counts.total() == wanted, "epoch", epoch, "has", counts.total(), "clips of", wanted)


def check_epochs_differ(data: Data, passes: list[list[list[Clip]]]) -> None:
    """Requires another order in other passes over shuffled items."""
    if data.run.shuffle and len(passes) >= 2 and len({len(ids_of(one)) for one in passes}) == 1:
        orders = [ids_of(one) for one in passes]
        require(len(orders[0]) < 8 or orders[0] != orders[1], "both epochs have the same order", orders[0])


# ---- DataLoader ------------------------------------------------------------------------------------------------------


def check_data_loader(data: Data) -> None:
    """A `DataLoader`, also with another number of workers."""
    passes, workers = _passes(data, data.run.workers), data.run.workers
    # With persistent workers a `DataLoader` draws fewer numbers from its generator: its samplers have other orders.
    same_draws = data.run.source == "clips" or not workers.get("persistent_workers")
    if workers["num_workers"] and workers.get("in_order", True) and same_draws:
        require(passes == _passes(data, {"num_workers": 0}), "other workers deliver other batches", passes)


def _passes(data: Data, workers: dict[str, Any]) -> list[list[list[Clip]]]:
    """Three passes over a `DataLoader`, which are checked."""
    run, a = data.run, data.run.arguments
    torch.manual_seed(run.seed)
    dataset = data.dataset()
    more: dict[str, Any] = {**workers, "pin_memory": a["pin_memory"]}
    more["generator"] = torch.Generator().manual_seed(run.seed)
    if a["collate_fn"]:
        more["collate_fn"] = default_convert if run.source == "clips" else default_collate
    if a["worker_init_fn"]:
        more["worker_init_fn"] = abs  # ignores its result
    if run.source == "clips":
        return _clip_passes(data, dataset, data.data_loader(dataset=dataset, **more))
    chosen, count = a["chosen_by"], len(dataset)
    require(count == data.num_clips, "len()", count)
    draws = WeightedRandomSampler([1.0 + n % 3 for n in range(count)], 2 * count, generator=more["generator"])
    if chosen == "distributed":
        return _distributed_passes(data, dataset, more)
    if chosen == "batch_sampler":
        order = torch.utils.data.RandomSampler(dataset, generator=more["generator"])
        more["batch_sampler"] = torch.utils.data.BatchSampler(order, run.batch_size, run.last_batch == "drop")
    elif chosen in ("weighted", "occurrences"):
        more["sampler"] = OccurrenceSampler(draws) if chosen == "occurrences" else draws
    batches = data.data_loader(dataset=dataset, **more)
    passes, epoch = [], 0
    for number in range(3):
        if a["set_epoch"]:
            epoch = a["first_epoch"] + number
            dataset.set_epoch(epoch)
        got = [recorded(run, batch) for batch in batches]
        passes.append(got)
        if "sampler" not in more:
            check_pass(data, epoch, got)
            continue
        seen: dict[int, list[Clip]] = {}
        for clip in (clip for batch in got for clip in batch):
            seen.setdefault(clip[0], []).append(clip)
        first = {clip: all_[0] for clip, all_ in seen.items()}
        require(chosen == "weighted" or run.workers.get("in_order") is False or all(
            clip == data.frames(epoch)[number] for number, clip in first.items()
        ), "first occurrences", first)  # fmt: skip
        most = max(seen.values(), key=len)
        free = LENGTHS[run.videos[_sample(data, most[0][0])]] >= 26
        if chosen == "occurrences" and run.sampler == "random" and free and len(most) >= 6:
            require(len(set(most)) > 1, "all occurrences are equal", most)
    is_random = run.sampler == "random" and max(LENGTHS[video] for video in run.videos) >= 26
    if not a["set_epoch"] and is_random and "sampler" not in more and run.last_batch == "partial":
        require(dataset._repeated.warned, "the second pass has the frames of the first one, without a warning")
    return passes


def _sample(data: Data, clip: int) -> int:
    """The sample of a clip."""
    return int(data._reference.describe_clip(clip)["video_id"])


def _clip_passes(data: Data, dataset: Any, batches: Any) -> list[list[list[Clip]]]:
    """Passes over a `ClipDataset`, of which the second one may be left early."""
    run, a = data.run, data.run.arguments
    passes, epoch = [], 0
    for number in range(3):
        if a["set_epoch"]:
            epoch = a["first_epoch"] + 2 * number
            dataset.set_epoch(epoch)
        expected = data.epoch(epoch)
        require(len(batches) == len(expected), "len()", len(batches), len(expected))
        got = []
        for batch in batches:
            got.append(recorded(run, batch))
            if number == 1 and a["leave_early"]:
                break
        if run.workers.get("in_order", True):
            wanted = expected[: len(got)] if number == 1 and a["leave_early"] else expected
            require(got == wanted, "pass", number, "has", got, "in place of epoch", epoch, wanted)
        elif not (number == 1 and a["leave_early"]):
            require(sorted(got) == sorted(expected), "pass", number, "has", got, "in place of", expected)
        passes.append(got)
        epoch += 1
    return passes


def _distributed_passes(data: Data, dataset: Any, more: dict[str, Any]) -> list[list[list[Clip]]]:
    """Passes of two ranks with `DistributedSampler`, one after the other."""
    run, passes = data.run, []
    drop = run.last_batch == "drop"
    for epoch in range(2):
        clips: list[Clip] = []
        for rank in range(2):
            sampler = DistributedSampler(dataset, 2, rank, bool(run.shuffle), run.seed, drop_last=drop)
            sampler.set_epoch(epoch)
            dataset.set_epoch(epoch)
            keywords = {**more, "sampler": sampler}
            got = [recorded(run, batch) for batch in data.data_loader(dataset=dataset, **keywords)]
            passes.append(got)
            clips += [clip for batch in got for clip in batch]
        for clip in clips:
            require(clip == data.frames(epoch)[clip[0]], "epoch", epoch, "has", clip)
        counts = Counter(clip[0] for clip in clips)
        require(drop or (len(counts) == data.num_clips and counts.total() <= data.num_clips + 1), "clips", counts)
        require(not drop or counts.total() <= data.num_clips, "clips", counts)
    return passes


def check_stateful(data: Data) -> None:
    """A `StatefulDataLoader` continues within an epoch, and with the next one."""
    run, a = data.run, data.run.arguments

    def made(epoch: int) -> Any:
        torch.manual_seed(run.seed)
        dataset = data.dataset()
        dataset.set_epoch(epoch)
        every = {"snapshot_every_n_steps": a["snapshot_every_n_steps"]}
        return dataset, data.data_loader(StatefulDataLoader, dataset, **every)

    first = a["first_epoch"]
    dataset, batches = made(first)
    whole = [recorded(run, batch) for batch in batches]
    if run.source == "clips":
        require(whole == data.epoch(first), "epoch", whole, "in place of", data.epoch(first))
    else:
        check_pass(data, first, whole)
    after = min(a["stop_after"], len(whole))
    dataset, batches = made(first)
    iterator = iter(batches)
    begun = [recorded(run, next(iterator)) for _ in range(after)]
    require(begun == whole[:after], "the same epoch begins with", begun, "in place of", whole[:after])
    state = pickle.loads(pickle.dumps(batches.state_dict()))
    # A `ClipDataset` takes the epoch from the state.
    dataset, batches = made(first if run.source == "items" else 0)
    batches.load_state_dict(state)
    rest = [recorded(run, batch) for batch in batches]
    require(rest == whole[after:], "after", after, "batches", rest, "in place of", whole[after:])
    if run.source == "clips":
        following = [recorded(run, batch) for batch in batches]
        if after == len(whole) and not rest and following == []:
            following = [recorded(run, batch) for batch in batches]
        require(following == data.epoch(first + 1), "next epoch", following, "in place of", data.epoch(first + 1))


# ---- Lightning -------------------------------------------------------------------------------------------------------


class LightningModel(pl.LightningModule):
    """Records the batches that it is given."""

    def __init__(self, run: Run, dataset: Any = None) -> None:
        super().__init__()
        self.run, self.dataset = run, dataset
        self.layer = torch.nn.Linear(1, 1)
        #: Lightning's epoch, number of the batch, and its clips.
        self.seen: list[tuple[int, int, list[Clip]]] = []
        self.validated: list[list[list[Clip]]] = []

    def training_step(self, batch: Any, number: int) -> Any:
        self.seen.append((self.current_epoch, number, recorded(self.run, batch)))
        return self.layer(torch.ones(1, 1)).sum()

    def on_train_epoch_start(self) -> None:
        if self.dataset is not None:
            self.dataset.set_epoch(self.current_epoch)

    def on_validation_epoch_start(self) -> None:
        self.validated.append([])

    def validation_step(self, batch: Any, number: int) -> None:
        self.validated[-1].append(recorded(self.run, batch))

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["position"] = len(self.seen)

    def configure_optimizers(self) -> Any:
        if self.run.arguments["estimates"]:
            _ = self.trainer.estimated_stepping_batches
        return torch.optim.SGD(self.parameters(), lr=0.1)


class _Fit:
    """One call of `Trainer.fit` with new objects."""

    def __init__(self, data: Data, folder: Path | None, resume: str | None = None, keep: _Fit | None = None) -> None:
        run, a = data.run, data.run.arguments
        torch.manual_seed(run.seed)
        self.dataset = None
        self.given = keep.given if keep is not None else self._data(data)
        self.model = LightningModel(run, self.dataset if a["sets_epoch"] and run.source == "items" else None)
        checkpoint = folder is not None and a["save"] is not None and not a["trainer"].get("fast_dev_run")
        callback = pl.callbacks.ModelCheckpoint(folder, "{step}-{epoch}", save_top_k=-1, **(a["save"] or {}))
        self.trainer = pl.Trainer(
            accelerator="cpu",
            logger=False,
            enable_checkpointing=checkpoint,
            callbacks=[callback] if checkpoint else [],
            enable_progress_bar=False,
            enable_model_summary=False,
            **a["trainer"],
        )
        self.fit(resume)

    def fit(self, resume: str | None = None) -> None:
        if isinstance(self.given, tuple):
            self.trainer.fit(self.model, *self.given, ckpt_path=resume)
        else:
            self.trainer.fit(self.model, self.given, ckpt_path=resume)

    def _data(self, data: Data) -> Any:
        run, validation = data.run, data.validation()
        if run.source == "module":
            made = {
                **keywords_of(run),
                **batch_keywords(run),
                "dataset": data.samples,
                "clip_sampler": clip_sampler(run),
            }
            return ClipDataModule(train=made, val=validation)
        if run.source == "loader":
            return data.loader(), framespool.torch.ClipLoader(**validation)
        self.dataset = data.dataset()
        kind = StatefulDataLoader if run.arguments["stateful"] else DataLoader
        validation.pop("batch_size")
        items = VideoDataset(validation.pop("dataset"), validation.pop("clip_sampler"), **validation)
        return data.data_loader(kind, self.dataset), DataLoader(items, 2)


def check_lightning(data: Data) -> None:
    """A fit, its resumption, and another fit with the same data."""
    run, a = data.run, data.run.arguments
    with tempfile.TemporaryDirectory() as place:
        whole = _Fit(data, Path(place))
        _check_fit(data, whole, whole.model.seen, 0)
        saved = sorted(Path(place).glob("*.ckpt"))
        if saved:
            _check_resumed_fit(data, whole, saved[a["resumed"] % len(saved)])
    if a["then"] == "another_trainer" and run.source in ("module", "loader"):
        again = _Fit(data, None, keep=whole)
        require(again.model.seen == whole.model.seen, "another trainer", again.model.seen, "after", whole.model.seen)
    elif a["then"] == "more_epochs" and "max_steps" not in a["trainer"] and not a["trainer"].get("fast_dev_run"):
        begun = len(whole.model.seen)
        whole.trainer.fit_loop.max_epochs += 1
        whole.fit()
        _check_fit(data, whole, whole.model.seen[begun:], a["trainer"]["max_epochs"])


def _check_fit(data: Data, fit: _Fit, seen: list[tuple[int, int, list[Clip]]], first: int) -> None:
    """Requires that a fit has the batches of its epochs."""
    run, trainer = data.run, data.run.arguments["trainer"]
    epochs: dict[int, list[list[Clip]]] = {}
    for epoch, number, clips in seen:
        require(number == len(epochs.setdefault(epoch, [])), "batch", number, "of epoch", epoch)
        epochs[epoch].append(clips)
    require(list(epochs) == list(range(first, first + len(epochs))), "epochs", list(epochs))
    items = -(-data.num_clips // run.batch_size) if run.last_batch == "partial" else data.num_clips // run.batch_size
    count = len(data.epoch(0)) if run.source != "items" else items
    limit = trainer.get("fast_dev_run") or trainer.get("overfit_batches") or trainer.get("limit_train_batches", count)
    limit = int(count * limit) if isinstance(limit, float) else min(count, int(limit))
    overfit = "overfit_batches" in trainer and not trainer.get("fast_dev_run")
    for epoch, batches in epochs.items():
        last = epoch == max(epochs) and "max_steps" in trainer
        require(len(batches) == limit or (last and len(batches) <= limit), "epoch", epoch, "has", len(batches), limit)
        if run.source == "items":
            if overfit:
                require(batches == epochs[first][: len(batches)] or run.sampler == "random", "overfit", batches)
                continue
            # The dataset reads the epoch when Lightning requests its length: for each fit, and for reloaded loaders.
            every = trainer.get("reload_dataloaders_every_n_epochs", 0)
            read = epoch - (epoch - first) % every if every else first
            chosen = epoch if run.arguments["sets_epoch"] else read
            check_pass(data, chosen, batches, complete=limit == count and not last)
            continue
        expected = data.epoch(0 if overfit else epoch)
        require(batches == expected[: len(batches)], "epoch", epoch, "has", batches, "in place of", expected)
    if run.source == "items" and not overfit:
        check_epochs_differ(data, list(epochs.values()))
    for validation in fit.model.validated:
        longest = max(fit.model.validated, key=len)
        require(validation == longest[: len(validation)], "validation", validation, "and", longest)


def _check_resumed_fit(data: Data, whole: _Fit, checkpoint: Path) -> None:
    """Requires that a new process would continue with the rest, or that Lightning reports that it cannot."""
    run, a = data.run, data.run.arguments
    saved = torch.load(checkpoint, weights_only=False)
    position = saved["position"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rest = _Fit(data, None, str(checkpoint)).model.seen
    expected = whole.model.seen[position:]
    if rest == expected or (run.source == "items" and run.shuffle):
        return  # PyTorch draws the order, and Lightning does not save its generator
    texts = [str(each.message) for each in caught]
    in_epoch = not expected or expected[0][1] > 0
    # Lightning does not load the state of a loader whose iterator was created for an estimate.
    lost = run.source in ("clips", "items") and (a["estimates"] or not a["stateful"])
    reported = any("dataloader is not resumable" in text for text in texts)
    limited = {"limit_train_batches", "overfit_batches"} & set(a["trainer"])
    if run.source in ("clips", "items") and a["stateful"] and limited:
        return  # the state is within the epoch that Lightning has ended
    if run.source in ("clips", "items") and a["stateful"] and expected and expected[0][1] == 0:
        return  # the rest of the epoch that ended, which is empty, is the next epoch of Lightning
    require(lost and in_epoch and (reported or a["estimates"]), "resumed at", position, rest, "for", expected, texts)


# ---- Accelerate ------------------------------------------------------------------------------------------------------


def _accelerator(run: Run) -> Any:
    a = run.arguments
    accelerate.state.AcceleratorState._reset_state(True)
    accelerate.state.GradientState._reset_state()
    names = ("split_batches", "dispatch_batches", "even_batches", "use_seedable_sampler", "use_stateful_dataloader")
    configuration = DataLoaderConfiguration(**{name: a[name] for name in names})
    steps = a["gradient_accumulation_steps"]
    return accelerate.Accelerator(cpu=True, dataloader_config=configuration, gradient_accumulation_steps=steps)


class _Loop:
    """A training loop with Accelerate and new objects."""

    def __init__(self, data: Data) -> None:
        run = data.run
        torch.manual_seed(run.seed)
        self.run, self.accelerator = run, _accelerator(run)
        self.dataset = None
        if run.source == "loader":
            self.batches = framespool.torch.for_accelerate(data.loader(), self.accelerator)
        else:
            self.dataset = data.dataset()
            self.batches = self.accelerator.prepare(data.data_loader(dataset=self.dataset))
        layer = torch.nn.Linear(1, 1)
        self.model, self.optimizer = self.accelerator.prepare(layer, torch.optim.SGD(layer.parameters(), lr=0.1))

    def epoch(self, batches: Any = None, most: int | None = None, begun: int = 0) -> list[list[Clip]]:
        """Trains an epoch, or its first batches; checks when the optimizer steps."""
        got: list[list[Clip]] = []
        stepped = []
        if most == 0:
            return got
        for batch in self.batches if batches is None else batches:
            got.append(recorded(self.run, batch))
            with self.accelerator.accumulate(self.model):
                self.accelerator.backward(self.model(torch.ones(1, 1)).sum())
                self.optimizer.step()
                self.optimizer.zero_grad()
            stepped.append(self.accelerator.sync_gradients)
            if len(got) == most:
                break
        if most is None and not begun:
            steps = self.run.arguments["gradient_accumulation_steps"]
            wanted = [n % steps == 0 or n == len(got) for n in range(1, len(got) + 1)]
            require(stepped == wanted, "steps", stepped, "in place of", wanted)
        return got


def check_accelerate(data: Data) -> None:
    """Epochs with Accelerate, a resumption, and two ranks of a `VideoDataset`."""
    run, a = data.run, data.run.arguments
    loop = _Loop(data)
    epochs = []
    for epoch in range(a["epochs"]):
        if loop.dataset is not None:
            loop.dataset.set_epoch(epoch)
        epochs.append(loop.epoch())
        if run.source == "items":
            check_pass(data, epoch, epochs[-1])
        else:
            require(epochs[-1] == data.epoch(epoch), "epoch", epoch, epochs[-1], "in place of", data.epoch(epoch))
    check_epochs_differ(data, epochs if run.source == "items" else [])
    _check_accelerate_resumption(data, epochs[0])
    if a["ranks"] == 2 and run.source == "items":
        _check_ranks_of_accelerate(data)


def _check_accelerate_resumption(data: Data, whole: list[list[Clip]]) -> None:
    """A state, or batches that are skipped, continue epoch 0."""
    run, a = data.run, data.run.arguments
    after = min(a["stop_after"], len(whole))
    by_state = run.source == "loader" or (a["continue_by"] == "state" and a["use_stateful_dataloader"])
    loop = _Loop(data)
    begun = loop.epoch(most=after)
    require(begun == whole[:after], "begins with", begun, "in place of", whole[:after])
    if not by_state:
        if run.shuffle and run.source == "items":
            return  # another process would need the state of PyTorch's generator
        loop = _Loop(data)
        rest = loop.epoch(loop.accelerator.skip_first_batches(loop.batches, after), begun=after)
        require(rest == whole[after:], "skipped", after, rest, "in place of", whole[after:])
        return
    if run.source != "loader" and (after == len(whole) or after == 0):
        return  # the iterator is at its end, and nothing was begun
    with tempfile.TemporaryDirectory() as place:
        loop.accelerator.save_state(place)
        loop = _Loop(data)
        loop.accelerator.load_state(place)
        if run.source == "loader" and after == len(whole):
            rest, whole = loop.epoch(), [*whole, *data.epoch(1)]
        else:
            rest = loop.epoch(begun=after)
    require(rest == whole[after:], "continued after", after, rest, "in place of", whole[after:])
    if run.source == "loader" and after < len(data.epoch(0)):
        following = loop.epoch()
        require(following == data.epoch(1), "next epoch", following, "in place of", data.epoch(1))


def _check_ranks_of_accelerate(data: Data) -> None:
    """What two ranks would get of a `VideoDataset`."""
    run, a = data.run, data.run.arguments
    if a["split_batches"] and run.batch_size % 2:
        return
    clips: list[Clip] = []
    for rank in range(2):
        torch.manual_seed(run.seed)
        batches = accelerate.data_loader.prepare_data_loader(
            data.data_loader(),
            num_processes=2,
            process_index=rank,
            split_batches=a["split_batches"],
            even_batches=a["even_batches"],
            dispatch_batches=False,
            put_on_device=False,
            rng_types=[],
        )
        clips += [clip for batch in batches for clip in recorded(run, batch)]
    counts = Counter(clip[0] for clip in clips)
    for clip in clips:
        require(clip == data.frames(0)[clip[0]], "on two ranks", clip)
    if run.last_batch == "partial":
        require(len(counts) == data.num_clips, "on two ranks", len(counts), "clips of", data.num_clips)
        require(a["even_batches"] or counts.total() == data.num_clips, "on two ranks", counts)


# ---- Hugging Face's Trainer ------------------------------------------------------------------------------------------


class TrainerModel(torch.nn.Module):
    """Records the batches that it is given."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run
        self.linear = torch.nn.Linear(1, len(CLASSES))
        self.seen: list[list[Clip]] = []
        self.evaluated: list[list[Clip]] = []

    def forward(self, labels: Any, **values: Any) -> dict[str, Any]:
        (self.seen if self.training else self.evaluated).append(recorded(self.run, {"labels": labels, **values}))
        logits = self.linear(torch.ones(len(labels), 1))
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


KEYS = ("frames", "labels", "indices", "video_ids", "clip_ids")


def _collate_items(items: list[Any]) -> dict[str, Any]:
    return default_collate([{name: item[name] for name in KEYS} for item in items])


def _collate_batches(items: list[Any]) -> dict[str, Any]:
    (batch,) = items
    return {name: batch[name] for name in (*KEYS, "padding")}


class _Saved(transformers.TrainerCallback):
    """Notes how many batches were seen at each checkpoint."""

    def __init__(self, model: TrainerModel) -> None:
        self.model, self.positions = model, {}

    def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.positions[state.global_step] = len(self.model.seen)


def _train(data: Data, place: str, resume: str | None = None) -> tuple[TrainerModel, dict[int, int]]:
    run, a = data.run, data.run.arguments
    torch.manual_seed(run.seed)
    dataset, model = data.dataset(), TrainerModel(run)
    items, workers = run.source == "items", run.workers
    validation = data.validation()
    validation.pop("batch_size")
    saved = _Saved(model)
    options = transformers.TrainingArguments(
        place,
        per_device_train_batch_size=run.batch_size if items else 1,
        per_device_eval_batch_size=2,
        dataloader_num_workers=workers["num_workers"],
        dataloader_persistent_workers=workers.get("persistent_workers", False),
        dataloader_prefetch_factor=workers.get("prefetch_factor"),
        dataloader_drop_last=items and run.last_batch == "drop",
        dataloader_pin_memory=False,
        eval_steps=2,
        logging_strategy="no",
        remove_unused_columns=False,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        seed=run.seed,
        **a["options"],
    )
    trainer = transformers.Trainer(
        model,
        options,
        data_collator=_collate_items if items else _collate_batches,
        train_dataset=dataset,
        eval_dataset=VideoDataset(validation.pop("dataset"), validation.pop("clip_sampler"), **validation)
        if items
        else None,
        callbacks=[saved, *([dataset.trainer_callback()] if items else [])],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train(resume_from_checkpoint=resume)
    return model, saved.positions


def check_trainer(data: Data) -> None:
    """A training, and its continuation with new objects."""
    run, options = data.run, dict(data.run.arguments["options"])
    items = run.source == "items"
    per_epoch = len(data.epoch(0)) if not items else -(-data.num_clips // run.batch_size)
    if items and run.last_batch == "drop":
        per_epoch = data.num_clips // run.batch_size
    if not per_epoch:
        return
    with tempfile.TemporaryDirectory() as place:
        whole, positions = _train(data, place)
        epochs = [whole.seen[at : at + per_epoch] for at in range(0, len(whole.seen), per_epoch)]
        for epoch, batches in enumerate(epochs):
            if items:
                check_pass(data, epoch, batches, complete=len(batches) == per_epoch)
            else:
                expected = data.epoch(epoch)[: len(batches)]
                require(batches == expected, "epoch", epoch, "has", batches, "in place of", expected)
        if items:
            check_epochs_differ(data, epochs)
        steps = sorted(positions)
        # Trainer makes another step if it resumes after the last one.
        steps = [step for step in steps if positions[step] < len(whole.seen)]
        if not steps:
            return
        step = steps[run.arguments["resumed"] % len(steps)]
        resumed, _ = _train(data, place, f"{place}/checkpoint-{step}")
        if options["ignore_data_skip"] and positions[step] % per_epoch:
            return
        expected = whole.seen[positions[step] :]
        require(resumed.seen == expected, "resumed at step", step, resumed.seen, "in place of", expected)


# ---- the search ------------------------------------------------------------------------------------------------------

#: Runs of the frameworks, in proportion.
SHARES = {"dataloader": 3, "stateful": 3, "lightning": 8, "accelerate": 3, "trainer": 3}
CHECKS = {
    "dataloader": check_data_loader,
    "stateful": check_stateful,
    "lightning": check_lightning,
    "accelerate": check_accelerate,
    "trainer": check_trainer,
}


def check(run: Run, folder: Path) -> str:
    """Checks one run; returns the framework.

    Args:
        run: The settings.
        folder: Folder of `make_videos()`.

    Raises:
        Wrong: If something does not hold.
    """
    try:
        data = Data(run, folder)
    except fsp.errors.ArgumentError as error:
        require("no video yields a clip" in str(error), error)
        return "refused"
    if run.source != "items" and not data.epoch(0):
        return "refused"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            CHECKS[run.framework](data)
        except MisconfigurationException as error:  # such as a half of one batch
            require("framespool" not in str(error), error)
            return "refused"
    return f"{run.framework} {run.source}"


def search(count: int, folder: Path, *, repeatable: bool) -> Counter[str]:
    """Checks this many runs, divided among the frameworks as `SHARES` says; see `drawn_runs.search()`."""
    torch.set_num_threads(1)
    for name in ("lightning.pytorch", "lightning.fabric", "accelerate", "torch.distributed"):
        logging.getLogger(name).setLevel(logging.ERROR)
    transformers.logging.set_verbosity_error()
    outcomes: Counter[str] = Counter()
    for framework, share in SHARES.items():
        part = max(1, round(count * share / sum(SHARES.values())))
        outcomes += drawn_runs.search(runs(framework), lambda run: check(run, folder), part, repeatable=repeatable)
    return outcomes


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--run", help="check only this run, given as JSON")
    options = parser.parse_args()
    from framespool.tools._transcode import _ffmpeg

    with tempfile.TemporaryDirectory(prefix="framework-runs-") as place:
        folder = Path(place)
        make_videos(folder, _ffmpeg.find())
        if options.run:
            print(check(from_json(Run, options.run), folder))
        else:
            print(dict(search(options.runs, folder, repeatable=False)))


if __name__ == "__main__":
    main()
