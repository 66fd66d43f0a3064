"""One rank of the distributed runs of test_torch.py; writes its results to FOLDER/RANK.json.

torchrun --nproc-per-node 2 distributed_worker.py WHAT[:SHUFFLE] FOLDER VIDEO...
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")

import framespool as fsp  # noqa: E402
import framespool.torch  # noqa: E402
import torch  # noqa: E402
from framespool.torch import ClipDataset, for_accelerate, rank_and_world  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

SAMPLING = fsp.samplers.RandomClips(sequence_length=2, clips_per_video=2)
KEYWORDS = {"batch_size": 3, "transforms": [fsp.transforms.Resize((16, 16))], "shuffle": "full", "num_threads": 1}


def ids(batches) -> list[list[int]]:
    return [batch["clip_ids"].tolist() for batch in batches]


def ranks(dataset) -> dict:
    """The shard of each rank, before and after the process group exists, and in a worker without one."""
    said = {"variables": rank_and_world()}
    early = ClipDataset(dataset, SAMPLING, **KEYWORDS)
    torch.distributed.init_process_group("gloo")
    said["group"] = rank_and_world()
    alone = torch.distributed.new_group([0])
    if torch.distributed.get_rank() == 0:
        said["alone"] = rank_and_world(alone)
    mesh = torch.distributed.init_device_mesh("cpu", (1, 2), mesh_dim_names=("tp", "dp"))
    said["mesh"] = [rank_and_world(mesh["dp"]), rank_and_world(mesh["tp"])]
    try:
        rank_and_world(mesh)
    except fsp.errors.ArgumentError as error:
        said["refused"] = str(error)
    loader = framespool.torch.ClipLoader(dataset, SAMPLING, **KEYWORDS, group=mesh["dp"])
    said["loader"] = [batch.clip_ids.tolist() for batch in loader]
    # As in processes started by frameworks, whose workers have no variable with the rank.
    os.environ.pop("RANK"), os.environ.pop("WORLD_SIZE")
    said["forked"] = ids(DataLoader(early, batch_size=None, num_workers=1))
    late = ClipDataset(dataset, SAMPLING, **KEYWORDS)
    said["spawned"] = ids(DataLoader(late, batch_size=None, num_workers=1, multiprocessing_context="spawn"))
    said["all"] = ids(DataLoader(ClipDataset(dataset, SAMPLING, num_shards=1, **KEYWORDS), batch_size=None))
    torch.distributed.destroy_process_group()
    return said


def accelerate(dataset) -> dict:
    """The documented use, and ``prepare`` in cases in which it would lose clips."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
    batches = for_accelerate(fsp.ClipLoader(dataset, SAMPLING, **KEYWORDS, **rank_and_world()), accelerator)
    assert accelerator.prepare(batches) is batches, "it is returned unchanged"
    said = {"recipe": [], "synced": [], "gathered": []}
    model = accelerator.prepare(torch.nn.Linear(1, 1))
    for batch in batches:
        with accelerator.accumulate(model):
            said["synced"].append(accelerator.sync_gradients)
        said["recipe"].append(batch["clip_ids"].tolist())
        gathered = accelerator.gather_for_metrics((batch["clip_ids"], batch["padding"]))
        said["gathered"] += gathered[0][~gathered[1]].tolist()
    said["refused"] = ""
    prepared = accelerator.prepare(DataLoader(ClipDataset(dataset, SAMPLING, **KEYWORDS), batch_size=None))
    if accelerator.is_main_process:  # the others wait for its broadcast
        try:
            next(iter(prepared))
        except fsp.errors.ArgumentError as error:
            said["refused"] = str(error)
    whole = ClipDataset(dataset, SAMPLING, **KEYWORDS, num_shards=1)
    said["dispatched"] = ids(accelerator.prepare(DataLoader(whole, batch_size=None)))
    return said


def lightning(dataset) -> dict:
    """The batches on which Lightning's DDP trains and validates."""
    import lightning.pytorch as pl
    from framespool.torch import ClipDataModule

    said: dict = {"train": [], "val": []}

    class Model(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def training_step(self, batch, _):
            said["train"].append(batch["clip_ids"].tolist())
            return self.layer(torch.ones(1, 1)).sum()

        def validation_step(self, batch, _):
            said["val"].append(batch["clip_ids"][~batch["padding"]].tolist())

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    part = {"dataset": dataset, "clip_sampler": SAMPLING}
    data = ClipDataModule(train=part, val={**part, "shuffle": False}, **KEYWORDS)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "num_sanity_val_steps": 0}
    trainer = pl.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, barebones=False, **quiet)
    trainer.fit(Model(), data)
    said["train_loader"] = type(trainer.train_dataloader).__name__
    return said


def lightning_resume(dataset) -> dict:
    """Clip ids and frame indices of each training batch of a run, or of a run from each of its checkpoints.

    The first process trains without interruption and saves checkpoints. The second creates everything again.
    """
    import lightning.pytorch as pl
    from framespool.torch import ClipDataModule, TorchLoader

    folder, ranks = Path(sys.argv[2]), int(os.environ["WORLD_SIZE"])
    keywords = {**KEYWORDS, "batch_size": 2, "dataset": dataset, "clip_sampler": SAMPLING}
    loaders = {
        "module": lambda: ClipDataModule(train=keywords),
        "plain": lambda: framespool.torch.ClipLoader(**keywords),
        "several": lambda: {
            "long": framespool.torch.ClipLoader(**keywords),
            "short": TorchLoader(framespool.torch.ClipLoader(**{**keywords, "dataset": dataset[:2]})),
        },
    }

    class Saving(pl.Callback):
        def __init__(self, name: str) -> None:
            self.name = name

        def save(self, trainer, hook: str) -> None:
            trainer.save_checkpoint(folder / f"{self.name}-{trainer.global_step}-{hook}.ckpt")

        def on_train_batch_end(self, trainer, module, outputs, batch, number) -> None:
            if number == 1 and trainer.current_epoch < 2:
                self.save(trainer, "batch")

        def on_validation_end(self, trainer, module) -> None:
            if trainer.current_epoch == 1:
                self.save(trainer, "validation")

        def on_train_epoch_end(self, trainer, module) -> None:
            if trainer.current_epoch == 0:
                self.save(trainer, "epoch")

    class Model(pl.LightningModule):
        def __init__(self, *, estimated: bool) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.estimated = estimated
            self.seen: list = []

        def training_step(self, batch, number):
            parts = batch if isinstance(batch, dict) and "long" in batch else {"": batch}
            seen = [[part[key].tolist() for key in ("clip_ids", "indices")] for part in map(as_dict, parts.values())]
            self.seen.append([self.trainer.current_epoch, *seen])
            return self.layer(torch.ones(1, 1)).sum()

        def validation_step(self, batch, number):
            pass

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
            if not self.estimated:
                return optimizer
            steps = self.trainer.estimated_stepping_batches
            return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)]

    def as_dict(batch):
        return batch if isinstance(batch, dict) else batch.as_dict()

    def fit(name: str, estimated: bool, checkpoint: Path | None = None) -> list:
        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
        strategy = {"devices": ranks, "strategy": "ddp"} if ranks > 1 else {"devices": 1}
        trainer = pl.Trainer(
            accelerator="cpu",
            max_epochs=3,
            num_sanity_val_steps=0,
            enable_checkpointing=False,
            callbacks=[] if checkpoint else [Saving(f"{name}-{estimated:d}")],
            **strategy,
            **quiet,
        )
        model, train = Model(estimated=estimated), loaders[name]()
        validation = torch.utils.data.DataLoader(range(ranks))
        if isinstance(train, pl.LightningDataModule):
            train.val_dataloader = lambda: validation
            trainer.fit(model, train, ckpt_path=checkpoint)
        else:
            trainer.fit(model, train, validation, ckpt_path=checkpoint)
        return model.seen

    saved = sorted(folder.glob("*.ckpt"))
    if not saved:
        return {f"{name}-{estimated:d}": fit(name, estimated) for name in loaders for estimated in (False, True)}
    return {path.stem: fit(path.stem.split("-")[0], path.stem.split("-")[1] == "1", path) for path in saved}


def training(dataset) -> dict:
    """Trains with DDP on a grouped shuffle until rank 1 is killed, or from the last checkpoint to the end of the epoch.

    Each rank appends the clips of each batch that it trained on to a file.
    """
    folder = Path(sys.argv[2])
    torch.distributed.init_process_group("gloo")
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    windows = fsp.samplers.Windows(sequence_length=2, step=4)
    options = {**KEYWORDS, "batch_size": 8 // ranks, "shuffle": "grouped", "seed": 5, "cache": 40_000}
    loader = fsp.ClipLoader(dataset * 4, windows, **options, **rank_and_world())
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    checkpoint = folder / "checkpoint.pt"
    if checkpoint.exists():
        state = torch.load(checkpoint)
        loader.load_state_dict(state["loader"])
        model.load_state_dict(state["model"])
    # Ranks have equally many batches, so no join of uneven inputs is needed.
    for batch in loader:
        optimizer.zero_grad()
        means = batch.frames.torch().float().mean(dim=(0, 1, 3, 4)) / 255
        model(means).sum().backward()
        optimizer.step()
        _, number = loader._position()
        clips = [clip for clip, pad in zip(batch.clip_ids.tolist(), batch.padding.tolist(), strict=True) if not pad]
        with open(folder / f"{ranks}-{rank}.txt", "a") as log:
            log.write(json.dumps([number, clips]) + "\n")
        if rank == 0 and ranks == 4 and number % 3 == 0:
            written = folder / "written.pt"
            torch.save({"loader": loader.state_dict(), "model": model.state_dict()}, written)
            os.replace(written, checkpoint)
        if ranks == 4 and rank == 1 and number == 11:
            os.kill(os.getpid(), signal.SIGKILL)
    weights = model.module.weight.detach().flatten().tolist()
    return {"grouped": loader._native.grouped, "clips": loader.num_clips, "weights": weights}


def main() -> None:
    what, folder, *paths = sys.argv[1:]
    what, _, shuffle = what.partition(":")
    KEYWORDS["shuffle"] = shuffle or "full"
    dataset = [(path, label) for label, path in enumerate(paths)]
    rank = os.environ["RANK"]
    runs = {f.__name__: f for f in (ranks, accelerate, lightning, lightning_resume, training)}
    said = runs[what](dataset)
    (Path(folder) / f"{rank}.json").write_text(json.dumps(said))
    if torch.distributed.is_initialized():
        # The threads of a process group that is still open may abort the process at exit.
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
