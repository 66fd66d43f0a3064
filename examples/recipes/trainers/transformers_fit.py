"""Fine-tunes with Trainer of transformers; `--resume` continues from its newest checkpoint.

python examples/recipes/trainers/transformers_fit.py VIDEOS
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import ported
import torch
from model import count_classes, make_model, print_parameters, print_step, read_arguments
from torch.utils.data import default_collate
from transformers import EvalPrediction, Trainer, TrainingArguments


class Classifier(torch.nn.Module):
    """A video classifier that returns its loss, as models of transformers do."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.model = make_model(num_classes)

    def forward(self, pixel_values: torch.Tensor, labels: torch.Tensor, **_: Any) -> dict[str, torch.Tensor]:
        logits = self.model(pixel_values)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


def collate(items: list[dict[str, Any]]) -> dict[str, Any]:
    """Makes a batch, with the frames under the name of the model's argument."""
    batch = default_collate(items)
    return {"pixel_values": batch.pop("frames"), **batch}


def accuracy(result: EvalPrediction) -> dict[str, float]:
    """The share of clips whose class the model finds."""
    return {"accuracy": float((result.predictions.argmax(1) == result.label_ids).mean())}


class ReportingTrainer(Trainer):
    """Prints what each step trains on, and stops the process before a step."""

    stop_after: int | None = None

    def training_step(self, model: torch.nn.Module, inputs: dict[str, Any], *more: Any) -> torch.Tensor:
        if self.state.global_step == self.stop_after:
            sys.exit(f"stopped after step {self.stop_after}")
        print_step(self.state.global_step, inputs)
        return super().training_step(model, inputs, *more)


def make_options(folder: Path, epochs: int, batch_size: int, num_workers: int, **more: Any) -> TrainingArguments:
    """The options of the run, with a schedule over all its steps."""
    return TrainingArguments(
        str(folder),
        num_train_epochs=epochs,
        per_device_train_batch_size=batch_size,
        per_device_eval_batch_size=batch_size,
        dataloader_num_workers=num_workers,
        learning_rate=0.01,
        lr_scheduler_type="cosine",
        remove_unused_columns=False,
        label_names=["labels"],
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        **more,
    )


def main() -> None:
    """Trains, and prints each step and the parameters at the end."""
    arguments = read_arguments(__doc__)
    # An evaluation draws random numbers. Each one comes before a checkpoint, and no workers persist, so that the
    # dropout of a resumed run is that of the complete run.
    saving = {"eval_strategy": "steps", "eval_steps": arguments.save_every, "save_steps": arguments.save_every}
    options = make_options(arguments.folder, arguments.epochs, arguments.batch_size, arguments.workers, **saving)
    model, data = Classifier(count_classes(arguments.videos)), ported.for_transformers(arguments.videos)
    trainer = ReportingTrainer(model, options, data_collator=collate, compute_metrics=accuracy, **data)
    trainer.stop_after = arguments.stop_after
    trainer.train(resume_from_checkpoint=arguments.resume)
    print_parameters(model)


if __name__ == "__main__":
    main()
