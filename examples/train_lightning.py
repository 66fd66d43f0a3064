"""The training of train_video.py with Lightning, with the same options.

    python examples/train_lightning.py --videos videos/ --folder run/
    python examples/train_lightning.py --videos videos/ --folder run/ --resume       # also in the middle of an epoch

Lightning starts one process per GPU; `torchrun` starts any number.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from framespool.torch import ClipDataModule
from lightning.pytorch.callbacks import ModelCheckpoint
from torchmetrics.classification import MulticlassAccuracy
from train_video import Net, add_clip_arguments, digest, loader_arguments, parser_of


class Classifier(pl.LightningModule):
    """A model, its accuracy, and a schedule over all steps of the run."""

    def __init__(self, num_classes: int, lr: float, dropout: float) -> None:
        super().__init__()
        self.net, self.lr = Net(num_classes, dropout), lr
        self.accuracy = MulticlassAccuracy(num_classes, average="micro")

    def training_step(self, batch: dict[str, Any], number: int) -> torch.Tensor:
        # Lightning does not save PyTorch's random state. Random numbers of the model depend on the batch instead.
        torch.manual_seed((self.current_epoch << 40) + number * 4096 + self.global_rank)
        return torch.nn.functional.cross_entropy(self.net(batch["frames"]), batch["labels"], label_smoothing=0.05)

    def validation_step(self, batch: dict[str, Any], _: int) -> None:
        own = ~batch["padding"]  # clips that only fill a batch count on another rank
        self.accuracy(self.net(batch["frames"])[own], batch["labels"][own])
        self.log("accuracy", self.accuracy)  # of all ranks: the metric adds up their counts

    def configure_optimizers(self) -> dict[str, Any]:
        optimizer = torch.optim.AdamW(self.parameters(), weight_decay=0.02)
        steps = int(self.trainer.estimated_stepping_batches)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, self.lr, steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def main() -> None:
    parser = parser_of(__doc__)
    add_clip_arguments(parser)
    parser.add_argument("--folder", type=Path, default=Path("run"), help="folder for checkpoints and logs")
    arguments = parser.parse_args()
    train, val = loader_arguments(arguments)
    pl.seed_everything(arguments.seed, verbose=False)
    model = Classifier(len(train["dataset"].classes), arguments.lr, arguments.dropout)
    trainer = pl.Trainer(
        accelerator=arguments.device,
        max_epochs=arguments.epochs,
        precision="bf16-mixed" if arguments.dtype == "bfloat16" else "32-true",
        accumulate_grad_batches=arguments.accumulate,
        callbacks=[ModelCheckpoint(arguments.folder, save_last=True, every_n_train_steps=arguments.save_every)],
        default_root_dir=arguments.folder,
        logger=False,  # yours, such as TensorBoardLogger
        enable_progress_bar=False,
    )
    trainer.fit(model, ClipDataModule(train=train, val=val), ckpt_path="last" if arguments.resume else None)
    if trainer.is_global_zero:
        print(f"accuracy {100 * trainer.callback_metrics['accuracy']:.2f} %")
        print(f"parameters {digest(model.net)}")


if __name__ == "__main__":
    main()
