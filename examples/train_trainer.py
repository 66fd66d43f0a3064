"""The training of train_video.py with Trainer of transformers, with the same options.

    python examples/train_trainer.py --videos videos/ --folder run/
    torchrun --nproc-per-node 8 examples/train_trainer.py --videos videos/ --folder run/ --resume

The model takes `pixel_values` and `labels` and returns its loss, as those of transformers do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from framespool.torch import VideoDataset
from torch.utils.data import default_collate
from train_video import Net, add_clip_arguments, digest, loader_arguments, parser_of
from transformers import EvalPrediction, Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

#: Arguments of single clips; Trainer makes the batches, and shuffles.
OF_CLIPS = ("dataset", "clip_sampler", "transforms", "dtype", "seed")


class Classifier(torch.nn.Module):
    """A video classifier with the interface of transformers' models."""

    def __init__(self, num_classes: int, dropout: float) -> None:
        super().__init__()
        self.net = Net(num_classes, dropout)

    def forward(self, pixel_values: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.net(pixel_values)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels, label_smoothing=0.05), "logits": logits}


def collate(items: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """Makes a batch, with the names of the model's arguments."""
    return {
        "pixel_values": torch.stack([item["frames"] for item in items]),
        "labels": default_collate([item["labels"] for item in items]),
    }


def accuracy(result: EvalPrediction) -> dict[str, float]:
    """The share of clips whose class the model finds; Trainer gathers each clip once."""
    right = result.predictions.argmax(1) == result.label_ids
    return {"accuracy": float(right.mean()), "clips": len(right)}


def main() -> None:
    parser = parser_of(__doc__)
    add_clip_arguments(parser)
    parser.add_argument("--folder", type=Path, default=Path("run"), help="folder for checkpoints")
    parser.add_argument("--workers", type=int, default=0, help="processes of the DataLoader, which share the cores")
    arguments = parser.parse_args()
    train, val = (
        VideoDataset(**{name: part[name] for name in OF_CLIPS}, layout="CTHW") for part in loader_arguments(arguments)
    )
    torch.manual_seed(arguments.seed)
    model = Classifier(len(train.dataset.classes), arguments.dropout)
    options = TrainingArguments(
        str(arguments.folder),
        num_train_epochs=arguments.epochs,
        per_device_train_batch_size=arguments.batch_size,
        per_device_eval_batch_size=arguments.batch_size,
        gradient_accumulation_steps=arguments.accumulate,
        learning_rate=arguments.lr,
        weight_decay=0.02,
        warmup_steps=20,
        lr_scheduler_type="cosine",
        bf16=arguments.dtype == "bfloat16",
        use_cpu=arguments.device == "cpu",
        seed=arguments.seed,
        # An evaluation draws random numbers. Each one comes before a checkpoint, which has the random state.
        eval_strategy="steps",
        eval_steps=arguments.save_every,
        save_steps=arguments.save_every,
        save_total_limit=2,
        dataloader_num_workers=arguments.workers,
        dataloader_drop_last=True,
        remove_unused_columns=False,  # the collator chooses them
        label_names=["labels"],
        report_to=[],
        disable_tqdm=True,
    )
    trainer = Trainer(
        model,
        options,
        data_collator=collate,
        train_dataset=train,
        eval_dataset=val,
        compute_metrics=accuracy,
        callbacks=[train.trainer_callback()],  # sets the epoch, on which random clips depend
    )
    last = get_last_checkpoint(str(arguments.folder)) if arguments.resume and arguments.folder.is_dir() else None
    trainer.train(resume_from_checkpoint=last)
    found = trainer.evaluate()
    if trainer.is_world_process_zero():
        print(f"accuracy {100 * found['eval_accuracy']:.2f} % of {found['eval_clips']} clips")
        print(f"parameters {digest(model)}")


if __name__ == "__main__":
    main()
