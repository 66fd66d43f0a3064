"""Fine-tunes with Lightning; `--resume` continues from the newest file of `ModelCheckpoint`.

python examples/recipes/trainers/lightning_fit.py VIDEOS
"""

from __future__ import annotations

import sys
from typing import Any

import lightning.pytorch as pl
import ported
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from model import count_classes, make_model, print_parameters, print_step, read_arguments


class Classifier(pl.LightningModule):
    """A video classifier with a schedule over all steps of the run."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.model = make_model(num_classes)

    def training_step(self, batch: dict[str, Any], _: int) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self.model(batch["frames"]), batch["labels"])

    def validation_step(self, batch: dict[str, Any], _: int) -> None:
        right = self.model(batch["frames"]).argmax(1) == batch["labels"]
        self.log("accuracy", right.float().mean(), prog_bar=True, batch_size=len(right), sync_dist=True)

    def configure_optimizers(self) -> tuple[list[Any], list[Any]]:
        optimizer = torch.optim.AdamW(self.parameters())
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, self.trainer.estimated_stepping_batches)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]

    # Lightning does not save the state of the random generator, which the dropout uses.
    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["random"] = torch.get_rng_state()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        torch.set_rng_state(checkpoint["random"])


class Report(pl.Callback):
    """Prints what each step trains on, and stops the process before a step."""

    def __init__(self, stop_after: int | None) -> None:
        self.stop_after = stop_after

    def on_train_batch_start(self, trainer: pl.Trainer, module: Classifier, batch: Any, _: int) -> None:
        if trainer.global_step == self.stop_after:
            sys.exit(f"stopped after step {self.stop_after}")
        print_step(trainer.global_step, batch)


def fit(model: Classifier, data: dict[str, Any], epochs: int, resume: bool = False, **options: Any) -> None:
    """Trains; `data` is the argument of `fit` that has the loaders."""
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = pl.Trainer(max_epochs=epochs, accelerator="cpu", num_sanity_val_steps=0, **quiet, **options)
    trainer.fit(model, **data, ckpt_path="last" if resume else None)


def main() -> None:
    """Trains, and prints each step and the parameters at the end."""
    arguments = read_arguments(__doc__)
    model = Classifier(count_classes(arguments.videos))
    saving: list[pl.Callback] = [
        ModelCheckpoint(arguments.folder / "steps", every_n_train_steps=arguments.save_every, save_last=True),
        ModelCheckpoint(arguments.folder / "epochs", save_last=True),
    ]
    data = ported.for_lightning(arguments.videos, arguments.batch_size, arguments.workers)
    fit(model, data, arguments.epochs, arguments.resume, callbacks=[Report(arguments.stop_after), *saving])
    print_parameters(model)


if __name__ == "__main__":
    main()
