"""Fine-tunes with Accelerate; `--resume` continues from the latest folder of `save_state`.

python examples/recipes/trainers/accelerate_fit.py VIDEOS
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import ported
import torch
from accelerate import Accelerator
from model import count_classes, make_model, print_parameters, print_step, read_arguments


class Training:
    """A model, its optimizer, and a schedule over all steps of the run."""

    def __init__(self, accelerator: Accelerator, num_classes: int, steps: int) -> None:
        model = make_model(num_classes)
        optimizer = torch.optim.AdamW(model.parameters())
        # Accelerate advances the schedule once per process in each step.
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, steps * accelerator.num_processes)
        self.accelerator = accelerator
        self.model, self.optimizer, self.schedule = accelerator.prepare(model, optimizer, schedule)

    def step(self, batch: dict[str, Any]) -> None:
        """Trains on a batch."""
        self.model.train()
        with self.accelerator.accumulate(self.model):
            loss = torch.nn.functional.cross_entropy(self.model(batch["frames"]), batch["labels"])
            self.accelerator.backward(loss)
            self.optimizer.step()
            self.schedule.step()
            self.optimizer.zero_grad()

    @torch.no_grad()
    def accuracy(self, batches: Iterable[dict[str, Any]]) -> float:
        """The share of clips whose class the model finds, over all processes."""
        self.model.eval()
        counts = torch.zeros(2, device=self.accelerator.device)
        for batch in batches:
            # A clip that only fills a batch counts in another one.
            right = (self.model(batch["frames"]).argmax(1) == batch["labels"])[~batch["padding"]]
            counts += torch.tensor([right.sum(), len(right)], device=counts.device)
        right, clips = self.accelerator.reduce(counts).tolist()
        return right / clips


def main() -> None:
    """Trains, and prints each step and the parameters at the end."""
    arguments = read_arguments(__doc__)
    accelerator = Accelerator(cpu=True)
    loader, val = ported.for_accelerate(arguments.videos, arguments.batch_size, arguments.workers, accelerator)
    training = Training(accelerator, count_classes(arguments.videos), arguments.epochs * len(loader))
    if arguments.resume:
        accelerator.load_state(str(max(arguments.folder.iterdir())))
    # The state has the position of the loader, which knows the number of steps.
    step = loader.epoch * len(loader) + loader.state_dict()["batch"]
    while loader.epoch < arguments.epochs:
        for batch in loader:
            if step == arguments.stop_after:
                sys.exit(f"stopped after step {step}")
            print_step(step, batch)
            training.step(batch)
            step += 1
            if step % arguments.save_every == 0:
                accelerator.save_state(str(arguments.folder / f"{step:08}"))
        print(f"accuracy {training.accuracy(val):.3f}")
    print_parameters(training.model)


if __name__ == "__main__":
    main()
