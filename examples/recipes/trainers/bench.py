"""Measures both loaders in turn in the training loop of each framework, each with two workers or threads.

A sample is a clip that a small model was trained on. A round is a run of some epochs, without validation.

python examples/recipes/trainers/bench.py --rounds 5 VIDEO...
"""

from __future__ import annotations

import argparse
import functools
import logging
import sys
import tempfile
import warnings
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import accelerate_fit  # noqa: E402
import lightning_fit  # noqa: E402
import original  # noqa: E402
import ported  # noqa: E402
import torch  # noqa: E402
import transformers_fit  # noqa: E402
from accelerate import Accelerator  # noqa: E402
from common import bench_arguments, compare_speed, link_class_folders  # noqa: E402
from transformers import Trainer  # noqa: E402

CLASSES = 3


def record(model: torch.nn.Module) -> list[torch.Tensor]:
    """Returns a list that receives the (N, 3) logits of each batch that the model is trained on."""
    logits: list[torch.Tensor] = []
    model.register_forward_hook(lambda _, inputs, result: logits.append(result.detach()))
    return logits


def run_lightning(reader: ModuleType, root: Path, arguments: argparse.Namespace) -> list[torch.Tensor]:
    """Trains with Lightning."""
    model = lightning_fit.Classifier(CLASSES)
    logits = record(model.model)
    data = reader.for_lightning(root, arguments.batch_size, arguments.workers)
    lightning_fit.fit(model, data, arguments.epochs, enable_checkpointing=False, limit_val_batches=0)
    return logits


def run_accelerate(reader: ModuleType, root: Path, arguments: argparse.Namespace) -> list[torch.Tensor]:
    """Trains with Accelerate."""
    accelerator = Accelerator(cpu=True)
    loader, _ = reader.for_accelerate(root, arguments.batch_size, arguments.workers, accelerator)
    training = accelerate_fit.Training(accelerator, CLASSES, arguments.epochs * len(loader))
    logits = record(training.model)
    for _ in range(arguments.epochs):
        for batch in loader:
            training.step(batch)
    accelerator.free_memory()
    return logits


def run_transformers(reader: ModuleType, root: Path, arguments: argparse.Namespace) -> list[torch.Tensor]:
    """Trains with Trainer of transformers."""
    model, more = transformers_fit.Classifier(CLASSES), {"save_strategy": "no", "logging_strategy": "no"}
    logits = record(model.model)
    size, workers = arguments.batch_size, arguments.workers
    options = transformers_fit.make_options(
        root, arguments.epochs, size, workers, dataloader_persistent_workers=workers > 0, **more
    )
    Trainer(model, options, data_collator=transformers_fit.collate, **reader.for_transformers(root)).train()
    return logits


def main() -> None:
    """Prints the tables."""
    arguments = bench_arguments(__doc__, epochs=(3, "epochs of a run"), batch_size=(4, "clips per batch"))
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    programs = {"Lightning": run_lightning, "Accelerate": run_accelerate, "Trainer": run_transformers}
    with tempfile.TemporaryDirectory() as folder:
        for split in ("train", "val"):
            link_class_folders(Path(folder) / split, arguments.videos, CLASSES)
        for name, run in programs.items():
            readers = {"torchcodec": original, "framespool": ported}
            loaders = {
                f"{reader} in {name}": functools.partial(run, module, Path(folder), arguments)
                for reader, module in readers.items()
            }
            print("\n".join(compare_speed(loaders, arguments.rounds, lambda logits: logits)), flush=True)


if __name__ == "__main__":
    main()
